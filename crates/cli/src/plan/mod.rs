//! `coppice plan`: what applying a manifest would do, before it is done.
//!
//! Three answers, from three sources: what admission says (the rules of the webhook), what changes in meaning (the canonical
//! comparison that decides whether pods are restarted), and how the update would go (a rehearsal by the operator itself
//! on an embedded cluster). Nothing is written to the cluster.

pub(crate) mod changes;
mod rehearsal;
pub(crate) mod text;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use coppice_api::admission::{Context, Schedulers, default_pod_clique_set, validate_pod_clique_set};
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet, UpdateStrategyType};
use coppice_runtime::layers;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde::Serialize;

use crate::client::Cluster;
use crate::gather;
use crate::manifests;
use crate::output::Format;
use crate::view::API_VERSION;
use changes::{CliqueChange, FieldLine, Sizes};
use rehearsal::Rehearsal;

/// Show what applying manifests would change, which pods it replaces, and how
///
/// What changes, which pods are replaced, in which steps, and how few stay ready on the way. Exits with 1 when a manifest would be refused. Nothing is written to the cluster.
#[derive(Args)]
pub(crate) struct Plan {
    /// Files, directories, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Compare with this manifest instead of with the cluster
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    cluster: Cluster,
    /// The namespace of manifests that name none; that of the kubeconfig's context when not given
    #[arg(short, long)]
    namespace: Option<String>,
    /// Schedulers that the operator's configuration enables
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "default-scheduler,coppice,kai-scheduler,volcano"
    )]
    schedulers: Vec<String>,
    /// Leave out the rehearsal: no steps and no floor
    #[arg(long)]
    no_rehearsal: bool,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What would happen to one set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanView {
    api_version: &'static str,
    kind: &'static str,
    namespace: String,
    name: String,
    /// `create`, `update`, `none` or `refused`.
    action: Action,
    replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    on_delete: bool,
    cliques: Vec<CliqueChange>,
    settings: Vec<FieldLine>,
    /// Pods that are replaced in all.
    replaced_pods: i64,
    /// Pods that there are in all.
    pods: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rehearsal: Option<Rehearsal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Action {
    Create,
    Update,
    None,
    Refused,
}

/// Several plans.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanList {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<PlanView>,
}

impl Plan {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let documents = manifests::read(&self.files)?;
        let wanted = sets_of(&documents)?;
        if wanted.is_empty() {
            bail!(manifests::nothing_of("PodCliqueSet", &documents));
        }
        let mut items = Vec::new();
        match &self.against {
            Some(file) => {
                let stored = sets_of(&manifests::read(std::slice::from_ref(file))?)?;
                let context = self.context(bindings_of(&documents)?);
                for set in wanted {
                    let current = stored
                        .iter()
                        .find(|stored| stored.name_any() == set.name_any())
                        .cloned();
                    items.push(self.plan(current, set, None, &context).await?);
                }
            }
            None => {
                let (client, own) = self.cluster.client_and_namespace(&layers::Options::default()).await?;
                let mut bindings = bindings_of(&documents)?;
                bindings.extend(gather::list(Api::all(client.clone()), &ListParams::default()).await?);
                let context = self.context(bindings);
                for mut set in wanted {
                    let default = self.namespace.clone().unwrap_or_else(|| own.clone());
                    let namespace = set.namespace().unwrap_or(default);
                    set.metadata.namespace = Some(namespace.clone());
                    let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), &namespace);
                    let current = gather::get(&sets, &set.name_any()).await?;
                    let objects = gather::objects(&client, &namespace, &set.name_any()).await?;
                    items.push(self.plan(current, set, Some(Sizes::of(&objects)), &context).await?);
                }
            }
        }
        let refused = items.iter().any(|item| item.action == Action::Refused);
        let list = PlanList {
            api_version: API_VERSION,
            kind: "PlanViewList",
            items,
        };
        self.output.print(&list, |list| text::draw(&list.items))?;
        Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn context(&self, bindings: Vec<ClusterTopologyBinding>) -> Context {
        Context {
            schedulers: Schedulers::named(self.schedulers.iter().map(String::as_str)),
            auto_mnnvl: true,
            topology_aware_scheduling: true,
            topologies: bindings
                .into_iter()
                .map(|binding| (binding.name_any(), binding.spec))
                .collect(),
            ..Context::default()
        }
    }

    async fn plan(
        &self,
        current: Option<PodCliqueSet>,
        mut wanted: PodCliqueSet,
        sizes: Option<Sizes>,
        context: &Context,
    ) -> Result<PlanView> {
        let current = current.map(|mut current| {
            default_pod_clique_set(&mut current, None);
            current
        });
        default_pod_clique_set(&mut wanted, current.as_ref());
        let outcome = validate_pod_clique_set(&wanted, current.as_ref(), context);
        let sizes = sizes.unwrap_or_default();
        let mut view = changes::compare(current.as_ref(), &wanted, &sizes);
        view.errors = outcome.errors.iter().map(ToString::to_string).collect();
        view.warnings = outcome.warnings;
        if !view.errors.is_empty() {
            view.action = Action::Refused;
        }
        let rolls = view.action == Action::Update && view.replaced_pods > 0 && !view.on_delete;
        if let (true, false, Some(current)) = (rolls, self.no_rehearsal, &current) {
            view.rehearsal = Some(rehearsal::rehearse(current, &wanted, &sizes).await?);
        }
        Ok(view)
    }
}

fn is_on_delete(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy == UpdateStrategyType::OnDelete)
}

fn sets_of(documents: &[manifests::Document]) -> Result<Vec<PodCliqueSet>> {
    of_kind(documents, "PodCliqueSet")
}

fn bindings_of(documents: &[manifests::Document]) -> Result<Vec<ClusterTopologyBinding>> {
    of_kind(documents, "ClusterTopologyBinding")
}

fn of_kind<T: serde::de::DeserializeOwned>(documents: &[manifests::Document], kind: &str) -> Result<Vec<T>> {
    let matching = documents.iter().filter(|document| document.object["kind"] == kind);
    let decoded = matching.map(|document| {
        document.decode().map_err(|error| {
            anyhow!(
                "{}: {} does not have the shape of its kind: {error}",
                document.place,
                document.title()
            )
        })
    });
    decoded.collect()
}
