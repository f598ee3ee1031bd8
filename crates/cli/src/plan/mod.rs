//! `coppice plan`: what applying a manifest would do, before it is done.
//!
//! Three answers, from three sources: what admission says (the rules of the webhook), what changes in meaning (the canonical
//! comparison that decides whether pods are restarted), and how the update would go (a rehearsal by the operator itself
//! on an embedded cluster). Nothing is written to the cluster.

mod rehearsal;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use coppice_api::admission::{Context, Schedulers};
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet};
use coppice_runtime::layers;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use crate::client::Cluster;
use crate::gather;
use crate::manifests;
use crate::output::Format;
use crate::view::API_VERSION;
use crate::view::plan::changes::Sizes;
use crate::view::plan::{Action, PlanList, PlanView, assess, text};

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
        default_value = SCHEDULERS
    )]
    schedulers: Vec<String>,
    /// Leave out the rehearsal: no steps and no floor
    #[arg(long)]
    no_rehearsal: bool,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Plans of the sets in a text, compared with what the cluster has.
pub(crate) async fn of_text(
    client: &Client,
    own_namespace: &str,
    text: &str,
    namespace: Option<String>,
    rehearse: bool,
) -> Result<Vec<PlanView>> {
    let documents = manifests::parse("the manifest", text)?;
    if sets_of(&documents)?.is_empty() {
        bail!(manifests::nothing_of("PodCliqueSet", &documents));
    }
    let plan = Plan {
        files: Vec::new(),
        against: None,
        cluster: Cluster::default(),
        namespace,
        schedulers: SCHEDULERS.split(',').map(str::to_owned).collect(),
        no_rehearsal: !rehearse,
        output: Format::default(),
    };
    plan.against_cluster(client, own_namespace, &documents).await
}

/// The schedulers that manifests may name unless it is said otherwise.
const SCHEDULERS: &str = "default-scheduler,coppice,kai-scheduler,volcano";

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
                items = self.against_cluster(&client, &own, &documents).await?;
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

    /// Plans of the sets among the documents, compared with what the cluster has.
    async fn against_cluster(
        &self,
        client: &Client,
        own_namespace: &str,
        documents: &[manifests::Document],
    ) -> Result<Vec<PlanView>> {
        let mut bindings = bindings_of(documents)?;
        bindings.extend(gather::list(Api::all(client.clone()), &ListParams::default()).await?);
        let context = self.context(bindings);
        let mut items = Vec::new();
        for mut set in sets_of(documents)? {
            let default = self.namespace.as_deref().unwrap_or(own_namespace);
            let namespace = set.namespace().unwrap_or_else(|| default.to_owned());
            set.metadata.namespace = Some(namespace.clone());
            let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), &namespace);
            let current = gather::get(&sets, &set.name_any()).await?;
            let objects = gather::objects(client, &namespace, &set.name_any()).await?;
            items.push(self.plan(current, set, Some(Sizes::of(&objects)), &context).await?);
        }
        Ok(items)
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
        mut current: Option<PodCliqueSet>,
        mut wanted: PodCliqueSet,
        sizes: Option<Sizes>,
        context: &Context,
    ) -> Result<PlanView> {
        let sizes = sizes.unwrap_or_default();
        let mut view = assess(current.as_mut(), &mut wanted, &sizes, context);
        let rolls = view.action == Action::Update && view.replaced_pods > 0 && !view.on_delete;
        if let (true, false, Some(current)) = (rolls, self.no_rehearsal, &current) {
            view.rehearsal = Some(rehearsal::rehearse(current, &wanted, &sizes).await?);
        }
        Ok(view)
    }
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
