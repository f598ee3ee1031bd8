//! `coppice demo`: the main job on an embedded cluster, told step by step.
//!
//! A disaggregated serving system is applied, becomes ready, loses a node and recovers, and is updated pod by pod. Each
//! step waits for a condition that it reads from the API as any client would, and fails the demo when it does not come.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use coppice_api::names::labels;
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet};
use coppice_cluster::behaviour::PodBehaviour;
use coppice_cluster::profile::{NodeProfile, RACK_LABEL};
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::embedded::{Embedded, EmbeddedOptions};
use crate::manifests;

const EXAMPLE: &str = include_str!("../../../examples/disaggregated.yaml");
const TOPOLOGY: &str = include_str!("../../../examples/topology.yaml");
const NAMESPACE: &str = "default";
const SET: &str = "llm";
const PATIENCE: Duration = Duration::from_secs(120);

/// A guided tour on an embedded cluster: no cluster, no Docker, no Go.
#[derive(Args)]
pub(crate) struct Demo {
    /// End after the tour; otherwise the cluster stays up until Ctrl-C
    #[arg(long)]
    exit: bool,
    /// The number of simulated GB200 nodes
    #[arg(long, default_value_t = 36, value_name = "N")]
    nodes: u32,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let started = Instant::now();
        let kubeconfig = std::env::temp_dir().join(format!("coppice-demo-{}.kubeconfig", std::process::id()));
        say("1. An embedded Kubernetes with simulated nodes, in this process");
        let embedded = Embedded::start(EmbeddedOptions {
            profile: NodeProfile::Gb200Nvl72,
            nodes: self.nodes,
            listen: Some(([127, 0, 0, 1], 0).into()),
            kubeconfig: Some(kubeconfig.clone()),
            behaviour: PodBehaviour::default(),
        })
        .await?;
        println!(
            "   {} GB200 NVL72 nodes, API server and operator ready after {}",
            self.nodes,
            seconds(started)
        );
        let story = Story {
            client: embedded.client.clone(),
        };
        story.tell(&embedded).await?;
        say(&format!("Done in {}.", seconds(started)));
        if self.exit {
            embedded.stop().await;
            let _ = std::fs::remove_file(kubeconfig);
            return Ok(ExitCode::SUCCESS);
        }
        println!("   The cluster stays up. In another terminal:");
        println!();
        println!("     export KUBECONFIG={}", kubeconfig.display());
        println!("     kubectl get pods -o wide");
        println!("     kubectl scale podcliquescalinggroup {SET}-0-decode --replicas 2");
        println!("     kubectl delete podcliqueset {SET}");
        println!();
        println!("   Ctrl-C ends it.");
        tokio::signal::ctrl_c().await?;
        embedded.stop().await;
        let _ = std::fs::remove_file(kubeconfig);
        Ok(ExitCode::SUCCESS)
    }
}

struct Story {
    client: Client,
}

impl Story {
    async fn tell(&self, embedded: &Embedded) -> Result<()> {
        let sets: Api<PodCliqueSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);

        say("2. A disaggregated serving system: router, prefill and decode (examples/disaggregated.yaml)");
        let mut documents = manifests::parse("examples/disaggregated.yaml", EXAMPLE)?;
        let document = documents.pop().context("the example is empty")?;
        let topologies: Api<ClusterTopologyBinding> = Api::all(self.client.clone());
        for document in manifests::parse("examples/topology.yaml", TOPOLOGY)? {
            let topology: ClusterTopologyBinding = serde_json::from_value(document.object)?;
            topologies.create(&PostParams::default(), &topology).await?;
        }
        let set: PodCliqueSet = serde_json::from_value(document.object)?;
        let began = Instant::now();
        sets.create(&PostParams::default(), &set).await?;
        self.until("every replica is available", ready).await?;
        println!("   available after {}", seconds(began));
        self.show(&pods).await?;

        say("3. A node is lost under a prefill worker");
        let victim = self.pod_of(&pods, "llm-0-prefill-0-prefill-worker").await?;
        let node = victim
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .context("the pod has no node")?;
        println!("   power off: {node}, under {}", victim.name_any());
        let before: Vec<Option<String>> = self.list(&pods).await?.values().map(ResourceExt::uid).collect();
        let began = Instant::now();
        embedded.cluster.power_off(&node).await?;
        let uid = victim.uid();
        let whole = before.len();
        self.until_pods("the pod is replaced on another node and ready", |all| {
            let serving: Vec<&Pod> = all.values().filter(|pod| is_ready(pod)).collect();
            serving.len() == whole && serving.iter().all(|pod| pod.uid() != uid)
        })
        .await?;
        let after = self.list(&pods).await?;
        let kept = after
            .values()
            .filter(|pod| is_ready(pod) && before.contains(&pod.uid()))
            .count();
        println!(
            "   the node was given up, and its pod replaced at the same index on another one, after {}",
            seconds(began)
        );
        println!("   {kept} of {whole} pods were never touched");
        // Only the node itself can end the pod it took down with it.
        embedded.cluster.power_on(&node).await?;
        self.until_pods("the old pod is gone", |all| all.len() == whole).await?;
        println!("   power on: {node}; the old pod is gone");

