//! The plan that is stored on a gang, how far it has been carried out, and which pods it allows to be released.
//!
//! Owns the form in which a plan is stored ([`annotations::PLACEMENT_PLAN`](coppice_api::names::annotations)): UIDs of
//! pods by node, so that a scheduler that takes over completes what its predecessor began. A plan holds for the very pods
//! it was made for. It has no effect once all of them are bound, and none once one of them is gone, is being deleted, or has
//! another node: names come back, UIDs do not. What cannot be read, such as a plan with names of pods, is no plan.
//!
//! Assumes that floors are planned all at once, so that a gang whose plan has neither lost a pod nor been carried out has not
//! been whole since that plan was made. Never allows a pod to be released that has been Ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_runtime::cache::{Meta, ObjectKey};
use serde::{Deserialize, Serialize};

use super::{Model, PodRecord};

/// A plan as it is stored: UIDs of pods by node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPlan {
    /// UIDs of pods by name of the node.
    pub uids: BTreeMap<String, Vec<String>>,
}

impl StoredPlan {
    /// A plan from pairs of a pod's UID and the name of its node.
    pub fn new<'a>(bindings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut plan = Self::default();
        bindings.into_iter().for_each(|(uid, node)| plan.add(uid, node));
        plan
    }

    /// Adds a pod.
    pub fn add(&mut self, uid: &str, node: &str) {
        let uids = self.uids.entry(node.to_owned()).or_default();
        if let Err(at) = uids.binary_search_by(|known| known.as_str().cmp(uid)) {
            uids.insert(at, uid.to_owned());
        }
    }

    /// The node of each pod, by UID.
    #[must_use]
    pub fn nodes_by_uid(&self) -> BTreeMap<&str, &str> {
        let uids = self.uids.iter();
        uids.flat_map(|(node, uids)| uids.iter().map(|uid| (uid.as_str(), node.as_str())))
            .collect()
    }

    /// As it is written into the annotation.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("UIDs and names are text")
    }
}

/// A stored plan that has not been carried out, and still can be.
#[derive(Debug, Clone, Default)]
pub struct UnfinishedPlan {
    /// Its pods that have their node, or are about to get it.
    pub bound: Vec<(Arc<PodRecord>, Arc<str>)>,
    /// The nodes of those that wait; at least one does.
    pub pending: BTreeMap<ObjectKey, String>,
}

impl Model {
    /// The plan stored on a gang, if it is neither carried out nor void.
    #[must_use]
    pub fn unfinished_plan(&self, gang: &ObjectKey) -> Option<UnfinishedPlan> {
        let mut nodes = self.gangs.get(gang)?.plan.nodes_by_uid();
        let mut progress = UnfinishedPlan::default();
        for pod in self.member_pods(gang).filter(|pod| pod.counts()) {
            let Some(planned) = nodes.remove(&*pod.meta.uid) else {
                continue;
            };
            match self.node_of(pod) {
                Some(node) if *node == *planned => progress.bound.push((pod.clone(), node)),
                Some(_) => return None,
                None => {
                    progress.pending.insert(pod.meta.key.clone(), planned.to_owned());
                }
            }
        }
        let all_exist = nodes.is_empty();
        (all_exist && !progress.pending.is_empty()).then_some(progress)
    }

    /// The bound pods of a gang that could be deleted because the gang was bound in part: they are all it has on nodes, an
    /// unfinished plan bound them, and nothing says that the gang has been whole or that one of its pods has been Ready.
    /// Empty otherwise.
    #[must_use]
    pub fn releasable_pods(&self, gang: &ObjectKey) -> Vec<Meta> {
        let said_whole = self.gangs.get(gang).is_none_or(|record| record.was_whole);
        let Some(plan) = self.unfinished_plan(gang).filter(|_| !said_whole) else {
            return Vec::new();
        };
        let mut placed = 0;
        for pod in self.member_pods(gang) {
            let being_bound = self.assumed.contains_key(&pod.meta.key);
            if pod.has_been_ready || being_bound {
                return Vec::new();
            }
            placed += usize::from(pod.takes_room());
        }
        if placed != plan.bound.len() {
            return Vec::new();
        }
        plan.bound.iter().map(|(pod, _)| pod.meta.clone()).collect()
    }

    /// All pods that name a gang, those that are ending or have ended too.
    pub(super) fn member_pods(&self, gang: &ObjectKey) -> impl Iterator<Item = &Arc<PodRecord>> {
        let keys = self.members.get(gang).into_iter().flatten();
        keys.filter_map(|key| self.pods.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_with_names_is_no_plan() {
        let old = r#"{"nodes":{"n1":["a-0","a-1"]}}"#;
        assert!(serde_json::from_str::<StoredPlan>(old).is_err());
        let plan = StoredPlan::new([("u2", "n1"), ("u1", "n1"), ("u3", "n2")]);
        assert_eq!(plan.to_text(), r#"{"uids":{"n1":["u1","u2"],"n2":["u3"]}}"#);
        assert_eq!(plan.nodes_by_uid().get("u3"), Some(&"n2"));
    }
}
