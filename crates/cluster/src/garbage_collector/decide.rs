//! What the collector does with one object.
//!
//! Owns the pure rules of ownership. An owner counts as missing only when that was verified; an owner of an unknown
//! kind, or of a scope that cannot be, keeps its dependents.

use super::graph::{FOREGROUND, Graph, ORPHAN, Object, Owner};
use crate::kinds::KindId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How dependents of a deleted object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The next step for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Leave it alone.
    Nothing,
    /// Ask the API server for these owners and decide again.
    Verify(Vec<Owner>),
    /// Delete it.
    Delete(Propagation),
    /// It lives on: take these owner references away.
    DropOwners(BTreeSet<Arc<str>>),
    /// Its references block a circle of foreground deletions: let them block no more.
    Unblock,
    /// Take the reference to it away from its dependents, then remove its orphan finalizer.
    ReleaseDependents(Vec<Arc<str>>),
    /// Its part is done.
    RemoveFinalizer(&'static str),
}

/// What is known besides the graph.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// Served kinds, and whether they are namespaced.
    pub(crate) kinds: BTreeMap<KindId, bool>,
    /// Owners that do not exist: UID and the namespace in which they were looked for.
    pub(crate) absent: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Whether every kind has been listed, so that "no dependents" can be believed.
    pub(crate) complete: bool,
}

enum Standing {
    Solid,
    Waiting,
    Absent,
    Unverified,
}

/// Decides about one object.
pub(crate) fn decide(object: &Object, graph: &Graph, known: &Knowledge) -> Decision {
    if object.deleting {
        return finish_deletion(object, graph, known);
    }
    let mut solid = false;
    let mut useless = BTreeSet::new();
    let mut waiting = false;
    let mut unverified = Vec::new();
    for owner in &object.owners {
        match standing(object, owner, graph, known) {
            Standing::Solid => solid = true,
            Standing::Waiting => {
                waiting = true;
                useless.insert(owner.uid.clone());
            }
            Standing::Absent => {
                useless.insert(owner.uid.clone());
            }
            Standing::Unverified => unverified.push(owner.clone()),
        }
    }
    if !unverified.is_empty() {
        return Decision::Verify(unverified);
    }
    if useless.is_empty() {
        return Decision::Nothing;
    }
    if solid {
        return Decision::DropOwners(useless);
    }
    if waiting && graph.dependents(object.uid()).next().is_some() {
        let circular = graph.dependents(object.uid()).any(Object::waits_for_dependents);
        if circular && object.owners.iter().any(|owner| owner.blocks) {
            return Decision::Unblock;
        }
        return Decision::Delete(Propagation::Foreground);
    }
    Decision::Delete(if object.orphan {
        Propagation::Orphan
    } else if object.foreground {
        Propagation::Foreground
    } else {
        Propagation::Background
    })
}

fn finish_deletion(object: &Object, graph: &Graph, known: &Knowledge) -> Decision {
    if !known.complete {
        return Decision::Nothing;
    }
    if object.orphan {
        let dependents: Vec<Arc<str>> = graph
            .dependents(object.uid())
            .map(|dependent| dependent.uid().clone())
            .collect();
        return if dependents.is_empty() {
            Decision::RemoveFinalizer(ORPHAN)
        } else {
            Decision::ReleaseDependents(dependents)
        };
    }
    if object.foreground {
        let blocked = graph.dependents(object.uid()).any(|dependent| {
            dependent
                .owners
                .iter()
                .any(|owner| owner.uid == *object.uid() && owner.blocks)
        });
        if !blocked {
            return Decision::RemoveFinalizer(FOREGROUND);
        }
    }
    Decision::Nothing
}

