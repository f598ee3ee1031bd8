//! The checks of the API server, the definitions, the rights and the nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::Value;

use super::facts::{Facts, RIGHTS};
use super::{Finding, Status};

/// The API server answers.
pub(super) fn api(facts: &Facts) -> Finding {
    match &facts.version {
        Ok(version) => Finding::ok("api", format!("Kubernetes {version} at {}", facts.address)),
        Err(error) => Finding::fail(
            "api",
            format!("{} cannot be reached: {error}", facts.address),
            "check --kubeconfig and --context, or start an embedded cluster with: coppice up",
        ),
    }
}

/// Every definition is there, served, and as this version of the program has it.
pub(super) fn definitions(facts: &Facts) -> Vec<Finding> {
    let found = match &facts.definitions {
        Ok(found) => found,
        Err(error) => {
            let next = "ask for the right to list customresourcedefinitions";
            return vec![Finding::warn("crds", format!("cannot be listed: {error}"), next)];
        }
    };
    let wanted = coppice_api::crd::all();
    let (mut missing, mut pending, mut different) = (Vec::new(), Vec::new(), Vec::new());
    for definition in &wanted {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let Some(there) = found.iter().find(|there| there["metadata"]["name"] == name) else {
            missing.push(name);
            continue;
        };
        if !is_established(there) {
            pending.push(name);
        } else if !holds(&there["spec"]["versions"], &definition["spec"]["versions"]) {
            different.push(name);
        }
    }
    let install = "coppice crds install";
    let mut findings = Vec::new();
    if !missing.is_empty() {
        findings.push(Finding::fail(
            "crds",
            format!("missing: {}", missing.join(", ")),
            install,
        ));
    }
    if !pending.is_empty() {
        let next = format!("kubectl describe crd {}", pending.join(" "));
        findings.push(Finding::fail(
            "crds",
            format!("not established: {}", pending.join(", ")),
            next,
        ));
    }
    if !different.is_empty() {
        let message = format!("of another version: {}", different.join(", "));
        findings.push(Finding::warn("crds", message, install));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "crds",
            format!("all {} kinds are served, as of this version", wanted.len()),
        ));
    }
    findings
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let mut established = conditions.filter(|condition| condition["type"] == "Established");
    established.any(|condition| condition["status"] == "True")
}

/// Whether all of `wanted` is in `there`. The server adds defaults, and words for people are no difference.
fn holds(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .filter(|(key, value)| !(key.as_str() == "description" && value.is_string()))
            .all(|(key, value)| there.get(key).is_some_and(|there| holds(there, value))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| holds(there, wanted))
        }
        _ => there == wanted,
    }
}

/// The user may do what people do.
pub(super) fn rights(facts: &Facts) -> Finding {
    let mut denied = Vec::new();
    for (right, answer) in &facts.rights {
        match answer {
            Ok(true) => {}
            Ok(false) => denied.push(*right),
            Err(error) => {
                let next = "the API server must serve selfsubjectaccessreviews";
                return Finding::warn("rights", format!("cannot be asked for: {error}"), next);
            }
        }
    }
    if denied.is_empty() {
        return Finding::ok("rights", "you may apply sets and see everything that belongs to them");
    }
    let names: Vec<String> = denied
        .iter()
        .map(|right| format!("{} {}", right.verb, right.resource))
        .collect();
    let status = if denied.contains(&RIGHTS[0]) {
        Status::Fail
    } else {
        Status::Warn
    };
    Finding {
        status,
        ..Finding::warn(
            "rights",
            format!("you may not {}", names.join(", ")),
            "ask for a role with these rights in all namespaces, or use another --context",
        )
    }
}

/// Nodes are there and ready.
pub(super) fn nodes(facts: &Facts) -> Finding {
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(error) => {
            let next = "ask for the right to list nodes; until then no place is shown";
            return Finding::warn("nodes", format!("cannot be listed: {error}"), next);
        }
    };
    let silent: Vec<String> = nodes
        .iter()
        .filter(|node| !is_ready(node))
        .map(kube::ResourceExt::name_any)
        .collect();
    match (nodes.len(), silent.as_slice()) {
        (0, _) => Finding::fail("nodes", "there are none", "join nodes to the cluster"),
        (count, []) => Finding::ok("nodes", format!("{count} of {count} ready")),
        (count, silent) => Finding::warn(
            "nodes",
            format!("{} of {count} are not ready: {}", silent.len(), first_few(silent)),
            format!("kubectl describe node {}", silent[0]),
        ),
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.status == "True")
}

/// The levels of every topology are labels that nodes have.
pub(super) fn topologies(facts: &Facts) -> Vec<Finding> {
    let bindings = match &facts.topologies {
        Ok(bindings) => bindings,
        Err(error) => {
            let next = "coppice crds install, or ask for the right to list clustertopologybindings";
            return vec![Finding::warn("topology", format!("cannot be listed: {error}"), next)];
        }
    };
    if bindings.is_empty() {
        let message = "no ClusterTopologyBinding: sets cannot ask for a rack (an example: examples/topology.yaml)";
        return vec![Finding::ok("topology", message)];
    }
    let Ok(nodes) = &facts.nodes else { return Vec::new() };
    let mut findings = Vec::new();
    for binding in bindings {
        let name = binding.name_any();
        let mut levels = Vec::new();
        let mut lacking = BTreeMap::new();
        for level in &binding.spec.levels {
            let mut values: Vec<&String> = nodes.iter().filter_map(|node| node.labels().get(&level.key)).collect();
            let without = nodes.len() - values.len();
            values.sort();
            values.dedup();
            levels.push(format!("{} ({})", level.domain, values.len()));
            if without > 0 {
                lacking.insert(level.key.as_str(), without);
            }
        }
        if lacking.is_empty() {
            findings.push(Finding::ok("topology", format!("{name}: {}", levels.join(" > "))));
        }
        for (key, without) in lacking {
            findings.push(Finding::warn(
                "topology",
                format!(
                    "{name}: {without} of {} nodes have no label {key}; packed gangs cannot use them",
                    nodes.len()
                ),
                format!("kubectl get nodes -l '!{key}', and label them"),
            ));
        }
    }
    findings
}

/// The first few of many names.
pub(super) fn first_few(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}
