//! Server-side apply: merging applied configurations and keeping track of who owns which field.
//!
//! Owns field sets, `fieldsV1`, conflicts and `metadata.managedFields`; every decision is by schema (or, without one,
//! deduced: objects by field, all else as one value). The caller supplies the clock, stores the result, and prunes,
//! defaults and validates it. It assumes that all versions of a kind have the same field names: owners in another version
//! are treated as if they were in this one.
//!
//! The reference works on decoded objects, in which some fields are there although nobody wrote them (a role's rules, some
//! statuses and times). Here the caller brings objects into that form and says in [`Write::blank`] what an object has by
//! itself.

mod compare;
mod concerned;
mod element;
mod managed;
mod merge;
mod place;
mod set;
mod updater;
mod walk;

use serde_json::{Map, Value, json};

pub use element::{PathElement, Scalar};
pub use managed::{Managed, ManagedFields, ManagerKey, Operation, decode, encode};
pub use set::FieldSet;

use crate::gotext;
use crate::model::{Cursor, GroupVersionKind};
use place::Place;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Which fields a write through one endpoint can own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// All but these and what is below them.
    Except(FieldSet),
    /// Only these and what is below them.
    Only(FieldSet),
}

impl Reach {
    /// Everything.
    pub fn everything() -> Self {
        Reach::Except(FieldSet::default())
    }

    /// The main endpoint of a kind with a status.
    pub fn without_status() -> Self {
        Reach::Except(FieldSet::of_fields(&[&["status"]]))
    }

    /// The status endpoint of a custom resource.
    pub fn custom_status() -> Self {
        Reach::Except(FieldSet::of_fields(&[&["metadata"], &["spec"]]))
    }

    fn keep(&self, set: &mut FieldSet) {
        match self {
            Reach::Except(fields) => set.subtract_recursively(fields),
            Reach::Only(fields) => {
                let mut rest = set.clone();
                rest.subtract_recursively(fields);
                set.subtract(&rest);
            }
        }
    }
}

/// One write.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The type of the object; `None` if nothing is known about it.
    pub schema: Option<Cursor<'a>>,
    /// Version of the object as written, for example `apps/v1`.
    pub api_version: &'a str,
    /// Who writes.
    pub manager: &'a str,
    /// The subresource written through; empty for the object itself.
    pub subresource: &'a str,
    /// What can be owned there.
    pub reach: &'a Reach,
    /// What an object of this type has without anybody writing it, if that is anything.
    pub blank: Option<&'a Value>,
    /// The current time as stored in managed fields, for example `2026-01-02T03:04:05Z`; empty for a write without one.
    pub now: &'a str,
}

/// One field that somebody else owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner.
    pub manager: ManagerKey,
    /// The field.
    pub path: Vec<PathElement>,
}

impl Conflict {
    /// The field as text: `.spec.replicas`.
    pub fn field(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }
}

/// Why a configuration could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Somebody else owns fields with other values; apply with force to take them over.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit the schema.
    #[error("failed to create typed patch object ({object}): {problem}")]
    Untyped {
        /// `namespace/name; group/version, Kind=kind`.
        object: String,
        /// What does not fit, with paths.
        problem: String,
    },
    /// The configuration states managed fields.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsStated,
    /// The managed fields of the live object cannot be read.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(String),
}

impl ApplyError {
    /// The causes of a conflict as entries of `status.details.causes`.
    pub fn causes(&self) -> Vec<Value> {
        let ApplyError::Conflicts(conflicts) = self else {
            return Vec::new();
        };
        let cause = |conflict: &Conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.manager.describe()),
                "field": conflict.field(),
            })
        };
        conflicts.iter().map(cause).collect()
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        let owner = one.manager.describe();
        return format!("Apply failed with 1 conflict: conflict with {owner}: {}", one.field());
    }
    let mut lines: Vec<String> = Vec::new();
    let mut current: Option<&ManagerKey> = None;
    for conflict in conflicts {
        if current != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager.describe()));
            current = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field()));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Applies a configuration to the live object (an object with nothing but its identity, if there is none yet) and
/// returns the object with its new managed fields.
pub fn apply(write: &Write<'_>, live: &Value, config: &Value, force: bool) -> Result<Value, ApplyError> {
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::ManagedFieldsStated);
    }
    let place = Place::root(write.schema);
    let problems = walk::typing_errors(place, config, false);
    if !problems.is_empty() {
        return Err(ApplyError::Untyped {
            object: identity(config),
            problem: joined(&problems),
        });
    }
    let mut managed = decode(managed_entries(live)).map_err(ApplyError::ManagedFields)?;
    if managed.is_empty() {
        // What is there was written before anybody tracked it; it belongs to a manager of its own.
        let nothing = || json!({"apiVersion": config.get("apiVersion"), "kind": config.get("kind")});
        let empty = write.blank.cloned().unwrap_or_else(nothing);
        let past = Write {
            manager: BEFORE_FIRST_APPLY,
            ..*write
        };
        managed = updater::update(&past, &empty, &without_managed_fields(live), managed);
    }
    let mut result = updater::apply(write, live, config, managed.clone(), force);
    if let (Err(ApplyError::Conflicts(conflicts)), "kubectl") = (&result, write.manager) {
        // A migration from client-side apply: what was last applied that way and is unchanged may be taken over.
        if let Some(allowed) = last_applied_fields(write, live) {
            let rest: Vec<Conflict> = conflicts
                .iter()
                .filter(|conflict| !allowed.has(&conflict.path))
                .cloned()
                .collect();
            result = if rest.is_empty() {
                updater::apply(write, live, config, managed, true)
            } else {
                Err(ApplyError::Conflicts(rest))
            };
        }
    }
    let (merged, managed) = result?;
    let mut object = merged.unwrap_or_else(|| live.clone());
    if write.manager == "kubectl" && last_applied(&object).is_some() {
        set_last_applied(&mut object, config);
    }
    put_managed_fields(&mut object, encode(&managed));
    Ok(object)
}

