//! From the volumes of a pod to what they ask of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_placement::predicates::{Expression, Node, NodeSelector, NodeTerm, Operator, VolumeReach};
use coppice_placement::resources::attach_limit;
use coppice_placement::shape::{HOSTNAME, PodDemands};
use coppice_placement::volume::{UnboundClaim, VolumeSource};
use coppice_runtime::cache::ObjectKey;

use super::{ClaimRecord, PodVolume, Promise, Provision, Storage, VolumeRecord};
use crate::model::{Model, PodRecord};

impl PodVolume {
    /// The key of the claim.
    pub(in crate::model) fn claim_of(&self, pod: &PodRecord) -> ObjectKey {
        ObjectKey::new(pod.meta.key.namespace.clone(), self.claim.clone())
    }

    /// What it is, for people; the same for all pods of a clique.
    pub(super) fn what(&self, volume: Option<&str>) -> String {
        let mut what = match self.ephemeral {
            true => format!("ephemeral volume {:?}", self.name),
            false => format!("volume claim {:?}", self.claim),
        };
        if let Some(volume) = volume.filter(|_| !self.ephemeral) {
            what.push_str(&format!(" (volume {volume:?})"));
        }
        what
    }
}

fn one_of(key: &str, values: Vec<String>) -> Expression {
    Expression {
        key: key.to_owned(),
        operator: Operator::In,
        values,
    }
}

fn only(node: &str) -> NodeSelector {
    NodeSelector {
        terms: vec![NodeTerm {
            fields: vec![one_of("metadata.name", vec![node.to_owned()])],
            ..NodeTerm::default()
        }],
    }
}

impl VolumeRecord {
    fn reach(&self) -> impl Iterator<Item = &NodeSelector> {
        self.nodes.iter().chain(&self.zone)
    }

    /// Whether a node can use it.
    #[must_use]
    pub fn reaches(&self, node: &Node) -> bool {
        self.reach().all(|nodes| nodes.matches(node))
    }
}

impl Storage {
    /// Whether what a claim will be is a choice for the gang as a whole: it is shared, or a volume that exists has to be found.
    fn is_choice(&self, volume: &PodVolume, claim: &ClaimRecord) -> bool {
        let made = self.class_of(claim).is_some_and(|class| class.provisioner.is_some());
        self.waits(claim) && !(volume.ephemeral && made)
    }

    /// Adds what the volumes of a pod ask of nodes; of one that has a node, what they take there.
    pub(in crate::model) fn dress(&self, pod: &PodRecord, demands: &mut PodDemands) {
        for volume in &pod.volumes {
            let key = volume.claim_of(pod);
            let Some(claim) = self.claims.get(&key) else { continue };
            let bound = claim.volume.as_ref().filter(|_| claim.bound);
            let bound = bound.and_then(|name| self.volumes.get(name));
            self.attach(volume, claim, bound, demands);
            if pod.node.is_some() {
                continue;
            }
            if let Some(bound) = bound {
                let what = volume.what(Some(&bound.meta.key.name));
                demands.node.volumes.extend(bound.reach().map(|nodes| VolumeReach {
                    what: what.clone(),
                    nodes: nodes.clone(),
                }));
            } else if self.is_choice(volume, claim) {
                demands.claims.insert(key.to_string());
            } else if self.waits(claim)
                && let Some(class) = self.class_of(claim)
            {
                let selected = claim.selected_node.as_deref().map(only);
                let nodes = class.nodes.clone().into_iter();
                let nodes = nodes.chain(self.with_capacity(class, claim)).chain(selected);
                demands.node.volumes.extend(nodes.map(|nodes| VolumeReach {
                    what: volume.what(None),
                    nodes,
                }));
            }
        }
    }

    /// Counts a volume against the limit of its driver, where some node has one.
    fn attach(
        &self,
        volume: &PodVolume,
        claim: &ClaimRecord,
        bound: Option<&Arc<VolumeRecord>>,
        demands: &mut PodDemands,
    ) {
        let of_class = || self.class_of(claim)?.provisioner.clone();
        let (driver, handle) = match bound {
            Some(bound) => match bound.driver.clone() {
                Some(known) => known,
                None => return,
            },
            None => match of_class() {
                Some(driver) => (driver, format!("claim {}", claim.meta.key)),
                None => return,
            },
        };
        if !self.limited.contains_key(&driver) {
            return;
        }
        let resource = attach_limit(&driver);
        if volume.ephemeral {
            // No other pod uses it; so pods that differ in nothing else stay alike.
            *demands.requests.entry(resource).or_default() += 1;
        } else {
            demands.attached.entry(resource).or_default().insert(handle);
        }
    }

