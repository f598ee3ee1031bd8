//! A client of the cluster that a kubeconfig names.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use coppice_runtime::layers;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::output::{advice, causes};

/// Which cluster.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Cluster {
    /// The kubeconfig file; KUBECONFIG, the usual place or the pod's own account when not given
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; the current one when not given
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// The name of a set as people write it: `llm`, `pcs/llm` or `podcliqueset/llm`.
pub(crate) fn set_name(text: &str) -> Result<String, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return Ok(text.to_owned());
    };
    match kind.to_lowercase().as_str() {
        "pcs" | "podcliqueset" | "podcliquesets" | "podcliqueset.grove.io" | "podcliquesets.grove.io" => {
            Ok(name.to_owned())
        }
        _ => Err(format!("{kind:?} is not a PodCliqueSet: write NAME or pcs/NAME")),
    }
}

impl Cluster {
    /// A client without retries: what is retried is decided where it is known whether it is still wanted.
    pub(crate) async fn client(&self, options: &layers::Options) -> Result<Client> {
        let config = self.config().await?;
        layers::client(config, options).context("the kubeconfig cannot be used")
    }

    /// A client, and the namespace of its context.
    pub(crate) async fn client_and_namespace(&self, options: &layers::Options) -> Result<(Client, String)> {
        let config = self.config().await?;
        let namespace = config.default_namespace.clone();
        let client = layers::client(config, options).context("the kubeconfig cannot be used")?;
        Ok((client, namespace))
    }

    /// A client, and the address of its API server.
    pub(crate) async fn client_and_address(&self, options: &layers::Options) -> Result<(Client, String)> {
        let config = self.config().await?;
        let address = config.cluster_url.to_string();
        let client = layers::client(config, options).context("the kubeconfig cannot be used")?;
        Ok((client, address.trim_end_matches('/').to_owned()))
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let usable = |result: Result<Config, kube::config::KubeconfigError>| {
            result.map_err(|error| {
                anyhow!(advice(
                    &format!("the kubeconfig cannot be used: {}", causes(&error)),
                    CONTEXTS
                ))
            })
        };
        match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file).map_err(|error| {
                    let problem = format!("cannot read the kubeconfig {}: {}", file.display(), causes(&error));
                    anyhow!(advice(&problem, NO_CLUSTER))
                })?;
                usable(Config::from_custom_kubeconfig(kubeconfig, &options).await)
            }
            None if self.context.is_some() => usable(Config::from_kubeconfig(&options).await),
            None => Config::infer().await.map_err(|error| {
                anyhow!(advice(
                    &format!("there is no cluster to talk to: {}", causes(&error)),
                    NO_CLUSTER
                ))
            }),
        }
    }
}

const NO_CLUSTER: &str = "give --kubeconfig, set KUBECONFIG, or start an embedded cluster with: coppice up";
const CONTEXTS: &str = "list the contexts with: kubectl config get-contexts, and name one with --context";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_named_with_and_without_their_kind() {
        for text in ["llm", "pcs/llm", "PodCliqueSet/llm", "podcliquesets.grove.io/llm"] {
            assert_eq!(set_name(text).as_deref(), Ok("llm"), "{text}");
        }
        assert!(set_name("pod/llm").is_err());
    }
}
