//! The rules of ownership: who gains and who loses fields when an object changes, and what an applier's silence removes.

use std::sync::LazyLock;

use serde_json::Value;

use super::compare::{self, Comparison, same};
use super::managed::{Managed, ManagedFields, ManagerKey, Operation};
use super::place::Place;
use super::set::FieldSet;
use super::{ApplyError, Conflict, Write, merge, walk};

/// Fields that identify an object or are the server's: nobody owns them.
static IDENTITY: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The managers after a change that was not an apply.
pub(super) fn update(write: &Write<'_>, live: &Value, new: &Value, mut managed: ManagedFields) -> ManagedFields {
    let place = Place::root(write.schema);
    reconcile(place, &mut managed);
    transfer(write, changes(write, live, new), &mut managed);
    managed
}

/// What a write changed of what it can own.
pub(super) fn changes(write: &Write<'_>, live: &Value, new: &Value) -> Comparison {
    filtered(write, compare::compare(Place::root(write.schema), live, new))
}

/// Gives the writer what it changed.
pub(super) fn transfer(write: &Write<'_>, changes: Comparison, managed: &mut ManagedFields) {
    let mut gained = changes.added.union(changes.modified);
    take_from_others(managed, &gained, &changes.removed, None);
    managed.retain(|_, owner| !owner.set.is_empty());
    // Whoever wrote this owns what it changed, itself included: its own fields were taken from it like everybody's.
    gained.subtract(&IDENTITY);
    if !gained.is_empty() {
        let key = ManagerKey::new(write.manager, Operation::Update, write.api_version, write.subresource);
        let fresh = || Managed {
            set: FieldSet::default(),
            api_version: write.api_version.to_owned(),
            time: None,
        };
        let owner = managed.entry(key).or_insert_with(fresh);
        owner.set.extend(gained);
        owner.time = (!write.now.is_empty()).then(|| write.now.to_owned());
    }
}

/// The merged object (`None` if it is the live one) and the managers after an apply.
pub(super) fn apply(
    write: &Write<'_>,
    live: &Value,
    config: &Value,
    mut managed: ManagedFields,
    force: bool,
) -> Result<(Option<Value>, ManagedFields), ApplyError> {
    let place = Place::root(write.schema);
    reconcile(place, &mut managed);
    let key = ManagerKey::new(write.manager, Operation::Apply, write.api_version, write.subresource);
    let merged = merge::merge(place, Some(live), Some(config)).unwrap_or_else(|| live.clone());
    let last = managed.remove(&key);
    let time = last.as_ref().and_then(|last| last.time.clone());
    let mut set = walk::field_set(place, config);
    write.reach.keep(&mut set);
    managed.insert(
        key.clone(),
        Managed {
            set,
            api_version: write.api_version.to_owned(),
            time,
        },
    );
    let object = match last.filter(|last| !last.set.is_empty()) {
        Some(last) => drop_abandoned(place, merged, &managed, &last.set),
        None => merged,
    };

    let changes = filtered(write, compare::compare(place, live, &object));
    let gained = changes.added.union(changes.modified);
    let mut conflicts = Vec::new();
    let mut others: Vec<_> = managed.iter().filter(|(other, _)| **other != key).collect();
    others.sort_by_key(|(other, _)| other.identifier());
    for (other, owner) in others {
        let paths = owner.set.intersection(&gained).paths();
        conflicts.extend(paths.into_iter().map(|path| Conflict {
            manager: other.clone(),
            path,
        }));
    }
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    take_from_others(&mut managed, &gained, &changes.removed, Some(&key));
    if let Some(mine) = managed.get_mut(&key) {
        mine.set.subtract(&IDENTITY);
    }
    managed.retain(|_, owner| !owner.set.is_empty());
    let changed = !same(live, &object);
    if let (true, Some(mine)) = (changed, managed.get_mut(&key)) {
        mine.time = Some(write.now.to_owned());
    }
    Ok((changed.then_some(object), managed))
}

fn filtered(write: &Write<'_>, mut changes: Comparison) -> Comparison {
    for set in [&mut changes.added, &mut changes.modified, &mut changes.removed] {
        write.reach.keep(set);
    }
    changes
}

/// Changed and removed fields leave everybody but the one who may keep them.
fn take_from_others(managed: &mut ManagedFields, gained: &FieldSet, removed: &FieldSet, keeper: Option<&ManagerKey>) {
    for (_, owner) in managed.iter_mut().filter(|(key, _)| keeper != Some(key)) {
        owner.set.subtract(gained);
        owner.set.subtract(removed);
    }
}

/// Removes what the applier set last time, did not mention this time, and nobody else owns.
fn drop_abandoned(place: Place<'_>, merged: Value, managed: &ManagedFields, last: &FieldSet) -> Value {
    let mut owned = FieldSet::default();
    for owner in managed.values() {
        owned.extend(owner.set.clone());
    }
    if last.difference(&owned).is_empty() {
        return merged;
    }
    let without = |object: &Value, set: &FieldSet| walk::remove(place, object, set).unwrap_or(Value::Null);
    let declared = |set: &FieldSet| set.with_declared_fields(place);
    let last = declared(last);
    let merged_set = declared(&walk::field_set(place, &merged));
    // First without anything of the last time, then with what somebody owns added back.
    let bare = without(&merged, &last);
    let bare_set = declared(&walk::field_set(place, &bare));
    let kept = without(&merged, &merged_set.difference(&bare_set.union(declared(&owned))));
    // What went along but was not the applier's stays.
    let kept_set = declared(&walk::field_set(place, &kept));
    let abandoned = merged_set.difference(&kept_set).intersection(&last);
    if abandoned.is_empty() {
        merged
    } else {
        without(&merged, &abandoned)
    }
}

/// Sets written when a type was granular own the whole of what has since become one value.
fn reconcile(place: Place<'_>, managed: &mut ManagedFields) {
    for owner in managed.values_mut() {
        if let Some(set) = reconciled(place, &owner.set) {
            owner.set = set;
        }
    }
}

fn reconciled(place: Place<'_>, set: &FieldSet) -> Option<FieldSet> {
    use super::element::PathElement;
    let mut changed = None;
    for (element, entry) in &set.entries {
        if entry.below.is_empty() {
            continue;
        }
        let child = match element {
            PathElement::Field(name) => match place.child(name) {
                Some(child) => child,
                None => continue,
            },
            _ => place.items(),
        };
        let replacement = if child.is_one_value() {
            Some(FieldSet::default())
        } else {
            reconciled(child, &entry.below)
        };
        if let Some(below) = replacement {
            let member = entry.member || below.is_empty();
            let out: &mut FieldSet = changed.get_or_insert_with(|| set.clone());
            out.put(element.clone(), super::set::Entry { member, below });
        }
    }
    changed
}
