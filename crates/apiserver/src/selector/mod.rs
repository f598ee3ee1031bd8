//! Selecting objects: by namespace, by labels, by fields.
//!
//! Owns the two selector languages of list and watch requests. Matching needs only the facts the store keeps, so a
//! selection can be judged on every commit for every watcher.

mod field;
mod label;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator};

use crate::store::Object;

/// What a list or watch asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only this namespace; all when empty.
    pub namespace: Box<str>,
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
}

impl Selection {
    /// All objects.
    pub fn everything() -> Self {
        Self::default()
    }

    /// All objects of a namespace; an empty one means all.
    pub fn namespace(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ..Self::default()
        }
    }

    /// Whether `object` is asked for.
    pub fn matches(&self, object: &Object) -> bool {
        if !self.namespace.is_empty() && *self.namespace != *object.key().namespace() {
            return false;
        }
        let facts = object.facts();
        self.labels.matches(|key| facts.labels.get(key))
            && self.fields.matches(|field| match field {
                "metadata.name" => object.key().name(),
                "metadata.namespace" => object.key().namespace(),
                _ => facts.fields.get(field).unwrap_or_default(),
            })
    }

    /// Whether nothing beyond the namespace is asked for.
    pub fn is_plain(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
