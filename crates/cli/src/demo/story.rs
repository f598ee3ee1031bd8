//! What happens in the demo.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context, Result};
use coppice_api::names::annotations::MNNVL_GROUP;
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet};
use coppice_domains::api::names::DOMAIN_LABEL;
use coppice_domains::api::{Clique, ComputeDomain};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::stage::{Stage, seconds, title};
use crate::domains::DRIVER_NAMESPACE;
use crate::embedded::Embedded;
use crate::manifests;
use crate::view::pod_state::PodState;
use crate::view::text::abridged;
use crate::view::{CliqueView, GroupView, PodView, SetState, SetView, build};

const EXAMPLE: &str = include_str!("../../../../examples/disaggregated.yaml");
const NVLINK: &str = include_str!("nvlink.yaml");
const NVLINK_SET: &str = "nvl";
/// Nodes that the serving system fills: one for each pod with four GPUs.
const BUSY: u32 = 12;
const TOPOLOGY: &str = include_str!("../../../../examples/topology.yaml");
pub(super) const NAMESPACE: &str = "default";
pub(super) const SET: &str = "llm";
/// The group that loses a node and is updated.
const GROUP: &str = "prefill";
const NEW_IMAGE: &str = "registry.example/serve/engine:1.1";

/// The story, as far as it was told.
pub(super) struct Story<'a> {
    embedded: &'a Embedded,
    client: Client,
    stage: Stage,
}

impl<'a> Story<'a> {
    /// The cluster learns its topology.
    pub(super) async fn begin(embedded: &'a Embedded) -> Result<Self> {
        let client = embedded.client.clone();
        let topologies: Api<ClusterTopologyBinding> = Api::all(client.clone());
        for document in manifests::parse("examples/topology.yaml", TOPOLOGY)? {
            let topology: ClusterTopologyBinding = serde_json::from_value(document.object)?;
            topologies.create(&PostParams::default(), &topology).await?;
        }
        let stage = Stage::open(&client, SET).await?;
        Ok(Self {
            embedded,
            client,
            stage,
        })
    }

    /// All of it.
    pub(super) async fn tell(mut self, nodes: u32) -> Result<()> {
        self.apply().await?;
        self.lose_a_node().await?;
        self.update().await?;
        self.form_a_domain(nodes).await
    }

    fn sets(&self) -> Api<PodCliqueSet> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn apply(&mut self) -> Result<()> {
        title("2. A serving system is applied: router, prefill and decode (examples/disaggregated.yaml)");
        outln!("   14 pods, 48 GPUs. Routers start first, then workers, then their leaders. Each copy of prefill and");
        outln!("   decode must lie in one rack, and what is needed to serve is placed all or nothing.");
        outln!();
        let mut documents = manifests::parse("examples/disaggregated.yaml", EXAMPLE)?;
        let document = documents.pop().context("the example is empty")?;
        let set: PodCliqueSet = serde_json::from_value(document.object)?;
        let began = Instant::now();
        self.sets().create(&PostParams::default(), &set).await?;
        self.stage
            .until(
                "every pod is ready",
                |_| {},
                |view| whole(view) && view.state == SetState::Ready,
            )
            .await?;
        outln!("   => ready to serve {} after it was applied", seconds(began));
        Ok(())
    }

    /// Prefill and decode on the nodes that are left, one NVLink domain under both.
    async fn form_a_domain(&self, nodes: u32) -> Result<()> {
        let each = (nodes.saturating_sub(BUSY) / 2).clamp(1, 9);
        title(&format!(
            "5. An NVLink domain forms under prefill and decode, on {} nodes",
            each * 2
        ));
        outln!(
            "   The annotation {MNNVL_GROUP} of the set asks for it. A daemon on each node gets an index in its rack,"
        );
        outln!("   and no engine starts before the daemon of its node is ready. (The default scheduler allocates the");
        outln!("   claims: the gang scheduler does not yet.)");
        outln!();
        let mut documents = manifests::parse("nvlink.yaml", NVLINK)?;
        let mut object = documents.pop().context("the example is empty")?.object;
        for clique in object["spec"]["template"]["cliques"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            clique["spec"]["replicas"] = json!(each);
        }
        let set: PodCliqueSet = serde_json::from_value(object)?;
        let mut stage = Stage::open(&self.client, NVLINK_SET).await?;
        let began = Instant::now();
        self.sets().create(&PostParams::default(), &set).await?;
        let all = usize::try_from(each * 2)?;
        let view = stage
            .until("the domain is ready", |_| {}, |view| whole(view) && formed(view, all))
            .await?;
        outln!("   => the domain is ready {} after the set was applied", seconds(began));
        self.show_indices(&view).await
    }

    /// Which node has which index.
    async fn show_indices(&self, view: &SetView) -> Result<()> {
        let domain = view.replicas.iter().flat_map(|replica| &replica.domains).next();
        let domain = domain.context("the set has no NVLink domain")?;
        let cliques: Api<Clique> = Api::namespaced(self.client.clone(), DRIVER_NAMESPACE);
        let domains: Api<ComputeDomain> = Api::namespaced(self.client.clone(), NAMESPACE);
        let uid = domains.get(&domain.name).await?.uid().to_owned();
        let ours = ListParams::default().labels(&format!("{DOMAIN_LABEL}={uid}"));
        for clique in cliques.list(&ours).await? {
            let mut rows: Vec<_> = clique
                .daemons
                .iter()
                .filter_map(|row| Some((row.index?, &*row.node_name)))
                .collect();
            rows.sort_unstable();
            let nodes: Vec<&str> = rows.iter().map(|(_, node)| *node).collect();
            let last = rows.last().map_or(0, |(index, _)| *index);
            outln!(
                "      NVLink domain {}: indices 0 to {last} on {}",
                domain.name,
                abridged(&nodes)
            );
        }
        Ok(())
    }

