//! The state of a namespace without what differs from run to run: identities, versions, times, addresses, placements and
//! the random part of pod names.

use std::collections::BTreeMap;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};

/// The kinds that an operator leaves behind.
const KINDS: [(&str, &str, &str); 13] = [
    ("grove.io", "v1alpha1", "PodCliqueSet"),
    ("grove.io", "v1alpha1", "PodCliqueScalingGroup"),
    ("grove.io", "v1alpha1", "PodClique"),
    ("grove.io", "v1alpha1", "PodGangMap"),
    ("scheduler.grove.io", "v1alpha1", "PodGang"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "Secret"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("apps", "v1", "ControllerRevision"),
    ("resource.k8s.io", "v1", "ResourceClaim"),
];

/// Fields that differ from run to run, wherever they stand.
const FLEETING: [&str; 29] = [
    "lastScheduled",
    "lastReady",
    "lastProgressedAt",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastProbeTime",
    "startTime",
    "startedAt",
    "finishedAt",
    "updateStartedAt",
    "updateEndedAt",
    "nodeName",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "containerID",
    "imageID",
    "selfLink",
    "deletionTimestamp",
    "observedGeneration",
    "generation",
    "clusterIP",
    "grove.io/made-from-generations",
    "podAttempt",
    // A hint to the scheduler that a crash between two writes of an update may lose: docs/updates.md.
    "reuseReservationRef",
];

/// All objects of sets in a namespace, by kind and name; a pod's name is its clique and index.
pub type State = BTreeMap<String, Value>;

/// Reads the state of a namespace.
pub async fn read(client: &Client, namespace: &str) -> State {
    let mut found = Vec::new();
    for (group, version, kind) in KINDS {
        let listed = list(client, namespace, group, version, kind).await.into_iter();
        // The service of the API server is there in every cluster.
        let of_sets = listed.filter(|object| object["metadata"]["labels"]["provider"] != "kubernetes");
        found.extend(of_sets.map(|object| (kind, object)));
    }
    let names: BTreeMap<String, String> = found
        .iter()
        .filter(|(kind, _)| *kind == "Pod")
        .filter_map(|(_, pod)| {
            let labels = &pod["metadata"]["labels"];
            let clique = labels["grove.io/podclique"].as_str()?;
            let index = labels["grove.io/podclique-pod-index"].as_str()?;
            Some((
                pod["metadata"]["name"].as_str()?.to_owned(),
                format!("{clique}#{index}"),
            ))
        })
        .collect();
    found
        .into_iter()
        .map(|(kind, object)| {
            let stable = stable(&object, &names);
            let name = stable["metadata"]["name"].as_str().unwrap_or_default();
            (format!("{kind} {name}"), stable)
        })
        .collect()
}

/// The objects of one kind.
pub async fn list(client: &Client, namespace: &str, group: &str, version: &str, kind: &str) -> Vec<Value> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let listed = api.list(&ListParams::default()).await.expect("the kind can be listed");
    listed.items.into_iter().map(|object| json!(object)).collect()
}

fn stable(value: &Value, names: &BTreeMap<String, String>) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .iter()
                .filter(|(key, _)| !FLEETING.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), stable(value, names)))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| stable(item, names)).collect();
            // References are listed by name, and the names of pods differ.
            if items
                .iter()
                .all(|item| item.get("name").is_some() && item.get("namespace").is_some())
            {
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        Value::String(text) => Value::String(names.get(text).cloned().unwrap_or_else(|| text.clone())),
        other => other.clone(),
    }
}

/// What differs between two states, in words; nothing when they are equal.
pub fn difference(expected: &State, found: &State) -> Option<String> {
    let mut lines = Vec::new();
    for name in expected.keys().filter(|name| !found.contains_key(*name)) {
        lines.push(format!("{name} is missing"));
    }
    for (name, object) in found {
        match expected.get(name) {
            None => lines.push(format!("{name} is too much")),
            Some(other) => compare(name, other, object, &mut lines),
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for key in expected
                .keys()
                .chain(found.keys().filter(|key| !expected.contains_key(*key)))
            {
                let empty = Value::Null;
                let (left, right) = (expected.get(key).unwrap_or(&empty), found.get(key).unwrap_or(&empty));
                compare(&format!("{path}.{key}"), left, right, lines);
            }
        }
        (expected, found) if expected != found => lines.push(format!("{path}: {found}, expected {expected}")),
        _ => {}
    }
}
