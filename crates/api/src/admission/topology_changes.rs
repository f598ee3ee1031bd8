//! Topology constraints do not change, with two exceptions for objects of older versions.
//!
//! Migration: `packDomain` may become `pack.required` with the same domain. Repair: a constraint with `packDomain` and
//! without a topology, of its own or inherited, may get a topology name. Clients do the one after the other, each in an
//! update of its own; both at once is refused, as by the Go operator.

use crate::types::TopologyConstraint;

use super::subject::Subject;
use super::topology::{constraints, own_name};
use super::{FieldError, FieldPath, Outcome};

/// What a constraint means, however it is spelt.
fn meaning(constraint: &TopologyConstraint) -> (Option<&str>, Option<&str>) {
    (constraint.required(), constraint.preferred())
}

fn deprecated(constraint: &TopologyConstraint) -> Option<&str> {
    constraint.pack_domain.as_deref().filter(|domain| !domain.is_empty())
}

pub(super) fn check(old: &Subject<'_>, new: &Subject<'_>, found: &mut Outcome) {
    let set = |subject: &Subject<'_>| subject.template.topology_constraint.clone();
    let before = set(old);
    one(
        &Subject::template_path(),
        before.as_ref(),
        None,
        set(new).as_ref(),
        found,
    );
    let inherited = own_name(before.as_ref());
    for (path, group) in new.groups() {
        let Some(stored) = old.group(&group.name) else { continue };
        one(
            &path,
            stored.topology_constraint.as_ref(),
            inherited,
            group.topology_constraint.as_ref(),
            found,
        );
    }
    for (path, clique) in new.cliques() {
        let Some(stored) = old.clique(&clique.name) else {
            continue;
        };
        let group = old
            .group_of(&clique.name)
            .and_then(|group| group.topology_constraint.as_ref());
        let inherited = own_name(group).or(inherited);
        one(
            &path,
            stored.topology_constraint.as_ref(),
            inherited,
            clique.topology_constraint.as_ref(),
            found,
        );
    }
    for (path, constraint) in constraints(new) {
        if deprecated(constraint).is_some() {
            found
                .warnings
                .push(format!("{path}.packDomain is deprecated; use {path}.pack.required"));
        }
    }
}

/// Judges the change of one constraint. `inherited` is the topology that the old constraint had from outside.
fn one(
    path: &FieldPath,
    old: Option<&TopologyConstraint>,
    inherited: Option<&str>,
    new: Option<&TopologyConstraint>,
    found: &mut Outcome,
) {
    let path = path.field("topologyConstraint");
    let (old, new) = match (old, new) {
        (None, None) => return,
        (Some(old), Some(new)) => (old, new),
        (None, Some(_)) => {
            found.errors.push(FieldError::forbidden(
                path,
                "topology constraint cannot be added after creation; create a new set",
            ));
            return;
        }
        (Some(_), None) => {
            found.errors.push(FieldError::forbidden(
                path,
                "topology constraint cannot be removed after creation; create a new set",
            ));
            return;
        }
    };
    let renamed = own_name(Some(old)) != own_name(Some(new));
    let respelt = deprecated(old) != deprecated(new);
    let same_domains = meaning(old) == meaning(new);
    let migration = !renamed && deprecated(new).is_none();
    let unresolved = own_name(Some(old)).or(inherited).is_none();
    let repair = !respelt && unresolved && deprecated(old).is_some() && own_name(Some(new)).is_some();
    if !same_domains {
        let detail = "topology constraint cannot be changed after creation; create a new set";
        found.errors.push(FieldError::forbidden(path, detail));
    } else if renamed && !repair {
        let detail = if respelt {
            "the topology cannot change together with the move from packDomain to pack.required; do one after the other"
        } else {
            "topologyName cannot be changed after creation; create a new set"
        };
        found
            .errors
            .push(FieldError::forbidden(path.field("topologyName"), detail));
    } else if respelt && !migration {
        let detail = "pack.required cannot be written as packDomain again, which is deprecated";
        found.errors.push(FieldError::forbidden(path, detail));
    }
}
