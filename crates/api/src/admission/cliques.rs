//! Each clique by itself: name, labels, sizes; and what must be unique among cliques.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::limits::{check_standalone_clique, dns_1123_label, label_value, qualified_name};
use crate::types::PodCliqueTemplate;

use super::subject::{Subject, most_pods};
use super::{FieldError, FieldPath, Outcome};

/// Kubernetes' limit for all annotations of one object.
const ANNOTATIONS_SIZE: usize = 256 * 1024;

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    if subject.template.cliques.is_empty() {
        let at = Subject::template_path().field("cliques");
        found
            .errors
            .push(FieldError::required(at, "at least one PodClique must be defined"));
    }
    let mut names = BTreeSet::new();
    let mut roles = BTreeMap::new();
    for (path, clique) in subject.cliques() {
        name(subject, &path, clique, found);
        if !clique.name.is_empty() && !names.insert(clique.name.as_str()) {
            let detail = "each clique needs a name of its own";
            found
                .errors
                .push(FieldError::duplicate(path.field("name"), &clique.name, detail));
        }
        let role = clique.spec.role_name.as_str();
        if let Some(other) = roles.insert(role, clique.name.as_str()) {
            let detail = format!("each clique needs a role name of its own, and clique {other:?} has this one");
            found.errors.push(FieldError::duplicate(
                path.field("spec").field("roleName"),
                role,
                detail,
            ));
        }
        check_labels(&path.field("labels"), &clique.labels, found);
        check_annotations(&path.field("annotations"), &clique.annotations, found);
        sizes(&path.field("spec"), clique, found);
    }
}

fn name(subject: &Subject<'_>, path: &FieldPath, clique: &PodCliqueTemplate, found: &mut Outcome) {
    let at = path.field("name");
    if clique.name.trim().is_empty() {
        found.errors.push(FieldError::required(at, "give the clique a name"));
    } else if let Err(detail) = dns_1123_label(&clique.name) {
        found.errors.push(FieldError::invalid(at, clique.name.as_str(), detail));
    } else if subject.group_of(&clique.name).is_none() {
        let replicas = subject.set.spec.replicas;
        let overrun = check_standalone_clique(&subject.name(), &clique.name, replicas, most_pods(clique));
        if let Some(overrun) = overrun {
            found
                .errors
                .push(FieldError::too_long(at, &clique.name, overrun.to_string()));
        }
    }
}

fn check_labels(path: &FieldPath, labels: &BTreeMap<String, String>, found: &mut Outcome) {
    for (key, value) in labels {
        if let Err(detail) = qualified_name(key) {
            found
                .errors
                .push(FieldError::invalid(path.key(key), key.as_str(), detail));
        }
        if let Err(detail) = label_value(value) {
            found
                .errors
                .push(FieldError::invalid(path.key(key), value.as_str(), detail));
        }
    }
}

fn check_annotations(path: &FieldPath, annotations: &BTreeMap<String, String>, found: &mut Outcome) {
    for key in annotations.keys() {
        // Kubernetes compares annotation keys without case.
        if let Err(detail) = qualified_name(&key.to_lowercase()) {
            found
                .errors
                .push(FieldError::invalid(path.key(key), key.as_str(), detail));
        }
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ANNOTATIONS_SIZE {
        let detail = format!("all annotations together may have at most {ANNOTATIONS_SIZE} bytes and have {size}");
        found.errors.push(FieldError::too_long(path.clone(), "", detail));
    }
}

fn sizes(path: &FieldPath, clique: &PodCliqueTemplate, found: &mut Outcome) {
    let replicas = clique.spec.replicas;
    if replicas < 0 {
        let detail = "must be 0 or more; a clique with 0 replicas is idle until it is scaled up";
        found
            .errors
            .push(FieldError::invalid(path.field("replicas"), replicas, detail));
    }
    let at = path.field("minAvailable");
    let Some(minimum) = clique.spec.min_available else {
        found
            .errors
            .push(FieldError::required(at, "say how many pods must be there"));
        return;
    };
    if minimum <= 0 {
        found
            .errors
            .push(FieldError::invalid(at, minimum, "must be more than 0"));
    } else if minimum > replicas && replicas != 0 {
        let detail = format!("must be at most replicas, which is {replicas}");
        found.errors.push(FieldError::invalid(at, minimum, detail));
    }
}
