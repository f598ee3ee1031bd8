//! The gang scheduler under test, in this process. A scenario may restart it, and may let it die between two bindings:
//! from then on none of its calls reaches the API server, as if its process were gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use coppice_crds::{InstallOptions, install};
use coppice_runtime::layers::{self, Call, Fault};
use coppice_scheduler::engine::Settings;
use coppice_scheduler::{Options, Scheduler};
use jiff::SignedDuration;
use kube::Client;
use tokio::sync::Mutex;

use super::environment::EnvironmentError;

/// More bindings than any scenario asks for.
const UNLIMITED: i64 = i64::MAX;

/// The scheduler in this process.
pub struct InProcessScheduler {
    client: Client,
    /// Bindings until it dies.
    left: Mutex<Arc<AtomicI64>>,
    running: Mutex<Option<Scheduler>>,
}

impl InProcessScheduler {
    /// Installs the definitions of the kinds it reads and starts it.
    pub async fn start(client: Client) -> Result<Self, EnvironmentError> {
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .map_err(|error| EnvironmentError::Scheduler(error.to_string()))?;
        let left = Arc::new(AtomicI64::new(UNLIMITED));
        let running = Scheduler::start(mortal(&client, left.clone()), options()).await;
        Ok(Self {
            client,
            left: Mutex::new(left),
            running: Mutex::new(Some(running)),
        })
    }

    /// Lets it die once it has bound so many more pods.
    pub async fn kill(&self, after_bindings: u32) {
        self.left
            .lock()
            .await
            .store(i64::from(after_bindings), Ordering::SeqCst);
    }

    /// Stops it and starts another one that knows nothing of its predecessor.
    pub async fn restart(&self) {
        let mut running = self.running.lock().await;
        let left = Arc::new(AtomicI64::new(UNLIMITED));
        // The old one gets nothing done any more, not even while it ends.
        let old = std::mem::replace(&mut *self.left.lock().await, left.clone());
        old.store(0, Ordering::SeqCst);
        if let Some(scheduler) = running.take() {
            scheduler.stop().await;
        }
        *running = Some(Scheduler::start(mortal(&self.client, left), options()).await);
    }

    /// Stops it.
    pub async fn stop(&self) {
        if let Some(scheduler) = self.running.lock().await.take() {
            scheduler.stop().await;
        }
    }
}

/// Gangs that were bound in part are released soon: nobody waits half a minute for that in a test.
fn options() -> Options {
    let settings = Settings {
        release: SignedDuration::from_secs(2),
        ..Settings::default()
    };
    Options {
        settings,
        ..Options::default()
    }
}

/// A client whose calls fail once `left` bindings have passed.
fn mortal(client: &Client, left: Arc<AtomicI64>) -> Client {
    let hook = move |call: &Call| {
        let binding = call.subresource.as_deref() == Some("binding");
        let before = if binding {
            left.fetch_sub(1, Ordering::SeqCst)
        } else {
            left.load(Ordering::SeqCst)
        };
        if before <= 0 { Fault::FailBefore } else { Fault::Pass }
    };
    let options = layers::Options {
        faults: Some(Arc::new(hook)),
        ..layers::Options::default()
    };
    let client = client.clone();
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await }
    });
    layers::client_of_service(service, "default", &options)
}
