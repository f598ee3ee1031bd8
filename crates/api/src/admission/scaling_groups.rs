//! Scaling groups: names, members, sizes.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::epochs::reads_like_a_gang;
use crate::names::limits::{check_copy_gang, check_member_clique, dns_1123_label};
use crate::types::PodCliqueScalingGroupConfig;

use super::subject::{Subject, most_copies, most_pods};
use super::{FieldError, FieldPath, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    let mut names = BTreeSet::new();
    let mut taken = BTreeMap::new();
    for (path, group) in subject.groups() {
        let at = path.field("name");
        if group.name.trim().is_empty() {
            found
                .errors
                .push(FieldError::required(at, "give the scaling group a name"));
        } else if let Err(detail) = dns_1123_label(&group.name) {
            found.errors.push(FieldError::invalid(at, group.name.as_str(), detail));
        } else if !names.insert(group.name.as_str()) {
            let detail = "each scaling group needs a name of its own";
            found.errors.push(FieldError::duplicate(at, &group.name, detail));
        } else if reads_like_a_gang(&group.name) {
            let detail = "must not contain an index and an epoch (a number from 100001) with more after them: gangs of another \
                          PodCliqueSet could have the same names; rename the scaling group";
            found.errors.push(FieldError::invalid(at, group.name.as_str(), detail));
        } else {
            let set = (&*subject.name(), subject.set.spec.replicas);
            if let Some(overrun) = check_copy_gang(set, (&group.name, most_copies(group))) {
                found
                    .errors
                    .push(FieldError::too_long(at, &group.name, overrun.to_string()));
            }
        }
        members(subject, &path.field("cliqueNames"), group, &mut taken, found);
        sizes(&path, group, found);
    }
}

fn members<'a>(
    subject: &Subject<'a>,
    path: &FieldPath,
    group: &'a PodCliqueScalingGroupConfig,
    taken: &mut BTreeMap<&'a str, &'a str>,
    found: &mut Outcome,
) {
    if group.clique_names.is_empty() {
        let detail = "a scaling group needs at least one clique";
        found.errors.push(FieldError::required(path.clone(), detail));
    }
    for (index, name) in group.clique_names.iter().enumerate() {
        let at = path.item(index, name);
        let Some(clique) = subject.clique(name) else {
            let detail = "name a clique of spec.template.cliques";
            found.errors.push(FieldError::not_found(at, name, detail));
            continue;
        };
        if let Some(other) = taken.insert(name, &group.name) {
            let detail = format!("a clique belongs to one scaling group at most, and this one is already in {other:?}");
            found.errors.push(FieldError::duplicate(at, name, detail));
            continue;
        }
        let set = (&*subject.name(), subject.set.spec.replicas);
        let overrun = check_member_clique(set, (&group.name, most_copies(group)), (name, most_pods(clique)));
        if let Some(overrun) = overrun {
            found.errors.push(FieldError::too_long(at, name, overrun.to_string()));
        }
    }
}

fn sizes(path: &FieldPath, group: &PodCliqueScalingGroupConfig, found: &mut Outcome) {
    let replicas = group.replicas.unwrap_or(1);
    let minimum = group.min_available.unwrap_or(1);
    if replicas < 0 {
        let detail = "must be 0 or more; a scaling group with 0 replicas is idle until it is scaled up";
        found
            .errors
            .push(FieldError::invalid(path.field("replicas"), replicas, detail));
    }
    let at = path.field("minAvailable");
    if minimum <= 0 {
        found
            .errors
            .push(FieldError::invalid(at, minimum, "must be more than 0"));
    } else if minimum > replicas && replicas != 0 {
        let detail = format!("must be at most replicas, which is {replicas}");
        found.errors.push(FieldError::invalid(at, minimum, detail));
    }
}