/// Tracks a create, update or any patch but apply: `new` is the object about to be stored, `live` the stored one (an
/// object without content for a create). Returns `new` with its managed fields.
pub fn update(write: &Write<'_>, live: &Value, new: Value) -> Value {
    let mut object = new;
    let stored = managed_entries(live);
    let stated = match take_managed_fields(&mut object) {
        Some(Value::Array(entries)) => Some(entries),
        _ => None,
    };
    let entries = match stated {
        Some(entries) if entries == stored => entries,
        Some(entries) if write.subresource.is_empty() => {
            let managed = if is_reset(&entries) {
                ManagedFields::new()
            } else {
                let stated = decode(&entries).ok().filter(|managed| !managed.is_empty());
                stated.unwrap_or_else(|| decode(stored).unwrap_or_default())
            };
            return tracked(write, live, object, managed);
        }
        _ => stored.to_vec(),
    };
    if !concerned::applies(write, &entries) || entries.is_empty() {
        return tracked(write, live, object, decode(&entries).unwrap_or_default());
    }
    let changes = updater::changes(write, live, &object);
    put_managed_fields(&mut object, concerned::update(write, changes, entries));
    object
}

/// The object with managed fields as they are after the write, decided on all that they were before.
fn tracked(write: &Write<'_>, live: &Value, mut object: Value, managed: ManagedFields) -> Value {
    // Objects whose managed fields were cleared stay untracked until the next apply.
    let is_create = live
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    if managed.is_empty() && !is_create {
        return object;
    }
    let mut managed = updater::update(write, live, &object, managed);
    managed::compact(&mut managed);
    put_managed_fields(&mut object, encode(&managed));
    object
}

/// Keeps the old managed fields if nothing but their times differs, so that a write without effect is none. Says whether
/// the objects are equal then.
pub fn keep_times_if_unchanged(old: &Value, new: &mut Value) -> bool {
    if old == new {
        return true;
    }
    let unchanged = same_but_times(old, new);
    if unchanged {
        *new = old.clone();
    }
    unchanged
}

fn same_but_times(old: &Value, new: &Value) -> bool {
    fn without<'a>(value: &'a Value, left_out: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let members = value.as_object().into_iter().flatten();
        members.filter(move |(name, _)| *name != left_out)
    }
    let same_metadata = match (old.get("metadata"), new.get("metadata")) {
        (Some(old), Some(new)) => without(old, "managedFields").eq(without(new, "managedFields")),
        (old, new) => old.is_none() && new.is_none(),
    };
    let (old_entries, new_entries) = (managed_entries(old), managed_entries(new));
    same_metadata
        && without(old, "metadata").eq(without(new, "metadata"))
        && old_entries.len() == new_entries.len()
        && old_entries
            .iter()
            .zip(new_entries)
            .all(|(old, new)| without(old, "time").eq(without(new, "time")))
}

/// The paths an object sets, by schema.
pub fn field_set(schema: Option<Cursor<'_>>, object: &Value) -> FieldSet {
    walk::field_set(Place::root(schema), object)
}

fn managed_entries(object: &Value) -> &[Value] {
    object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [one] => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    take_managed_fields(&mut object);
    object
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn put_managed_fields(object: &mut Value, entries: Vec<Value>) {
    let Some(root) = object.as_object_mut() else { return };
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

fn last_applied(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

fn set_last_applied(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.insert(LAST_APPLIED.to_owned(), Value::String(gotext::json(&config) + "\n"));
    }
}

/// The fields of the last client-side apply that are still as it left them.
fn last_applied_fields(write: &Write<'_>, live: &Value) -> Option<FieldSet> {
    let place = Place::root(write.schema);
    let applied: Value = serde_json::from_str(last_applied(live)?).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(write.api_version) {
        return None;
    }
    if !walk::typing_errors(place, &applied, false).is_empty() {
        return None;
    }
    let changes = compare::compare(place, &applied, live);
    let set = walk::field_set(place, &applied);
    Some(
        set.difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

fn identity(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupVersionKind::from_api_version(text("/apiVersion"), text("/kind"));
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!(
        "{namespace}/{name}; {}/{}, Kind={}",
        kind.group, kind.version, kind.kind
    )
}

fn joined(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    }
}
