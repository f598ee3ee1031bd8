//! `coppice doctor --switch-from-grove`: whether what another Grove operator left can be taken over as it is.
//!
//! Judged before the switch, from what is stored: the definitions, the other operator, its maps and migrations, fields that
//! our admission refuses, schedulers; and by a rehearsal, in which our operator takes over a copy of everything on an embedded
//! API server. Nothing is written to the cluster.

mod copy;
mod objects;

#[cfg(test)]
mod tests;

use coppice_api::admission::{Context, Schedulers, default_pod_clique_set, validate_pod_clique_set};
use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodGangMap};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, ResourceExt as _};

use super::checks::{self, first_few};
use super::facts::{Facts, named};
use super::{DoctorView, Finding, Status, programs};
use crate::view::API_VERSION;
use crate::view::words::count;
use objects::Left;

/// The schedulers that our default configuration and the documented switch enable.
const SCHEDULERS: [&str; 4] = ["default-scheduler", "coppice", "kai-scheduler", "volcano"];
/// The condition of an interrupted migration.
const MIGRATING: &str = "PodGangMigrationInProgress";
/// The definition without which no operator since alpha.12 can work.
const MAPS: &str = "podgangmaps.grove.io";
/// The definition that went with alpha.12.
const LEGACY: &str = coppice_crds::legacy::LEGACY;

/// Reads, rehearses and judges.
pub(super) async fn examine(client: &Client, facts: &Facts, now: Timestamp) -> DoctorView {
    let api = checks::api(facts);
    let mut findings = vec![api];
    if findings[0].status != Status::Fail {
        let left = objects::Left::read(client).await;
        findings.extend(judge(facts, &left, now));
        findings.push(rehearsal(&left).await);
    }
    DoctorView {
        api_version: API_VERSION,
        kind: "DoctorView",
        findings,
    }
}

/// What can be said without a rehearsal.
fn judge(facts: &Facts, left: &Left, now: Timestamp) -> Vec<Finding> {
    let mut findings = definitions(facts, left);
    findings.push(operator(facts, now));
    findings.extend(webhooks(facts));
    let Ok(sets) = &facts.sets else {
        let next = "ask for the right to list podcliquesets in all namespaces";
        findings.push(Finding::fail("sets", "PodCliqueSets cannot be listed", next));
        return findings;
    };
    findings.push(migration(sets, left));
    findings.extend(maps(left));
    findings.extend(updates(sets));
    findings.extend(refusals(facts, sets));
    findings.push(schedulers(sets));
    findings
}

