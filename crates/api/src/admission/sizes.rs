//! Sizes that are fine one by one and too much together. Bounds of single fields are in the schema.

use crate::sizes::{MOST_COPIES, MOST_PODS, MOST_PODS_IN_GANG, MOST_PODS_IN_SET, MOST_PREDECESSORS, MOST_REPLICAS};

use super::extent::Extent;
use super::subject::Subject;
use super::{FieldError, FieldPath, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    let mut at_most = |path: FieldPath, value: i32, most: i32| {
        if value > most {
            let detail = format!("should be less than or equal to {most}");
            found.errors.push(FieldError::invalid(path, value, detail));
        }
    };
    let replicas = FieldPath::root("spec").field("replicas");
    at_most(replicas.clone(), subject.set.spec.replicas, MOST_REPLICAS);
    for (path, clique) in subject.cliques() {
        at_most(path.field("spec").field("replicas"), clique.spec.replicas, MOST_PODS);
    }
    for (path, group) in subject.groups() {
        at_most(path.field("replicas"), group.replicas.unwrap_or(1), MOST_COPIES);
    }
    let Extent {
        pods,
        gang_pods,
        predecessors,
    } = Extent::of(subject.set);
    let mut product = |path: FieldPath, value: u64, most: u64, what: &str| {
        if value > most {
            let detail = format!("{what} may have at most {most} and would have {value}");
            found.errors.push(FieldError::invalid(path, value, detail));
        }
    };
    let template = Subject::template_path();
    product(
        replicas,
        pods,
        MOST_PODS_IN_SET,
        "pods: all replicas of the set together",
    );
    product(
        template.clone(),
        gang_pods,
        MOST_PODS_IN_GANG,
        "pods: one gang, which is the standalone cliques and minAvailable copies of each scaling group, or one further copy,",
    );
    product(
        template.field("cliqueStartupType"),
        predecessors,
        MOST_PREDECESSORS,
        "start-up dependencies: the base gang of one replica, where every clique lists every clique it starts after,",
    );
}
