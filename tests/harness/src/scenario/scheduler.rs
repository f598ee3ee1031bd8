//! The gang scheduler under test, in this process. A scenario may restart it, and may let it die between two bindings:
//! from then on none of its calls reaches the API server, as if its process were gone. Its successor takes over by the
//! lease, and the old one may come back to a world in which it no longer leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use coppice_crds::{InstallOptions, install};
use coppice_runtime::clock::SystemClock;
use coppice_runtime::layers::{self, Call, Fault};
use coppice_runtime::lease::{self, Elector, Leadership};
use coppice_scheduler::engine::Settings;
use coppice_scheduler::{Options, Scheduler};
use jiff::SignedDuration;
use kube::Client;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::environment::EnvironmentError;

/// More bindings than any scenario asks for.
const UNLIMITED: i64 = i64::MAX;

/// One process: a scheduler and its candidacy for the lease.
struct Incarnation {
    scheduler: Scheduler,
    /// Bindings until it dies.
    left: Arc<AtomicI64>,
    stop: CancellationToken,
    election: JoinHandle<()>,
}

impl Incarnation {
    /// Starts one; returns when it leads.
    async fn start(client: &Client, number: usize) -> Self {
        let left = Arc::new(AtomicI64::new(UNLIMITED));
        let client = mortal(client, left.clone());
        let lease = lease::Options {
            lease_duration: Duration::from_secs(4),
            renew_deadline: Duration::from_secs(3),
            retry_period: Duration::from_millis(500),
            ..lease::Options::new("default", "coppice-scheduler", &format!("scheduler-{number}"))
        };
        let elector = Elector::new(client.clone(), lease, Arc::new(SystemClock)).expect("the times fit each other");
        let stop = CancellationToken::new();
        let options = options(elector.leadership());
        let election = tokio::spawn(elector.run(stop.clone()));
        let scheduler = Scheduler::start(client, options).await;
        Self {
            scheduler,
            left,
            stop,
            election,
        }
    }

    async fn stop(self) {
        self.scheduler.stop().await;
        self.stop.cancel();
        // An elector that panicked has said so.
        let _ = self.election.await;
    }
}

/// The schedulers in this process: the last one leads.
pub struct InProcessScheduler {
    client: Client,
    running: Mutex<Vec<Incarnation>>,
}

impl InProcessScheduler {
    /// Installs the definitions of the kinds it reads and starts it.
    pub async fn start(client: Client) -> Result<Self, EnvironmentError> {
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .map_err(|error| EnvironmentError::Scheduler(error.to_string()))?;
        let first = Incarnation::start(&client, 0).await;
        Ok(Self {
            client,
            running: Mutex::new(vec![first]),
        })
    }

    /// Lets it die once it has bound so many more pods.
    pub async fn kill(&self, after_bindings: u32) {
        if let Some(last) = self.running.lock().await.last() {
            last.left.store(i64::from(after_bindings), Ordering::SeqCst);
        }
    }

    /// Cuts the one that leads off, waits until another one, which knows nothing of its predecessor, has taken the lease
    /// over, and lets the old one come back: from then on both run, and only the lease keeps them apart.
    pub async fn restart(&self) {
        let mut running = self.running.lock().await;
        if let Some(old) = running.last() {
            old.left.store(0, Ordering::SeqCst);
        }
        let new = Incarnation::start(&self.client, running.len()).await;
        if let Some(old) = running.last() {
            old.left.store(UNLIMITED, Ordering::SeqCst);
        }
        running.push(new);
    }

    /// Stops all of them.
    pub async fn stop(&self) {
        for incarnation in self.running.lock().await.drain(..) {
            incarnation.stop().await;
        }
    }
}

/// Gangs that were bound in part are released soon: nobody waits half a minute for that in a test.
fn options(leadership: Leadership) -> Options {
    let settings = Settings {
        release: SignedDuration::from_secs(2),
        ..Settings::default()
    };
    Options {
        settings,
        leadership,
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
