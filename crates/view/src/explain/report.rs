//! The answer as data, versioned: `coppice.dev/explain/v1`. Fields are added, never renamed or removed.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::types::PodGang;
use coppice_placement::explain::{Change, Explanation, Verdict, explain as ask};
use coppice_placement::{Options, ReasonCode, plan};
use coppice_runtime::cache::ObjectKey;
use coppice_scheduler::model::{GangId, Model, PodRecord};
use serde::Serialize;
use serde_json::Value;

use super::{ExplainError, Kind, Result, Snapshot, Target, what_if};
use crate::API_VERSION;
use crate::build::gang_waits;

/// The scheduler whose answers these are.
const OURS: &str = "coppice";

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    api_version: &'static str,
    kind: &'static str,
    /// The kind of the object that was asked about.
    pub object_kind: Kind,
    pub namespace: String,
    pub name: String,
    pub gangs: Vec<GangReport>,
    /// What to know beside.
    pub notes: Vec<String>,
}

/// One gang, or a pod that belongs to none.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GangReport {
    pub name: String,
    pub state: State,
    /// Its pods that have a node.
    pub placed: Vec<PlacedPod>,
    /// Its pods that are not up for placement, and why.
    pub held: Vec<HeldPod>,
    /// How many pods wait for a node.
    pub waiting: usize,
    /// What the engine says of those.
    pub explanation: Option<Explanation>,
    /// Where they would go, if they fit.
    pub placement: Vec<PlacedPod>,
    /// Changes that were assumed.
    pub assumed: Vec<Change>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    /// Every pod has a node.
    Placed,
    /// Some pods have a node, others wait.
    PartlyPlaced,
    /// Pods wait for a node.
    Pending,
    /// Pods are held back by something else than room.
    Held,
    /// There are no pods.
    Empty,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedPod {
    pub pod: String,
    pub node: String,
    /// The node's labels of the topology, broadest first.
    pub domain: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldPod {
    pub pod: String,
    pub reason: String,
}

/// Explains whatever was named.
pub fn explain(snapshot: &Snapshot, target: &Target, changes: &[String]) -> Result<Report> {
    answer(snapshot, target, &Assumptions::Words(changes))
}

/// The same with changes as the engine proposes them.
pub fn explain_assuming(snapshot: &Snapshot, target: &Target, changes: &[Change]) -> Result<Report> {
    answer(snapshot, target, &Assumptions::Changes(changes))
}

/// What is assumed.
enum Assumptions<'a> {
    /// In the words of the command line.
    Words(&'a [String]),
    /// As data.
    Changes(&'a [Change]),
}

fn answer(snapshot: &Snapshot, target: &Target, changes: &Assumptions<'_>) -> Result<Report> {
    let schedulers = schedulers(snapshot);
    let mut model = Model::from_objects(schedulers, &snapshot.objects).map_err(|error| ExplainError::Objects {
        place: snapshot.source.clone(),
        error,
    })?;
    let (kind, key, ids) = target.find(snapshot, &model)?;
    let mut notes = Vec::new();
    if kind == Kind::Pod && matches!(ids.first(), Some(GangId::Gang(_))) {
        notes.push(format!("{key} is placed with its gang"));
    }
    if ids.is_empty() {
        notes.push(format!("{key} has no PodGangs yet: is the operator running?"));
    }
    let mut gangs = Vec::new();
    for id in &ids {
        gangs.push(gang(snapshot, &mut model, id, changes)?);
    }
    Ok(Report {
        api_version: API_VERSION,
        kind: "ExplainView",
        object_kind: kind,
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        gangs,
        notes,
    })
}

/// Every scheduler is asked as if it were ours: what is printed is what Coppice would do.
fn schedulers(snapshot: &Snapshot) -> BTreeSet<String> {
    let named = snapshot
        .objects
        .pods
        .iter()
        .filter_map(|pod| pod["spec"]["schedulerName"].as_str());
    named
        .map(str::to_owned)
        .chain([OURS.to_owned(), "default-scheduler".to_owned()])
        .collect()
}

fn gang(snapshot: &Snapshot, model: &mut Model, id: &GangId, changes: &Assumptions<'_>) -> Result<GangReport> {
    let members: Vec<_> = model.pods().filter(|pod| belongs(pod, id)).cloned().collect();
    let levels = levels(snapshot, id);
    let mut report = GangReport {
        name: id.to_string(),
        state: State::Empty,
        placed: Vec::new(),
        held: Vec::new(),
        waiting: 0,
        explanation: None,
        placement: Vec::new(),
        assumed: Vec::new(),
        notes: Vec::new(),
    };
    for pod in &members {
        match (&pod.node, held(snapshot, model, pod)) {
            (Some(node), _) => report
                .placed
                .push(place(model, &levels, pod.meta.key.to_string(), node)),
            (None, Some(reason)) => report.held.push(HeldPod {
                pod: pod.meta.key.to_string(),
                reason,
            }),
            (None, None) => report.waiting += 1,
        }
    }
    report.state = match (report.placed.len(), report.waiting, report.held.len()) {
        (0, 0, 0) => State::Empty,
        (_, 0, 0) => State::Placed,
        (0, 0, _) => State::Held,
        (0, _, _) => State::Pending,
        _ => State::PartlyPlaced,
    };
    let others: BTreeSet<&str> = members
        .iter()
        .map(|pod| &*pod.scheduler)
        .filter(|name| *name != OURS)
        .collect();
    for name in others {
        report.notes.push(format!(
            "its pods are placed by {name}, which may decide otherwise; this is what the scheduler of Coppice would say"
        ));
    }
    report.notes.extend(waits(snapshot, id));
    if report.waiting > 0 {
        ask_engine(model, id, changes, &levels, &mut report)?;
    }
    let unknown = |explanation: &Explanation| {
        let mut reasons = explanation.reasons.iter();
        reasons.any(|reason| reason.code == ReasonCode::UnknownTopology)
    };
    if snapshot.objects.topologies.is_empty() && report.explanation.as_ref().is_some_and(unknown) {
        report
            .notes
            .push("the cluster has no ClusterTopologyBinding: create one with the label keys of its levels".to_owned());
    }
    Ok(report)
}

fn ask_engine(
    model: &mut Model,
    id: &GangId,
    changes: &Assumptions<'_>,
    levels: &[String],
    report: &mut GangReport,
) -> Result<()> {
    let Some(question) = model.question(id) else {
        return Ok(());
    };
    for obstacle in question.obstacle.iter().chain(&question.waits_for_volume) {
        report
            .notes
            .push(format!("{}: {}", obstacle.code.as_str(), obstacle.message));
    }
    let mut gang = question.gang;
    let mut options = Options {
        scheduled: question.scheduled,
        disruptions: model.disruptions(),
        ..Options::default()
    };
    let running = model.running();
    let mut state = model.state().clone();
    let mut apply = |change: Change, state: &mut _, gang: &mut _| {
        change.apply(state, gang, &mut options);
        report.assumed.push(change);
    };
    match changes {
        Assumptions::Words(words) => {
            for text in *words {
                for change in what_if::parse(text, &state, &gang, &running)? {
                    apply(change, &mut state, &mut gang);
                }
            }
        }
        Assumptions::Changes(changes) => {
            for change in *changes {
                apply(change.clone(), &mut state, &mut gang);
            }
        }
    }
    let explanation = ask(&state, &gang, &running, &options);
    if explanation.verdict == Verdict::Fits
        && let Some(found) = plan(&mut state, &gang, &options).plan()
    {
        let bindings = found.bindings.iter();
        report.placement = bindings
            .map(|binding| PlacedPod {
                pod: binding.pod.clone(),
                node: binding.node.clone(),
                domain: state.node_id(&binding.node).map_or_else(Vec::new, |node| {
                    let labels = &state.node(node).labels;
                    levels
                        .iter()
                        .map(|key| labels.get(key).cloned().unwrap_or_default())
                        .collect()
                }),
            })
            .collect();
    }
    report.explanation = Some(explanation);
    Ok(())
}

fn belongs(pod: &PodRecord, id: &GangId) -> bool {
    pod.counts()
        && match id {
            GangId::Gang(key) => pod.gang().as_ref() == Some(key),
            GangId::Pod(key) => pod.meta.key == *key,
        }
}

/// The label keys of the topology a gang names, or of the only one there is.
fn levels(snapshot: &Snapshot, id: &GangId) -> Vec<String> {
    let GangId::Gang(key) = id else { return Vec::new() };
    let gang = find(&snapshot.objects.gangs, key);
    let named =
        gang.and_then(|gang| gang["metadata"]["annotations"][coppice_api::names::annotations::TOPOLOGY_NAME].as_str());
    let mut topologies = snapshot.objects.topologies.iter();
    let topology = match named {
        Some(name) => topologies.find(|topology| topology["metadata"]["name"] == name),
        None => topologies.next().filter(|_| snapshot.objects.topologies.len() == 1),
    };
    let levels = topology.and_then(|topology| topology["spec"]["levels"].as_array());
    let keys = levels.into_iter().flatten().filter_map(|level| level["key"].as_str());
    keys.map(str::to_owned).collect()
}

/// What the operator says that a gang waits for, and until when.
fn waits(snapshot: &Snapshot, id: &GangId) -> Option<String> {
    let GangId::Gang(key) = id else { return None };
    let gang: PodGang = serde_json::from_value(find(&snapshot.objects.gangs, key)?.clone()).ok()?;
    gang_waits(&gang)
}

fn find<'a>(list: &'a [Value], key: &ObjectKey) -> Option<&'a Value> {
    list.iter()
        .find(|object| object["metadata"]["name"] == *key.name && object["metadata"]["namespace"] == *key.namespace)
}

