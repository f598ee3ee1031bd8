//! Ownership and namespaces.

use crate::support::{World, gone, is_ready, owner_and_dependent, seconds, until};
use coppice_cluster::behaviour;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn garbage_is_collected_in_every_way_of_deleting() {
    let world = World::start(0, |options| options).await;
    let owners: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    let dependents: Api<Secret> = Api::default_namespaced(world.client.clone());
    for (name, params) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
        ("orphan", DeleteParams::orphan()),
    ] {
        owner_and_dependent(&world, name).await;
        owners.delete(name, &params).await.unwrap();
        until(owners.clone(), name, gone).await;
        if name == "orphan" {
            until(dependents.clone(), name, |secret| {
                secret.is_some_and(|secret| secret.owner_references().is_empty())
            })
            .await;
            tokio::time::sleep(seconds(600)).await;
            assert!(dependents.get_opt(name).await.unwrap().is_some(), "an orphan lives on");
        } else {
            until(dependents.clone(), name, gone).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_owners_that_never_were_are_collected() {
    let world = World::start(0, |options| options).await;
    let reference: Value = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-2222-3333-4444-555555555555",
    }]);
    let _: Secret = world
        .create(json!({"metadata": {"name": "lost", "ownerReferences": reference}}))
        .await;
    until(Api::<Secret>::default_namespaced(world.client.clone()), "lost", gone).await;
}

#[tokio::test(start_paused = true)]
async fn custom_resources_own_as_soon_as_they_are_defined() {
    let world = World::start(0, |options| options).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    }));
    definitions
        .create(&PostParams::default(), &definition.unwrap())
        .await
        .unwrap();
    let established = |definition: Option<&CustomResourceDefinition>| {
        let status = definition.and_then(|definition| definition.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Established" && one.status == "True"))
    };
    until(definitions, "widgets.example.com", established).await;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets");
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(world.client.clone(), &kind);
    let widget = widgets
        .create(&PostParams::default(), &DynamicObject::new("owner", &kind))
        .await
        .unwrap();
    let reference = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": widget.uid(),
    }]);
    let _: Secret = world
        .create(json!({"metadata": {"name": "owned", "ownerReferences": reference}}))
        .await;
    tokio::time::sleep(seconds(600)).await;
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    assert!(secrets.get_opt("owned").await.unwrap().is_some(), "its owner lives");
    widgets.delete("owner", &DeleteParams::default()).await.unwrap();
    until(secrets, "owned", gone).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_an_account_and_go_with_all_their_content() {
    let world = World::start(1, |options| options).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "doomed"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "doomed");
    until(accounts.clone(), "default", |account| account.is_some()).await;
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    until(accounts, "default", |account| account.is_some()).await;

    let _: ConfigMap = world
        .create(json!({"metadata": {"namespace": "doomed", "name": "content"}}))
        .await;
    let slow = json!({"namespace": "doomed", "annotations": {behaviour::TERMINATION_DELAY: "9s"}});
    world.bound_pod("slow", slow, json!({})).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "doomed");
    until(pods, "slow", is_ready).await;
    let begun = tokio::time::Instant::now();
    namespaces.delete("doomed", &DeleteParams::default()).await.unwrap();
    until(namespaces, "doomed", gone).await;
    assert_eq!(
        begun.elapsed().as_secs(),
        9,
        "it waits for its slowest pod, and no longer"
    );
}
