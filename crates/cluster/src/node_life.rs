//! The signs of life of simulated nodes.
//!
//! Owns node leases and the conditions a kubelet posts about its node: `Ready` and the pressures. A node without
//! power posts nothing. Conditions are written only when they are not what they should be, leases at a configurable
//! interval or not at all; a quiet cluster without leases causes no writes. It never judges the health of nodes:
//! that is [`crate::node_lifecycle`].

use crate::clock::{Clock, later, whole_second};
use crate::engine::queue::Queue;
use crate::engine::requests::{is_conflict, is_not_found, patch_as};
use crate::engine::watch::{Change, Listing, changes};
use crate::engine::{self, Action, Controller};
use crate::node_view::{Node, NodeCondition, NodeObject, NodeSelection};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PostParams};
use kube::runtime::watcher;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The namespace of node leases.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
const MANAGER: &str = "coppice-kubelet";
const LEASE_DURATION_SECONDS: i32 = 40;

/// How nodes show that they live.
#[derive(Clone, Debug)]
pub(crate) struct NodeLifeOptions {
    pub(crate) nodes: NodeSelection,
    /// Time between two renewals of a lease; none for no leases at all.
    pub(crate) lease_interval: Option<Duration>,
    pub(crate) concurrency: usize,
}

/// What a node has to do now.
#[derive(Clone, Debug, Default, PartialEq)]
struct Duties {
    /// Patch of the node's status.
    status: Option<Value>,
    /// Renew the lease.
    renew: bool,
    /// When to look again.
    next: Option<Timestamp>,
}

/// Decides what a node's kubelet posts now. `renewed` is when it last renewed the lease.
fn duties(node: &Node, renewed: Option<Timestamp>, interval: Option<Duration>, now: Timestamp) -> Duties {
    if !node.powered || node.deleting {
        return Duties::default();
    }
    let due = interval.map(|interval| renewed.map_or(now, |renewed| later(renewed, interval)));
    let renew = due.is_some_and(|due| due <= now);
    let next = match interval {
        Some(interval) if renew => Some(later(now, interval)),
        _ => due,
    };
    Duties {
        status: status_patch(node, now),
        renew,
        next,
    }
}

fn status_patch(node: &Node, now: Timestamp) -> Option<Value> {
    let wanted = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("Ready", "True", "KubeletReady", "kubelet is simulated and ready"),
    ];
    let now = whole_second(now);
    let conditions: Vec<NodeCondition> = wanted
        .into_iter()
        .filter(|(kind, status, ..)| node.condition(kind).is_none_or(|condition| condition.status != *status))
        .map(|(kind, status, reason, message)| NodeCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(now),
            last_transition_time: Some(now),
        })
        .collect();
    (!conditions.is_empty()).then(|| json!({"metadata": {"uid": node.uid}, "status": {"conditions": conditions}}))
}

/// Keeps all selected nodes alive until told to stop.
pub(crate) async fn run(client: Client, options: NodeLifeOptions, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let events = changes(
        Api::<NodeObject>::all(client.clone()),
        watcher::Config::default(),
        Node::from_object,
    );
    let concurrency = options.concurrency;
    let life = NodeLife {
        client,
        options,
        clock: Arc::clone(&clock),
        nodes: BTreeMap::new(),
        listing: Listing::default(),
    };
    engine::run(life, events.boxed(), clock, concurrency, stop).await;
}

struct Entry {
    node: Node,
    renewed: Option<Timestamp>,
}

struct NodeLife {
    client: Client,
    options: NodeLifeOptions,
    clock: Arc<dyn Clock>,
    nodes: BTreeMap<String, Entry>,
    listing: Listing<String>,
}

struct Posted {
    node: Option<Node>,
    renewed: Option<Timestamp>,
}

impl NodeLife {
    fn applied(&mut self, node: Node, queue: &mut Queue<String>) {
        if !self.options.nodes.includes(&node) {
            self.nodes.remove(&node.name);
            return;
        }
        let name = node.name.clone();
        let known = self.nodes.get(&name).filter(|known| known.node.uid == node.uid);
        if known.is_some_and(|known| node.version() <= known.node.version()) {
            return;
        }
        let renewed = known.and_then(|known| known.renewed);
        self.nodes.insert(name.clone(), Entry { node, renewed });
        queue.mark(name);
    }

    fn gone(&mut self, name: &String, queue: &mut Queue<String>) {
        self.nodes.remove(name);
        queue.forget(name);
    }
}

impl Controller for NodeLife {
    type Key = String;
    type Event = Change<Node>;
    type Outcome = Posted;
    const NAME: &'static str = "node life";

    fn observe(&mut self, event: Change<Node>, _now: Timestamp, queue: &mut Queue<String>) {
        match event {
            Change::ListStarted => self.listing.start(),
            Change::Applied(node) => {
                self.listing.saw(&node.name);
                self.applied(node, queue);
            }
            Change::Deleted(node) => self.gone(&node.name, queue),
            Change::ListDone => {
                for name in self.listing.finish(self.nodes.keys()) {
                    self.gone(&name, queue);
                }
            }
        }
    }