fn place(model: &Model, levels: &[String], pod: String, node: &str) -> PlacedPod {
    let state = model.state();
    let labels: BTreeMap<String, String> = state
        .node_id(node)
        .map(|id| state.node(id).labels.clone())
        .unwrap_or_default();
    PlacedPod {
        pod,
        node: node.to_owned(),
        domain: levels
            .iter()
            .map(|key| labels.get(key).cloned().unwrap_or_default())
            .collect(),
    }
}

/// Why a pod without a node is not up for placement.
fn held(snapshot: &Snapshot, model: &Model, pod: &PodRecord) -> Option<String> {
    if !pod.gated {
        return None;
    }
    let object = find(&snapshot.objects.pods, &pod.meta.key);
    let gates = object.and_then(|object| object["spec"]["schedulingGates"].as_array());
    let names: Vec<&str> = gates
        .into_iter()
        .flatten()
        .filter_map(|gate| gate["name"].as_str())
        .collect();
    let mut reason = format!("held by scheduling gate {}", names.join(", "));
    let gang = pod.gang().and_then(|gang| model.gang(&gang));
    let base = gang.and_then(|gang| model.base_of(gang));
    if let Some(base) = base.filter(|base| !model.is_scheduled(base)) {
        reason.push_str(&format!("; its base gang {base} is not scheduled yet"));
    }
    Some(reason)
}
