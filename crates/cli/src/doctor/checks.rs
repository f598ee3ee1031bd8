//! The checks of the API server, the definitions, the programs, the rights and the nodes.

use std::collections::BTreeMap;

use coppice_api::types::PodCliqueSet;
use coppice_operator::webhooks::in_process;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::Value;

use super::facts::{Facts, RIGHTS, named};
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

/// A program of the installation: how it is found, and what to say of it.
struct Program {
    check: &'static str,
    /// The chart's label of its Deployment.
    component: &'static str,
    lease: &'static str,
}

/// What is known of a program.
enum Life {
    Lives(String),
    Ails(Finding),
    /// Neither a Deployment nor a lease.
    Unseen,
}

fn life(program: &Program, facts: &Facts, now: Timestamp) -> Life {
    let check = program.check;
    if is_embedded(facts) {
        return Life::Lives("runs in the process of the embedded API server".to_owned());
    }
    let (deployments, leases) = match (&facts.deployments, &facts.leases) {
        (Ok(deployments), Ok(leases)) => (deployments, leases),
        (Err(error), _) | (_, Err(error)) => {
            let next = "ask for the right to list deployments and leases";
            return Life::Ails(Finding::warn(check, format!("cannot be looked at: {error}"), next));
        }
    };
    let deployment = deployments.iter().find(|deployment| {
        let component = deployment.labels().get("app.kubernetes.io/component");
        component.map(String::as_str) == Some(program.component)
    });
    let lease = leases.iter().find(|lease| lease.name_any() == program.lease);
    if let Some(finding) = deployment.and_then(|deployment| ailing(check, deployment)) {
        return Life::Ails(finding);
    }
    if let Some(lease) = lease {
        return match holder(lease, now) {
            Ok(holder) => Life::Lives(holder),
            Err(problem) => {
                let next = match deployment {
                    Some(deployment) => logs(deployment),
                    None => format!("start it again: coppice {check}"),
                };
                Life::Ails(Finding::fail(check, problem, next))
            }
        };
    }
    match deployment {
        Some(deployment) if deployment.spec.replicas == Some(0) => {
            let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
            Life::Ails(Finding::fail(
                check,
                format!(
                    "Deployment {} has no replicas, and nobody holds a lease",
                    named(deployment)
                ),
                format!("kubectl -n {namespace} scale deployment/{name} --replicas 2"),
            ))
        }
        Some(deployment) => Life::Lives(format!("Deployment {} is available", named(deployment))),
        None => Life::Unseen,
    }
}

fn is_embedded(facts: &Facts) -> bool {
    let mut configurations = facts
        .webhooks
        .iter()
        .filter_map(|(_, found)| found.as_ref().ok()?.as_ref());
    configurations.any(|configuration| {
        let url = configuration["webhooks"][0]["clientConfig"]["url"].as_str();
        url.is_some_and(|url| url.starts_with(in_process::ADDRESS))
    })
}

fn logs(deployment: &Deployment) -> String {
    let namespace = deployment.namespace().unwrap_or_default();
    format!("kubectl -n {namespace} logs deployment/{}", deployment.name_any())
}

fn ailing(check: &'static str, deployment: &Deployment) -> Option<Finding> {
    let desired = deployment.spec.replicas.unwrap_or(1);
    let available = deployment
        .status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    // One without replicas may be run by hand: the lease tells.
    if available >= desired {
        return None;
    }
    let message = format!(
        "Deployment {} has {available} of {desired} pods available",
        named(deployment)
    );
    let next = format!(
        "kubectl -n {} describe deployment/{}",
        deployment.namespace().unwrap_or_default(),
        deployment.name_any()
    );
    Some(match available {
        0 => Finding::fail(check, message, next),
        _ => Finding::warn(check, message, next),
    })
}

/// Who holds a lease, or why nobody does.
fn holder(lease: &Lease, now: Timestamp) -> Result<String, String> {
    let name = named(lease);
    let spec = lease.spec.clone().unwrap_or_default();
    let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
        return Err(format!("nobody holds the lease {name}"));
    };
    let renewed = spec.renew_time.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let silence = now.duration_since(renewed).as_secs();
    if silence > i64::from(spec.lease_duration_seconds.unwrap_or(15)) {
        return Err(format!(
            "{holder} holds the lease {name} but has not renewed it for {silence} s"
        ));
    }
    Ok(format!(
        "{holder} holds the lease {name}, renewed {} s ago",
        silence.max(0)
    ))
}

/// The operator lives.
pub(super) fn operator(facts: &Facts, now: Timestamp) -> Finding {
    let program = Program {
        check: "operator",
        component: "operator-deployment",
        lease: "grove-operator-leader-election",
    };
    let install = "kubectl apply --server-side -f deploy/install.yaml, or run: coppice operator";
    match life(&program, facts, now) {
        Life::Lives(message) => Finding::ok("operator", message),
        Life::Ails(finding) => finding,
        // One without a lease leaves no trace but its work.
        Life::Unseen => {
            let sets = facts.sets.as_deref().unwrap_or_default();
            let behind: Vec<String> = sets.iter().filter(|set| !is_seen(set)).map(named).collect();
            match (sets.len(), behind.as_slice()) {
                (0, _) => Finding::warn(
                    "operator",
                    "there is no Deployment, no lease and no set to tell by",
                    install,
                ),
                (count, []) => Finding::ok(
                    "operator",
                    format!("no Deployment and no lease, but all {count} sets are seen to"),
                ),
                (_, behind) => Finding::fail(
                    "operator",
                    format!(
                        "there is no Deployment and no lease, and nobody sees to {}",
                        behind.join(", ")
                    ),
                    install,
                ),
            }
        }
    }
}

fn is_seen(set: &PodCliqueSet) -> bool {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    observed == set.metadata.generation && observed.is_some()
}

/// The gang scheduler lives, if anybody asks for it.
pub(super) fn scheduler(facts: &Facts, now: Timestamp) -> Finding {
    let program = Program {
        check: "scheduler",
        component: "scheduler-deployment",
        lease: "coppice-scheduler",
    };
    let name = coppice_scheduler::DEFAULT_NAME;
    match life(&program, facts, now) {
        Life::Lives(message) => Finding::ok("scheduler", message),
        Life::Ails(finding) => finding,
        Life::Unseen => {
            let sets = facts.sets.as_deref().unwrap_or_default();
            let asking: Vec<String> = sets.iter().filter(|set| asks_for(set, name)).map(named).collect();
            if asking.is_empty() {
                return Finding::ok("scheduler", format!("none, and no set has schedulerName {name}"));
            }
            Finding::warn(
                "scheduler",
                format!(
                    "no Deployment and no lease of one, but schedulerName {name} in {}",
                    asking.join(", ")
                ),
                "kubectl apply --server-side -f deploy/install.yaml, or run: coppice scheduler",
            )
        }
    }
}

fn asks_for(set: &PodCliqueSet, scheduler: &str) -> bool {
    let mut cliques = set.spec.template.cliques.iter();
    cliques.any(|clique| serde_json::to_value(&clique.spec.pod_spec).is_ok_and(|pod| pod["schedulerName"] == scheduler))
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
        (count, []) => Finding::ok("nodes", format!("all {count} are ready")),
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
