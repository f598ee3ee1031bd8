//! How this crate builds API clients: without the retry layer that the client library adds by default. A test that
//! asks for one request wants one request, and whatever has to be repeated is repeated by the code that knows why.

use std::path::Path;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig could not be read or is not usable.
    #[error("kubeconfig is not usable: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Neither a kubeconfig nor an in-cluster configuration was found.
    #[error("no cluster to talk to: {0}; name one with --kubeconfig or KUBECONFIG")]
    Infer(#[from] kube::config::InferConfigError),
    /// The client could not be built from the configuration.
    #[error("client could not be built: {0}")]
    Build(#[from] kube::Error),
}

/// A client for the current context of a kubeconfig file.
pub async fn from_kubeconfig_file(path: &Path) -> Result<Client, ClientError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    from_config(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// A client for whatever `KUBECONFIG`, the user's own kubeconfig or the pod's service account point at.
pub async fn from_surroundings() -> Result<Client, ClientError> {
    from_config(Config::infer().await?)
}

/// A client without retries for a configuration.
pub fn from_config(mut config: Config) -> Result<Client, ClientError> {
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.build())
}