/// Which kinds there are, and what `coppice crds install` will do.
fn definitions(facts: &Facts, left: &Left) -> Vec<Finding> {
    let check = "crds";
    let found = match &facts.definitions {
        Ok(found) => found,
        Err(error) => {
            let next = "ask for the right to list customresourcedefinitions";
            return vec![Finding::fail(check, format!("cannot be listed: {error}"), next)];
        }
    };
    let named = |name: &str| found.iter().find(|found| found["metadata"]["name"] == name);
    let mut findings = Vec::new();
    let foreign = coppice_api::crd::all().into_iter().filter_map(|wanted| {
        let name = wanted["metadata"]["name"].as_str()?.to_owned();
        let stored = named(&name)?["status"]["storedVersions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ours = &wanted["spec"]["versions"][0]["name"];
        let others: Vec<String> = stored
            .iter()
            .filter(|version| *version != ours)
            .map(ToString::to_string)
            .collect();
        (!others.is_empty()).then(|| format!("{name} ({})", others.join(", ")))
    });
    let foreign: Vec<String> = foreign.collect();
    if !foreign.is_empty() {
        let message = format!(
            "objects are stored in versions that Coppice does not serve: {}",
            foreign.join(", ")
        );
        let next = "migrate the stored objects to v1alpha1 first; Coppice matches Grove alpha.11 to alpha.13";
        findings.push(Finding::fail(check, message, next));
    }
    let install = "after the other operator is stopped: coppice crds install";
    if named("podcliquesets.grove.io").is_none() {
        findings.push(Finding::fail(
            check,
            "there are no PodCliqueSets in this cluster: nothing to switch",
            "coppice crds install",
        ));
    } else if named(MAPS).is_none() {
        let message = "no PodGangMaps: alpha.11 or older; gangs get new names (with an epoch), pods stay";
        findings.push(Finding::warn(check, message, install));
    } else {
        findings.push(Finding::ok(
            check,
            "PodGangMaps are served: alpha.12 or newer; gangs keep their names",
        ));
    }
    if named(LEGACY).is_some() {
        let message = match &left.legacy_topologies {
            Ok(0) => return findings,
            Ok(number) => format!("{LEGACY}: {} of a kind that is not read", count(*number, "object")),
            Err(error) => format!("{LEGACY}: cannot be listed: {error}"),
        };
        let next = "write a ClusterTopologyBinding for each (examples/topology.yaml), and delete them";
        findings.push(Finding::warn(check, message, next));
    }
    findings
}

/// Who reconciles now: the other operator has to be stopped first, and alone.
fn operator(facts: &Facts, now: Timestamp) -> Finding {
    let check = "operator";
    let (Ok(deployments), Ok(leases)) = (&facts.deployments, &facts.leases) else {
        let next = "ask for the right to list deployments and leases";
        return Finding::fail(check, "deployments or leases cannot be listed", next);
    };
    let operators: Vec<&Deployment> = deployments.iter().filter(|found| is_operator(found)).collect();
    let running: Vec<&&Deployment> = operators
        .iter()
        .filter(|found| found.spec.replicas != Some(0))
        .collect();
    let held: Vec<String> = leases
        .iter()
        .filter(|lease| lease.name_any() == programs::OPERATOR_LEASE)
        .filter_map(|lease| programs::holder(lease, now).ok())
        .collect();
    let stop = |found: &Deployment| {
        let (namespace, name) = (found.namespace().unwrap_or_default(), found.name_any());
        format!("kubectl -n {namespace} scale deployment {name} --replicas=0")
    };
    match running.as_slice() {
        [] if held.is_empty() => Finding::ok(check, "no operator is running, and its lease is free"),
        [] => Finding::fail(
            check,
            format!("no Deployment of an operator runs, but {}", held.join("; ")),
            "find and stop that process: two operators must not run at the same time",
        ),
        [only] if is_ours(only) => Finding::ok(check, format!("Deployment {} is Coppice already", named(**only))),
        [only] => Finding::warn(
            check,
            format!(
                "Deployment {} reconciles the sets now; stop it when all other checks are ok",
                named(**only)
            ),
            stop(only),
        ),
        several => {
            let names: Vec<String> = several.iter().map(|found| named(**found)).collect();
            let other = several.iter().find(|found| !is_ours(found)).unwrap_or(&several[0]);
            let message = format!(
                "several operators run: {}; leases keep apart only those of one namespace",
                names.join(", ")
            );
            Finding::fail(check, message, stop(other))
        }
    }
}

fn is_operator(deployment: &Deployment) -> bool {
    let component = deployment.labels().get("app.kubernetes.io/component");
    component.is_some_and(|component| component == "operator-deployment") || deployment.name_any() == "grove-operator"
}

/// Whether it runs this program: its first argument is the command.
fn is_ours(deployment: &Deployment) -> bool {
    let pod = deployment.spec.template.spec.iter().flat_map(|spec| &spec.containers);
    let mut words = pod.flat_map(|container| container.command.iter().chain(&container.args).flatten());
    words.any(|word| word == "operator")
}

/// Configurations that Coppice does not replace would go on asking an operator that is gone.
fn webhooks(facts: &Facts) -> Vec<Finding> {
    let check = "webhooks";
    let there: Vec<&str> = facts
        .webhooks
        .iter()
        .filter(|(_, found)| matches!(found, Ok(Some(_))))
        .map(|(endpoint, _)| endpoint.configuration())
        .collect();
    if let Some(error) = facts.webhooks.iter().find_map(|(_, found)| found.as_ref().err()) {
        let next = "ask for the right to read webhook configurations";
        return vec![Finding::warn(check, format!("cannot be read: {error}"), next)];
    }
    if there.is_empty() {
        let message = "none: until the chart is installed, sets are neither defaulted nor judged";
        return vec![Finding::ok(check, message)];
    }
    let message = format!(
        "{} of the other operator; while it is stopped, writes of sets are refused, and running pods are not affected",
        count(i64::try_from(there.len()).unwrap_or(i64::MAX), "configuration")
    );
    vec![Finding::warn(
        check,
        message,
        "do not wait between stopping the operator and: helm upgrade (the same names are used again)",
    )]
}

/// Migrations of alpha.12 that were interrupted: they are finished by taking over.
fn migration(sets: &[PodCliqueSet], left: &Left) -> Finding {
    let check = "migration";
    let under_way: Vec<String> = sets
        .iter()
        .filter(|set| {
            let mut conditions = set.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| condition.type_ == MIGRATING && condition.status == "True")
        })
        .map(named)
        .collect();
    let pods = left
        .pods
        .iter()
        .filter(|pod| pod["metadata"]["labels"][labels::BASE_POD_GANG].is_string());
    let legacy = pods.count();
    let empty = left
        .maps
        .iter()
        .filter(|map| map["spec"]["entries"].as_array().is_none_or(Vec::is_empty));
    let empty = empty.count();
    if under_way.is_empty() && legacy == 0 && empty == 0 {
        return Finding::ok(check, "no migration to gangs with an epoch is under way");
    }
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    Finding::ok(
        check,
        format!(
            "left half-way: {} with the condition {MIGRATING}, {} without entries, {} with a base gang; Coppice finishes it",
            count(number(under_way.len()), "set"),
            count(number(empty), "PodGangMap"),
            count(number(legacy), "pod"),
        ),
    )
}

