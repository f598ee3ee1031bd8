//! Gangs in the model: which there are, by replica of a set, and which gang another one depends on.
//!
//! The labels of a gang say what it is for: a scaled gang (`Tail` or `ScaleOut`) depends on the anchor of its replica. Gangs of
//! operators without these labels name their base on their pods. Never looks at the name of a gang.

use std::sync::Arc;

use coppice_api::names::labels;
use coppice_api::types::PodGangRole;
use coppice_runtime::cache::ObjectKey;

use super::{GangId, GangRecord, Model, ReplicaKey};

impl Model {
    /// Adds or replaces a gang.
    pub fn put_gang(&mut self, record: Arc<GangRecord>) {
        let key = record.meta.key.clone();
        let place = |record: &GangRecord| (record.replica.clone(), record.entry.clone());
        let moved = self.gangs.get(&key).map(|old| place(old)) != Some(place(&record));
        self.unlist_gang(&key, moved);
        if let Some(replica) = &record.replica {
            self.replicas.entry(replica.clone()).or_default().insert(key.clone());
            if moved {
                self.note_replica(replica);
            }
        }
        if !record.standing.as_ref().is_some_and(|standing| standing.holds) {
            self.unplaced.insert(key.clone());
        }
        self.gangs.insert(key, record);
    }

    /// Removes a gang. Its pods stay, and wait.
    pub fn remove_gang(&mut self, key: &ObjectKey) {
        self.unlist_gang(key, true);
    }

    fn unlist_gang(&mut self, key: &ObjectKey, moved: bool) {
        self.unplaced.remove(key);
        self.changes.note(GangId::Gang(key.clone()));
        let replica = self.gangs.remove(key).and_then(|old| old.replica.clone());
        if let Some(replica) = replica
            && let Some(gangs) = self.replicas.get_mut(&replica)
        {
            gangs.remove(key);
            if gangs.is_empty() {
                self.replicas.remove(&replica);
            }
            if moved {
                self.note_replica(&replica);
            }
        }
    }

    /// Notes that the gangs of a replica may depend on another gang than before.
    fn note_replica(&mut self, replica: &ReplicaKey) {
        for key in self.replicas.get(replica).into_iter().flatten() {
            self.changes.note(GangId::Gang(key.clone()));
        }
    }

    /// The other gangs of the replica that a gang belongs to.
    pub(super) fn siblings_of<'a>(&'a self, record: &'a GangRecord) -> impl Iterator<Item = &'a Arc<GangRecord>> {
        let replica = record.replica.as_ref().and_then(|replica| self.replicas.get(replica));
        let keys = replica.into_iter().flatten().filter(|key| **key != record.meta.key);
        keys.filter_map(|key| self.gangs.get(key))
    }

    /// The gang that has to be scheduled before this one. While a replica has several anchors, it is the last that is not
    /// younger.
    #[must_use]
    pub fn base_of(&self, record: &GangRecord) -> Option<ObjectKey> {
        let Some((epoch, role)) = &record.entry else {
            return self.base_named_by_pods(record);
        };
        if !matches!(role, PodGangRole::Tail | PodGangRole::ScaleOut) {
            return None;
        }
        let anchors = self.siblings_of(record).filter_map(|sibling| match &sibling.entry {
            Some((of, PodGangRole::Anchor)) => Some((*of, &sibling.meta.key)),
            _ => None,
        });
        let chosen = anchors.min_by_key(|(of, key)| {
            let younger = of > epoch;
            let newest_first = (!younger).then_some(std::cmp::Reverse(*of));
            (younger, newest_first, *of, (*key).clone())
        });
        chosen.map(|(_, key)| key.clone())
    }

    fn base_named_by_pods(&self, record: &GangRecord) -> Option<ObjectKey> {
        let pods = self.member_pods(&record.meta.key).filter(|pod| pod.counts());
        let name = pods.into_iter().find_map(|pod| pod.label(labels::BASE_POD_GANG))?;
        Some(ObjectKey::new(record.meta.key.namespace.clone(), name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Changes;
    use crate::model::testing::{PodSketch, gang, gang_of_epoch, key, two_racks};

    #[test]
    fn a_scaled_gang_depends_on_the_anchor_that_its_labels_lead_to() {
        let mut model = two_racks(2, 2);
        let put = |model: &mut Model, name: &str, epoch: u32, role: &str| {
            model.put_gang(gang_of_epoch(("s", name), (epoch, role), &[("c", 1)], None));
        };
        let base = |model: &Model, name: &str| model.base_of(model.gang(&key(name)).unwrap());
        put(&mut model, "tail", 100_002, "Tail");
        assert_eq!(base(&model, "tail"), None, "there is no anchor");
        put(&mut model, "anchor", 100_001, "Anchor");
        put(&mut model, "more", 100_003, "ScaleOut");
        put(&mut model, "bridge", 100_004, "Bridge");
        model.put_gang(gang_of_epoch(("other", "x"), (1, "Anchor"), &[("c", 1)], None));
        for (name, expected) in [
            ("tail", Some("anchor")),
            ("more", Some("anchor")),
            ("anchor", None),
            ("bridge", None),
        ] {
            assert_eq!(base(&model, name), expected.map(key), "{name}");
        }
        put(&mut model, "next", 100_005, "Anchor");
        put(&mut model, "late", 100_006, "Tail");
        assert_eq!(base(&model, "tail"), Some(key("anchor")));
        assert_eq!(base(&model, "late"), Some(key("next")));
        model.take_changes();
        model.remove_gang(&key("anchor"));
        assert_eq!(base(&model, "tail"), Some(key("next")), "a younger one before none");
        let Changes::Gangs(changed) = model.take_changes() else {
            panic!("gang by gang")
        };
        assert!(changed.contains(&GangId::Gang(key("tail"))), "it has another base now");
    }

    #[test]
    fn gangs_without_these_labels_have_the_base_that_their_pods_name() {
        let mut model = two_racks(2, 2);
        model.put_gang(gang("more", &[("b", 1)], None));
        let mut pod = PodSketch::new("b0", "more", "b");
        pod.base = Some("base".into());
        model.put_pod(&pod.record());
        assert_eq!(model.base_of(model.gang(&key("more")).unwrap()), Some(key("base")));
    }
}
