//! Init containers that end only when other pods are ready.
//!
//! Owns the rules by which a simulated init container, recognised by its name, waits for other pods, and the index
//! that answers "how many ready pods carry these labels" and "who waits for them" without scanning. The rule for
//! [`clique_wait_rule`] is the one operators of pod cliques use; the kubelet knows nothing of it beyond this
//! interface. It assumes that waiting looks only at pods of the same namespace.

use crate::kubelet::pod::Pod;
use coppice_runtime::cache::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an init container needs before it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The values of the rule's labels that counted pods must carry, in the rule's order.
    pub label_values: Vec<String>,
    /// How many such pods must be ready.
    pub at_least: u32,
}

/// Reads requirements from a container's arguments and its pod's labels; the error is what the container would log.
pub type ReadRequirements = fn(&[String], &BTreeMap<String, String>) -> Result<Vec<Requirement>, String>;

/// How init containers of one name wait.
#[derive(Clone, Debug)]
pub struct WaitRule {
    /// The name of the init container.
    pub container_name: &'static str,
    /// The labels by which pods are counted.
    pub labels: &'static [&'static str],
    /// Reads the requirements from the container's arguments and the pod's labels.
    pub requirements: ReadRequirements,
}

/// Whether a waiting container may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitState {
    /// It may end.
    Free,
    /// It has to wait.
    Blocked,
    /// It cannot make sense of its arguments and exits with an error.
    Invalid(String),
}

/// The rule of the init container `grove-initc`: each `--podcliques=<clique>:<minimum>` asks for that many ready pods of
/// the clique inside the pod's own gang.
pub fn clique_wait_rule() -> WaitRule {
    WaitRule {
        container_name: coppice_initc::CONTAINER,
        labels: &[coppice_initc::CLIQUE_LABEL, coppice_initc::GANG_LABEL],
        requirements: clique_requirements,
    }
}

fn clique_requirements(args: &[String], labels: &BTreeMap<String, String>) -> Result<Vec<Requirement>, String> {
    let gang = labels.get(coppice_initc::GANG_LABEL).cloned().unwrap_or_default();
    let parents = coppice_initc::arguments(args).map_err(|error| error.to_string())?;
    let requirement = |parent: coppice_initc::Parent| Requirement {
        label_values: vec![parent.clique, gang.clone()],
        at_least: parent.minimum,
    };
    Ok(parents.into_iter().map(requirement).collect())
}

