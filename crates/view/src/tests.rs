//! The view and its drawings, against golden files beside this one; COPPICE_BLESS=1 writes them anew.
#![allow(
    clippy::needless_pass_by_value,
    reason = "JSON written in place reads better without a reference"
)]

use coppice_api::names::finalizers::SCHEDULING_GATE;
use coppice_api::types::PodCliqueSet;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::build::{Objects, set_view};
use super::text::{Style, draw};
use super::{SetState, SetView, changes, table};

fn golden(name: &str, actual: &str) {
    crate::golden::check(&format!("golden/{name}"), actual);
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid object")
}

/// A set with a router and a scaling group of two copies, the second of which is a gang of its own.
fn set(status: Value) -> PodCliqueSet {
    let clique = |name: &str, replicas: i32, minimum: i32| {
        json!({"name": name, "spec": {
        "roleName": name, "replicas": replicas, "minAvailable": minimum, "podSpec": {"containers": []}}})
    };
    object(json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": "llm", "namespace": "serving", "generation": 3},
        "spec": {"replicas": 1, "template": {
            "cliques": [clique("router", 2, 1), clique("leader", 1, 1), clique("worker", 2, 2)],
            "podCliqueScalingGroups": [
                {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}]}},
        "status": status,
    }))
}

struct World(Objects);