        say("4. A new image: a rolling update, one pod or one copy of a group at a time");
        let before: Vec<Option<String>> = self.list(&pods).await?.values().map(ResourceExt::uid).collect();
        let patch = json!([{"op": "replace", "path": "/spec/template/cliques/0/spec/podSpec/containers/0/image", "value": "registry.example/serve/router:1.1"}]);
        let began = Instant::now();
        let patch: json_patch::Patch = serde_json::from_value(patch)?;
        sets.patch(SET, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await?;
        self.until("the update has ended", |set| {
            let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
            progress.is_some_and(|progress| progress.update_ended_at.is_some()) && ready(set)
        })
        .await?;
        let after = self.list(&pods).await?;
        let serving: Vec<&Pod> = after.values().filter(|pod| is_ready(pod)).collect();
        let kept = serving.iter().filter(|pod| before.contains(&pod.uid())).count();
        println!(
            "   both routers were replaced after {}; {kept} of {} pods were never restarted",
            seconds(began),
            serving.len()
        );
        self.show(&pods).await
    }

    /// Waits until the set is as it should be.
    async fn until(&self, what: &str, holds: impl Fn(&PodCliqueSet) -> bool) -> Result<()> {
        let sets: Api<PodCliqueSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let stream =
            watcher(sets, watcher::Config::default().fields(&format!("metadata.name={SET}"))).applied_objects();
        pin_mut!(stream);
        let wait = async {
            while let Some(set) = stream.try_next().await? {
                if holds(&set) {
                    return Ok(());
                }
            }
            bail!("the watch ended")
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(result) => result,
            Err(_) => bail!("waited {PATIENCE:?} in vain until {what}"),
        }
    }

    /// Waits until the pods of the set are as they should be.
    async fn until_pods(&self, what: &str, holds: impl Fn(&BTreeMap<String, Pod>) -> bool) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let stream = watcher(pods.clone(), watcher::Config::default().labels(&selector()));
        pin_mut!(stream);
        let wait = async {
            while let Some(event) = stream.next().await {
                if matches!(event?, watcher::Event::Init | watcher::Event::InitApply(_)) {
                    continue;
                }
                if holds(&self.list(&pods).await?) {
                    return Ok(());
                }
            }
            bail!("the watch ended")
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(result) => result,
            Err(_) => bail!("waited {PATIENCE:?} in vain until {what}"),
        }
    }

    async fn list(&self, pods: &Api<Pod>) -> Result<BTreeMap<String, Pod>> {
        let list = pods.list(&ListParams::default().labels(&selector())).await?;
        Ok(list.items.into_iter().map(|pod| (pod.name_any(), pod)).collect())
    }

    async fn pod_of(&self, pods: &Api<Pod>, clique: &str) -> Result<Pod> {
        let list = pods
            .list(&ListParams::default().labels(&format!("{}={clique}", labels::POD_CLIQUE)))
            .await?;
        list.items
            .into_iter()
            .next()
            .with_context(|| format!("{clique} has no pod"))
    }

    /// The pods as a tree: gang, clique, pods with their nodes and racks.
    async fn show(&self, pods: &Api<Pod>) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let rack = |node: &Node| node.labels().get(RACK_LABEL).cloned().unwrap_or_default();
        let racks: BTreeMap<String, String> = nodes
            .list(&ListParams::default())
            .await?
            .items
            .iter()
            .map(|node| (node.name_any(), rack(node)))
            .collect();
        let mut tree: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for pod in self.list(pods).await?.values() {
            let label = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
            let node = pod
                .spec
                .as_ref()
                .and_then(|spec| spec.node_name.clone())
                .unwrap_or_else(|| "no node".to_owned());
            let state = match (pod.metadata.deletion_timestamp.is_some(), is_ready(pod)) {
                (true, _) => "terminating",
                (false, true) => "ready",
                (false, false) => "not ready",
            };
            let place = racks.get(&node).map(|rack| format!("  {rack}")).unwrap_or_default();
            let line = format!("{}  {state}  {node}{place}", label(labels::POD_INDEX));
            tree.entry(label(labels::POD_GANG))
                .or_default()
                .entry(label(labels::POD_CLIQUE))
                .or_default()
                .push(line);
        }
        for (gang, cliques) in tree {
            println!("   gang {gang}");
            for (clique, mut lines) in cliques {
                lines.sort();
                println!("     {clique}");
                lines.iter().for_each(|line| println!("       {line}"));
            }
        }
        Ok(())
    }
}

fn selector() -> String {
    format!("{}={SET}", labels::PART_OF)
}

fn ready(set: &PodCliqueSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        status.observed_generation == set.metadata.generation
            && status
                .conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn say(line: &str) {
    println!("\n{line}");
}

fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
