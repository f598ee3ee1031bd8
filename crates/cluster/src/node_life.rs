//! The signs of life of simulated nodes.
//!
//! Owns node leases and the conditions a kubelet posts about its node: `Ready` and the pressures. A node without
//! power posts nothing. Conditions are written only when they are not what they should be, leases at a configurable
//! interval or not at all; a quiet cluster without leases causes no writes. It never judges the health of nodes:
//! that is [`crate::node_lifecycle`].

use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::node_view::{Node, NodeCondition, NodeSelection, Nodes};
use coppice_runtime::cache::Change;
use coppice_runtime::clock::{SharedClock, later, whole_second};
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{self, Precondition, WriteError, Writer};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
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
    (!conditions.is_empty()).then(|| json!({"status": {"conditions": conditions}}))
}

/// Keeps all selected nodes alive until told to stop.
pub(crate) fn run(
    client: Client,
    nodes: &Nodes,
    options: NodeLifeOptions,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let concurrency = options.concurrency;
    let life = NodeLife {
        requests: Requests {
            writer: writer(client.clone(), MANAGER, concurrency),
            client,
            nodes: nodes.clone(),
            clock: Arc::clone(clock),
        },
        options,
        entries: BTreeMap::new(),
    };
    let shell = Shell::new(life, concurrency, clock);
    shell.follow(nodes, NodeLife::node_changed);
    shell.run(async {}, stop)
}

struct Entry {
    node: Arc<Node>,
    renewed: Option<Timestamp>,
}

struct NodeLife {
    requests: Requests,
    options: NodeLifeOptions,
    entries: BTreeMap<Arc<str>, Entry>,
}

impl NodeLife {
    fn node_changed(&mut self, change: &Change<Node>, _now: Timestamp, queue: &Queue<Arc<str>>) {
        let name = &change.key.name;
        let node = self.requests.nodes.latest(&change.key);
        let Some(node) = node.filter(|node| self.options.nodes.includes(node)) else {
            self.entries.remove(name);
            return;
        };
        let known = self.entries.get(name);
        let renewed = known
            .filter(|known| known.node.meta.uid == node.meta.uid)
            .and_then(|known| known.renewed);
        self.entries.insert(name.clone(), Entry { node, renewed });
        queue.mark(name.clone(), Priority::High);
    }
}

impl Controller for NodeLife {
    type Key = Arc<str>;
    /// When the lease was renewed.
    type Outcome = Option<Timestamp>;
    const NAME: &'static str = "node life";

    fn begin(&mut self, name: &Arc<str>, now: Timestamp, queue: &Queue<Arc<str>>) -> Option<Action<Self::Outcome>> {
        let entry = self.entries.get(name)?;
        let duties = duties(&entry.node, entry.renewed, self.options.lease_interval, now);
        if let Some(next) = duties.next {
            queue.mark_at(name.clone(), next);
        }
        if duties.status.is_none() && !duties.renew {
            return None;
        }
        Some(self.requests.clone().post(Arc::clone(&entry.node), duties).boxed())
    }

    fn finish(&mut self, name: &Arc<str>, renewed: Self::Outcome, _now: Timestamp, _queue: &Queue<Arc<str>>) {
        if let Some(entry) = self.entries.get_mut(name)
            && renewed.is_some()
        {
            entry.renewed = renewed;
        }
    }
}

/// What requests are made with.
#[derive(Clone)]
struct Requests {
    /// For leases, which are not cached.
    client: Client,
    writer: Writer,
    nodes: Nodes,
    clock: SharedClock,
}

impl Requests {
    async fn post(self, node: Arc<Node>, duties: Duties) -> Result<Option<Timestamp>, WriteError> {
        let mut renewed = None;
        if duties.renew {
            let now = self.clock.now();
            renew_lease(&self.client, &node, now).await?;
            renewed = Some(now);
        }
        if let Some(patch) = duties.status {
            let (known, patch) = (Precondition::uid(&node.meta), write::Patch::Strategic(patch));
            let answer = self.writer.patch_status(&self.nodes, &node.meta.key, &known, patch);
            unless_changed(answer.await)?;
        }
        Ok(renewed)
    }
}

async fn renew_lease(client: &Client, node: &Node, now: Timestamp) -> Result<(), WriteError> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    let name = node.name();
    let patch = json!({"spec": {"renewTime": MicroTime(now), "holderIdentity": name}});
    let renewed = leases
        .patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(&patch))
        .await;
    match renewed.map_err(WriteError::from) {
        Err(WriteError::NotFound(_)) => {}
        renewed => return renewed.map(drop),
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.to_owned(),
                uid: node.meta.uid.to_string(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(LEASE_DURATION_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    let create = async || {
        let created = leases.create(&PostParams::default(), &lease).await;
        created.map(drop).map_err(WriteError::from)
    };
    match create().await {
        Err(WriteError::AlreadyExists(_)) => Ok(()),
        Err(WriteError::NotFound(_)) => {
            ensure_namespace(client, LEASE_NAMESPACE).await?;
            create().await
        }
        created => created,
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
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop),
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