impl World {
    fn new() -> Self {
        let topology = json!({"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
            "metadata": {"name": "racks"},
            "spec": {"levels": [{"domain": "zone", "key": "zone"}, {"domain": "rack", "key": "rack"}]}});
        let node = |name: &str, rack: &str| {
            let node = json!({"metadata": {"name": name, "labels": {"zone": "z1", "rack": rack}}});
            (name.to_owned(), object(node))
        };
        let mut world = Self(Objects {
            topologies: vec![object(topology)],
            nodes: BTreeMap::from([node("n1", "r1"), node("n2", "r1"), node("n3", "r2")]),
            ..Objects::default()
        });
        world.clique("llm-0-router", "llm-0-100001", None, 2);
        for copy in 0..2 {
            let gang = if copy == 0 {
                "llm-0-100001"
            } else {
                "llm-0-100002-decode-1"
            };
            world.clique(&format!("llm-0-decode-{copy}-leader"), gang, Some(copy), 1);
            world.clique(&format!("llm-0-decode-{copy}-worker"), gang, Some(copy), 2);
        }
        world.0.groups.push(object(
            json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup",
            "metadata": {"name": "llm-0-decode", "namespace": "serving"},
            "spec": {"replicas": 2, "minAvailable": 1, "cliqueNames": ["leader", "worker"]},
            "status": {"availableReplicas": 1}}),
        ));
        world
    }

    fn clique(&mut self, name: &str, gang: &str, copy: Option<u32>, replicas: i32) {
        let mut labels = json!({"grove.io/podcliqueset-replica-index": "0", "grove.io/pod-template-hash": "new"});
        if let Some(copy) = copy {
            labels["grove.io/podgang"] = json!(gang);
            labels["grove.io/podcliquescalinggroup"] = json!("llm-0-decode");
            labels["grove.io/podcliquescalinggroup-replica-index"] = json!(copy.to_string());
        }
        self.0
            .cliques
            .push(object(json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
            "metadata": {"name": name, "namespace": "serving", "labels": labels},
            "spec": {"roleName": "r", "replicas": replicas, "podSpec": {"containers": []}}})));
    }

    fn pod(&mut self, clique: &str, gang: &str, index: u32, hash: &str, node: Option<&str>, more: Value) {
        let mut pod = json!({
            "metadata": {"name": format!("{clique}-{index}"), "namespace": "serving", "labels": {
                "grove.io/podclique": clique, "grove.io/podgang": gang,
                "grove.io/podclique-pod-index": index.to_string(), "grove.io/pod-template-hash": hash}},
            "spec": {"nodeName": node, "containers": [
                {"name": "engine", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        json_patch::merge(&mut pod, &more);
        self.0.pods.push(object(pod));
    }

    fn gang(&mut self, name: &str, role: &str, status: Value) {
        self.0.gangs.push(object(
            json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
            "metadata": {"name": name, "namespace": "serving", "annotations": {"grove.io/topology-name": "racks"},
                "labels": {"grove.io/podcliqueset-replica-index": "0", "grove.io/podgang-role": role}},
            "spec": {"podgroups": []}, "status": status}),
        ));
    }

    /// An anchor gang that runs in a rack, and the gang of a further copy of which nothing is placed.
    fn half_running() -> Self {
        let mut world = Self::new();
        let ready = || json!({});
        let unplaced = || {
            json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "no rack has 12 GPUs"}]}})
        };
        world.pod("llm-0-router", "llm-0-100001", 0, "new", Some("n1"), ready());
        world.pod("llm-0-router", "llm-0-100001", 1, "old", Some("n2"), ready());
        world.pod("llm-0-decode-0-leader", "llm-0-100001", 0, "new", Some("n1"), ready());
        world.pod("llm-0-decode-0-worker", "llm-0-100001", 0, "new", Some("n1"), ready());
        let crash = json!({"status": {"conditions": [], "containerStatuses": [{"name": "engine", "image": "", "imageID": "",
            "ready": false, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        world.pod("llm-0-decode-0-worker", "llm-0-100001", 1, "new", Some("n2"), crash);
        world.pod(
            "llm-0-decode-1-leader",
            "llm-0-100002-decode-1",
            0,
            "new",
            None,
            unplaced(),
        );
        let gated = json!({"spec": {"schedulingGates": [{"name": SCHEDULING_GATE}]}, "status": {"conditions": []}});
        world.pod("llm-0-decode-1-worker", "llm-0-100002-decode-1", 0, "new", None, gated);
        let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        world.pod(
            "llm-0-decode-1-worker",
            "llm-0-100002-decode-1",
            1,
            "new",
            Some("n3"),
            leaving,
        );
        world.gang(
            "llm-0-100001",
            "Anchor",
            json!({"phase": "Running", "placementScore": 0.94}),
        );
        world.gang("llm-0-100002-decode-1", "Tail", json!({"phase": "Pending", "conditions": [{"type": "Scheduled", "status": "False",
            "reason": "GangNotScheduled", "message": "no rack has 12 GPUs", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}));
        world
    }
}

fn updating() -> SetView {
    let status = json!({"observedGeneration": 3, "availableReplicas": 1, "replicas": 1,
        "updateProgress": {"updateStartedAt": "2026-01-01T00:00:00Z", "updatedPodCliquesCount": 0,
            "totalPodCliquesCount": 1, "updatedPodCliqueScalingGroupsCount": 1, "totalPodCliqueScalingGroupsCount": 1,
            "currentlyUpdating": [{"replicaIndex": 0, "updateStartedAt": "2026-01-01T00:00:00Z"}]},
        "lastErrors": [{"code": "ERR", "description": "pods \"x\" is forbidden: exceeded quota", "observedAt": "2026-01-01T00:00:00Z"}]});
    set_view(&set(status), &World::half_running().0)
}

#[test]
fn a_tree_in_a_pipe() {
    let style = Style::default();
    golden("updating.txt", &draw(&updating(), style));
    golden("updating-pods.txt", &draw(&updating(), Style { pods: true, ..style }));
}

#[test]
fn a_tree_on_a_terminal() {
    let style = Style {
        terminal: true,
        pods: false,
    };
    golden("updating-terminal.txt", &draw(&updating(), style));
}

#[test]
fn a_set_as_a_document() {
    let json = serde_json::to_string_pretty(&updating()).expect("it can be written");
    golden("updating.json", &(json + "\n"));
}

#[test]
fn a_set_that_was_just_applied_has_its_whole_shape() {
    let view = set_view(&set(json!(null)), &Objects::default());
    assert_eq!(view.state, SetState::Progressing);
    assert_eq!(view.pods.desired, 2 + 2 * 3);
    golden("applied.txt", &draw(&view, Style::default()));
}

#[test]
fn pods_that_ended_are_shown_and_count_for_nothing() {
    let mut world = World::half_running();
    let before = set_view(&set(json!({})), &world.0);
    let ended = json!({"metadata": {"name": "llm-0-router-1-ended"}, "status": {"phase": "Failed", "reason": "Evicted", "conditions": []}});
    world.pod("llm-0-router", "llm-0-100001", 1, "old", Some("n2"), ended);
    let after = set_view(&set(json!({})), &world.0);
    let (before, after) = (&before.replicas[0].cliques[0], &after.replicas[0].cliques[0]);
    assert_eq!((after.count, after.outdated), (before.count, before.outdated));
    assert_eq!(after.pods.len(), before.pods.len() + 1);
}

#[test]
fn states_follow_conditions() {
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "R", "message": "why",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let state = |generation: i64, conditions: Value| {
        let status = json!({"observedGeneration": generation, "conditions": conditions});
        set_view(&set(status), &Objects::default()).state
    };
    assert_eq!(state(3, json!([condition("Ready", "True")])), SetState::Ready);
    // What is said of an earlier generation is not said of this one.
    assert_eq!(state(2, json!([condition("Ready", "True")])), SetState::Progressing);
    assert_eq!(
        state(3, json!([condition("Ready", "True"), condition("Degraded", "True")])),
        SetState::Degraded
    );
}

#[test]
fn many_sets_are_a_table() {
    golden("table.txt", &table::draw(&table::SetList::new(vec![updating()])));
}

#[test]
fn what_changed_is_told_in_lines() {
    let applied = set_view(&set(json!(null)), &Objects::default());
    assert_eq!(changes::lines(None, &applied), ["set serving/llm: Progressing"]);
    let lines = changes::lines(Some(&applied), &updating());
    golden("changes.txt", &(lines.join("\n") + "\n"));
    assert_eq!(changes::lines(Some(&updating()), &updating()), Vec::<String>::new());
    let gone = changes::lines(Some(&updating()), &applied);
    assert!(
        gone.contains(&"gang llm-0-100001 (anchor): gone".to_owned()),
        "{gone:?}"
    );
}
