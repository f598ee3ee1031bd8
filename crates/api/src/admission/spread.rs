//! The annotations by which the replicas of a set keep apart.

use crate::names::annotations::{SPREAD_PREFERRED, SPREAD_REQUIRED};
use crate::names::limits::qualified_name;
use crate::spread::Spread;

use super::subject::Subject;
use super::topology::{constraints, own_name};
use super::{Context, FieldError, FieldPath, Outcome};

pub(super) fn check(subject: &Subject<'_>, context: &Context, found: &mut Outcome) {
    let annotations = subject.set.metadata.annotations.as_ref();
    let at = |key: &str| FieldPath::root("metadata").field("annotations").key(key);
    let value = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let given: Vec<(&str, &str)> = [SPREAD_REQUIRED, SPREAD_PREFERRED]
        .into_iter()
        .filter_map(|key| Some((key, value(key)?)))
        .collect();
    if given.len() > 1 {
        let detail = format!("{SPREAD_REQUIRED} is there as well; keep one of them");
        found.errors.push(FieldError::forbidden(at(SPREAD_PREFERRED), detail));
    }
    for (key, over) in given {
        if let Err(detail) = qualified_name(over) {
            let detail = format!("name a level of the topology, or a node label key: {detail}");
            found.errors.push(FieldError::invalid(at(key), over, detail));
        }
    }
    let Some((spread, level)) = Spread::of(annotations).and_then(|spread| Some((spread, spread.level()?))) else {
        return;
    };
    let mut names = constraints(subject).filter_map(|(_, constraint)| own_name(Some(constraint)));
    let detail = match names.next() {
        None => {
            "it names a level, but no topologyConstraint of the set names a topology; name one, or give a node label \
                 key such as topology.kubernetes.io/zone instead"
                .to_owned()
        }
        Some(topology) => {
            // A topology that does not exist has an error of its own.
            let Some(binding) = context.topologies.get(topology) else {
                return;
            };
            let levels: Vec<&str> = binding.levels.iter().map(|level| level.domain.as_str()).collect();
            if levels.contains(&level) {
                return;
            }
            format!(
                "topology {topology:?} has the domains {}; use one of them",
                levels.join(", ")
            )
        }
    };
    found.errors.push(FieldError::invalid(at(spread.key()), level, detail));
}
