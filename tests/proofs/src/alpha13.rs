//! What an operator of Grove alpha.13 needs to find when it takes over from ours, written down from the contract: a map
//! that its CRD accepts, gangs that its naming computes from that map, and pods and cliques that name them.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde_json::Value;

use crate::state::list;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Everything in namespace `default` that such an operator would not accept as it is.
pub async fn objections(client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    let mut gangs: BTreeMap<String, (String, String)> = BTreeMap::new();
    for map in list(client, "default", "grove.io", "v1alpha1", "PodGangMap").await {
        check_entries(&map, &mut found);
        for entry in map["spec"]["entries"].as_array().into_iter().flatten() {
            gangs.extend(gangs_of(&map, entry));
        }
    }
    let stored = list(client, "default", "scheduler.grove.io", "v1alpha1", "PodGang").await;
    for gang in &stored {
        let (name, labels) = (text(&gang["metadata"]["name"]), &gang["metadata"]["labels"]);
        let Some((epoch, role)) = gangs.get(name) else {
            found.push(format!("gang {name} follows from no entry"));
            continue;
        };
        if labels["grove.io/epoch"] != **epoch || labels["grove.io/podgang-role"] != **role {
            found.push(format!("gang {name}: {labels}"));
        }
        for key in [
            "grove.io/podcliqueset-generation-hash",
            "grove.io/podcliqueset-replica-index",
        ] {
            if labels[key].is_null() {
                found.push(format!("gang {name} has no label {key}"));
            }
        }
    }
    let names: BTreeSet<&str> = stored.iter().map(|gang| text(&gang["metadata"]["name"])).collect();
    found.extend(
        gangs
            .keys()
            .filter(|name| !names.contains(name.as_str()))
            .map(|name| format!("gang {name} does not exist")),
    );
    check_members(client, &names, &mut found).await;
    found
}

/// The rules of alpha.13's CRD: required fields, roles, unique epochs, `anchorIndex` on anchors and nowhere else.
fn check_entries(map: &Value, found: &mut Vec<String>) {
    let mut epochs = BTreeSet::new();
    for entry in map["spec"]["entries"].as_array().into_iter().flatten() {
        let epoch = text(&entry["epoch"]);
        if epoch.parse::<i64>().is_err() || !epochs.insert(epoch.to_owned()) {
            found.push(format!("epoch {epoch:?}"));
        }
        if !["Anchor", "Tail", "ScaleOut"].contains(&text(&entry["role"])) {
            found.push(format!("role {}", entry["role"]));
        }
        if entry["anchorIndex"].is_null() == (entry["role"] == "Anchor") {
            found.push(format!("anchorIndex of {entry}"));
        }
        if entry["podCliqueSetGenerationHash"].is_null() {
            found.push(format!("no hash in {entry}"));
        }
    }
    let depends = map["spec"]["entries"].as_array().into_iter().flatten();
    for epoch in depends.flat_map(|entry| entry["dependsOn"].as_array().into_iter().flatten()) {
        if !epochs.contains(text(epoch)) {
            found.push(format!("epoch {epoch} has no gang and would be waited for forever"));
        }
    }
}

/// Names, epochs and roles of the gangs of an entry.
fn gangs_of(map: &Value, entry: &Value) -> Vec<(String, (String, String))> {
    let (replica, epoch, role) = (
        text(&map["metadata"]["name"]),
        text(&entry["epoch"]),
        text(&entry["role"]),
    );
    let about = (epoch.to_owned(), role.to_owned());
    if role == "Anchor" {
        return vec![(format!("{replica}-{epoch}"), about)];
    }
    let groups = entry["pcsgReplicaIndices"].as_object().into_iter().flatten();
    groups
        .flat_map(|(group, indices)| {
            let names = indices.as_array().into_iter().flatten();
            names.map(move |index| format!("{replica}-{epoch}-{group}-{index}"))
        })
        .map(|name| (name, about.clone()))
        .collect()
}

/// Pods always name their gang, cliques only in a scaling group, and none the gang that they wait for.
async fn check_members(client: &Client, gangs: &BTreeSet<&str>, found: &mut Vec<String>) {
    for (kind, group, version) in [("Pod", "", "v1"), ("PodClique", "grove.io", "v1alpha1")] {
        for object in list(client, "default", group, version, kind).await {
            let (name, labels) = (text(&object["metadata"]["name"]), &object["metadata"]["labels"]);
            let member = kind == "Pod" || labels["grove.io/podcliquescalinggroup"].is_string();
            if member != gangs.contains(text(&labels["grove.io/podgang"])) {
                found.push(format!("{kind} {name} names gang {}", labels["grove.io/podgang"]));
            }
            if !labels["grove.io/base-podgang"].is_null() {
                found.push(format!("{kind} {name} still has grove.io/base-podgang"));
            }
        }
    }
}
