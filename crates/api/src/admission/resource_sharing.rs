//! Inline claim templates and the claims that replicas share.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names::limits::{check_claim, dns_1123_label, index_digits};
use crate::types::{ResourceSharing, ResourceSharingScope};

use super::subject::{Subject, most_copies, most_pods};
use super::{FieldError, FieldPath, Outcome};

/// The owner of shared claims: how long its name is, and how many replicas it may have.
#[derive(Clone, Copy)]
struct Owner {
    name_length: usize,
    replicas: i32,
}

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    templates(subject, found);
    let path = Subject::template_path();
    let replicas = subject.set.spec.replicas;
    let name_length = subject.name().len();
    let set = Owner { name_length, replicas };
    entries(
        subject,
        &path.field("resourceSharing"),
        &subject.template.resource_sharing,
        set,
        found,
    );
    set_filters(subject, &path.field("resourceSharing"), found);
    let replica_length = name_length + 1 + index_digits(replicas);
    for (path, clique) in subject.cliques() {
        let path = path.field("resourceSharing");
        let group_length = subject
            .group_of(&clique.name)
            .map_or(0, |group| group.name.len() + 2 + index_digits(most_copies(group)));
        let owner = Owner {
            name_length: replica_length + group_length + 1 + clique.name.len(),
            replicas: most_pods(clique),
        };
        entries(subject, &path, &clique.resource_sharing, owner, found);
        for (index, sharing) in clique.resource_sharing.iter().enumerate() {
            if sharing.filter.is_some() {
                let at = path.item(index, &sharing.name).field("filter");
                let detail = "a clique has no children to choose from; remove the filter";
                found.errors.push(FieldError::forbidden(at, detail));
            }
        }
    }
    for (path, group) in subject.groups() {
        let path = path.field("resourceSharing");
        let owner = Owner {
            name_length: replica_length + 1 + group.name.len(),
            replicas: most_copies(group),
        };
        entries(subject, &path, &group.resource_sharing, owner, found);
        for (index, sharing) in group.resource_sharing.iter().enumerate() {
            let Some(filter) = &sharing.filter else { continue };
            let at = path.item(index, &sharing.name).field("filter");
            if filter.child_clique_names.is_empty() {
                let detail = "name at least one clique in childCliqueNames, or remove the filter to share with all";
                found.errors.push(FieldError::required(at.clone(), detail));
            }
            let known = |name: &str| subject.group_of(name).is_some_and(|of| of.name == group.name);
            names(
                &at.field("childCliqueNames"),
                &filter.child_clique_names,
                known,
                "name a clique of this group",
                found,
            );
        }
    }
}

fn templates(subject: &Subject<'_>, found: &mut Outcome) {
    let path = Subject::template_path().field("resourceClaimTemplates");
    let mut seen = BTreeSet::new();
    for (index, template) in subject.template.resource_claim_templates.iter().enumerate() {
        let path = path.item(index, &template.name);
        let at = path.field("name");
        if template.name.is_empty() {
            found.errors.push(FieldError::required(
                at,
                "give the template a name for resourceSharing to use",
            ));
        } else if !seen.insert(template.name.as_str()) {
            let detail = "each template needs a name of its own";
            found.errors.push(FieldError::duplicate(at, &template.name, detail));
        }
        let requests = template.template_spec.pointer("/spec/devices/requests");
        if requests.and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let spec = path.field("templateSpec").field("spec");
            let at = spec.field("devices").field("requests");
            found
                .errors
                .push(FieldError::required(at, "request at least one device"));
        }
    }
}

fn entries(subject: &Subject<'_>, path: &FieldPath, list: &[ResourceSharing], owner: Owner, found: &mut Outcome) {
    let mut seen = BTreeSet::new();
    for (index, sharing) in list.iter().enumerate() {
        let path = path.item(index, &sharing.name);
        let at = path.field("name");
        let index = match sharing.scope {
            ResourceSharingScope::PerReplica => Some(owner.replicas),
            _ => None,
        };
        if sharing.name.is_empty() {
            found.errors.push(FieldError::required(at, "name a claim template"));
        } else if !seen.insert(sharing.name.as_str()) {
            let detail = "list each claim template once";
            found.errors.push(FieldError::duplicate(at, &sharing.name, detail));
        } else if let Err(detail) = dns_1123_label(&sharing.name) {
            let detail = format!("{detail}, because the pods' claims are named after it");
            found
                .errors
                .push(FieldError::invalid(at, sharing.name.as_str(), detail));
        } else if let Some(overrun) = check_claim(owner.name_length, &sharing.name, index) {
            found
                .errors
                .push(FieldError::too_long(at, &sharing.name, overrun.to_string()));
        }
        let inline = subject.has_claim_template(&sharing.name);
        let namespace = sharing.namespace.as_deref().unwrap_or("");
        if inline && !namespace.is_empty() {
            let detail =
                "must be empty, because the name is that of a template in this set; rename the one or the other";
            found
                .errors
                .push(FieldError::invalid(path.field("namespace"), namespace, detail));
        }
        if !sharing.scope.is_known() {
            let known = ResourceSharingScope::KNOWN.iter().copied();
            found.errors.push(FieldError::not_supported(
                path.field("scope"),
                sharing.scope.as_str(),
                known,
            ));
        }
    }
}

fn set_filters(subject: &Subject<'_>, path: &FieldPath, found: &mut Outcome) {
    for (index, sharing) in subject.template.resource_sharing.iter().enumerate() {
        let Some(filter) = &sharing.filter else { continue };
        let at = path.item(index, &sharing.name).field("filter");
        if filter.child_clique_names.is_empty() && filter.child_scaling_group_names.is_empty() {
            let detail = "name at least one clique or scaling group, or remove the filter to share with all";
            found.errors.push(FieldError::required(at.clone(), detail));
        }
        let known = |name: &str| subject.clique(name).is_some();
        let hint = "name a clique of spec.template.cliques";
        names(
            &at.field("childCliqueNames"),
            &filter.child_clique_names,
            known,
            hint,
            found,
        );
        let known = |name: &str| subject.group(name).is_some();
        let hint = "name a group of spec.template.podCliqueScalingGroups";
        names(
            &at.field("childScalingGroupNames"),
            &filter.child_scaling_group_names,
            known,
            hint,
            found,
        );
    }
}

fn names(path: &FieldPath, list: &[String], known: impl Fn(&str) -> bool, hint: &str, found: &mut Outcome) {
    for (index, name) in list.iter().enumerate().filter(|(_, name)| !known(name)) {
        found
            .errors
            .push(FieldError::not_found(path.item(index, name), name, hint));
    }
}