/// Namespace, rule and label values that are counted together.
pub(crate) type Group = (Arc<str>, &'static str, Vec<String>);

/// Ready pods by label values, and the pods that wait for them.
#[derive(Debug, Default)]
pub(crate) struct WaitIndex {
    rules: Vec<WaitRule>,
    ready: BTreeMap<Group, BTreeSet<ObjectKey>>,
    waiting: BTreeMap<Group, BTreeSet<ObjectKey>>,
    waits_of: BTreeMap<ObjectKey, BTreeSet<Group>>,
    groups_of: BTreeMap<ObjectKey, Vec<Group>>,
}

impl WaitIndex {
    pub(crate) fn new(rules: Vec<WaitRule>) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Notes whether a pod is ready. Returns the pods that wait for such a change.
    pub(crate) fn note(&mut self, pod: &Pod) -> BTreeSet<ObjectKey> {
        let groups: Vec<Group> = if coppice_initc::counts(pod.status.is_ready(), pod.deletion_grace.is_some()) {
            self.rules.iter().filter_map(|rule| group_of(rule, pod)).collect()
        } else {
            Vec::new()
        };
        self.replace(&pod.meta.key, groups)
    }

    /// Forgets a pod that is gone. Returns the pods that wait for such a change.
    pub(crate) fn forget(&mut self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        self.stop_waiting(key);
        self.replace(key, Vec::new())
    }

    fn replace(&mut self, key: &ObjectKey, groups: Vec<Group>) -> BTreeSet<ObjectKey> {
        let old = self.groups_of.remove(key).unwrap_or_default();
        if old == groups {
            if !groups.is_empty() {
                self.groups_of.insert(key.clone(), groups);
            }
            return BTreeSet::new();
        }
        let mut affected = BTreeSet::new();
        for group in &old {
            remove(&mut self.ready, group, key);
        }
        for group in &groups {
            self.ready.entry(group.clone()).or_default().insert(key.clone());
        }
        for group in old.iter().chain(&groups) {
            affected.extend(self.waiting.get(group).into_iter().flatten().cloned());
        }
        if !groups.is_empty() {
            self.groups_of.insert(key.clone(), groups);
        }
        affected
    }

    /// Whether an init container may end. If not, the pod is marked when a count changes.
    pub(crate) fn check(&self, pod: &Pod, name: &str, args: &[String]) -> (WaitState, BTreeSet<Group>) {
        let Some(rule) = self.rules.iter().find(|rule| rule.container_name == name) else {
            return (WaitState::Free, BTreeSet::new());
        };
        let requirements = match (rule.requirements)(args, &pod.labels) {
            Ok(requirements) => requirements,
            Err(problem) => return (WaitState::Invalid(problem), BTreeSet::new()),
        };
        let mut missing = BTreeSet::new();
        for requirement in requirements {
            let group = (
                pod.meta.key.namespace.clone(),
                rule.container_name,
                requirement.label_values,
            );
            let count = self.ready.get(&group).map_or(0, BTreeSet::len);
            if count < usize::try_from(requirement.at_least).unwrap_or(usize::MAX) {
                missing.insert(group);
            }
        }
        if missing.is_empty() {
            (WaitState::Free, missing)
        } else {
            (WaitState::Blocked, missing)
        }
    }

    /// Sets what a pod waits for.
    pub(crate) fn wait_for(&mut self, key: &ObjectKey, groups: BTreeSet<Group>) {
        if self.waits_of.get(key) == Some(&groups) {
            return;
        }
        self.stop_waiting(key);
        for group in &groups {
            self.waiting.entry(group.clone()).or_default().insert(key.clone());
        }
        if !groups.is_empty() {
            self.waits_of.insert(key.clone(), groups);
        }
    }

    fn stop_waiting(&mut self, key: &ObjectKey) {
        for group in self.waits_of.remove(key).unwrap_or_default() {
            remove(&mut self.waiting, &group, key);
        }
    }
}

fn group_of(rule: &WaitRule, pod: &Pod) -> Option<Group> {
    let values: Option<Vec<String>> = rule
        .labels
        .iter()
        .map(|label| pod.labels.get(*label).cloned())
        .collect();
    Some((pod.meta.key.namespace.clone(), rule.container_name, values?))
}

fn remove(map: &mut BTreeMap<Group, BTreeSet<ObjectKey>>, group: &Group, key: &ObjectKey) {
    if let Some(keys) = map.get_mut(group) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::pod::Projection;
    use crate::view::tests::view;
    use coppice_initc::{CLIQUE_LABEL, GANG_LABEL};
    use serde_json::json;

    fn member(name: &str, clique: &str, gang: &str, ready: bool) -> Pod {
        let projection = Projection {
            labels: [CLIQUE_LABEL.to_owned(), GANG_LABEL.to_owned()].into(),
            init_containers: BTreeSet::new(),
        };
        view(
            &projection.reduced(),
            json!({
                "metadata": {
                    "namespace": "default", "name": name, "uid": name, "resourceVersion": "1",
                    "labels": {CLIQUE_LABEL: clique, GANG_LABEL: gang},
                },
                "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
            }),
        )
    }

    fn index() -> WaitIndex {
        WaitIndex::new(vec![clique_wait_rule()])
    }

    fn check(index: &mut WaitIndex, pod: &Pod, args: &[&str]) -> WaitState {
        let args: Vec<String> = args.iter().map(|argument| (*argument).to_owned()).collect();
        let (state, groups) = index.check(pod, "grove-initc", &args);
        index.wait_for(&pod.meta.key, groups);
        state
    }

    #[test]
    fn a_pod_waits_until_enough_parents_of_its_own_gang_are_ready() {
        let mut index = index();
        let waiter = member("worker-0", "worker", "gang-0", false);
        let args = ["--podcliques=leader:2"];
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Blocked);
        assert_eq!(
            index.note(&member("leader-0", "leader", "gang-0", true)),
            [waiter.meta.key.clone()].into()
        );
        assert!(
            index.note(&member("leader-9", "leader", "gang-1", true)).is_empty(),
            "another gang"
        );
        assert!(
            index.note(&member("router-0", "router", "gang-0", true)).is_empty(),
            "another clique"
        );
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Blocked);
        index.note(&member("leader-1", "leader", "gang-0", true));
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Free);
        assert!(
            index.note(&member("leader-2", "leader", "gang-0", true)).is_empty(),
            "nobody waits any more"
        );
    }

    #[test]
    fn every_parent_counts_and_lost_readiness_counts_against() {
        let mut index = index();
        let waiter = member("worker-0", "worker", "gang", false);
        let args = ["--podcliques=leader:1", "-p", "router:1"];
        index.note(&member("leader-0", "leader", "gang", true));
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Blocked);
        index.note(&member("router-0", "router", "gang", true));
        index.note(&member("leader-0", "leader", "gang", false));
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Blocked);
        index.note(&member("leader-0", "leader", "gang", true));
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Free);
        index.forget(&member("router-0", "router", "gang", true).meta.key);
        assert_eq!(check(&mut index, &waiter, &args), WaitState::Blocked);
    }

    #[test]
    fn pods_of_other_namespaces_do_not_count() {
        let mut index = index();
        let mut elsewhere = member("leader-0", "leader", "gang", true);
        elsewhere.meta.key.namespace = "other".into();
        index.note(&elsewhere);
        let waiter = member("worker-0", "worker", "gang", false);
        assert_eq!(
            check(&mut index, &waiter, &["--podcliques=leader:1"]),
            WaitState::Blocked
        );
    }

    #[test]
    fn bad_arguments_are_told() {
        let mut index = index();
        let waiter = member("worker-0", "worker", "gang", false);
        for args in [
            ["--podcliques=leader"].as_slice(),
            &["--podcliques=a:b:1"],
            &["--podcliques=a:0"],
            &["--podcliques=a:-1"],
            &["-p"],
            &["--verbose"],
        ] {
            assert!(
                matches!(check(&mut index, &waiter, args), WaitState::Invalid(_)),
                "{args:?}"
            );
        }
        assert_eq!(
            check(&mut index, &waiter, &["--podcliques=, ,"]),
            WaitState::Free,
            "blank entries are skipped"
        );
    }

    #[test]
    fn containers_without_a_rule_are_free() {
        let (state, groups) = index().check(&member("a", "b", "c", false), "setup", &[]);
        assert_eq!((state, groups.len()), (WaitState::Free, 0));
    }
}
