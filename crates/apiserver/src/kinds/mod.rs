//! The rules of kinds: what is filled in, what is refused, what is remembered for selecting.
//!
//! Every kind has the same life; a [`Kind`] answers the questions in which kinds differ. Built-in kinds have one file
//! each where they differ much; custom resources answer from their schema. Rules decide on trees and never touch the
//! store, except through the [`World`] they are shown.

mod autoscaler;
pub(crate) mod autoscaler_versions;
mod builtin;
mod container_ports;
mod decoding;
mod defaults;
mod node;
mod pod;
mod pod_changes;
mod pod_defaults;
mod pod_validation;
mod quantity;
mod role;
mod service;
mod service_ip;
mod validation;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::status::ApiError;
use crate::store::{Store, Texts};
pub(crate) use builtin::Plain;
use coppice_schema::{Cursor, FieldError};
pub(crate) use decoding::metadata_problem;
pub(crate) use service_ip::API_SERVER_ADDRESS;

/// What rules may look at beside the object.
pub(crate) struct World<'a> {
    /// Other objects.
    pub(crate) store: &'a Store,
    /// The time of the request.
    pub(crate) now: Timestamp,
}

/// How names of a kind must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower case, digits, `-` and `.`; up to 253 characters.
    Subdomain,
    /// Lower case, digits and `-`; up to 63 characters.
    Label,
    /// Anything that fits in a path.
    PathSegment,
}

/// What the table of built-in resources says of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whether `status` is written apart from the rest.
    pub(crate) status: bool,
    /// Whether it has a `scale` part.
    pub(crate) scale: bool,
    /// Whether `metadata.generation` counts changes.
    pub(crate) generation: bool,
    /// How names must look.
    pub(crate) name_rule: NameRule,
    /// Whether PUT works without a resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether PUT creates an object that is not there.
    pub(crate) create_on_update: bool,
}

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object, without its status if it has one apart.
    Main,
    /// The status.
    Status,
    /// Another part, by name; its handler has restricted the change already.
    Other(&'static str),
}

/// The answers of one kind.
pub(crate) trait Kind: Send + Sync {
    /// Whether `status` is written apart from the rest.
    fn has_status(&self) -> bool;

    /// Whether `metadata.generation` counts changes.
    fn has_generation(&self) -> bool;

    /// How names must look.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether PUT works without a resourceVersion.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Whether PUT creates an object that is not there.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Whether a write of the status may also change metadata.
    fn status_write_keeps_metadata(&self) -> bool {
        false
    }

    /// The schema of the kind, if it has one.
    fn schema(&self) -> Option<Cursor<'_>> {
        None
    }

    /// The schema as custom resources publish it; built-in kinds are published from the common definitions.
    fn published_schema(&self) -> Option<Value> {
        None
    }

    /// Drops fields the kind does not know; returns their paths.
    fn prune(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Complaints about values of the wrong type, before anything else is looked at. Drops nulls that mean nothing.
    fn check_types(&self, _object: &mut Value) -> Result<(), String> {
        Ok(())
    }

    /// Brings an object into the form in which it is kept: without what means nothing, with what is always there.
    fn form(&self, object: &mut Value);

    /// Brings an object into its form and fills in what is left out.
    fn default(&self, object: &mut Value);

    /// Objects written before this revision may lack defaults that exist now, and get them when they are read.
    fn defaults_changed_at(&self) -> u64 {
        0
    }

    /// Fills in what depends on other objects (priority classes, service accounts) when an object is created.
    fn admit_create(&self, _object: &mut Value, _world: &World<'_>) -> Result<(), AdmissionRefusal> {
        Ok(())
    }

    /// Fills in what every write of an object gets, whoever asks for it.
    fn admit_update(&self, _object: &mut Value, _part: Part) {}

    /// Sets what only the server may set on a new object.
    fn prepare_create(&self, _object: &mut Value, _world: &World<'_>) {}

    /// Restores what a write may not touch.
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _part: Part) {}

    /// Complaints about an object.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Complaints about a change, beside those about the object.
    fn validate_update(&self, _object: &Value, _old: &Value, _part: Part) -> Vec<FieldError> {
        Vec::new()
    }

    /// The paths field selectors may use, beside `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The columns that a custom resource defines for itself.
    fn columns(&self) -> Option<&[Column]> {
        None
    }

    /// A finalizer that every deletion adds, for the server's own cleaning up.
    fn deletion_finalizer(&self) -> Option<&'static str> {
        None
    }

    /// Whether the change counts in `metadata.generation`.
    fn counts_as_generation(&self, object: &Value, old: &Value) -> bool {
        content_differs(object, old, self.has_status())
    }

    /// The grace period a deletion gets, if deletion of this object waits for anyone.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Where the numbers of the scale are, if the kind has a scale.
    fn scale_paths(&self) -> Option<ScalePaths> {
        None
    }

    /// Changes an object that starts to wait for its removal.
    fn mark_deleting(&self, _object: &mut Value) {}

    /// Whether objects of this kind may own others, so that a deletion can wait for them.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Why this object may not be deleted, if so.
    fn refuses_deletion(&self, _object: &Value) -> Option<String> {
        None
    }

    /// The state after a strategic merge patch.
    fn strategic_merge(&self, _object: Value, _patch: &Value) -> Result<Value, ApiError> {
        Err(ApiError::bad_request(
            "strategic merge patches are not supported for this kind",
        ))
    }

    /// Warnings to send back with a write.
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }
}

