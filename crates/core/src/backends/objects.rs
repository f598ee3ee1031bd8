//! What the objects of all back-ends have in common: metadata that follows the gang, and corrections that touch only
//! fields of ours.

use coppice_api::names::annotations;
use coppice_api::names::label_sets::Labels;
use coppice_api::types::GangTopologyConstraint;
use serde_json::{Map, Value};

use super::{Gang, live_groups};
use crate::command::{Kind, merge_patch};
use crate::object::{Body, Metadata, NewObject, Owner};

/// Annotations of a gang that speak of the PodGang object itself.
const NOT_COPIED: [&str; 2] = [annotations::PLACEMENT_PLAN, annotations::LAST_APPLIED];

/// An object with the name, labels and annotations of the gang, owned by it.
pub(super) fn object(gang: &Gang<'_>, kind: Kind, with_annotations: bool, spec: Value) -> NewObject {
    let metadata = &gang.object.metadata;
    let copied = metadata.annotations.clone().filter(|_| with_annotations);
    let mut annotations = copied.unwrap_or_default();
    annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    NewObject {
        kind,
        metadata: Metadata {
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations,
            ..Metadata::default()
        },
        owner: Some(Owner::of(Kind::PodGang, metadata)),
        body: Body::from_fields([("spec", spec)]),
    }
}

/// The required and preferred label key of a constraint.
pub(super) fn packing(constraint: Option<&GangTopologyConstraint>) -> (Option<&str>, Option<&str>) {
    let pack = constraint.and_then(|constraint| constraint.pack_constraint.as_ref());
    let required = pack.and_then(|pack| pack.required.as_deref());
    let preferred = pack.and_then(|pack| pack.preferred.as_deref());
    (
        required.filter(|key| !key.is_empty()),
        preferred.filter(|key| !key.is_empty()),
    )
}

/// A constraint of a gang.
pub(super) struct Constraint<'a> {
    /// The gang, copy of a scaling group or clique that has it.
    pub(super) of: String,
    /// Whether it is that of the whole gang.
    pub(super) whole: bool,
    pub(super) required: Option<&'a str>,
    pub(super) preferred: Option<&'a str>,
}

impl Constraint<'_> {
    /// Whether it asks for anything.
    pub(super) fn asks(&self) -> bool {
        self.required.is_some() || self.preferred.is_some()
    }
}

/// The constraints of a gang, from the whole to its cliques.
pub(super) fn constraints<'a>(gang: &Gang<'a>) -> Vec<Constraint<'a>> {
    let spec = &gang.object.spec;
    let constraint = |of: &str, whole, constraint| {
        let (required, preferred) = packing(constraint);
        Constraint {
            of: of.to_owned(),
            whole,
            required,
            preferred,
        }
    };
    let name = gang.object.metadata.name.as_deref().unwrap_or_default();
    let configs = spec.topology_constraint_group_configs.iter();
    std::iter::once(constraint(name, true, spec.topology_constraint.as_ref()))
        .chain(configs.map(|config| constraint(&config.name, false, config.topology_constraint.as_ref())))
        .chain(live_groups(spec).map(|group| constraint(&group.name, false, group.topology_constraint.as_ref())))
        .collect()
}

/// Which fields of an object follow the gang.
pub(super) struct Ours {
    /// Fields of the specification.
    pub(super) fields: &'static [&'static str],
    /// A list of the specification, and the fields of its elements, which have a name.
    pub(super) list: (&'static str, &'static [&'static str]),
    /// Labels that the scheduler may have changed.
    pub(super) kept_labels: &'static [&'static str],
}

impl Ours {
    /// The merge patch that makes the stored object say what the wanted one says, and nothing else.
    pub(super) fn patch(&self, stored: &Value, wanted: &NewObject) -> Option<Value> {
        let mut patch = Map::new();
        let spec = self.spec(&stored["spec"], wanted.spec());
        if let Some(change) = merge_patch(&stored["spec"], &spec) {
            patch.insert("spec".to_owned(), change);
        }
        let mut metadata = Map::new();
        let wanted = &wanted.metadata;
        for (field, wanted) in [("labels", &wanted.labels), ("annotations", &wanted.annotations)] {
            let lacking = self.lacking(field, &stored["metadata"][field], wanted);
            if !lacking.is_empty() {
                metadata.insert(field.to_owned(), Value::Object(lacking));
            }
        }
        if !metadata.is_empty() {
            patch.insert("metadata".to_owned(), Value::Object(metadata));
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    fn spec(&self, stored: &Value, wanted: &Value) -> Value {
        let mut spec = overlaid(self.fields, Some(stored), wanted);
        let (list, fields) = self.list;
        let before = stored[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let elements: Vec<Value> = wanted[list]
            .as_array()
            .into_iter()
            .flatten()
            .map(|element| {
                let stored = before.iter().find(|stored| stored["name"] == element["name"]);
                overlaid(fields, stored, element)
            })
            .collect();
        if elements.is_empty() {
            drop(spec.as_object_mut().and_then(|spec| spec.remove(list)));
        } else {
            spec[list] = Value::Array(elements);
        }
        spec
    }

    /// Labels and annotations are only ever added or put right: others may have added some.
    fn lacking(&self, field: &str, stored: &Value, wanted: &Labels) -> Map<String, Value> {
        let kept = |key: &str| field == "labels" && self.kept_labels.contains(&key) && stored.get(key).is_some();
        wanted
            .iter()
            .filter(|(key, value)| stored[key.as_str()] != value.as_str() && !kept(key))
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect()
    }
}

/// The stored object with these fields as the wanted one has them.
fn overlaid(fields: &[&str], stored: Option<&Value>, wanted: &Value) -> Value {
    let mut result = stored.and_then(Value::as_object).cloned().unwrap_or_default();
    for field in fields {
        match wanted.get(*field) {
            Some(value) => drop(result.insert((*field).to_owned(), value.clone())),
            None => drop(result.remove(*field)),
        }
    }
    Value::Object(result)
}

/// Characters of a scheduler's message that a condition repeats at most.
const MOST_CHARACTERS: usize = 512;

/// A message of a scheduler, bounded.
pub(super) fn bounded(message: &str) -> String {
    let message = message.trim();
    match message.char_indices().nth(MOST_CHARACTERS) {
        None => message.to_owned(),
        Some((end, _)) => format!("{}...", &message[..end]),
    }
}

/// The last condition of this type and status in a list.
pub(super) fn condition<'a>(list: &'a Value, kind: &str, status: &str) -> Option<&'a Value> {
    let conditions = list.as_array()?;
    let found = |condition: &&Value| condition["type"] == kind && condition["status"] == status;
    conditions.iter().rfind(found)
}
