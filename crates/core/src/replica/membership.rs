//! What ties pods and cliques to their gang, put right where it names another: after the gangs of another operator were
//! taken over, or when the composition of a gang changed. A pod is only relabelled, never replaced for it.

use coppice_api::names::labels;
use serde_json::{Map, Value, json};

use super::{Draft, Replica};
use crate::backends::Stamp;
use crate::command::{Command, Kind};
use crate::layout::Place;
use crate::objects::pod_index_offset;
use crate::snapshot::{Membership, target_of};

/// Corrects the labels of cliques. Cliques come before the gangs, pods after them.
pub(crate) fn plan_cliques(replica: &Replica<'_>, draft: &mut Draft) {
    for (clique, state) in replica.layout.cliques.iter().zip(&replica.cliques) {
        let Some(stored) = state.stored.filter(|_| state.alive()) else {
            continue;
        };
        let wanted = match clique.place {
            Place::Standalone => None,
            Place::Member { .. } => Some(replica.layout.gang_of(clique).name.as_str()),
        };
        let label = |key: &str| stored.metadata.labels.as_ref().and_then(|all| all.get(key));
        let mut patch = Map::new();
        if label(labels::POD_GANG).map(String::as_str) != wanted {
            patch.insert(labels::POD_GANG.to_owned(), json!(wanted));
        }
        if label(labels::BASE_POD_GANG).is_some() {
            patch.insert(labels::BASE_POD_GANG.to_owned(), Value::Null);
        }
        if !patch.is_empty() {
            let target = target_of(Kind::PodClique, &stored.metadata);
            draft.merge_child(target, json!({"metadata": {"labels": patch}}));
        }
    }
}

/// Corrects the labels and annotations of pods that have a gang.
pub(crate) fn plan_pods(replica: &Replica<'_>, draft: &mut Draft) {
    let backend = replica.context.backend();
    for (clique, state) in replica.layout.cliques.iter().zip(&replica.cliques) {
        let offset = pod_index_offset(&replica.layout, clique);
        for (share, pods) in clique.shares.iter().zip(&state.parts) {
            let gang = &replica.layout.gangs[share.gang];
            // A pod is not given a gang that does not exist yet.
            if !replica.snapshot.gangs.contains_key(&gang.name) {
                continue;
            }
            let stamp = backend.stamp(&gang.name, &clique.name);
            for pod in pods {
                let index = offset
                    .zip(pod.index)
                    .map(|(offset, index)| offset.saturating_add(index));
                if let Some(patch) = correction(&pod.membership, &gang.name, &stamp, index) {
                    let target = pod.target();
                    draft.pods.push(Command::Merge { target, patch });
                }
            }
        }
    }
}

/// The patch that gives a pod its gang, and its index in its copy: that moves when a clique before it is resized. A pod made
/// before there was such an index is not given one, for its containers could not read it.
fn correction(stored: &Membership, gang: &str, stamp: &Stamp, index: Option<u32>) -> Option<Value> {
    let mut labels = Map::new();
    if let (Some(_), Some(index)) = (stored.group_index.filter(|stored| Some(*stored) != index), index) {
        labels.insert(labels::SCALING_GROUP_POD_INDEX.to_owned(), index.to_string().into());
    }
    if stored.gang != gang {
        labels.insert(labels::POD_GANG.to_owned(), gang.into());
    }
    if stored.has_base_gang {
        labels.insert(labels::BASE_POD_GANG.to_owned(), Value::Null);
    }
    let lacking = |stored: &std::collections::BTreeMap<String, String>, (key, value): (&String, &String)| {
        (stored.get(key) != Some(value)).then(|| (key.clone(), Value::from(value.as_str())))
    };
    labels.extend(
        stamp
            .labels
            .iter()
            .filter_map(|entry| lacking(&stored.stamp.labels, entry)),
    );
    let annotations: Map<String, Value> = stamp
        .annotations
        .iter()
        .filter_map(|entry| lacking(&stored.stamp.annotations, entry))
        .collect();
    let mut metadata = Map::new();
    for (field, entries) in [("labels", labels), ("annotations", annotations)] {
        if !entries.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(entries));
        }
    }
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}
