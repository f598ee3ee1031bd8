//! OpenAPI version 3: an index with a hash in each address, and one document per group and version.

use http::StatusCode;
use http::request::Parts;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::core::Core;
use crate::registry::{Registry, join_api_version};
use crate::rest::Reply;
use crate::status::ApiError;

/// GET /openapi/v3 and below.
pub(super) fn answer(core: &Core, words: &[&str], _parts: &Parts) -> Result<Reply, ApiError> {
    let registry = core.registry();
    match words {
        [] => Ok(Reply::json(StatusCode::OK, &index(&registry))),
        ["api", version] => Ok(document_reply(&registry, "", version)),
        ["apis", group, version] => Ok(document_reply(&registry, group, version)),
        _ => Ok(Reply::page_not_found()),
    }
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let Some(document) = document(registry, group, version) else {
                continue;
            };
            let hash: String = Sha256::digest(document.to_string().as_bytes())
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect();
            paths.insert(
                path.clone(),
                json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
            );
        }
    }
    json!({"paths": paths})
}

fn document_reply(registry: &Registry, group: &str, version: &str) -> Reply {
    match document(registry, group, version) {
        Some(document) => Reply::json(StatusCode::OK, &document),
        None => Reply::page_not_found(),
    }
}

fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let _ = registry.resources(group, version)?;
    Some(
        json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": super::KUBERNETES_VERSION},
        "paths": {}, "components": {"schemas": {}}, "x-api": join_api_version(group, version)}),
    )
}