/// Maps that cannot be read are the only record of who belongs to which gang.
fn maps(left: &Left) -> Option<Finding> {
    let broken: Vec<String> = left
        .maps
        .iter()
        .filter_map(|map| {
            let place = || format!("{}/{}", text(map, "namespace"), text(map, "name"));
            let read = serde_json::from_value::<PodGangMap>(map.clone());
            let map = match read {
                Ok(map) => map,
                Err(error) => return Some(format!("{}: {error}", place())),
            };
            let mut epochs = map.spec.entries.iter().map(|entry| entry.epoch.as_str());
            let wrong = epochs.find(|epoch| epoch.is_empty() || !epoch.bytes().all(|byte| byte.is_ascii_digit()));
            wrong.map(|epoch| format!("{}: spec.entries: the epoch {epoch:?} is not a decimal number", place()))
        })
        .collect();
    let first = broken.first()?;
    Some(Finding::fail(
        "maps",
        format!(
            "{} cannot be read, the first is {first}",
            count(i64::try_from(broken.len()).unwrap_or(i64::MAX), "PodGangMap")
        ),
        "correct it, or delete it: a missing map is made again from what runs",
    ))
}

fn text<'a>(object: &'a serde_json::Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// An update that is under way goes on after the switch, with Coppice's budgets.
fn updates(sets: &[PodCliqueSet]) -> Option<Finding> {
    let open: Vec<String> = sets
        .iter()
        .filter(|set| {
            let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
            progress.is_some_and(|progress| progress.update_started_at.is_some() && progress.update_ended_at.is_none())
        })
        .map(named)
        .collect();
    if open.is_empty() {
        return None;
    }
    let message = format!(
        "in the middle of an update, which goes on after the switch: {}",
        first_few(&open)
    );
    Some(Finding::warn(
        "updates",
        message,
        "wait until they have ended, if you can: kubectl get pcs -A",
    ))
}

