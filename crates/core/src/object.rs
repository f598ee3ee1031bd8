//! Objects that are to be created: kind, metadata and owner are typed, because deciders ask for them; the rest is what
//! the API server gets.
//!
//! The body stays JSON. Most of it is a pod specification, which we pass through (see `coppice_api::types::PodSpec`), or
//! belongs to kinds of others; it is written here once and sent as it is.

use std::collections::BTreeMap;

use coppice_api::names::label_sets::Labels;
use coppice_api::types::PodCliqueSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::kind::{Kind, Scope};

/// An object that is to be created. Serialises as the API server takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewObject {
    /// Its kind.
    pub kind: Kind,
    /// Its name, and what it carries.
    pub metadata: Metadata,
    /// The object that controls it.
    pub owner: Option<Owner>,
    /// Everything beside its metadata.
    pub body: Body,
}

/// What an object that is to be created is called, and what it carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// Its namespace; empty for an object of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Labels,
    /// What holds it when it is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<&'static str>,
}

/// The fields of an object beside its metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body(Map<String, Value>);

impl Body {
    /// A body that is a specification.
    pub fn spec(spec: &impl Serialize) -> Self {
        Self::from_fields([("spec", json!(spec))])
    }

    /// A body of these fields.
    pub fn from_fields<const COUNT: usize>(fields: [(&str, Value); COUNT]) -> Self {
        Self(
            fields
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect(),
        )
    }

    /// A field; null when it is not there.
    pub fn field(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// A field, to be changed; null when it was not there.
    pub fn field_mut(&mut self, name: &str) -> &mut Value {
        self.0.entry(name).or_insert(Value::Null)
    }
}

impl NewObject {
    /// Its specification.
    pub fn spec(&self) -> &Value {
        self.body.field("spec")
    }

    /// The namespace to create it in; none for an object of the cluster.
    pub fn namespace(&self) -> Option<&str> {
        (self.kind.scope() == Scope::Namespaced).then_some(self.metadata.namespace.as_str())
    }

    /// One of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }
}

impl Serialize for NewObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct WithOwner<'a> {
            #[serde(flatten)]
            metadata: &'a Metadata,
            #[serde(skip_serializing_if = "Option::is_none")]
            owner_references: Option<[OwnerReference; 1]>,
        }
        let metadata = WithOwner {
            metadata: &self.metadata,
            owner_references: self.owner.as_ref().map(|owner| [owner.reference()]),
        };
        let mut object = serializer.serialize_map(Some(self.body.0.len() + 3))?;
        object.serialize_entry("apiVersion", self.kind.api_version())?;
        object.serialize_entry("kind", self.kind.as_str())?;
        object.serialize_entry("metadata", &metadata)?;
        for (name, value) in &self.body.0 {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

/// The object that controls another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether a deletion in the foreground waits for what it owns.
    pub blocks_deletion: bool,
}

impl Owner {
    /// A stored object as owner.
    pub fn of(kind: Kind, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            blocks_deletion: true,
        }
    }

    /// A set as owner.
    pub fn set(set: &PodCliqueSet) -> Self {
        Self::of(Kind::PodCliqueSet, &set.metadata)
    }

    /// How what it owns refers to it.
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.kind.api_version().to_owned(),
            kind: self.kind.as_str().to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: self.blocks_deletion.then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_the_api_server_takes_it() {
        let owner = Owner {
            kind: Kind::PodClique,
            name: "c".to_owned(),
            uid: "u".to_owned(),
            blocks_deletion: true,
        };
        let mut object = NewObject {
            kind: Kind::Pod,
            metadata: Metadata {
                namespace: "n".to_owned(),
                name: "p".to_owned(),
                labels: Labels::from([("a".to_owned(), "b".to_owned())]),
                ..Metadata::default()
            },
            owner: Some(owner),
            body: Body::spec(&json!({"nodeName": "x"})),
        };
        assert_eq!(
            json!(object),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "n", "name": "p", "labels": {"a": "b"}, "ownerReferences": [{
                    "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "c", "uid": "u",
                    "controller": true, "blockOwnerDeletion": true,
                }]},
                "spec": {"nodeName": "x"},
            })
        );
        assert_eq!(object.namespace(), Some("n"));
        object.kind = Kind::KaiTopology;
        assert_eq!(object.namespace(), None);
    }
}
