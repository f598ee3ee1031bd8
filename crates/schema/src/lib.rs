//! Kubernetes structural schemas as data.
//!
//! Owns everything that can be decided about an object from its schema alone: pruning, defaulting, structural
//! validation, server-side apply, strategic merge, and which places CEL rules have to be evaluated at. Works on
//! `serde_json::Value`. It assumes nothing about storage, HTTP or clients and never reads a clock.
//! Orders are sorted orders: it assumes serde_json's sorted maps (no `preserve_order`).
//!
//! Where schemas come from: [`kubernetes`] (built-in kinds) and [`pod_template`] (what controller-gen would embed) are
//! compact facts in the crate; [`Definitions::add_openapi`] reads published OpenAPI documents and
//! [`Definitions::structural`] the schemas of CustomResourceDefinitions.

pub mod apply;
pub mod assets;
mod below;
pub mod constraints;
pub mod decode;
pub mod default;
pub mod errors;
pub mod facts;
mod fields;
mod gotext;
pub mod model;
mod openapi;
mod openapi_emit;
pub mod path;
pub mod prune;
pub mod resources;
pub mod rules;
pub mod strategic;
mod structural;
mod structural_emit;
pub mod validate;

pub use assets::{kubernetes, pod_template};
pub use constraints::{Constraints, Pattern, Rule};
pub use decode::{decode, type_mismatch};
pub use default::{apply_defaults, drop_nulls};
pub use errors::{ErrorKind, FieldError, aggregate};
pub use fields::Fields;
pub use model::{
    Cursor, Definitions, Field, GroupVersionKind, ListType, MapType, MapValues, Node, NodeId, PatchFacts, Slot,
    SlotDefault, Type,
};
pub use prune::{Root, prune, unknown_fields};
pub use resources::{Resource, Subresource, resource, resource_of_kind, resources};
pub use rules::{OldSelf, RuleSite, rule_sites};
pub use strategic::{PatchError, strategic_merge};
pub use validate::{validate, validate_lists, validate_schema};

/// A schema that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SchemaError {
    /// Where in the source: field names, innermost last.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl SchemaError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            path: String::new(),
            message: message.into(),
        }
    }

    pub(crate) fn inside(mut self, step: &str) -> Self {
        self.path = if self.path.is_empty() {
            step.to_owned()
        } else {
            format!("{step}.{}", self.path)
        };
        self
    }
}