/// What our admission would refuse in the sets that are stored. Stored objects are kept; writing the field again is not possible.
fn refusals(facts: &Facts, sets: &[PodCliqueSet]) -> Vec<Finding> {
    let topologies = facts.topologies.as_deref().unwrap_or_default().iter();
    let context = Context {
        schedulers: Schedulers::named(SCHEDULERS),
        auto_mnnvl: true,
        topology_aware_scheduling: true,
        topologies: topologies
            .map(|binding| (binding.name_any(), binding.spec.clone()))
            .collect(),
        ..Context::default()
    };
    let mut refused = Vec::new();
    for set in sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none()) {
        let mut defaulted = set.clone();
        default_pod_clique_set(&mut defaulted, Some(set));
        let outcome = validate_pod_clique_set(&defaulted, None, &context);
        refused.extend(outcome.errors.first().map(|error| format!("{}: {error}", named(set))));
    }
    let Some(first) = refused.first() else {
        return vec![Finding::ok(
            "fields",
            format!(
                "all {} would be admitted",
                count(i64::try_from(sets.len()).unwrap_or(0), "set")
            ),
        )];
    };
    let message = format!(
        "{} could not be created again, the first is {first}; stored, they keep running, and updates that leave the field are accepted",
        count(i64::try_from(refused.len()).unwrap_or(i64::MAX), "set")
    );
    vec![Finding::warn(
        "fields",
        message,
        "kubectl get pcs -n NAMESPACE NAME -o yaml | coppice lint -f - says all of it",
    )]
}

/// The schedulers that pods name need a profile.
fn schedulers(sets: &[PodCliqueSet]) -> Finding {
    let check = "schedulers";
    let used: std::collections::BTreeSet<&str> = sets
        .iter()
        .flat_map(|set| &set.spec.template.cliques)
        .map(|clique| clique.spec.pod_spec.scheduler_name().unwrap_or("default-scheduler"))
        .collect();
    let names: Vec<&str> = used.iter().copied().collect();
    let unknown: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| !SCHEDULERS.contains(name))
        .collect();
    let profiles = "keep them in config.scheduler.profiles of the chart's values";
    if !unknown.is_empty() {
        let message = format!(
            "pods name schedulers without a mapping of gangs: {}",
            unknown.join(", ")
        );
        return Finding::warn(
            check,
            message,
            "their pods are placed one by one; choose kai-scheduler, volcano or coppice for gangs",
        );
    }
    match names.as_slice() {
        [] => Finding::ok(check, "no pods name one"),
        ["default-scheduler"] => Finding::ok(check, "default-scheduler, as before; no profile is needed"),
        names => Finding::ok(check, format!("{}: {profiles}", names.join(", "))),
    }
}

/// Takes over a copy of everything, and counts what happens to pods.
async fn rehearsal(left: &Left) -> Finding {
    let check = "rehearsal";
    if let Some(error) = &left.unread {
        let next = "ask for the right to list pods and everything of grove.io in all namespaces";
        return Finding::fail(check, format!("cannot be done: {error}"), next);
    }
    let pods = i64::try_from(left.pods.len()).unwrap_or(i64::MAX);
    match copy::rehearse(left).await {
        Ok(outcome) if outcome.replaced.is_empty() => Finding::ok(
            check,
            format!(
                "taken over by Coppice on a copy: {} kept, none deleted, restarted or gated",
                count(pods, "pod")
            ),
        ),
        Ok(outcome) if outcome.unexpected.is_empty() => Finding::warn(
            check,
            format!(
                "on a copy, updates under way go on and replace {} of {}: {}",
                outcome.replaced.len(),
                count(pods, "pod"),
                first_few(&outcome.replaced)
            ),
            "wait until the updates have ended, if you can: kubectl get pcs -A",
        ),
        Ok(outcome) => Finding::fail(
            check,
            format!(
                "on a copy, Coppice deletes {} of {}: {}",
                outcome.unexpected.len(),
                count(pods, "pod"),
                first_few(&outcome.unexpected)
            ),
            "do not switch yet: report it with the set, its PodCliques and these pods as YAML",
        ),
        Err(error) => Finding::warn(
            check,
            format!("could not be done: {error:#}"),
            "the other checks hold without it",
        ),
    }
}
