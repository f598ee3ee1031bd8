//! What identifies an object and one version of it.
//!
//! Assumes that the resource versions of one resource are decimal numbers that grow with every write, which
//! Kubernetes documents for its own resources and custom resources since 1.35 (aggregated servers may differ, and
//! are not cached here). Never compares versions of two resources.

use std::{fmt, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;

/// A version of an object, comparable within one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

impl Version {
    /// Reads a `metadata.resourceVersion`. `None` when it is not a decimal number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Namespace and name. The namespace of a cluster-scoped object is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectKey {
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            self.name.fmt(formatter)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The identity of one version of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid: never used twice.
    pub uid: Arc<str>,
    /// The version.
    pub version: Version,
}

impl Meta {
    /// The identity of a typed object that a server returned; `None` when it has no name, uid or numeric version.
    #[must_use]
    pub fn of(object: &impl kube::Resource) -> Option<Self> {
        let metadata = object.meta();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Some(Self {
            key: ObjectKey::new(namespace, metadata.name.as_deref()?),
            uid: metadata.uid.as_deref()?.into(),
            version: Version::parse(metadata.resource_version.as_deref()?)?,
        })
    }
}

/// Why an object on the wire could not be taken into the cache.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The metadata has no name, no uid or no numeric resource version.
    #[error("object without usable metadata: {0}")]
    Metadata(String),
    /// The object does not have the shape its projection expects.
    #[error("{key} at version {version}: {reason}")]
    Shape {
        /// Which object.
        key: ObjectKey,
        /// Which version of it.
        version: Version,
        /// What is wrong with it.
        reason: String,
    },
}

/// The part of an object that the cache itself reads.
#[derive(Debug, Clone)]
pub struct Head {
    /// Identity and version.
    pub meta: Meta,
    /// Whether the object carries a deletion timestamp.
    pub terminating: bool,
    /// Whether the answer of a delete that holds this object means that the object is gone for good: nothing keeps
    /// it (no finalizer) and no grace period runs.
    pub unheld: bool,
}

impl Head {
    /// Reads the head of an object, interning its namespace.
    ///
    /// # Errors
    /// [`DecodeError::Metadata`] when the object cannot be identified.
    pub fn read(object: &RawValue, names: &super::Interner) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Envelope {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: Option<String>,
            namespace: Option<String>,
            uid: Option<String>,
            resource_version: Option<String>,
            deletion_timestamp: Option<serde::de::IgnoredAny>,
            deletion_grace_period_seconds: Option<i64>,
            finalizers: Option<Vec<serde::de::IgnoredAny>>,
        }
        let Envelope { metadata } =
            serde_json::from_str(object.get()).map_err(|error| DecodeError::Metadata(error.to_string()))?;
        let name = metadata
            .name
            .ok_or_else(|| DecodeError::Metadata("no name".to_owned()))?;
        let uid = metadata
            .uid
            .ok_or_else(|| DecodeError::Metadata(format!("{name}: no uid")))?;
        let version = metadata
            .resource_version
            .as_deref()
            .and_then(Version::parse)
            .ok_or_else(|| DecodeError::Metadata(format!("{name}: resourceVersion is not a number")))?;
        let namespace = names.intern(metadata.namespace.as_deref().unwrap_or_default());
        Ok(Self {
            meta: Meta {
                key: ObjectKey {
                    namespace,
                    name: name.into(),
                },
                uid: uid.into(),
                version,
            },
            terminating: metadata.deletion_timestamp.is_some(),
            unheld: metadata.finalizers.is_none_or(|list| list.is_empty())
                && metadata.deletion_grace_period_seconds.unwrap_or(0) == 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Interner;

    fn head(json: &str) -> Result<Head, DecodeError> {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        Head::read(&raw, &Interner::default())
    }

    #[test]
    fn reads_identity() {
        let head =
            head(r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"12"},"spec":{}}"#).unwrap();
        assert_eq!(
            head.meta,
            Meta {
                key: ObjectKey::new("n", "a"),
                uid: "u".into(),
                version: Version(12)
            }
        );
        assert_eq!(head.meta.key.to_string(), "n/a");
        assert!(head.unheld && !head.terminating);
    }

    #[test]
    fn a_finalizer_or_a_grace_period_holds_a_deleted_object() {
        let with = |extra: &str| {
            head(&format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"1","deletionTimestamp":"2026-01-01T00:00:00Z",{extra}}}}}"#)).unwrap()
        };
        assert!(!with(r#""finalizers":["f"]"#).unheld);
        assert!(!with(r#""deletionGracePeriodSeconds":30"#).unheld);
        assert!(with(r#""deletionGracePeriodSeconds":0"#).unheld);
        assert!(with(r#""finalizers":[]"#).terminating);
    }

    #[test]
    fn an_object_that_cannot_be_identified_is_an_error() {
        assert!(head(r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"abc"}}"#).is_err());
        assert!(head(r#"{"metadata":{"name":"a","resourceVersion":"1"}}"#).is_err());
        assert!(head(r#"{"kind":"Status"}"#).is_err());
    }
}
