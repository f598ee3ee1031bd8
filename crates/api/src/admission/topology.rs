//! Topology constraints of one object: allowed at all, with a known topology, known domains, and no parent narrower than a
//! child.

use crate::types::TopologyConstraint;

use super::subject::Subject;
use super::{Context, FieldError, FieldPath, Outcome};

/// All constraints of a set, with their paths.
pub(super) fn constraints<'a>(subject: &Subject<'a>) -> impl Iterator<Item = (FieldPath, &'a TopologyConstraint)> {
    let of_set = subject.template.topology_constraint.as_ref();
    let own = of_set.map(|constraint| (Subject::template_path(), constraint));
    let cliques = subject
        .cliques()
        .filter_map(|(path, clique)| Some((path, clique.topology_constraint.as_ref()?)));
    let groups = subject
        .groups()
        .filter_map(|(path, group)| Some((path, group.topology_constraint.as_ref()?)));
    let all = own.into_iter().chain(cliques).chain(groups);
    all.map(|(path, constraint)| (path.field("topologyConstraint"), constraint))
}

/// The topology that a constraint names itself.
pub(super) fn own_name(constraint: Option<&TopologyConstraint>) -> Option<&str> {
    constraint?.topology_name.as_deref().filter(|name| !name.is_empty())
}

pub(super) fn check(subject: &Subject<'_>, context: &Context, found: &mut Outcome) {
    shapes(subject, found);
    if !context.topology_aware_scheduling {
        for (path, constraint) in constraints(subject) {
            let domains: Vec<&str> = constraint
                .required()
                .into_iter()
                .chain(constraint.preferred())
                .collect();
            let detail = "topology-aware scheduling is switched off in this cluster: set topologyAwareScheduling.enabled in \
                          the operator's configuration, or remove the constraint";
            found.errors.push(FieldError::invalid(path, domains, detail));
        }
        return;
    }
    names_present(subject, found);
    let Some(topology) = one_topology(subject, found) else {
        return;
    };
    let Some(binding) = context.topologies.get(topology) else {
        for (path, constraint) in constraints(subject).filter(|(_, constraint)| own_name(Some(constraint)).is_some()) {
            let name = own_name(Some(constraint)).unwrap_or_default();
            let detail = format!("ClusterTopologyBinding {name:?} not found; create it or name another");
            found
                .errors
                .push(FieldError::invalid(path.field("topologyName"), name, detail));
        }
        return;
    };
    let domains: Vec<&str> = binding.levels.iter().map(|level| level.domain.as_str()).collect();
    if known_domains(subject, topology, &domains, found) {
        hierarchy(subject, &domains, found);
        redundant(subject, &domains, found);
    }
}

/// What the CRD's own rules say of a constraint, for objects that did not pass through an API server.
fn shapes(subject: &Subject<'_>, found: &mut Outcome) {
    for (path, constraint) in constraints(subject) {
        if constraint.required().is_none() && constraint.preferred().is_none() {
            let detail = match constraint.pack {
                None => {
                    "topologyConstraint must specify pack or deprecated packDomain; set pack.required or pack.preferred"
                }
                Some(_) => "pack must specify at least one of required or preferred",
            };
            found.errors.push(FieldError::required(path.field("pack"), detail));
        }
        let own = constraint
            .pack
            .as_ref()
            .and_then(|pack| pack.required.as_deref())
            .unwrap_or("");
        let deprecated = constraint.pack_domain.as_deref().unwrap_or("");
        if !own.is_empty() && !deprecated.is_empty() {
            let detail = "must not set both pack.required and deprecated packDomain; remove packDomain";
            found
                .errors
                .push(FieldError::invalid(path.field("pack").field("required"), own, detail));
        }
    }
}

/// Each constraint needs a topology, its own or that of an enclosing level.
fn names_present(subject: &Subject<'_>, found: &mut Outcome) {
    let detail = "name a ClusterTopologyBinding here or at an enclosing level";
    let missing =
        |path: FieldPath| FieldError::required(path.field("topologyConstraint").field("topologyName"), detail);
    let set = subject.template.topology_constraint.as_ref();
    if set.is_some() && own_name(set).is_none() {
        found.errors.push(missing(Subject::template_path()));
    }
    for (path, clique) in subject.cliques() {
        let group = subject
            .group_of(&clique.name)
            .and_then(|group| group.topology_constraint.as_ref());
        let own = clique.topology_constraint.as_ref();
        if own.is_some() && own_name(own).or(own_name(group)).or(own_name(set)).is_none() {
            found.errors.push(missing(path));
        }
    }
    for (path, group) in subject.groups() {
        let own = group.topology_constraint.as_ref();
        if own.is_some() && own_name(own).or(own_name(set)).is_none() {
            found.errors.push(missing(path));
        }
    }
}