    /// A node with its limits of attached volumes: one without a limit takes any number.
    pub(in crate::model) fn with_limits(&self, mut node: Node) -> Node {
        const ANY: i64 = 1 << 40;
        let drivers = self.nodes.get(node.name.as_str());
        for driver in self.limited.keys() {
            let known = drivers.and_then(|node| node.drivers.get(driver));
            let limit = known.and_then(|(limit, _)| *limit).unwrap_or(ANY);
            node.allocatable.insert(attach_limit(driver), limit);
        }
        node
    }

    /// Where a claim that is not bound could be served from.
    fn unbound(&self, claim: &ClaimRecord, nodes: &BTreeMap<String, Node>) -> Vec<VolumeSource> {
        let Some(class) = self.class_of(claim) else {
            return Vec::new();
        };
        let existing = |volume: &Arc<VolumeRecord>| VolumeSource::Volume {
            name: volume.meta.key.name.to_string(),
            nodes: volume.nodes.clone(),
        };
        let keys = class.provisioner.as_deref().map(|driver| match self.keys_of(driver) {
            Some(keys) => keys.to_vec(),
            // Nothing is known of the driver. A volume that nodes cannot share is then taken to stay on its node.
            None if claim.is_of_one_node() => vec![HOSTNAME.to_owned()],
            None => Vec::new(),
        });
        let promise = self.promises.get(&claim.meta.key);
        if let Some(name) = promise.and_then(|promise| promise.volume.as_ref()) {
            return self.volumes.get(name).map(existing).into_iter().collect();
        }
        let selected = claim.selected_node.as_ref().or(promise.map(|promise| &promise.node));
        if let Some((selected, keys)) = selected.zip(keys.as_ref()) {
            return vec![VolumeSource::Provisioned {
                keys: Vec::new(),
                nodes: around(nodes.get(&**selected), selected, keys).into_iter().collect(),
            }];
        }
        let free = self.free.get(&claim.class).into_iter().flatten();
        let free = free.filter_map(|name| self.volumes.get(name));
        let mut suited: Vec<&Arc<VolumeRecord>> = free.filter(|volume| volume.suits(claim)).collect();
        suited.sort_by_key(|volume| (volume.size, volume.meta.key.name.clone()));
        let mut sources: Vec<VolumeSource> = suited.into_iter().map(existing).collect();
        sources.extend(keys.map(|keys| {
            VolumeSource::Provisioned {
                keys,
                nodes: class
                    .nodes
                    .clone()
                    .into_iter()
                    .chain(self.with_capacity(class, claim))
                    .collect(),
            }
        }));
        sources
    }
}

/// The nodes that share a place with one; nothing means all.
fn around(node: Option<&Node>, name: &str, keys: &[String]) -> Option<NodeSelector> {
    if keys.is_empty() {
        return None;
    }
    let value = |key: &String| Some(one_of(key, vec![node?.labels.get(key)?.clone()]));
    let Some(expressions) = keys.iter().map(value).collect::<Option<Vec<Expression>>>() else {
        return Some(only(name));
    };
    Some(NodeSelector {
        terms: vec![NodeTerm {
            expressions,
            ..NodeTerm::default()
        }],
    })
}

impl Model {
    /// The claims that shapes name, for the engine.
    pub(in crate::model) fn unbound_claims<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> BTreeMap<String, Arc<UnboundClaim>> {
        let mut claims = BTreeMap::new();
        for name in names {
            let Some((namespace, claim)) = name.split_once('/') else {
                continue;
            };
            let Some(record) = self.storage.claims.get(&ObjectKey::new(namespace, claim)) else {
                continue;
            };
            if !claims.contains_key(name) {
                let unbound = UnboundClaim {
                    what: format!("volume claim {claim:?}"),
                    sources: self.storage.unbound(record, &self.nodes),
                };
                claims.insert(name.clone(), Arc::new(unbound));
            }
        }
        claims
    }

    /// What has to be done for the claims of a pod before it can be bound to a node. `chosen` are the choices made for
    /// the gang as a whole.
    pub(crate) fn provisions(
        &self,
        pod: &PodRecord,
        node: &str,
        chosen: &BTreeMap<String, coppice_placement::plan::ChosenVolume>,
    ) -> Vec<Provision> {
        let mut provisions = Vec::new();
        for volume in &pod.volumes {
            let key = volume.claim_of(pod);
            let Some(claim) = self.storage.claims.get(&key).filter(|claim| !claim.bound) else {
                continue;
            };
            let promise = match chosen.get(&key.to_string()) {
                Some(chosen) => Promise {
                    volume: chosen.volume.as_deref().map(Into::into),
                    node: chosen.node.as_str().into(),
                },
                None => Promise {
                    volume: None,
                    node: node.into(),
                },
            };
            provisions.push(Provision {
                uid: claim.meta.uid.clone(),
                claim: key,
                what: volume.what(None),
                promise,
            });
        }
        provisions
    }
}
