//! `coppice lint`: what admission would say of manifests, without a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use coppice_api::admission::{
    Context, Outcome, Schedulers, default_pod_clique_set, validate_cluster_topology_binding, validate_pod_clique_set,
};
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet};
use serde_json::Value;

use crate::manifests::{self, Document};

/// Check manifests as admission would, without a cluster.
///
/// Exits with 1 when a manifest would be refused. Topologies that the manifests define are known to the sets among them.
#[derive(Args)]
pub(crate) struct Lint {
    /// Files, directories, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Schedulers that the operator's configuration enables
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "default-scheduler,coppice,kai-scheduler,volcano"
    )]
    schedulers: Vec<String>,
    /// Whether the operator's configuration enables NVLink domains
    #[arg(long)]
    mnnvl: bool,
}

impl Lint {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let documents = manifests::read(&self.files)?;
        let report = check(&documents, &self.schedulers, self.mnnvl);
        if report.checked == 0 {
            bail!(
                "no PodCliqueSet or ClusterTopologyBinding among {} documents",
                documents.len()
            );
        }
        print!("{}", report.text);
        Ok(if report.refused == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    text: String,
    checked: usize,
    refused: usize,
}

fn check(documents: &[Document], schedulers: &[String], mnnvl: bool) -> Report {
    let of_kind = |kind: &'static str| documents.iter().filter(move |document| document.object["kind"] == kind);
    let mut context = Context {
        schedulers: Schedulers::named(schedulers.iter().map(String::as_str)),
        auto_mnnvl: mnnvl,
        topology_aware_scheduling: true,
        ..Context::default()
    };
    let mut report = Report::default();
    for document in of_kind("ClusterTopologyBinding") {
        let outcome = match decode::<ClusterTopologyBinding>(&document.object) {
            Ok(binding) => {
                let name = binding.metadata.name.clone().unwrap_or_default();
                let outcome = validate_cluster_topology_binding(&binding, None, &context);
                context.topologies.insert(name, binding.spec);
                Ok(outcome)
            }
            Err(error) => Err(error),
        };
        report.add(document, outcome);
    }
    for document in of_kind("PodCliqueSet") {
        let outcome = decode::<PodCliqueSet>(&document.object).map(|mut set| {
            default_pod_clique_set(&mut set, None);
            validate_pod_clique_set(&set, None, &context)
        });
        report.add(document, outcome);
    }
    report
}

fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> Result<T, String> {
    serde_json::from_value(object.clone()).map_err(|error| error.to_string())
}

impl Report {
    fn add(&mut self, document: &Document, outcome: Result<Outcome, String>) {
        self.checked += 1;
        let name = format!(
            "{}: {} {}",
            document.place,
            document.object["kind"].as_str().unwrap_or_default(),
            document.object["metadata"]["name"]
                .as_str()
                .unwrap_or("(without a name)")
        );
        let (errors, warnings) = match outcome {
            Ok(outcome) => (
                outcome.errors.iter().map(ToString::to_string).collect(),
                outcome.warnings,
            ),
            Err(error) => (
                vec![format!("does not have the shape of its kind: {error}")],
                Vec::new(),
            ),
        };
        self.refused += usize::from(!errors.is_empty());
        self.text.push_str(&format!(
            "{name}: {}\n",
            if errors.is_empty() { "ok" } else { "refused" }
        ));
        errors
            .iter()
            .for_each(|error| self.text.push_str(&format!("  error: {error}\n")));
        warnings
            .iter()
            .for_each(|warning| self.text.push_str(&format!("  warning: {warning}\n")));
    }
}