fn standing(object: &Object, owner: &Owner, graph: &Graph, known: &Knowledge) -> Standing {
    let Some(owner_namespaced) = known.kinds.get(&owner.kind).copied() else {
        return Standing::Solid;
    };
    let namespace = &object.meta.key.namespace;
    if owner_namespaced && namespace.is_empty() {
        return Standing::Solid;
    }
    let namespace = if owner_namespaced { namespace.clone() } else { "".into() };
    match graph.get(&owner.uid) {
        Some(found)
            if found.kind == owner.kind
                && found.meta.key.namespace == namespace
                && found.meta.key.name == owner.name =>
        {
            if found.waits_for_dependents() {
                Standing::Waiting
            } else {
                Standing::Solid
            }
        }
        _ if known.absent.contains(&(owner.uid.clone(), namespace)) => Standing::Absent,
        _ => Standing::Unverified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::view;
    use serde_json::json;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    fn object(value: serde_json::Value) -> Object {
        let mut metadata = json!({"namespace": "default", "resourceVersion": "1", "name": value["uid"]});
        for (key, value) in value.as_object().unwrap() {
            metadata[key] = value.clone();
        }
        if metadata["namespace"] == "" {
            metadata.as_object_mut().unwrap().remove("namespace");
        }
        view(
            &Object::projection(&KindId::new("", "ConfigMap")),
            json!({"metadata": metadata}),
        )
    }

    fn owned_by(owners: &[(&str, bool)]) -> serde_json::Value {
        let references = owners.iter().map(|(uid, blocks)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": blocks})
        });
        references.collect()
    }

    fn child(uid: &str, owners: &[(&str, bool)]) -> Object {
        object(json!({"uid": uid, "ownerReferences": owned_by(owners)}))
    }

    fn dying(uid: &str, finalizers: &[&str]) -> Object {
        object(json!({"uid": uid, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}))
    }

    fn graph(objects: &[Object]) -> Graph {
        let mut graph = Graph::default();
        for object in objects {
            graph.apply(Arc::new(object.clone()));
        }
        graph
    }

    fn known(absent: &[&str]) -> Knowledge {
        Knowledge {
            kinds: [(KindId::new("", "ConfigMap"), true), (KindId::new("", "Node"), false)].into(),
            absent: absent.iter().map(|uid| ((*uid).into(), "default".into())).collect(),
            complete: true,
        }
    }

    #[test]
    fn a_present_owner_keeps_and_a_missing_one_is_verified_before_deleting() {
        let dependent = child("child", &[("owner", false)]);
        let with_owner = graph(&[object(json!({"uid": "owner"})), dependent.clone()]);
        assert_eq!(decide(&dependent, &with_owner, &known(&[])), Decision::Nothing);
        let alone = graph(std::slice::from_ref(&dependent));
        assert_eq!(
            decide(&dependent, &alone, &known(&[])),
            Decision::Verify(dependent.owners.clone())
        );
        assert_eq!(
            decide(&dependent, &alone, &known(&["owner"])),
            Decision::Delete(Propagation::Background)
        );
    }

    #[test]
    fn one_solid_owner_is_enough_and_dangling_references_go() {
        let dependent = child("child", &[("owner", false), ("lost", false)]);
        let graph = graph(&[object(json!({"uid": "owner"})), dependent.clone()]);
        assert_eq!(
            decide(&dependent, &graph, &known(&["lost"])),
            Decision::DropOwners(["lost".into()].into())
        );
    }

    #[test]
    fn foreground_deletion_waits_only_for_blocking_dependents() {
        let owner = dying("owner", &[FOREGROUND]);
        let blocking = child("a", &[("owner", true)]);
        let other = child("b", &[("owner", false)]);
        let both = graph(&[owner.clone(), blocking.clone(), other.clone()]);
        assert_eq!(decide(&owner, &both, &known(&[])), Decision::Nothing);
        assert_eq!(
            decide(&blocking, &both, &known(&[])),
            Decision::Delete(Propagation::Background)
        );
        let rest = graph(&[owner.clone(), other.clone()]);
        assert_eq!(
            decide(&owner, &rest, &known(&[])),
            Decision::RemoveFinalizer(FOREGROUND)
        );
        assert_eq!(
            decide(&other, &rest, &known(&[])),
            Decision::Delete(Propagation::Background)
        );
    }

    #[test]
    fn foreground_deletion_goes_down_the_tree() {
        let owner = dying("owner", &[FOREGROUND]);
        let middle = child("middle", &[("owner", true)]);
        let leaf = child("leaf", &[("middle", true)]);
        let graph = graph(&[owner, middle.clone(), leaf]);
        assert_eq!(
            decide(&middle, &graph, &known(&[])),
            Decision::Delete(Propagation::Foreground)
        );
    }

    #[test]
    fn a_circle_of_foreground_deletions_is_broken() {
        let mut first = dying("first", &[FOREGROUND]);
        first.owners = child("x", &[("second", true)]).owners;
        let second = child("second", &[("first", true)]);
        let graph = graph(&[first, second.clone()]);
        assert_eq!(decide(&second, &graph, &known(&[])), Decision::Unblock);
    }

    #[test]
    fn orphaning_releases_dependents_first() {
        let owner = dying("owner", &[ORPHAN]);
        let dependent = child("child", &[("owner", true)]);
        let with = graph(&[owner.clone(), dependent]);
        assert_eq!(
            decide(&owner, &with, &known(&[])),
            Decision::ReleaseDependents(vec!["child".into()])
        );
        let without = graph(std::slice::from_ref(&owner));
        assert_eq!(decide(&owner, &without, &known(&[])), Decision::RemoveFinalizer(ORPHAN));
        let blind = Knowledge {
            complete: false,
            ..known(&[])
        };
        assert_eq!(
            decide(&owner, &without, &blind),
            Decision::Nothing,
            "an incomplete view proves nothing"
        );
    }

    #[test]
    fn owners_of_other_namespaces_do_not_count() {
        let owner = object(json!({"uid": "owner", "namespace": "elsewhere"}));
        let dependent = child("child", &[("owner", false)]);
        let graph = graph(&[owner, dependent.clone()]);
        assert_eq!(
            decide(&dependent, &graph, &known(&[])),
            Decision::Verify(dependent.owners.clone())
        );
        assert_eq!(
            decide(&dependent, &graph, &known(&["owner"])),
            Decision::Delete(Propagation::Background)
        );
    }

    #[test]
    fn impossible_and_unknown_owners_keep_their_dependents() {
        let cluster_wide = object(json!({
            "uid": "child", "namespace": "", "ownerReferences": owned_by(&[("owner", false)]),
        }));
        let empty = Graph::default();
        assert_eq!(decide(&cluster_wide, &empty, &known(&[])), Decision::Nothing);
        let mut stranger = child("child", &[("owner", false)]);
        stranger.owners[0].kind = KindId::new("example.com", "Widget");
        assert_eq!(decide(&stranger, &empty, &known(&["owner"])), Decision::Nothing);
    }

    #[test]
    fn a_cluster_wide_owner_may_own_namespaced_objects() {
        let mut lease = child("lease", &[("node", false)]);
        lease.owners[0].kind = KindId::new("", "Node");
        let mut node = object(json!({"uid": "node", "namespace": ""}));
        node.kind = KindId::new("", "Node");
        assert_eq!(
            decide(&lease, &graph(&[node, lease.clone()]), &known(&[])),
            Decision::Nothing
        );
    }

    #[test]
    fn finalizers_choose_the_propagation() {
        let mut dependent = child("child", &[("owner", false)]);
        dependent.orphan = true;
        let graph = graph(std::slice::from_ref(&dependent));
        assert_eq!(
            decide(&dependent, &graph, &known(&["owner"])),
            Decision::Delete(Propagation::Orphan)
        );
    }

    #[test]
    fn changes_concern_owners_and_dependents() {
        let mut all = graph(&[object(json!({"uid": "owner"})), child("child", &[("owner", true)])]);
        let owner = dying("owner", &[FOREGROUND]);
        assert_eq!(all.apply(Arc::new(owner)), ["child".into(), "owner".into()].into());
        assert_eq!(all.remove("child"), ["owner".into()].into());
    }
}
