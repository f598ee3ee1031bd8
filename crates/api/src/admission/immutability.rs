//! What of a set cannot change once it exists: its composition, and what running gangs were built from.

use std::collections::BTreeSet;

use crate::types::CliqueStartupType;

use super::subject::Subject;
use super::{Context, FieldError, FieldPath, Outcome};

const FIXED: &str = "field is immutable; create a new set to change it";

pub(super) fn check(old: &Subject<'_>, new: &Subject<'_>, context: &Context, found: &mut Outcome) {
    let path = Subject::template_path();
    let (before, now) = (old.template, new.template);
    let mut keep = |field: &'static str, same: bool| {
        if !same {
            found.errors.push(FieldError::forbidden(path.field(field), FIXED));
        }
    };
    keep(
        "cliqueStartupType",
        before.clique_startup_type == now.clique_startup_type,
    );
    keep(
        "resourceClaimTemplates",
        before.resource_claim_templates == now.resource_claim_templates,
    );
    keep("resourceSharing", before.resource_sharing == now.resource_sharing);
    cliques(old, new, context, found);
    groups(old, new, found);
}

/// Reports what was added and what was removed.
fn composition<'a>(
    path: &FieldPath,
    what: &str,
    old: impl Iterator<Item = &'a str>,
    new: impl Iterator<Item = (FieldPath, &'a str)>,
    found: &mut Outcome,
) {
    let mut missing: BTreeSet<&str> = old.collect();
    let known = missing.clone();
    for (path, name) in new {
        missing.remove(name);
        if !known.contains(name) {
            let detail = format!(
                "not allowed to change {what} composition: {name:?} cannot be added to an existing set; create a new set"
            );
            found.errors.push(FieldError::forbidden(path.field("name"), detail));
        }
    }
    for name in missing {
        let detail = format!(
            "not allowed to change {what} composition: {name:?} cannot be removed from an existing set; create a new set"
        );
        found.errors.push(FieldError::forbidden(path.clone(), detail));
    }
}

fn cliques(old: &Subject<'_>, new: &Subject<'_>, context: &Context, found: &mut Outcome) {
    let path = Subject::template_path().field("cliques");
    let before = old.template.cliques.iter().map(|clique| clique.name.as_str());
    let now = new.cliques().map(|(path, clique)| (path, clique.name.as_str()));
    composition(&path, "clique", before, now, found);
    let ordered = matches!(
        old.template.clique_startup_type,
        Some(CliqueStartupType::InOrder | CliqueStartupType::Explicit)
    );
    for (index, (path, clique)) in new.cliques().enumerate() {
        let Some(stored) = old.clique(&clique.name) else {
            continue;
        };
        let at_this_place = old.template.cliques.get(index);
        if ordered && at_this_place.is_some_and(|other| other.name != clique.name && new.clique(&other.name).is_some())
        {
            let detail = "clique order cannot be changed when StartupType is InOrder or Explicit; put the clique back in its place";
            found.errors.push(FieldError::forbidden(path.clone(), detail));
        }
        let spec = path.field("spec");
        let mut keep = |path: FieldPath, same: bool| {
            if !same {
                found.errors.push(FieldError::forbidden(path, FIXED));
            }
        };
        keep(
            path.field("resourceSharing"),
            stored.resource_sharing == clique.resource_sharing,
        );
        let (stored, clique) = (&stored.spec, &clique.spec);
        keep(spec.field("roleName"), stored.role_name == clique.role_name);
        keep(spec.field("minAvailable"), stored.min_available == clique.min_available);
        keep(spec.field("startsAfter"), stored.starts_after == clique.starts_after);
        // The same scheduler, named or not, is no change.
        let (was, is) = (stored.pod_spec.scheduler_name(), clique.pod_spec.scheduler_name());
        let same = was == is || context.schedulers.resolve(was) == context.schedulers.resolve(is);
        keep(spec.field("podSpec").field("schedulerName"), same);
    }
}

fn groups(old: &Subject<'_>, new: &Subject<'_>, found: &mut Outcome) {
    let path = Subject::template_path().field("podCliqueScalingGroups");
    let before = old
        .template
        .pod_clique_scaling_groups
        .iter()
        .map(|group| group.name.as_str());
    let now = new.groups().map(|(path, group)| (path, group.name.as_str()));
    composition(&path, "scaling group", before, now, found);
    for (path, group) in new.groups() {
        let Some(stored) = old.group(&group.name) else { continue };
        let mut keep = |field: &'static str, same: bool| {
            if !same {
                found.errors.push(FieldError::forbidden(path.field(field), FIXED));
            }
        };
        keep("cliqueNames", stored.clique_names == group.clique_names);
        keep("minAvailable", stored.min_available == group.min_available);
        keep("resourceSharing", stored.resource_sharing == group.resource_sharing);
    }
}