/// All names must be the same; that name, if there is one.
fn one_topology<'a>(subject: &Subject<'a>, found: &mut Outcome) -> Option<&'a str> {
    let named: Vec<(FieldPath, &'a str)> = constraints(subject)
        .filter_map(|(path, constraint)| Some((path, own_name(Some(constraint))?)))
        .collect();
    let (_, first) = *named.first().as_ref()?;
    if named.iter().all(|(_, name)| name == first) {
        return Some(first);
    }
    for (path, name) in named {
        let detail = "all constraints of a set must use the same topology";
        found
            .errors
            .push(FieldError::invalid(path.field("topologyName"), name, detail));
    }
    None
}

fn known_domains(subject: &Subject<'_>, topology: &str, domains: &[&str], found: &mut Outcome) -> bool {
    let before = found.errors.len();
    for (path, constraint) in constraints(subject) {
        let pack = constraint.pack.as_ref();
        let named = [
            (path.field("packDomain"), constraint.pack_domain.as_deref()),
            (
                path.field("pack").field("required"),
                pack.and_then(|pack| pack.required.as_deref()),
            ),
            (
                path.field("pack").field("preferred"),
                pack.and_then(|pack| pack.preferred.as_deref()),
            ),
        ];
        for (path, domain) in named {
            let Some(domain) = domain.filter(|domain| !domain.is_empty() && !domains.contains(domain)) else {
                continue;
            };
            let detail = format!(
                "topology {topology:?} has the domains {}; use one of them",
                domains.join(", ")
            );
            found.errors.push(FieldError::invalid(path, domain, detail));
        }
    }
    found.errors.len() == before
}

/// Which of the two domains of a constraint is compared.
type Choice = fn(&TopologyConstraint) -> Option<&str>;

fn hierarchy(subject: &Subject<'_>, domains: &[&str], found: &mut Outcome) {
    let mut pair = |path: &FieldPath,
                    parent: Option<&TopologyConstraint>,
                    child: Option<&TopologyConstraint>,
                    whose: String| {
        let (Some(parent), Some(child)) = (parent, child) else {
            return;
        };
        let required: (Choice, FieldPath) = (TopologyConstraint::required, path.clone());
        let preferred: (Choice, FieldPath) = (TopologyConstraint::preferred, path.field("pack").field("preferred"));
        for (choose, at) in [required, preferred] {
            let (Some(outer), Some(inner)) = (choose(parent), choose(child)) else {
                continue;
            };
            if level(domains, outer) > level(domains, inner) {
                let detail = format!(
                    "{outer:?} is narrower than {inner:?}, the domain of {whose} inside it; use {inner:?} or broader here"
                );
                found.errors.push(FieldError::invalid(at, outer, detail));
            }
        }
    };
    let set = subject.template.topology_constraint.as_ref();
    let set_path = Subject::template_path().field("topologyConstraint");
    for (_, clique) in subject.cliques() {
        pair(
            &set_path,
            set,
            clique.topology_constraint.as_ref(),
            format!("clique {:?}", clique.name),
        );
    }
    for (path, group) in subject.groups() {
        let own = group.topology_constraint.as_ref();
        pair(&set_path, set, own, format!("scaling group {:?}", group.name));
        let path = path.field("topologyConstraint");
        for clique in group.clique_names.iter().filter_map(|name| subject.clique(name)) {
            pair(
                &path,
                own,
                clique.topology_constraint.as_ref(),
                format!("clique {:?}", clique.name),
            );
        }
    }
}

fn redundant(subject: &Subject<'_>, domains: &[&str], found: &mut Outcome) {
    for (path, constraint) in constraints(subject) {
        let (Some(required), Some(preferred)) = (constraint.required(), constraint.preferred()) else {
            continue;
        };
        if level(domains, preferred) < level(domains, required) {
            found.warnings.push(format!(
                "{path}: pack.preferred {preferred:?} is broader than pack.required {required:?} and has no effect"
            ));
        }
    }
}

fn level(domains: &[&str], domain: &str) -> Option<usize> {
    domains.iter().position(|known| *known == domain)
}
