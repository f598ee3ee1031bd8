//! Reads what belongs to a set, once or for as long as somebody looks.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use coppice_api::names::labels;
use coppice_api::types::{ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang};
use coppice_domains::api::ComputeDomain;
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;

use crate::output::{advice, causes};
use crate::view::build::Objects;

/// Changes that come within this time are drawn together.
pub(crate) const REDRAW_PAUSE: Duration = Duration::from_millis(100);

/// The set of a name; when there is none, says which ones there are.
pub(crate) async fn set(client: &Client, namespace: &str, name: &str) -> Result<PodCliqueSet> {
    let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), namespace);
    if let Some(set) = get(&sets, name).await? {
        return Ok(set);
    }
    let others = list(sets, &ListParams::default()).await?;
    let names: Vec<String> = others.iter().map(ResourceExt::name_any).collect();
    bail!(no_set(namespace, name, &names))
}

fn no_set(namespace: &str, name: &str, others: &[String]) -> String {
    if others.is_empty() {
        let problem = format!("namespace {namespace} has no PodCliqueSet {name}, nor any other");
        return advice(
            &problem,
            "give its namespace with -n; all sets are listed by: coppice get -A",
        );
    }
    let problem = format!("namespace {namespace} has no PodCliqueSet {name}");
    advice(&problem, &format!("name one of these: {}", others.join(", ")))
}

/// The object of a name, if there is one.
pub(crate) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.get_opt(name).await.map_err(explained)
}

/// The sets of one namespace or of all, by name.
pub(crate) async fn sets(api: Api<PodCliqueSet>, parameters: &ListParams) -> Result<Vec<PodCliqueSet>> {
    let mut sets = list(api, parameters).await?;
    sets.sort_by_key(|set| (set.namespace(), set.name_any()));
    Ok(sets)
}

/// All objects of a set.
pub(crate) async fn objects(client: &Client, namespace: &str, set: &str) -> Result<Objects> {
    let ours = ListParams::default().labels(&format!("{}={set}", labels::PART_OF));
    let all = ListParams::default();
    let (cliques, groups, gangs, pods) = futures::try_join!(
        list::<PodClique>(Api::namespaced(client.clone(), namespace), &ours),
        list::<PodCliqueScalingGroup>(Api::namespaced(client.clone(), namespace), &ours),
        list::<PodGang>(Api::namespaced(client.clone(), namespace), &ours),
        list::<Pod>(Api::namespaced(client.clone(), namespace), &ours),
    )?;
    // Whoever may look at a set may not be allowed to see nodes: the tree is then drawn without places.
    let nodes = list::<Node>(Api::all(client.clone()), &all).await.unwrap_or_default();
    let topologies = list::<ClusterTopologyBinding>(Api::all(client.clone()), &all)
        .await
        .unwrap_or_default();
    let revisions = list::<ControllerRevision>(Api::namespaced(client.clone(), namespace), &ours)
        .await
        .unwrap_or_default();
    let domains = list::<ComputeDomain>(Api::namespaced(client.clone(), namespace), &ours)
        .await
        .unwrap_or_default();
    Ok(Objects {
        cliques,
        groups,
        gangs,
        pods,
        revisions,
        nodes: by_name(nodes),
        topologies,
        domains,
    })
}

fn by_name(nodes: Vec<Node>) -> BTreeMap<String, Node> {
    nodes.into_iter().map(|node| (node.name_any(), node)).collect()
}

/// All objects of a kind that match.
pub(crate) async fn list<K>(api: Api<K>, parameters: &ListParams) -> Result<Vec<K>>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    Ok(api.list(parameters).await.map_err(explained)?.items)
}

/// Tells what to do about the errors that people meet first.
pub(crate) fn explained(error: kube::Error) -> anyhow::Error {
    let (problem, next) = match &error {
        // An object that is not there is no error here: this is a kind that is not served.
        kube::Error::Api(status) if status.code == 404 => {
            let problem = "the cluster does not know the kinds of grove.io".to_owned();
            (problem, "coppice crds install; more is found by: coppice doctor")
        }
        kube::Error::Api(status) if status.code == 403 => {
            let problem = format!("you may not do this: {}", status.message);
            (
                problem,
                "ask for the right to, or use another --context; see: coppice doctor",
            )
        }
        kube::Error::Api(_) => return error.into(),
        _ => (
            format!("the cluster cannot be reached: {}", causes(&error)),
            UNREACHABLE,
        ),
    };
    anyhow!(advice(&problem, next))
}

/// What to do when there is no cluster.
const UNREACHABLE: &str = "check --kubeconfig and --context, or start an embedded cluster with: coppice up";

