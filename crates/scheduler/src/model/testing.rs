//! Support for tests of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_runtime::cache::{Head, Interner, ObjectKey, Projection};
use serde_json::{Value, json};

use super::{BudgetRecord, GangId, GangRecord, Model, NodeProjection, PodRecord, PodRecords};

/// The view of an object.
pub(crate) fn project<P: Projection>(projection: &P, object: &Value) -> P::View {
    let names = Interner::default();
    let raw = serde_json::value::to_raw_value(object).expect("JSON");
    let head = Head::read(&raw, &names).expect("an identity");
    projection.project(&head.meta, &raw, &names).expect("the right shape")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

pub(crate) fn gang_id(name: &str) -> GangId {
    GangId::Gang(key(name))
}

pub(crate) fn node(name: &str, rack: &str, cpu: u32) -> coppice_placement::predicates::Node {
    project(
        &NodeProjection,
        &json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {"rack": rack, "kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": cpu.to_string(), "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }),
    )
}

/// Two racks of two nodes: `n0` and `n1` with so many processors each in the first, `n2` and `n3` in the second.
pub(crate) fn two_racks(first: u32, second: u32) -> Model {
    let mut model = Model::new(["coppice"]);
    model.set_topologies(BTreeMap::from([("t".to_owned(), vec!["rack".to_owned()])]));
    model.put_nodes([
        node("n0", "r0", first),
        node("n1", "r0", first),
        node("n2", "r1", second),
        node("n3", "r1", second),
    ]);
    model
}

/// A pod in a few words.
#[derive(Debug, Clone)]
pub(crate) struct PodSketch {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gang: Option<(String, String)>,
    pub(crate) base: Option<String>,
    /// The scaling group and the copy of it that it belongs to.
    pub(crate) copy: Option<(String, u32)>,
    pub(crate) node: Option<String>,
    pub(crate) cpu: u32,
    pub(crate) gated: bool,
    pub(crate) deleting: bool,
    pub(crate) finished: bool,
    pub(crate) apart: bool,
    pub(crate) foreign: bool,
    pub(crate) ready: bool,
    /// It was ready once, and its status shows it.
    pub(crate) was_ready: bool,
    pub(crate) priority: i32,
    /// Its preemption policy is `Never`.
    pub(crate) never_preempts: bool,
}

impl PodSketch {
    pub(crate) fn new(name: &str, gang: &str, clique: &str) -> Self {
        Self {
            name: name.into(),
            uid: 1,
            gang: Some((gang.into(), clique.into())),
            base: None,
            copy: None,
            node: None,
            cpu: 1,
            gated: false,
            deleting: false,
            finished: false,
            apart: false,
            foreign: false,
            ready: false,
            was_ready: false,
            priority: 0,
            never_preempts: false,
        }
    }

    pub(crate) fn record(&self) -> Arc<PodRecord> {
        self.record_with(&json!({}))
    }

    /// The same, with more fields in its specification.
    pub(crate) fn record_with(&self, fields: &Value) -> Arc<PodRecord> {
        self.record_by(&PodRecords::default(), fields)
    }

    /// The same, sharing demands with others.
    pub(crate) fn record_by(&self, records: &PodRecords, fields: &Value) -> Arc<PodRecord> {
        let mut labels = BTreeMap::from([("app", "a".to_owned())]);
        if let Some((gang, clique)) = &self.gang {
            labels.insert("grove.io/podgang", gang.clone());
            labels.insert("grove.io/podclique", clique.clone());
        }
        if let Some(base) = &self.base {
            labels.insert("grove.io/base-podgang", base.clone());
        }
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}});
        let ready = |status: &str, second: u32| json!([{"type": "Ready", "status": status, "lastTransitionTime": format!("2026-01-01T00:00:0{second}Z")}]);
        let conditions = match (self.ready, self.was_ready, &self.node) {
            (true, ..) => ready("True", 1),
            (false, true, _) => ready("False", 2),
            (false, false, Some(_)) => ready("False", 0),
            (false, false, None) => Value::Null,
        };
        let mut object = json!({
            "metadata": {"name": self.name, "namespace": "n", "uid": format!("{}-{}", self.name, self.uid), "resourceVersion": "1",
                "labels": labels, "deletionTimestamp": self.deleting.then_some("2026-01-01T00:00:00Z")},
            "spec": {"schedulerName": if self.foreign { "other" } else { "coppice" }, "nodeName": self.node,
                "priority": self.priority, "preemptionPolicy": self.never_preempts.then_some("Never"),
                "schedulingGates": if self.gated { json!([{"name": "g"}]) } else { Value::Null },
                "affinity": if self.apart { apart } else { Value::Null },
                "containers": [{"resources": {"requests": {"cpu": self.cpu.to_string()}}}]},
            "status": {"phase": if self.finished { "Succeeded" } else { "Pending" }, "conditions": conditions,
                "startTime": self.node.is_some().then_some("2026-01-01T00:00:00Z")},
        });
        if let Some((group, copy)) = &self.copy {
            object["metadata"]["labels"]["grove.io/podcliquescalinggroup"] = json!(group);
            object["metadata"]["labels"]["grove.io/podcliquescalinggroup-replica-index"] = json!(copy.to_string());
        }
        for (field, value) in fields.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        Arc::new(project(records, &object))
    }
}

