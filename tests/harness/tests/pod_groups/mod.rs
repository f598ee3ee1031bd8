//! The golden objects of `crates/core/tests/backends`, created on an API server under the definitions of their schedulers:
//! each is stored as it is written, with no field unknown or dropped.

use std::path::Path;

use coppice_crds::{InstallOptions, install_definitions};
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// The objects of a back-end, with the case that each is of.
pub(crate) fn golden(backend: &str) -> Vec<(String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/core/tests/backends/golden");
    let mut objects = Vec::new();
    for entry in std::fs::read_dir(directory.join(backend)).expect("golden files") {
        let path = entry.expect("a file").path();
        let case = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a golden file");
        let gangs: Value = serde_saphyr::from_str(&text).expect("YAML");
        for gang in gangs.as_array().expect("gangs") {
            if gang["podGroup"].is_object() {
                objects.push((case.clone(), gang["podGroup"].clone()));
            }
        }
    }
    objects.sort_by(|one, other| one.0.cmp(&other.0));
    objects
}

pub(crate) async fn define(client: &Client, definition: Value) {
    install_definitions(client.clone(), &[definition], &InstallOptions::default(), |_| {})
        .await
        .expect("the definition is taken");
}

/// Creates each object in a namespace of its case and compares what was stored with what was written.
pub(crate) async fn create_all(client: &Client, objects: &[(String, Value)]) {
    let (_, first) = objects.first().expect("a back-end with objects");
    let (group, version) = first["apiVersion"]
        .as_str()
        .and_then(|text| text.split_once('/'))
        .expect("a version");
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "PodGroup"), "podgroups");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    for (case, object) in objects {
        let namespace = serde_json::from_value(json!({"metadata": {"name": case}})).expect("a namespace");
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            result => drop(result.unwrap_or_else(|error| panic!("{case}: {error}"))),
        }
        let mut written = object.clone();
        written["metadata"]["namespace"] = case.as_str().into();
        let written: DynamicObject = serde_json::from_value(written).expect("an object");
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), case, &resource);
        let stored = api
            .create(&PostParams::default(), &written)
            .await
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        // The server may add defaults; it must neither drop nor change what was written.
        let spec = object["spec"].as_object().expect("a specification");
        for (field, value) in spec {
            assert_eq!(&stored.data["spec"][field], value, "{case}: spec.{field}");
        }
        let labels = object["metadata"].get("labels").cloned().unwrap_or_else(|| json!({}));
        assert_eq!(json!(stored.labels()), labels, "{case}");
        assert_eq!(
            json!(stored.owner_references()),
            object["metadata"]["ownerReferences"],
            "{case}"
        );
    }
}