    async fn lose_a_node(&mut self) -> Result<()> {
        let before = self.stage.last()?;
        let (node, pod) = lonely(&before).context("no prefill pod has a node for itself")?;
        title(&format!("3. A node is lost: power off {node}, under a pod of {GROUP}"));
        outln!("   The node is NotReady after 5 seconds without a heartbeat; its pod is evicted 2 seconds later.");
        outln!();
        let began = Instant::now();
        self.embedded.cluster.power_off(&node).await?;
        let after = self
            .stage
            .until(
                "the pod is replaced and ready",
                |_| {},
                |view| whole(view) && !serving(view).contains(&pod.uid),
            )
            .await?;
        let kept = serving(&before).intersection(&serving(&after)).count();
        let (clique, heir) = heir(&before, &after, &pod).context("no pod took the place of the lost one")?;
        outln!("   => complete again {} after the power went out", seconds(began));
        outln!(
            "      place {} in {clique} is now on {}",
            heir.index.unwrap_or_default(),
            heir.node.as_deref().unwrap_or("no node"),
        );
        outln!("      {kept} of {} pods were never touched", after.pods.desired);
        // Only the node itself can end the pod that it took down with it.
        self.embedded.cluster.power_on(&node).await?;
        self.stage
            .quietly("the old pod is gone", |view| {
                whole(view) && pods(view).all(|other| other.uid != pod.uid)
            })
            .await?;
        outln!("      power on: {node} is back and has ended the pod that it still ran");
        Ok(())
    }

    async fn update(&mut self) -> Result<()> {
        title("4. A rolling update: a new image for prefill, copy by copy");
        outln!("   A copy of a group is replaced as a whole: a leader never meets workers of another version.");
        outln!();
        let before = self.stage.last()?;
        let old: BTreeSet<Option<String>> = of_group(&before).map(|pod| pod.uid.clone()).collect();
        let image = |clique: usize| {
            let path = format!("/spec/template/cliques/{clique}/spec/podSpec/containers/0/image");
            json!({"op": "replace", "path": path, "value": NEW_IMAGE})
        };
        // The leader and the workers of prefill.
        let patch: json_patch::Patch = serde_json::from_value(json!([image(1), image(2)]))?;
        let began = Instant::now();
        self.sets()
            .patch(SET, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await?;
        let mut fewest = usize::MAX;
        let after = self
            .stage
            .until(
                "the update has ended",
                |view| fewest = fewest.min(group(view).map_or(0, ready_copies)),
                |view| {
                    let updated = of_group(view).all(|pod| !old.contains(&pod.uid));
                    updated && whole(view) && view.state == SetState::Ready
                },
            )
            .await?;
        let kept = serving(&before).intersection(&serving(&after)).count();
        outln!(
            "   => updated in {}; {} pods were replaced, {kept} of {} were never restarted",
            seconds(began),
            old.len(),
            after.pods.desired
        );
        outln!("      there were never fewer than {fewest} of 2 copies of prefill ready");
        Ok(())
    }
}

/// Whether the NVLink domain of the set is ready with all its nodes.
fn formed(view: &SetView, nodes: usize) -> bool {
    let mut domains = view.replicas.iter().flat_map(|replica| &replica.domains);
    domains.any(|domain| domain.state == "Ready" && domain.ready_nodes == nodes)
}

fn group(view: &SetView) -> Option<&GroupView> {
    let mut groups = view.replicas.iter().flat_map(|replica| &replica.groups);
    groups.find(|group| group.name == GROUP)
}

fn of_group(view: &SetView) -> impl Iterator<Item = &PodView> {
    let copies = group(view).into_iter().flat_map(|group| &group.copies);
    copies.flat_map(|copy| &copy.cliques).flat_map(|clique| &clique.pods)
}

fn ready_copies(group: &GroupView) -> usize {
    let whole = group.copies.iter().filter(|copy| {
        let mut cliques = copy.cliques.iter();
        cliques.all(|clique| clique.count.ready >= clique.count.desired)
    });
    whole.count()
}

fn cliques(view: &SetView) -> impl Iterator<Item = &CliqueView> {
    view.replicas.iter().flat_map(build::cliques_of)
}

fn pods(view: &SetView) -> impl Iterator<Item = &PodView> {
    cliques(view).flat_map(|clique| &clique.pods)
}

fn whole(view: &SetView) -> bool {
    view.pods.desired > 0 && view.pods.ready == view.pods.desired
}

fn serving(view: &SetView) -> BTreeSet<Option<String>> {
    let ready = pods(view).filter(|pod| pod.state == PodState::Ready);
    ready.map(|pod| pod.uid.clone()).collect()
}

/// Who serves now at the index that a pod had in its clique.
fn heir<'a>(before: &SetView, after: &'a SetView, lost: &PodView) -> Option<(&'a str, &'a PodView)> {
    let had = cliques(before).find(|clique| clique.pods.iter().any(|pod| pod.uid == lost.uid))?;
    let clique = cliques(after).find(|clique| clique.object == had.object)?;
    let mut serving = clique.pods.iter().filter(|pod| pod.state == PodState::Ready);
    let heir = serving.find(|pod| pod.index == lost.index)?;
    Some((&clique.object, heir))
}

/// A pod of the group that has its node for itself: with it nothing else is lost.
fn lonely(view: &SetView) -> Option<(String, PodView)> {
    let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods(view).filter_map(|pod| pod.node.as_deref()) {
        *crowd.entry(node).or_default() += 1;
    }
    of_group(view).find_map(|pod| {
        let node = pod.node.as_deref()?;
        (crowd.get(node) == Some(&1)).then(|| (node.to_owned(), pod.clone()))
    })
}