pub(crate) fn gang(name: &str, floors: &[(&str, u32)], pack: Option<&str>) -> Arc<GangRecord> {
    read_gang(&gang_object(name, floors, pack))
}

/// A gang that claims a priority class.
pub(crate) fn gang_of_class(name: &str, floors: &[(&str, u32)], class: &str) -> Arc<GangRecord> {
    let mut object = gang_object(name, floors, None);
    object["spec"]["priorityClassName"] = json!(class);
    read_gang(&object)
}

/// A disruption budget over the pods of a gang, or over all pods when that is empty.
pub(crate) fn budget(name: &str, gang: &str, allowed: u32, version: u32) -> Arc<BudgetRecord> {
    let labels = if gang.is_empty() {
        json!({})
    } else {
        json!({"grove.io/podgang": gang})
    };
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(), "generation": 1},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": allowed, "desiredHealthy": 0,
            "expectedPods": allowed},
    });
    let object = serde_json::from_value(object).expect("a budget");
    Arc::new(BudgetRecord::of(&object).expect("stored"))
}

/// A gang of replica 0 of a set, with what its labels say of it: epoch and role.
pub(crate) fn gang_of_epoch(
    (set, name): (&str, &str),
    (epoch, role): (u32, &str),
    floors: &[(&str, u32)],
    pack: Option<&str>,
) -> Arc<GangRecord> {
    let mut object = gang_object(name, floors, pack);
    object["metadata"]["labels"] = json!({
        "app.kubernetes.io/part-of": set, "grove.io/podcliqueset-replica-index": "0",
        "grove.io/epoch": epoch.to_string(), "grove.io/podgang-role": role,
    });
    read_gang(&object)
}

fn read_gang(object: &Value) -> Arc<GangRecord> {
    let gang = serde_json::from_value(object.clone()).expect("a gang");
    Arc::new(GangRecord::of(&gang).expect("stored"))
}

fn gang_object(name: &str, floors: &[(&str, u32)], pack: Option<&str>) -> Value {
    let groups: Vec<Value> = floors
        .iter()
        .map(|(name, floor)| json!({"name": name, "podReferences": [], "minReplicas": floor}))
        .collect();
    json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
            "labels": {"app.kubernetes.io/part-of": "s", "grove.io/podcliqueset-replica-index": "0"}},
        "spec": {"podgroups": groups, "topologyConstraint": pack.map(|key| json!({"packConstraint": {"required": key}}))},
    })
}
