//! The operator under test, wherever it runs: in this process, or as a program beside the control plane. A scenario
//! may restart it; everything else it sees of the operator, it sees through the API.

use async_trait::async_trait;
use coppice_crds::{InstallOptions, install};
use coppice_operator::{Operator, Options};
use kube::Client;
use tokio::sync::Mutex;

use super::environment::EnvironmentError;
use crate::control_plane::Companion;

/// An operator that can be restarted.
#[async_trait]
pub trait OperatorUnderTest: Send + Sync {
    /// Stops it and starts another one that knows nothing of its predecessor.
    async fn restart(&self) -> Result<(), EnvironmentError>;
}

#[async_trait]
impl OperatorUnderTest for Companion {
    async fn restart(&self) -> Result<(), EnvironmentError> {
        Ok(Companion::restart(self)?)
    }
}

/// The operator in this process.
pub struct InProcessOperator {
    client: Client,
    running: Mutex<Option<Operator>>,
}

impl InProcessOperator {
    /// Installs the definitions of the operator's kinds and starts it.
    pub async fn start(client: Client) -> Result<Self, EnvironmentError> {
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .map_err(|error| EnvironmentError::Operator(error.to_string()))?;
        let operator = Operator::start(client.clone(), Options::default()).await;
        Ok(Self {
            client,
            running: Mutex::new(Some(operator)),
        })
    }

    /// Stops it.
    pub async fn stop(&self) {
        if let Some(operator) = self.running.lock().await.take() {
            operator.stop().await;
        }
    }
}

#[async_trait]
impl OperatorUnderTest for InProcessOperator {
    async fn restart(&self) -> Result<(), EnvironmentError> {
        let mut running = self.running.lock().await;
        if let Some(operator) = running.take() {
            operator.stop().await;
        }
        *running = Some(Operator::start(self.client.clone(), Options::default()).await);
        Ok(())
    }
}
