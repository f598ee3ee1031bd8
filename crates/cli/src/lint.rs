//! `coppice lint`: what admission would say of manifests, without a cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use coppice_api::admission::{
    Context, FieldError, Outcome, Schedulers, default_pod_clique_set, validate_cluster_topology_binding,
    validate_pod_clique_set,
};
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet};
use coppice_schema::{Definitions, Root};
use serde::Serialize;
use serde_json::Value;

use crate::manifests::{self, Document};
use crate::output::Format;
use crate::view::API_VERSION;

/// Check manifests as admission would, without a cluster
///
/// Exits with 1 when a manifest would be refused. Topologies that the manifests define are known to the sets among them;
/// a set that names another one gets a warning, and its levels are not checked.
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
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Lint {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let documents = manifests::read(&self.files)?;
        let view = check(&documents, &self.schedulers, self.mnnvl);
        if view.items.is_empty() {
            bail!(manifests::nothing_of(
                "PodCliqueSet or ClusterTopologyBinding",
                &documents
            ));
        }
        self.output.print(&view, draw)?;
        let refused = view.items.iter().any(|item| !item.errors.is_empty());
        Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// What admission would say.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LintView {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<Verdict>,
}

/// What it would say of one document.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Verdict {
    /// File and number.
    place: String,
    /// Kind and name.
    object: String,
    errors: Vec<String>,
    warnings: Vec<String>,
}

fn check(documents: &[Document], schedulers: &[String], mnnvl: bool) -> LintView {
    let of_kind = |kind: &'static str| documents.iter().filter(move |document| document.object["kind"] == kind);
    let mut context = Context {
        schedulers: Schedulers::named(schedulers.iter().map(String::as_str)),
        auto_mnnvl: mnnvl,
        topology_aware_scheduling: true,
        ..Context::default()
    };
    let mut items = Vec::new();
    for document in of_kind("ClusterTopologyBinding") {
        let outcome = match document.decode::<ClusterTopologyBinding>() {
            Ok(binding) => {
                let name = binding.metadata.name.clone().unwrap_or_default();
                let outcome = validate_cluster_topology_binding(&binding, None, &context);
                context.topologies.insert(name, binding.spec);
                Ok(outcome)
            }
            Err(error) => Err(error),
        };
        items.push(verdict(document, outcome));
    }
    for document in of_kind("PodCliqueSet") {
        let outcome = document.decode::<PodCliqueSet>().map(|mut set| {
            default_pod_clique_set(&mut set, None);
            let mut outcome = validate_pod_clique_set(&set, None, &context);
            leave_to_cluster(&document.object, &context, &mut outcome);
            outcome
        });
        items.push(verdict(document, outcome));
    }
    LintView {
        api_version: API_VERSION,
        kind: "LintView",
        items,
    }
}

/// Turns the errors about a topology that only the cluster may have into a warning.
fn leave_to_cluster(set: &Value, context: &Context, outcome: &mut Outcome) {
    let mut names = BTreeSet::new();
    topology_names(&set["spec"]["template"], &mut names);
    // Of several names in one set all are errors, whatever the cluster has.
    let [name] = Vec::from_iter(names)[..] else { return };
    if context.topologies.contains_key(name) {
        return;
    }
    let unknown = |error: &FieldError| {
        error.path.to_string().ends_with(".topologyName") && error.bad_value.as_ref().is_some_and(|bad| *bad == name)
    };
    let before = outcome.errors.len();
    outcome.errors.retain(|error| !unknown(error));
    if outcome.errors.len() < before {
        outcome.warnings.push(format!(
            "ClusterTopologyBinding {name:?} is not among these manifests: the cluster must have it, and its levels are not \
             checked here"
        ));
    }
}

/// All topologies that constraints below a value name.
fn topology_names<'a>(value: &'a Value, names: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            let named = members
                .get("topologyConstraint")
                .and_then(|found| found["topologyName"].as_str());
            names.extend(named.filter(|name| !name.is_empty()));
            members.values().for_each(|member| topology_names(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| topology_names(item, names)),
        _ => {}
    }
}

fn verdict(document: &Document, outcome: Result<Outcome, String>) -> Verdict {
    let (mut errors, warnings) = match outcome {
        Ok(outcome) => {
            let errors = outcome.errors.iter();
            let errors = errors.map(|error| document.at(&error.path.to_string(), &error.to_string()));
            (errors.collect(), outcome.warnings)
        }
        Err(error) => (
            vec![format!("does not have the shape of its kind: {error}")],
            Vec::new(),
        ),
    };
    errors.extend(unknown_fields(document).iter().map(|field| {
        let message = format!("{field}: unknown field; kubectl refuses it, and other clients lose it");
        document.at(field, &message)
    }));
    Verdict {
        place: document.place.clone(),
        object: document.title(),
        errors,
        warnings,
    }
}

/// The fields that the schema of the document's kind does not have.
fn unknown_fields(document: &Document) -> Vec<String> {
    let definitions = coppice_api::crd::all();
    let kind = &document.object["kind"];
    let definition = definitions
        .iter()
        .find(|definition| definition["spec"]["names"]["kind"] == *kind);
    let schema = definition.map(|definition| &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    let read = schema.and_then(|schema| Definitions::from_structural(schema).ok());
    read.map(|(set, root)| coppice_schema::unknown_fields(set.cursor(root), &document.object, Root::Object))
        .unwrap_or_default()
}

fn draw(view: &LintView) -> String {
    let mut text = String::new();
    for item in &view.items {
        let word = if item.errors.is_empty() { "ok" } else { "refused" };
        text.push_str(&format!("{}: {}: {word}\n", item.place, item.object));
        let errors = item.errors.iter().map(|error| format!("  error: {error}\n"));
        text.extend(errors.chain(item.warnings.iter().map(|warning| format!("  warning: {warning}\n"))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = include_str!("../../../examples/disaggregated.yaml");
    const TOPOLOGY: &str = include_str!("../../../examples/topology.yaml");

    fn lint(texts: &[&str]) -> LintView {
        let documents = texts.iter().flat_map(|text| manifests::parse("test", text).unwrap());
        check(&documents.collect::<Vec<_>>(), &["coppice".to_owned()], false)
    }

    #[test]
    fn a_topology_that_only_the_cluster_has_is_a_warning() {
        let alone = lint(&[SET]);
        let verdict = &alone.items[0];
        assert_eq!(verdict.errors, Vec::<String>::new());
        assert!(
            verdict
                .warnings
                .iter()
                .any(|warning| warning.contains("is not among these manifests")),
            "{verdict:?}"
        );
        let both = lint(&[TOPOLOGY, SET]);
        assert!(both.items.iter().all(|item| item.errors.is_empty()), "{both:?}");
        let warned = both.items.iter().flat_map(|item| &item.warnings);
        assert_eq!(
            warned
                .filter(|warning| warning.contains("among these manifests"))
                .count(),
            0
        );
        // A level that a known topology lacks is still an error.
        let wrong = lint(&[TOPOLOGY, &SET.replace("rack", "shelf")]);
        assert!(wrong.items.iter().any(|item| !item.errors.is_empty()));
    }
}
