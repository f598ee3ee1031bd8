//! `coppice explain`: where the pods of a gang are, or why they are not placed and what would help.
//!
//! Reads a cluster or a snapshot of one, asks the scheduler's own model and engine, and prints. Never writes to a cluster.

mod domain;
mod objects;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::client::Cluster;
use crate::view::explain::{Target, explain, text};

/// Say where the pods of a gang are, or why they are not placed and what helps; or what a ComputeDomain waits for
///
/// Works on any cluster of a kubeconfig, on one that `coppice up` started, and offline on a snapshot:
/// kubectl get nodes,pods,podgangs,podcliquesets,clustertopologybindings,poddisruptionbudgets,pvc,pv,
/// storageclasses,csidrivers,csinodes,csistoragecapacities -A -o yaml
#[derive(Args)]
pub(crate) struct Explain {
    /// What to explain: podgang/NAME, pcs/NAME, pod/NAME or computedomain/NAME, or just a name of the first three
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2)]
    target: Vec<String>,
    /// The namespace of the target; that of the kubeconfig's context when not given, `default` in a snapshot
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    /// Read objects from this file (or - for standard input) instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text, value_name = "FORM")]
    output: Output,
    /// Assume a change and explain what would be then; may be repeated:
    /// tolerate=KEY[=VALUE]:EFFECT, uncordon=NODE, ready=NODE, drop-selector=KEY, drop-affinity, drop-ports, drop-volumes,
    /// drop-anti-affinity, prefer=KEY, evict=GANG, add-nodes=COUNT:LIKE
    #[arg(long, value_name = "CHANGE")]
    what_if: Vec<String>,
}

/// How to print an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Yaml,
}

impl Explain {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        if let Some(name) = domain::target(&self.target) {
            let report = domain::explain(&self.cluster, self.snapshot.as_deref(), self.namespace, name).await?;
            return self.output.print(&report, domain::render);
        }
        let (snapshot, usual) = match &self.snapshot {
            Some(file) => (objects::read(file)?, "default".to_owned()),
            None => objects::fetch(&self.cluster).await?,
        };
        let namespace = self.namespace.unwrap_or(usual);
        let target = Target::parse(&self.target, &namespace)?;
        let report = explain(&snapshot, &target, &self.what_if)?;
        self.output.print(&report, text::render)
    }
}

impl Output {
    fn print<R: serde::Serialize>(self, report: &R, text: impl Fn(&R) -> String) -> Result<ExitCode> {
        match self {
            Self::Text => out!("{}", text(report)),
            Self::Json => outln!("{}", serde_json::to_string_pretty(report)?),
            Self::Yaml => out!("{}", serde_saphyr::to_string(&serde_json::to_value(report)?)?),
        }
        Ok(ExitCode::SUCCESS)
    }
}
