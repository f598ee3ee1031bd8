//! Rules about ClusterTopologyBindings. As with sets, an update is not held to account for what was wrong before.

use std::collections::BTreeSet;

use crate::names::limits::qualified_name;
use crate::types::ClusterTopologyBinding;

use super::ratchet::new_findings;
use super::{Context, FieldError, FieldPath, Outcome};

/// Validates a binding that is created (`old` is none) or updated.
pub fn validate_cluster_topology_binding(
    new: &ClusterTopologyBinding,
    old: Option<&ClusterTopologyBinding>,
    context: &Context,
) -> Outcome {
    if new.metadata.deletion_timestamp.is_some() || old.is_some_and(|old| old.spec == new.spec) {
        return Outcome::default();
    }
    let found = rules(new, context);
    match old {
        None => found,
        Some(old) => new_findings(found, &rules(old, context)),
    }
}

fn rules(binding: &ClusterTopologyBinding, context: &Context) -> Outcome {
    let mut found = Outcome::default();
    levels(binding, &mut found);
    schedulers(binding, context, &mut found);
    found
}

fn is_domain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.as_bytes()[0].is_ascii_lowercase() && text.bytes().all(inner)
}

fn levels(binding: &ClusterTopologyBinding, found: &mut Outcome) {
    let path = FieldPath::root("spec").field("levels");
    if binding.spec.levels.is_empty() {
        found.errors.push(FieldError::required(
            path.clone(),
            "a topology needs at least one level",
        ));
    }
    let mut domains = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for (index, level) in binding.spec.levels.iter().enumerate() {
        let path = path.index(index);
        let (domain, key) = (level.domain.as_str(), level.key.as_str());
        if !is_domain(domain) {
            let detail = "must be 1 to 63 lower-case letters, digits and '-', beginning with a letter";
            found
                .errors
                .push(FieldError::invalid(path.field("domain"), domain, detail));
        } else if !domains.insert(domain) {
            let detail = "each level needs a domain of its own";
            found
                .errors
                .push(FieldError::duplicate(path.field("domain"), domain, detail));
        }
        if let Err(detail) = qualified_name(key) {
            found.errors.push(FieldError::invalid(path.field("key"), key, detail));
        } else if !keys.insert(key) {
            let detail = "each level needs a node label of its own";
            found.errors.push(FieldError::duplicate(path.field("key"), key, detail));
        }
    }
}

fn schedulers(binding: &ClusterTopologyBinding, context: &Context, found: &mut Outcome) {
    let path = FieldPath::root("spec").field("schedulerTopologyBindings");
    let mut seen = BTreeSet::new();
    let profiles = &context.schedulers.profiles;
    for (index, reference) in binding.spec.scheduler_topology_bindings.iter().enumerate() {
        let name = reference.scheduler_name.as_str();
        let at = path.item(index, name).field("schedulerName");
        if !seen.insert(name) {
            found
                .errors
                .push(FieldError::duplicate(at, name, "name each scheduler once"));
            continue;
        }
        match profiles.get(name) {
            None => {
                let enabled = profiles.iter().filter(|(_, profile)| profile.topology_aware);
                let enabled: Vec<&str> = enabled.map(|(name, _)| name.as_str()).collect();
                let detail = match enabled.as_slice() {
                    [] => "scheduler backend is not enabled in Grove; remove the entry".to_owned(),
                    names => format!(
                        "scheduler backend is not enabled in Grove; name one of: {}",
                        names.join(", ")
                    ),
                };
                found.errors.push(FieldError::invalid(at, name, detail));
            }
            Some(profile) if !profile.topology_aware => {
                let detail = "scheduler backend does not implement topology-aware scheduling; remove the entry";
                found.errors.push(FieldError::invalid(at, name, detail));
            }
            Some(_) => {}
        }
    }
}
