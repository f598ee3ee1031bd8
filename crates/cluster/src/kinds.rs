//! Every kind that the API server knows, found by discovery and by watching custom resource definitions.
//!
//! Owns the question "what kinds are there" for controllers that work on all of them. Discovery is asked once; after
//! that, kinds come from the definitions themselves, so no request is repeated to see whether something new has appeared.

use crate::view::{Reduced, resource};
use coppice_runtime::cache::{Cache, Interner};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object of any kind, reduced to its metadata.
pub(crate) type AnyMeta = PartialObjectMeta<DynamicObject>;

/// Group and kind. Versions of a kind share their objects, so they do not matter here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindId {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
}

impl KindId {
    pub(crate) fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }

    /// The kind that an `apiVersion` and `kind` name.
    pub(crate) fn of_reference(api_version: &str, kind: &str, names: &Interner) -> Self {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self {
            group: names.intern(group),
            kind: names.intern(kind),
        }
    }
}

/// What must be known to work on the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) watchable: bool,
    pub(crate) deletable: bool,
    pub(crate) delete_collection: bool,
}

impl Kind {
    pub(crate) fn id(&self) -> KindId {
        KindId::new(&self.resource.group, &self.resource.kind)
    }

    fn discovered(resource: ApiResource, capabilities: &ApiCapabilities) -> Self {
        let can = |verb: &str| capabilities.supports_operation(verb);
        Self {
            resource,
            namespaced: capabilities.scope == Scope::Namespaced,
            watchable: can(verbs::LIST) && can(verbs::WATCH),
            deletable: can(verbs::DELETE) && can(verbs::LIST),
            delete_collection: can(verbs::DELETE_COLLECTION),
        }
    }

    /// The metadata interface to the objects, of one namespace if one is given.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<AnyMeta> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// Whether objects of the kind are watched for their owners. Events are many, short-lived and never owned.
    pub(crate) fn has_owners(&self) -> bool {
        let is_event = self.resource.kind == "Event" && ["", "events.k8s.io"].contains(&self.resource.group.as_str());
        self.watchable && !is_event
    }
}

/// Asks the API server for all kinds.
pub(crate) async fn discover(client: &Client) -> Result<BTreeMap<KindId, Kind>, kube::Error> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let kinds = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::resources_by_stability);
    Ok(kinds
        .map(|(resource, capabilities)| Kind::discovered(resource, &capabilities))
        .map(|kind| (kind.id(), kind))
        .collect())
}

/// What a definition defines, and the kind itself once it is served.
pub(crate) type Defined = (KindId, Option<Kind>);

/// The definitions of custom resources.
pub(crate) type Definitions = coppice_runtime::cache::Kind<Reduced<DefinitionObject, Defined>>;

/// A cache of definitions, empty until it is fed.
pub(crate) fn definitions() -> Definitions {
    let projection = Reduced::new(|_, object: DefinitionObject, _| object.into_kind());
    Cache::default().kind(resource::<CustomResourceDefinition>(), projection)
}

/// The wire form: what is decoded of a custom resource definition.
#[derive(Deserialize)]
pub(crate) struct DefinitionObject {
    spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    group: String,
    names: DefinitionNames,
    scope: String,
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
struct DefinitionNames {
    kind: String,
    plural: String,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    served: bool,
    storage: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionStatus {
    conditions: Vec<DefinitionCondition>,
}

#[derive(Deserialize)]
struct DefinitionCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl DefinitionObject {
    /// The kind it defines, once it is served.
    fn into_kind(self) -> Defined {
        let spec = self.spec;
        let id = KindId::new(&spec.group, &spec.names.kind);
        let established = self
            .status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Established" && condition.status == "True");
        let mut served: Vec<DefinitionVersion> = spec.versions.into_iter().filter(|version| version.served).collect();
        served.sort_by_key(|version| !version.storage);
        let kind = served.first().filter(|_| established).map(|version| Kind {
            resource: ApiResource {
                api_version: format!("{}/{}", spec.group, version.name),
                group: spec.group.clone(),
                version: version.name.clone(),
                kind: spec.names.kind.clone(),
                plural: spec.names.plural.clone(),
            },
            namespaced: spec.scope == "Namespaced",
            watchable: true,
            deletable: true,
            delete_collection: true,
        });
        (id, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(established: &str) -> DefinitionObject {
        serde_json::from_value(json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [
                    {"name": "v1alpha1", "served": true, "storage": false, "schema": {}},
                    {"name": "v1", "served": true, "storage": true},
                    {"name": "v2", "served": false, "storage": false},
                ],
            },
            "status": {"conditions": [{"type": "Established", "status": established}]},
        }))
        .unwrap()
    }

    #[test]
    fn an_established_definition_gives_a_kind_in_its_stored_version() {
        let (id, kind) = definition("True").into_kind();
        let kind = kind.unwrap();
        assert_eq!(id, KindId::new("example.com", "Widget"));
        assert_eq!(kind.resource.api_version, "example.com/v1");
        assert!(kind.namespaced && kind.id() == id);
    }

    #[test]
    fn a_definition_that_is_not_established_gives_none() {
        assert_eq!(definition("False").into_kind().1, None);
    }

    #[test]
    fn references_name_kinds_without_versions() {
        let of = |version: &str, kind: &str| KindId::of_reference(version, kind, &Interner::default());
        assert_eq!(of("v1", "Pod"), KindId::new("", "Pod"));
        assert_eq!(of("apps/v1", "Deployment"), KindId::new("apps", "Deployment"));
    }
}
