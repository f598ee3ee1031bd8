//! Custom resources and server-side apply under the real client.

use coppice_apiserver::ApiServer;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

fn client() -> Client {
    Client::new(ApiServer::builder().seed(1).build().service(), "default")
}

fn definition() -> CustomResourceDefinition {
    let value = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true,
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "required": ["replicas"],
                            "x-kubernetes-validations": [
                                {"rule": "self.replicas <= 5", "message": "too many"},
                                {"rule": "oldSelf.orValue(self).mode == self.mode", "optionalOldSelf": true, "message": "mode is fixed"}],
                            "properties": {"replicas": {"type": "integer", "minimum": 0},
                                "mode": {"type": "string", "default": "fast", "enum": ["fast", "slow"]}}},
                        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}}}}},
                {"name": "v1alpha1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    serde_json::from_value(value).expect("a definition")
}

fn widgets(client: &Client, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "example.com".into(),
        version: version.into(),
        api_version: format!("example.com/{version}"),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    Api::default_namespaced_with(client.clone(), &resource)
}

fn widget(spec: &Value) -> DynamicObject {
    let value = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    serde_json::from_value(value).expect("a widget")
}

fn message(error: &kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("{other}"),
    }
}

async fn defined() -> Client {
    let client = client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition())
        .await
        .expect("the definition is good");
    client
}

#[tokio::test]
async fn a_definition_is_established_at_once() {
    let client = defined().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = definitions.get("widgets.example.com").await.unwrap();
    let conditions = found.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|one| one.type_ == "Established" && one.status == "True")
    );
    assert!(
        widgets(&client, "v1")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn schemas_prune_default_and_refuse() {
    let client = defined().await;
    let api = widgets(&client, "v1");
    let created = api
        .create(
            &PostParams::default(),
            &widget(&json!({"replicas": 1, "unknown": true})),
        )
        .await
        .unwrap();
    assert_eq!(created.data["spec"], json!({"replicas": 1, "mode": "fast"}));
    assert_eq!(created.metadata.generation, Some(1));
    let other = widgets(&client, "v1alpha1").get("w").await.unwrap();
    assert_eq!(other.types.unwrap().api_version, "example.com/v1alpha1");

    for (spec, part) in [
        (json!({"replicas": 9}), "too many"),
        (json!({"replicas": -1}), "should be greater than or equal to 0"),
        (json!({"replicas": 1, "mode": "slow"}), "mode is fixed"),
        (json!({"replicas": 1, "mode": "odd"}), "Unsupported value: \"odd\""),
    ] {
        let patch = json!({"spec": spec});
        let error = api
            .patch("w", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap_err();
        let (code, text) = message(&error);
        assert!(code == 422 && text.contains(part), "{code} {text}");
    }
    let missing = api
        .create(&PostParams::default(), &widget(&json!({})))
        .await
        .unwrap_err();
    assert!(
        message(&missing).1.contains("spec.replicas: Required value"),
        "{missing}"
    );
}

#[tokio::test]
async fn status_and_scale_are_apart() {
    let client = defined().await;
    let api = widgets(&client, "v1");
    api.create(&PostParams::default(), &widget(&json!({"replicas": 1})))
        .await
        .unwrap();
    let patch = json!({"spec": {"replicas": 2}, "status": {"replicas": 7, "selector": "a=b"}});
    let main = api
        .patch("w", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!((main.metadata.generation, main.data.get("status")), (Some(2), None));
    let patch = json!({"spec": {"replicas": 3}, "status": {"replicas": 7, "selector": "a=b"}});
    let status = api
        .patch_status("w", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(
        (status.metadata.generation, &status.data["spec"]["replicas"]),
        (Some(2), &json!(2))
    );
    let scale = api.get_scale("w").await.unwrap();
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("a=b"));
    let patch = json!({"spec": {"replicas": 4}});
    api.patch_scale("w", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(api.get("w").await.unwrap().data["spec"]["replicas"], 4);
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    let client = defined().await;
    let api = widgets(&client, "v1");
    let mut held = widget(&json!({"replicas": 1}));
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .delete("widgets.example.com", &DeleteParams::default())
        .await
        .unwrap();
    assert!(api.get("w").await.unwrap().metadata.deletion_timestamp.is_some());
    let patch = json!({"metadata": {"finalizers": null}});
    api.patch("w", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert!(definitions.get_opt("widgets.example.com").await.unwrap().is_none());
    assert_eq!(message(&api.list(&ListParams::default()).await.unwrap_err()).0, 404);
}

#[tokio::test]
async fn apply_creates_merges_and_conflicts() {
    let deployments: Api<Deployment> = Api::default_namespaced(client());
    let config = |replicas: Option<i32>, image: &str| {
        let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}}});
        if let Some(replicas) = replicas {
            value["spec"]["replicas"] = json!(replicas);
        }
        value
    };
    let apply = |manager: &str| PatchParams::apply(manager);
    let first = deployments
        .patch("d", &apply("one"), &Patch::Apply(config(Some(3), "i")))
        .await
        .unwrap();
    assert_eq!(first.spec.replicas, Some(3));
    let again = deployments
        .patch("d", &apply("one"), &Patch::Apply(config(Some(3), "i")))
        .await
        .unwrap();
    assert_eq!(again.metadata.resource_version, first.metadata.resource_version);

    let conflict = deployments
        .patch("d", &apply("two"), &Patch::Apply(config(Some(4), "i")))
        .await
        .unwrap_err();
    let (code, text) = message(&conflict);
    assert_eq!(code, 409);
    assert!(
        text.contains("conflict with \"one\"") && text.contains(".spec.replicas"),
        "{text}"
    );
    let forced = deployments
        .patch("d", &apply("two").force(), &Patch::Apply(config(Some(4), "i")))
        .await
        .unwrap();
    assert_eq!(forced.spec.replicas, Some(4));

    let strategic = json!({"spec": {"template": {"spec": {"containers": [{"name": "s", "image": "side"}]}}}});
    let merged = deployments
        .patch("d", &PatchParams::default(), &Patch::Strategic(&strategic))
        .await
        .unwrap();
    assert_eq!(merged.spec.template.spec.unwrap().containers.len(), 2);
    assert_eq!(merged.metadata.generation, Some(3));
    let managers: Vec<_> = merged
        .metadata
        .managed_fields
        .unwrap()
        .into_iter()
        .filter_map(|entry| entry.manager)
        .collect();
    assert!(
        managers.contains(&"one".to_owned()) && managers.contains(&"two".to_owned()),
        "{managers:?}"
    );
}