/// A set and its objects, kept in step with the cluster.
pub(crate) struct Live {
    sets: Store<PodCliqueSet>,
    cliques: Store<PodClique>,
    groups: Store<PodCliqueScalingGroup>,
    gangs: Store<PodGang>,
    pods: Store<Pod>,
    /// None where they may not be read.
    revisions: Option<Store<ControllerRevision>>,
    /// None where the cluster does not serve them.
    domains: Option<Store<ComputeDomain>>,
    nodes: BTreeMap<String, Node>,
    topologies: Vec<ClusterTopologyBinding>,
    /// Whether each of the stores has been filled.
    filled: Vec<Arc<AtomicBool>>,
}

/// Something changed.
pub(crate) type Changes = Pin<Box<dyn Stream<Item = Result<()>> + Send>>;

impl Live {
    /// Begins to watch; the stream yields whenever something changed.
    pub(crate) async fn follow(client: &Client, namespace: &str, set: &str) -> Result<(Self, Changes)> {
        let first = objects(client, namespace, set).await?;
        let named = watcher::Config::default().fields(&format!("metadata.name={set}"));
        let ours = watcher::Config::default().labels(&format!("{}={set}", labels::PART_OF));
        let (sets, one) = follow(Api::namespaced(client.clone(), namespace), named);
        let (cliques, two) = follow(Api::namespaced(client.clone(), namespace), ours.clone());
        let (groups, three) = follow(Api::namespaced(client.clone(), namespace), ours.clone());
        let (gangs, four) = follow(Api::namespaced(client.clone(), namespace), ours.clone());
        let (pods, five) = follow(Api::namespaced(client.clone(), namespace), ours.clone());
        let mut streams = vec![one, two, three, four, five];
        // A watch that is refused would end all the others.
        let revisions = (!first.revisions.is_empty()).then(|| {
            let (revisions, six) = follow(Api::namespaced(client.clone(), namespace), ours.clone());
            streams.push(six);
            revisions
        });
        let domains: Api<ComputeDomain> = Api::namespaced(client.clone(), namespace);
        let served = domains.list_metadata(&ListParams::default().limit(1)).await.is_ok();
        let domains = served.then(|| {
            let (store, following) = follow(domains, ours);
            streams.push(following);
            store
        });
        let filled = streams.iter().map(|stream| stream.filled.clone()).collect();
        let live = Self {
            sets,
            cliques,
            groups,
            gangs,
            pods,
            revisions,
            domains,
            nodes: first.nodes,
            topologies: first.topologies,
            filled,
        };
        let changes = streams.into_iter().map(|stream| stream.changes);
        Ok((live, stream::select_all(changes).boxed()))
    }

    /// What is known now; nothing before everything was seen once, or when there is no set.
    pub(crate) fn now(&self) -> Option<(PodCliqueSet, Objects)> {
        if !self.filled.iter().all(|filled| filled.load(Ordering::Acquire)) {
            return None;
        }
        let set = self.sets.state().first().map(|set| set.as_ref().clone())?;
        let objects = Objects {
            cliques: state(&self.cliques),
            groups: state(&self.groups),
            gangs: state(&self.gangs),
            pods: state(&self.pods),
            revisions: self.revisions.as_ref().map(state).unwrap_or_default(),
            nodes: self.nodes.clone(),
            topologies: self.topologies.clone(),
            domains: self.domains.as_ref().map(state).unwrap_or_default(),
        };
        Some((set, objects))
    }
}

/// Waits for a change, and for those that come close behind it: they are shown together.
pub(crate) async fn settled(changes: &mut Changes) -> Result<()> {
    changes.next().await.context("the watch ended")??;
    let pause = tokio::time::sleep(REDRAW_PAUSE);
    tokio::pin!(pause);
    loop {
        tokio::select! {
            () = &mut pause => return Ok(()),
            change = changes.next() => change.context("the watch ended")??,
        }
    }
}

/// What a store holds now.
pub(crate) fn state<K>(store: &Store<K>) -> Vec<K>
where
    K: kube::Resource + Clone + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    store.state().iter().map(|object| object.as_ref().clone()).collect()
}

/// The changes of a store, and whether it has been filled.
pub(crate) struct Following {
    pub(crate) changes: Changes,
    filled: Arc<AtomicBool>,
}

/// Keeps a store in step with the objects of a kind.
pub(crate) fn follow<K>(api: Api<K>, config: watcher::Config) -> (Store<K>, Following)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let filled = Arc::new(AtomicBool::new(false));
    let flag = filled.clone();
    let changes = reflector::reflector(writer, watcher(api, config))
        .default_backoff()
        .map(move |event| {
            if matches!(event.context("the watch failed")?, watcher::Event::InitDone) {
                flag.store(true, Ordering::Release);
            }
            Ok(())
        });
    let changes = changes.boxed();
    (store, Following { changes, filled })
}
