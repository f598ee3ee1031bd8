//! The ComputeDomains of a replica: there before the pods that use them, and until the last of those is gone. A
//! finalizer of ours holds a domain that somebody deletes under running pods.

use coppice_api::names::{finalizers, labels};
use serde_json::{Value, json};

use super::{Draft, Replica};
use crate::command::{Command, Kind};
use crate::mnnvl;
use crate::snapshot::{ReplicaSnapshot, target_of_value};

pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) {
    let facts = &replica.context.facts;
    let index = replica.layout.index;
    let wanted = mnnvl::groups(facts);
    // A domain is held by a finalizer of ours, so there must be a set that lets it go.
    let finalizers = facts.set.metadata.finalizers.as_deref().unwrap_or_default();
    let held = finalizers.iter().any(|name| name == finalizers::POD_CLIQUE_SET);
    for group in wanted.iter().filter(|_| held) {
        if !replica
            .snapshot
            .domains
            .contains_key(&facts.replica(index).compute_domain_name(group))
        {
            draft
                .children
                .push(Command::Create(mnnvl::compute_domain(facts, index, group)));
        }
    }
    for (name, stored) in &replica.snapshot.domains {
        let keep = wanted
            .iter()
            .any(|group| facts.replica(index).compute_domain_name(group) == *name);
        let leaving = stored["metadata"]["deletionTimestamp"].is_string();
        if (!keep || leaving) && !in_use(name, replica.snapshot) {
            let_go(stored, draft);
        }
    }
}

/// Whether a pod is left that may hold a channel: one of a clique that claims it, or one that has another template than
/// its clique has now.
fn in_use(name: &str, snapshot: &ReplicaSnapshot) -> bool {
    // A pod that ended has given its channel back.
    snapshot.pods.values().filter(|pod| pod.ended.is_none()).any(|pod| {
        let Some(clique) = snapshot.cliques.get(&pod.clique) else {
            return true;
        };
        let of_clique = clique.metadata.labels.as_ref();
        let hash = of_clique.and_then(|all| all.get(labels::POD_TEMPLATE_HASH));
        mnnvl::uses(clique.spec.pod_spec.as_map(), name) || hash != Some(&pod.template_hash)
    })
}

/// Deletes a domain, and lets it go.
pub(crate) fn let_go(stored: &Value, draft: &mut Draft) {
    let target = target_of_value(Kind::ComputeDomain, stored);
    if !stored["metadata"]["deletionTimestamp"].is_string() {
        draft.delete(target);
        return;
    }
    let all = stored["metadata"]["finalizers"].as_array();
    let (ours, others): (Vec<&Value>, Vec<&Value>) = all
        .into_iter()
        .flatten()
        .partition(|name| **name == finalizers::COMPUTE_DOMAIN);
    if !ours.is_empty() {
        let patch = json!({"metadata": {"finalizers": others}});
        draft.pods.push(Command::Merge { target, patch });
    }
}
