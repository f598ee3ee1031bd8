//! The order of the rules about a PodCliqueSet, and what of them counts on an update.

use crate::names::{annotations, labels};
use crate::types::PodCliqueSet;

use super::ratchet::new_findings;
use super::subject::Subject;
use super::{
    Context, Outcome, autoscaling, cliques, coherent_update, default_pod_clique_set, immutability, metadata, mnnvl,
    name_collisions, pod_template, resource_sharing, rolling_update, scaling_groups, scheduler_backend, sizes, spread,
    startup_order, topology, topology_changes,
};

/// Validates a set that is created (`old` is none) or updated. `new` must have its defaults.
pub fn validate_pod_clique_set(new: &PodCliqueSet, old: Option<&PodCliqueSet>, context: &Context) -> Outcome {
    if new.metadata.deletion_timestamp.is_some() {
        return Outcome::default();
    }
    let Some(old) = old else {
        let subject = Subject::new(new);
        let mut found = rules_of_one_object(&subject, context);
        rolling_update::check_strategy(None, &subject, &mut found);
        return found;
    };
    // What a stored object leaves out means what it meant when it was stored.
    let stored = old;
    let mut old = stored.clone();
    default_pod_clique_set(&mut old, Some(stored));
    if old.spec == new.spec && judged_metadata(&old) == judged_metadata(new) {
        return Outcome::default();
    }
    let (old, new) = (Subject::new(&old), Subject::new(new));
    let mut found = new_findings(rules_of_one_object(&new, context), &rules_of_one_object(&old, context));
    immutability::check(&old, &new, context, &mut found);
    mnnvl::check_change(&old, &new, &mut found);
    topology_changes::check(&old, &new, &mut found);
    rolling_update::check_strategy(Some(&old), &new, &mut found);
    found
}

fn rules_of_one_object(subject: &Subject<'_>, context: &Context) -> Outcome {
    let mut found = Outcome::default();
    metadata::check(subject, &mut found);
    topology::check(subject, context, &mut found);
    spread::check(subject, context, &mut found);
    startup_order::check(subject, &mut found);
    resource_sharing::check(subject, &mut found);
    cliques::check(subject, &mut found);
    sizes::check(subject, &mut found);
    autoscaling::check(subject, &mut found);
    rolling_update::check(subject, &mut found);
    coherent_update::check(subject, &mut found);
    pod_template::check(subject, &mut found);
    scaling_groups::check(subject, &mut found);
    name_collisions::check(subject, &mut found);
    mnnvl::check(subject, context, &mut found);
    scheduler_backend::check(subject, context, &mut found);
    found
}

/// What of the metadata a rule looks at.
fn judged_metadata(set: &PodCliqueSet) -> [Option<&String>; 6] {
    let annotation = |key| set.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let label = |key| set.metadata.labels.as_ref().and_then(|all| all.get(key));
    [
        annotation(annotations::MNNVL_GROUP),
        annotation(annotations::SPREAD_PREFERRED),
        annotation(annotations::SPREAD_REQUIRED),
        annotation(annotations::VOLCANO_QUEUE),
        annotation(annotations::KAI_QUEUE),
        label(labels::KAI_QUEUE),
    ]
}
