//! The checks of the programs of an installation: operator and scheduler, by their Deployments, leases and work.

use coppice_api::types::PodCliqueSet;
use coppice_operator::webhooks::in_process;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;

use super::Finding;
use super::facts::{Facts, named};

/// The lease of the operator, which is that of the Go operator.
pub(super) const OPERATOR_LEASE: &str = "grove-operator-leader-election";

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
                    "Deployment {} has no replicas, and no process holds its lease",
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
pub(super) fn holder(lease: &Lease, now: Timestamp) -> Result<String, String> {
    let name = named(lease);
    let spec = lease.spec.clone().unwrap_or_default();
    let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
        return Err(format!("no process holds the lease {name}"));
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
        lease: OPERATOR_LEASE,
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
                    format!("no Deployment and no lease, but all {count} PodCliqueSets are being reconciled"),
                ),
                (_, behind) => Finding::fail(
                    "operator",
                    format!(
                        "there is no Deployment and no lease, and {} is not being reconciled",
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
                    "no scheduler is running, but schedulerName {name} is used by {}",
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
