//! The meaning of a pod template: canonical form, identity, comparison.
//!
//! Owns the answer to "has the template changed?". Two templates are the same when their canonical forms are: keyed
//! sets are sorted, defaults filled in, amounts compared by value, and empty equals absent where the API says so (the
//! rules are in `facts`). Order that carries meaning is kept: init containers, `env`, `envFrom`, tolerations, arguments,
//! and every list that is not known to be a set. Fields that are not known count as they stand. Assumes a template
//! as it was admitted, but takes any JSON without panicking. Never copies the template to compute an identity, and
//! never changes what it was given.
//!
//! # Adopting labels written by others
//!
//! An object may carry a template hash written by the Go operator, or by a version of this one with other facts.
//! Such a label says nothing about the template, so it is never compared with ours. Instead:
//!
//! 1. [`TemplateIdentity::matches_label`] on the stored label: if it holds, nothing changed.
//! 2. Otherwise take the template that the label was computed for (the stored `PodClique`'s pod spec, or the last
//!    `ControllerRevision`) and the one we would store now, both *as rendered for that object*: the Go operator writes environment
//!    variables and claims of its own into the pod spec of a `PodClique`, and labels of its own beside the template's. Render
//!    the desired object first, take the operator's labels out of both, then ask [`same_template`].
//! 3. If they are the same, the stored label is a name for the desired identity: keep it on the pods (or rewrite it in place) and
//!    count these pods as up to date. Only if they differ is there an update to roll out.
//!
//! The same three steps make a new [`VERSION`] of our own identity harmless.

mod difference;
mod encode;
mod facts;
mod fill;
mod identity;
mod materialise;
mod order;
mod walk;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use difference::{FieldChange, differences};
pub use identity::{CliqueOrder, GenerationIdentity, TemplateIdentity, VERSION};

/// What a pod template consists of, borrowed from wherever it is kept.
#[derive(Debug, Clone, Copy)]
pub struct TemplateView<'a> {
    /// The labels that pods of the template get from its author.
    pub labels: &'a BTreeMap<String, String>,
    /// The annotations that pods of the template get from its author.
    pub annotations: &'a BTreeMap<String, String>,
    /// The priority class of the whole set. When it is set it replaces the pod spec's own.
    pub priority_class: Option<&'a str>,
    /// The pod spec as JSON.
    pub spec: &'a Map<String, Value>,
}

impl TemplateView<'_> {
    /// The identity of the template.
    #[must_use]
    pub fn identity(&self) -> TemplateIdentity {
        TemplateIdentity::of(self)
    }
}

/// A pod template that owns its parts, as it is read back from a stored canonical value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnedTemplate {
    /// The labels of the template's author.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the template's author.
    pub annotations: BTreeMap<String, String>,
    /// The pod spec, with the effective priority class in it.
    pub spec: Map<String, Value>,
}

/// Why a JSON value is not a stored template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} of the stored template must be {expected}")]
pub struct TemplateError {
    path: &'static str,
    expected: &'static str,
}

impl OwnedTemplate {
    /// Reads what [`canonical_value`] made.
    pub fn from_value(value: &Value) -> Result<Self, TemplateError> {
        let texts = |path: &'static str, key: &str| {
            let error = TemplateError {
                path,
                expected: "an object of strings",
            };
            match value.pointer("/metadata").and_then(|metadata| metadata.get(key)) {
                None => Ok(BTreeMap::new()),
                Some(Value::Object(entries)) => entries
                    .iter()
                    .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect::<Option<_>>()
                    .ok_or(error),
                Some(_) => Err(error),
            }
        };
        let spec = value.get("spec").and_then(Value::as_object);
        Ok(Self {
            labels: texts("metadata.labels", "labels")?,
            annotations: texts("metadata.annotations", "annotations")?,
            spec: spec.cloned().ok_or(TemplateError {
                path: "spec",
                expected: "an object",
            })?,
        })
    }

    /// The template as the functions of this module take it.
    #[must_use]
    pub fn view(&self) -> TemplateView<'_> {
        TemplateView {
            labels: &self.labels,
            annotations: &self.annotations,
            priority_class: None,
            spec: &self.spec,
        }
    }
}

/// The canonical form of a template as JSON, with every default written out: `{metadata: {labels, annotations}, spec}`.
#[must_use]
pub fn canonical_value(template: &TemplateView<'_>) -> Value {
    let mut materialiser = materialise::Materialiser::<true>::default();
    walk::walk_template(template, &mut materialiser);
    materialiser.into_value()
}

/// The canonical form of a template with every default left out: the least that has to be written to say the same.
#[must_use]
pub fn terse_template(template: &TemplateView<'_>) -> OwnedTemplate {
    let mut materialiser = materialise::Materialiser::<false>::default();
    walk::walk_template(template, &mut materialiser);
    OwnedTemplate::from_value(&materialiser.into_value()).unwrap_or_default()
}

/// Whether two templates mean the same. Compares canonical streams byte by byte, so it does not rest on a hash.
#[must_use]
pub fn same_template(stored: &TemplateView<'_>, desired: &TemplateView<'_>) -> bool {
    let stream = |template| {
        let mut encoder = encode::Encoder::new(Vec::new());
        walk::walk_template(template, &mut encoder);
        encoder.into_output()
    };
    stream(stored) == stream(desired)
}
