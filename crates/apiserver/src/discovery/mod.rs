//! What the server says about itself: version, health, groups, resources, schemas.

mod documents;
mod openapi;
mod paths;

use http::StatusCode;
use http::request::Parts;
use serde_json::json;

pub(crate) use openapi::Documents;

use crate::core::Core;
use crate::rest::{Form, Reply, negotiate};
use crate::status::ApiError;

/// The Kubernetes version whose behaviour this server follows.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

/// Answers a GET on anything but a resource.
pub(crate) fn answer(core: &Core, segments: &[String], parts: &Parts) -> Result<Reply, ApiError> {
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Ok(Reply::json(StatusCode::OK, &json!({"paths": root_paths(core)}))),
        ["healthz" | "livez" | "readyz", ..] => Ok(Reply::text(StatusCode::OK, "ok")),
        ["version"] => Ok(Reply::json(StatusCode::OK, &version())),
        ["openapi", "v3", ..] => openapi::answer(core, &words[2..], parts),
        ["api" | "apis", ..] => api(core, &words, parts),
        _ => Ok(Reply::page_not_found()),
    }
}

fn api(core: &Core, words: &[&str], parts: &Parts) -> Result<Reply, ApiError> {
    let registry = core.registry();
    let answer = negotiate(&parts.headers)?;
    let aggregated = answer.form == Form::AggregatedDiscovery;
    let document = match words {
        ["api"] if aggregated => documents::aggregated(&registry, true),
        ["apis"] if aggregated => documents::aggregated(&registry, false),
        ["api"] => documents::core_versions(),
        ["apis"] => documents::group_list(&registry),
        ["api", version] => match documents::resource_list(&registry, "", version) {
            Some(list) => list,
            None => return Err(ApiError::unknown_path()),
        },
        ["apis", group] => match documents::group(&registry, group) {
            Some(group) => group,
            None => return Ok(Reply::page_not_found()),
        },
        ["apis", group, version] => match documents::resource_list(&registry, group, version) {
            Some(list) => list,
            None if registry.versions(group).is_none() => return Ok(Reply::page_not_found()),
            None => return Err(ApiError::unknown_path()),
        },
        _ => return Err(ApiError::unknown_path()),
    };
    let reply = Reply::json(StatusCode::OK, &document);
    Ok(if aggregated && words.len() == 1 {
        reply.content_type("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    } else {
        reply
    })
}

fn version() -> serde_json::Value {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    json!({
        "major": numbers.next().unwrap_or_default(),
        "minor": numbers.next().unwrap_or_default(),
        "gitVersion": format!("{KUBERNETES_VERSION}+coppice"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn root_paths(core: &Core) -> Vec<String> {
    let registry = core.registry();
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths
}
