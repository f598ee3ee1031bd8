//! Leftovers: objects and node labels of a domain that does not exist any more.
//!
//! A late Prepare can label a node after its domain was deleted, which would keep the node from every other domain. Whether
//! a domain exists is not decided from a cache, which may be older than the object: candidates are confirmed by a live list
//! of domains that began after the candidates were seen.

use std::collections::BTreeSet;

use super::command::{Command, Existing, ObjectKind};
use crate::api::limits;

/// Something that names a domain which the cache does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is.
    pub kind: ObjectKind,
    /// The object; for nodes, name and label.
    pub object: Existing,
}

/// Objects whose domain the cache does not have.
pub fn candidates<'a>(
    objects: impl IntoIterator<Item = (ObjectKind, &'a Existing)>,
    cached_domains: &BTreeSet<String>,
) -> Vec<Candidate> {
    let unknown = |object: &Existing| {
        object
            .domain_uid
            .as_ref()
            .is_some_and(|uid| !cached_domains.contains(uid))
    };
    let objects = objects.into_iter().filter(|(_, object)| unknown(object));
    objects
        .map(|(kind, object)| Candidate {
            kind,
            object: object.clone(),
        })
        .collect()
}

/// What to remove of the candidates, given a live list of all domains.
pub fn confirmed(candidates: &[Candidate], live_domains: &BTreeSet<String>) -> Vec<Command> {
    let mut commands = Vec::new();
    for Candidate { kind, object } in candidates {
        let Some(uid) = object.domain_uid.as_ref().filter(|uid| !live_domains.contains(*uid)) else {
            continue;
        };
        match kind {
            // What a person wrote into the label is not ours to remove.
            ObjectKind::Node if limits::is_uid(uid) => commands.push(Command::RemoveNodeLabel {
                node: object.name.clone(),
                domain_uid: uid.clone(),
            }),
            ObjectKind::Node => {}
            _ if !object.deleting => commands.push(Command::Delete(*kind, object.clone())),
            _ if object.has_finalizer => commands.push(Command::RemoveFinalizer(*kind, object.clone())),
            _ => {}
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, domain: Option<&str>) -> Existing {
        Existing {
            name: name.into(),
            domain_uid: domain.map(Into::into),
            has_finalizer: true,
            ..Existing::default()
        }
    }

    #[test]
    fn only_what_a_live_list_confirms_is_removed() {
        let node = object("a", Some("gone"));
        let set = object("s", Some("new"));
        let other = object("t", None);
        let objects = [
            (ObjectKind::Node, &node),
            (ObjectKind::DaemonSet, &set),
            (ObjectKind::ClaimTemplate, &other),
        ];
        let found = candidates(objects, &BTreeSet::new());
        assert_eq!(found.len(), 2);
        // The cache did not have the new domain yet.
        let live = BTreeSet::from(["new".to_owned()]);
        let expected = Command::RemoveNodeLabel {
            node: "a".into(),
            domain_uid: "gone".into(),
        };
        assert_eq!(confirmed(&found, &live), [expected]);
        let deleted = confirmed(&found, &BTreeSet::new());
        assert_eq!(deleted[1], Command::Delete(ObjectKind::DaemonSet, set));
    }
}
