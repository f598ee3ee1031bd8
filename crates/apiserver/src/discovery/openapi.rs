//! OpenAPI version 3: an index with a hash in each address, and one document per group and version.
//!
//! Documents are made on first use and kept for as long as the registry they describe. Clients take schemas of kinds
//! from `components` and learn from `paths` which parameters a verb has (kubectl looks for `fieldValidation` there).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use coppice_schema::{GroupVersionKind, kubernetes};
use http::StatusCode;
use http::request::Parts;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::paths;
use crate::core::Core;
use crate::registry::{Registry, Served};
use crate::rest::Reply;
use crate::status::ApiError;

/// Documents made so far, for one state of the registry.
#[derive(Default)]
pub(crate) struct Documents {
    made: Mutex<BTreeMap<(String, String), (Bytes, String)>>,
}

impl Documents {
    /// A document and its hash.
    fn get(&self, registry: &Registry, group: &str, version: &str) -> Option<(Bytes, String)> {
        let key = (group.to_owned(), version.to_owned());
        if let Some(found) = self.made.lock().get(&key) {
            return Some(found.clone());
        }
        let document: Bytes = document(registry, group, version)?.to_string().into();
        let hash: String = Sha256::digest(&document)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        self.made.lock().insert(key, (document.clone(), hash.clone()));
        Some((document, hash))
    }
}

/// GET /openapi/v3 and below.
pub(super) fn answer(core: &Core, words: &[&str], parts: &Parts) -> Result<Reply, ApiError> {
    let (registry, documents) = core.registry_and_documents();
    match words {
        [] => Ok(Reply::json(StatusCode::OK, &index(&registry, &documents))),
        ["api", version] => Ok(document_reply(&registry, &documents, "", version, parts)),
        ["apis", group, version] => Ok(document_reply(&registry, &documents, group, version, parts)),
        _ => Ok(Reply::page_not_found()),
    }
}

fn index(registry: &Registry, documents: &Documents) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            if let Some((_, hash)) = documents.get(registry, group, version) {
                paths.insert(
                    path.clone(),
                    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
                );
            }
        }
    }
    json!({"paths": paths})
}

fn document_reply(registry: &Registry, documents: &Documents, group: &str, version: &str, parts: &Parts) -> Reply {
    let Some((document, hash)) = documents.get(registry, group, version) else {
        return Reply::page_not_found();
    };
    let etag = format!("\"{hash}\"");
    let known = parts
        .headers
        .get(http::header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let reply = if known == Some(etag.as_str()) {
        Reply::json_bytes(StatusCode::NOT_MODIFIED, Bytes::new())
    } else {
        Reply::json_bytes(StatusCode::OK, document)
    };
    match http::HeaderValue::from_str(&etag) {
        Ok(value) => reply.header(http::header::ETAG, value),
        Err(_) => reply,
    }
}

fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let resources = registry.resources(group, version)?;
    let mut roots = vec!["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned()];
    let mut schemas = Map::new();
    let mut all_paths = Map::new();
    for served in resources.values() {
        let name = schema_name(served);
        match served.rules.published_schema() {
            Some(schema) => {
                schemas.insert(name.clone(), with_kind(schema, served));
            }
            None => roots.push(name.clone()),
        }
        paths::add(served, &name, &mut all_paths);
    }
    let definitions = kubernetes();
    roots.push("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".to_owned());
    let known = roots
        .iter()
        .map(String::as_str)
        .filter(|name| definitions.definition(name).is_some());
    for (name, schema) in definitions.openapi_components(known) {
        schemas.entry(name).or_insert(schema);
    }
    Some(
        json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": super::KUBERNETES_VERSION},
        "paths": all_paths, "components": {"schemas": schemas}}),
    )
}

/// The name of a kind's definition: the built-in one, or the group reversed as real servers name custom kinds.
fn schema_name(served: &Arc<Served>) -> String {
    let kind = GroupVersionKind::new(&served.group, &served.version, &served.kind);
    let definition = kubernetes().kind(&kind).filter(|_| !served.custom);
    match definition.and_then(|cursor| cursor.node().name.clone()) {
        Some(name) => name.into(),
        None => {
            let reversed: Vec<&str> = served.group.rsplit('.').collect();
            format!("{}.{}.{}", reversed.join("."), served.version, served.kind)
        }
    }
}

/// A custom kind's schema with the members that every object has.
fn with_kind(mut schema: Value, served: &Served) -> Value {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": &*served.group, "version": &*served.version, "kind": &*served.kind}]);
    let text = |description: &str| json!({"type": "string", "description": description});
    let properties = crate::tree::object_mut(&mut schema, "properties");
    properties.insert(
        "apiVersion".into(),
        text("APIVersion defines the versioned schema of this representation of an object."),
    );
    properties.insert(
        "kind".into(),
        text("Kind is a string value representing the REST resource this object represents."),
    );
    properties.insert(
        "metadata".into(),
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}], "default": {}}),
    );
    schema
}
