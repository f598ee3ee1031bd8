//! What the scheduler of Kubernetes cannot express of a gang, where its gang scheduling is enabled: it has one minimum and
//! one required level for all pods of a gang. What would be lost of a promise is refused; what would be lost of a wish is
//! warned of.

use super::subject::{Subject, most_pods};
use super::topology::constraints;
use super::{FieldError, Outcome};

pub(super) fn check(subject: &Subject<'_>, name: &str, found: &mut Outcome) {
    let together: i64 = subject
        .cliques()
        .map(|(_, clique)| {
            let group = subject.group_of(&clique.name);
            i64::from(group.map_or(1, |group| group.min_available.unwrap_or(1)))
        })
        .sum();
    for (path, constraint) in constraints(subject) {
        let of_set = subject.template.topology_constraint.as_ref();
        let whole = of_set.is_some_and(|of_set| std::ptr::eq(of_set, constraint));
        if constraint.required().is_some() && !whole && together > 1 {
            let detail = format!(
                "{name} packs whole gangs only: set the constraint on the template, or use a scheduler that packs parts"
            );
            found.errors.push(FieldError::forbidden(path, detail));
        } else if constraint.preferred().is_some() {
            found.warnings.push(format!(
                "{path}: {name} has no preferred packing: pack.preferred has no effect"
            ));
        }
    }
    let above = subject.cliques().find(|(_, clique)| {
        let minimum = clique.spec.min_available.unwrap_or(1);
        most_pods(clique) > minimum
    });
    if let Some((_, clique)) = above.filter(|_| together > 1) {
        found.warnings.push(format!(
            "{name} counts all pods of a gang together: pods of clique {:?} above minAvailable may start in place of others \
             that are needed",
            clique.name
        ));
    }
}
