//! The life of pods: gates, binding, immutability, graceful deletion, eviction.

use coppice_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

fn pods() -> Api<Pod> {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    Api::default_namespaced(Client::new(
        ApiServer::builder().clock(move || now).seed(1).build().service(),
        "default",
    ))
}

fn pod(name: &str, extra: &Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for (key, value) in extra.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let value = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec});
    serde_json::from_value(value).expect("a pod")
}

async fn bind(pods: &Api<Pod>, name: &str, node: &str) -> kube::Result<Value> {
    let binding: Binding =
        serde_json::from_value(json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}))
            .expect("a binding");
    pods.create_subresource("binding", name, &PostParams::default(), &binding)
        .await
}

fn message(error: &kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn gates_hold_a_pod_until_they_are_gone() {
    let pods = pods();
    let gated = pods
        .create(
            &PostParams::default(),
            &pod("p", &json!({"schedulingGates": [{"name": "g"}]})),
        )
        .await
        .unwrap();
    let condition = &gated.status.unwrap().conditions.unwrap()[0];
    assert_eq!(condition.reason.as_deref(), Some("SchedulingGated"));
    let refused = bind(&pods, "p", "n").await.unwrap_err();
    assert_eq!(
        message(&refused).1,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p has non-empty .spec.schedulingGates"
    );
    let patch = json!({"spec": {"schedulingGates": null}});
    pods.patch("p", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    bind(&pods, "p", "n").await.unwrap();
    let again = bind(&pods, "p", "m").await.unwrap_err();
    assert_eq!(message(&again).0, 409);
    let bound = pods
        .list(&ListParams::default().fields("spec.nodeName=n"))
        .await
        .unwrap();
    assert_eq!(bound.items.len(), 1);
    let conditions = bound.items[0].status.clone().unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|one| one.type_ == "PodScheduled" && one.status == "True")
    );
}

#[tokio::test]
async fn the_spec_of_a_pod_is_fixed() {
    let pods = pods();
    pods.create(&PostParams::default(), &pod("p", &json!({})))
        .await
        .unwrap();
    let patch = json!({"spec": {"nodeSelector": {"a": "b"}}});
    let refused = pods
        .patch("p", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap_err();
    assert_eq!(message(&refused).0, 422);
    let patch = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    let changed = pods
        .patch("p", &PatchParams::default(), &Patch::Strategic(&patch))
        .await
        .unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}});
    let changed = pods
        .patch_status("p", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    assert_eq!(changed.status.unwrap().pod_ips.unwrap()[0].ip, "10.0.0.1");
}

#[tokio::test]
async fn a_bound_pod_leaves_gracefully() {
    let pods = pods();
    pods.create(&PostParams::default(), &pod("unbound", &json!({})))
        .await
        .unwrap();
    pods.delete("unbound", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("unbound").await.unwrap().is_none());

    pods.create(&PostParams::default(), &pod("p", &json!({})))
        .await
        .unwrap();
    bind(&pods, "p", "n").await.unwrap();
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    let leaving = pods.get("p").await.unwrap().metadata;
    assert_eq!(leaving.deletion_grace_period_seconds, Some(30));
    assert_eq!(
        leaving.deletion_timestamp.unwrap().0.to_string(),
        "2026-01-01T00:00:30Z"
    );
    pods.delete("p", &DeleteParams::default().grace_period(60))
        .await
        .unwrap();
    assert_eq!(
        pods.get("p").await.unwrap().metadata.deletion_grace_period_seconds,
        Some(30)
    );
    pods.delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test]
async fn evictions_ask_the_budget() {
    let pods = pods();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(pods.clone().into_client());
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    budgets
        .create(&PostParams::default(), &serde_json::from_value(budget).unwrap())
        .await
        .unwrap();
    let allowed = |count: i32| {
        json!({"status": {"observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 1 + count,
            "desiredHealthy": 1, "expectedPods": 2}})
    };
    budgets
        .patch_status("b", &PatchParams::default(), &Patch::Merge(&allowed(1)))
        .await
        .unwrap();
    for name in ["p", "q"] {
        pods.create(&PostParams::default(), &pod(name, &json!({})))
            .await
            .unwrap();
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
    let refused = pods.evict("q", &EvictParams::default()).await.unwrap_err();
    assert_eq!(
        message(&refused),
        (
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.".into()
        )
    );
    budgets
        .patch_status("b", &PatchParams::default(), &Patch::Merge(&allowed(1)))
        .await
        .unwrap();
    pods.evict("q", &EvictParams::default()).await.unwrap();
}
