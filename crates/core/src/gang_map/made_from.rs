//! What a stored map was made from: the generations of the set and of everything that has a size, by uid.
//!
//! Kept as an annotation of the PodGangMap and changed only together with it. An operator whose caches are behind those
//! of the last writer (it was paused, or two believe that they lead) would take the map back to sizes of the past, and
//! the other one forth again; with this record it sees that its view is old, and waits for the events that it lacks.

use std::collections::BTreeMap;

use coppice_api::names::annotations;
use coppice_api::types::{PodCliqueSet, PodGangMap};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::snapshot::ReplicaSnapshot;

/// Generations by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeFrom(BTreeMap<String, i64>);

impl MadeFrom {
    /// The view that a plan of this replica is made from.
    pub fn of(set: &PodCliqueSet, snapshot: &ReplicaSnapshot) -> Self {
        let standalone = snapshot
            .cliques
            .values()
            .map(|clique| &clique.metadata)
            .filter(|metadata| is_sized_by_itself(metadata));
        let groups = snapshot.groups.values().map(|group| &group.metadata);
        let all = std::iter::once(&set.metadata).chain(standalone).chain(groups);
        Self(
            all.filter_map(|metadata| Some((metadata.uid.clone()?, metadata.generation?)))
                .collect(),
        )
    }

    /// The view that a stored map was made from; empty when it is not recorded or cannot be read.
    pub fn read(map: &PodGangMap) -> Self {
        let annotations = map.metadata.annotations.as_ref();
        let text = annotations.and_then(|all| all.get(annotations::MADE_FROM_GENERATIONS));
        Self(
            text.and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default(),
        )
    }

    /// The annotation's value.
    pub fn to_text(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// Whether this view knows a later generation of something than `other` does. Objects that only one of them knows
    /// do not count: they may be new, or gone.
    pub fn is_ahead_of(&self, other: &Self) -> bool {
        let mut shared = self.0.iter().filter_map(|(uid, here)| Some((here, other.0.get(uid)?)));
        shared.any(|(here, there)| here > there)
    }
}

/// Whether a clique's own size decides about gangs: those of a scaling group follow their group.
fn is_sized_by_itself(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    !labels.is_some_and(|all| all.contains_key(coppice_api::names::labels::SCALING_GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(pairs: &[(&str, i64)]) -> MadeFrom {
        MadeFrom(pairs.iter().map(|(uid, number)| ((*uid).to_owned(), *number)).collect())
    }

    #[test]
    fn a_view_is_ahead_by_a_later_generation_of_what_both_know() {
        let stored = view(&[("set", 2), ("decode", 5), ("gone", 9)]);
        assert!(stored.is_ahead_of(&view(&[("set", 3), ("decode", 4)])));
        assert!(!stored.is_ahead_of(&view(&[("set", 2), ("decode", 5), ("new", 1)])));
        assert!(!view(&[]).is_ahead_of(&stored));
    }

    #[test]
    fn the_record_is_read_back_and_nonsense_is_none() {
        let stored = view(&[("set", 2)]);
        let mut map = PodGangMap::new("web-0", coppice_api::types::PodGangMapSpec::default());
        let mut write = |text: String| {
            map.metadata.annotations = Some(BTreeMap::from([(annotations::MADE_FROM_GENERATIONS.to_owned(), text)]));
            MadeFrom::read(&map)
        };
        assert_eq!(write(stored.to_text()), stored);
        assert_eq!(write("[1]".to_owned()), MadeFrom::default());
    }
}