    fn begin(&mut self, name: &String, now: Timestamp, queue: &mut Queue<String>) -> Option<Action<Posted>> {
        let entry = self.nodes.get(name)?;
        let duties = duties(&entry.node, entry.renewed, self.options.lease_interval, now);
        if let Some(next) = duties.next {
            queue.wake_at(name.clone(), next);
        }
        if duties.status.is_none() && !duties.renew {
            return None;
        }
        Some(post(
            self.client.clone(),
            entry.node.clone(),
            duties,
            Arc::clone(&self.clock),
        ))
    }

    fn finish(&mut self, name: &String, posted: Posted, _now: Timestamp, queue: &mut Queue<String>) {
        if let Some(entry) = self.nodes.get_mut(name)
            && posted.renewed.is_some()
        {
            entry.renewed = posted.renewed;
        }
        if let Some(node) = posted.node {
            self.applied(node, queue);
        }
    }
}

fn post(client: Client, node: Node, duties: Duties, clock: Arc<dyn Clock>) -> Action<Posted> {
    async move {
        let mut posted = Posted {
            node: None,
            renewed: None,
        };
        if duties.renew {
            let now = clock.now();
            renew_lease(&client, &node, now).await?;
            posted.renewed = Some(now);
        }
        if let Some(patch) = duties.status {
            let nodes: Api<NodeObject> = Api::all(client);
            match nodes
                .patch_status(&node.name, &patch_as(MANAGER), &Patch::Strategic(&patch))
                .await
            {
                Ok(object) => posted.node = Some(Node::from_object(object)),
                Err(error) if is_not_found(&error) || is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(posted)
    }
    .boxed()
}

async fn renew_lease(client: &Client, node: &Node, now: Timestamp) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    let patch = json!({"spec": {"renewTime": MicroTime(now), "holderIdentity": node.name}});
    match leases
        .patch(&node.name, &patch_as(MANAGER), &Patch::Merge(&patch))
        .await
    {
        Ok(_) => return Ok(()),
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(error),
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(node.name.clone()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: node.name.clone(),
                uid: node.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.name.clone()),
            lease_duration_seconds: Some(LEASE_DURATION_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    match leases.create(&PostParams::default(), &lease).await {
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => Ok(()),
        Err(error) if is_not_found(&error) => {
            ensure_namespace(client, LEASE_NAMESPACE).await?;
            leases.create(&PostParams::default(), &lease).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}

/// Creates a namespace unless it is there.
pub(crate) async fn ensure_namespace(client: &Client, name: &str) -> Result<(), kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match namespaces.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Option<Duration> = Some(Duration::from_secs(10));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn healthy() -> Node {
        let condition = |kind: &str, status: &str| NodeCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            ..NodeCondition::default()
        };
        Node {
            powered: true,
            conditions: vec![
                condition("Ready", "True"),
                condition("MemoryPressure", "False"),
                condition("DiskPressure", "False"),
                condition("PIDPressure", "False"),
            ],
            ..Node::default()
        }
    }

    #[test]
    fn a_new_node_posts_all_conditions_and_its_lease() {
        let duties = duties(
            &Node {
                powered: true,
                ..Node::default()
            },
            None,
            INTERVAL,
            at(5),
        );
        assert_eq!(
            duties.status.unwrap()["status"]["conditions"].as_array().unwrap().len(),
            4
        );
        assert!(duties.renew);
        assert_eq!(duties.next, Some(at(15)));
    }

    #[test]
    fn a_healthy_node_only_renews_when_due() {
        let early = duties(&healthy(), Some(at(0)), INTERVAL, at(9));
        assert_eq!(
            early,
            Duties {
                status: None,
                renew: false,
                next: Some(at(10))
            }
        );
        let due = duties(&healthy(), Some(at(0)), INTERVAL, at(10));
        assert_eq!(
            due,
            Duties {
                status: None,
                renew: true,
                next: Some(at(20))
            }
        );
    }

    #[test]
    fn without_leases_a_healthy_node_is_silent() {
        assert_eq!(duties(&healthy(), None, None, at(0)), Duties::default());
    }

    #[test]
    fn a_node_declared_unknown_says_that_it_is_ready() {
        let mut node = healthy();
        node.conditions[0].status = "Unknown".to_owned();
        let patch = duties(&node, Some(at(0)), INTERVAL, at(1)).status.unwrap();
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 1);
        assert_eq!(
            (conditions[0]["type"].as_str(), conditions[0]["status"].as_str()),
            (Some("Ready"), Some("True"))
        );
    }

    #[test]
    fn a_dead_node_posts_nothing() {
        let node = Node {
            powered: false,
            ..Node::default()
        };
        assert_eq!(duties(&node, None, INTERVAL, at(100)), Duties::default());
    }
}