/// Whether anything but metadata differs, and but the status if there is one apart.
fn content_differs(object: &Value, old: &Value, has_status: bool) -> bool {
    fn content(value: &Value, has_status: bool) -> impl Iterator<Item = (&String, &Value)> {
        let members = value.as_object().into_iter().flatten();
        members.filter(move |(name, _)| *name != "metadata" && !(has_status && *name == "status"))
    }
    !content(object, has_status).eq(content(old, has_status))
}

/// A column of the table form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The heading.
    pub(crate) name: String,
    /// The type: string, integer, number, boolean, date.
    pub(crate) kind: String,
    /// The format, may be empty.
    pub(crate) format: String,
    /// An explanation.
    pub(crate) description: String,
    /// 0 is always shown, more only in wide output.
    pub(crate) priority: i64,
    /// Where the value is.
    pub(crate) json_path: String,
}

impl Column {
    /// Reads an entry of `additionalPrinterColumns`.
    pub(crate) fn from_definition(definition: &Value) -> Self {
        let text = |name: &str| {
            definition
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: definition.get("priority").and_then(Value::as_i64).unwrap_or(0),
            json_path: text("jsonPath"),
        }
    }
}

/// Dotted paths of the parts of a scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// The wanted number.
    pub(crate) spec: String,
    /// The actual number.
    pub(crate) status: String,
    /// The selector of the counted pods.
    pub(crate) selector: Option<String>,
}

/// Why built-in admission refuses an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionRefusal(pub String);

/// The values of an object's selectable fields.
pub(crate) fn selectable_values(rules: &dyn Kind, object: &Value) -> Texts {
    let paths = rules.selectable_fields();
    let texts: Vec<_> = paths.iter().map(|path| text_at(object, path)).collect();
    paths.into_iter().zip(texts.iter().map(|text| &**text)).collect()
}

/// The text at a dotted path; other scalars as text, nothing for what is absent.
fn text_at<'a>(object: &'a Value, path: &str) -> Cow<'a, str> {
    let mut value = object;
    for step in path.split('.') {
        match value.get(step) {
            Some(next) => value = next,
            None => return Cow::Borrowed(""),
        }
    }
    match value {
        Value::String(text) => text.into(),
        Value::Bool(flag) => flag.to_string().into(),
        Value::Number(number) => number.to_string().into(),
        _ => Cow::Borrowed(""),
    }
}

/// The rules of a built-in kind.
pub(crate) fn rules_for(group: &str, version: &str, kind: &str, facts: Facts) -> Arc<dyn Kind> {
    let plain = Plain::new(group, version, kind, facts);
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Arc::new(crate::crd::Definition::new(plain)),
        ("", "Pod") => Arc::new(pod::Pod::new(plain)),
        _ => Arc::new(plain),
    }
}
