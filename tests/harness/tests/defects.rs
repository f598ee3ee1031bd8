//! Defects of the Go operator that ours must not have, each in a test with its number; `docs/defects-not-repeated.md`
//! lists them all. Here are those that only the whole operator shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coppice_apiserver::ApiServer;
use coppice_crds::{InstallOptions, install};
use coppice_operator::{Operator, Options};
use coppice_runtime::metrics::Metrics;
use http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;
use tower::ServiceExt;

/// Writes that are on their way at the same time.
#[derive(Default)]
struct InFlight {
    now: AtomicUsize,
    most: AtomicUsize,
}

fn counted_client(server: &ApiServer, in_flight: &Arc<InFlight>) -> Client {
    let (service, in_flight) = (server.service(), Arc::clone(in_flight));
    let counted = tower::service_fn(move |request: Request<Body>| {
        let (service, in_flight) = (service.clone(), Arc::clone(&in_flight));
        async move {
            // Events have a budget of their own, and go out one after another.
            if request.method() == Method::GET || request.uri().path().contains("/events") {
                return service.oneshot(request).await;
            }
            let now = in_flight.now.fetch_add(1, Ordering::SeqCst) + 1;
            in_flight.most.fetch_max(now, Ordering::SeqCst);
            // Long enough for others to come along, if they may.
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            let answer = service.oneshot(request).await;
            in_flight.now.fetch_sub(1, Ordering::SeqCst);
            answer
        }
    });
    Client::new(counted, "default")
}

async fn deploy(client: &Client, replicas: u32) {
    let kind = GroupVersionKind::gvk("grove.io", "v1alpha1", "PodCliqueSet");
    let sets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let pod = json!({"containers": [{"name": "main", "image": "registry.example/main"}]});
    let clique = json!({"name": "worker", "spec": {"roleName": "worker", "replicas": 5, "podSpec": pod}});
    let set = json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "wide"},
        "spec": {"replicas": replicas, "template": {"cliques": [clique]}},
    });
    let set = serde_json::from_value(set).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
}

/// Runs the operator until a set of so many replicas has all its pods.
async fn pods_of_a_wide_set(options: Options, in_flight: &Arc<InFlight>) {
    const REPLICAS: u32 = 8;
    let server = ApiServer::builder().build();
    let plain = Client::new(server.service(), "default");
    install(plain.clone(), &InstallOptions::default(), |_| {})
        .await
        .unwrap();
    let operator = Operator::start(counted_client(&server, in_flight), options).await;
    let pods: Api<Pod> = Api::namespaced(plain.clone(), "default");
    let mut changes = Box::pin(kube::runtime::watcher(
        pods.clone(),
        kube::runtime::watcher::Config::default(),
    ));
    deploy(&plain, REPLICAS).await;
    let wanted = 5 * REPLICAS as usize;
    while futures::TryStreamExt::try_next(&mut changes).await.is_ok() {
        if pods.list(&ListParams::default()).await.unwrap().items.len() == wanted {
            break;
        }
    }
    operator.wait_idle().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w22_writes_at_the_same_time_are_bounded() {
    let in_flight = Arc::new(InFlight::default());
    let options = Options {
        concurrent_writes: 3,
        ..Options::default()
    };
    pods_of_a_wide_set(options, &in_flight).await;
    let most = in_flight.most.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} writes at once, where 3 are allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn w32_the_operator_tells_what_it_does_in_metrics() {
    let metrics = Metrics::default();
    let options = Options {
        metrics: metrics.clone(),
        ..Options::default()
    };
    pods_of_a_wide_set(options, &Arc::default()).await;
    let text = metrics.render();
    for expected in [
        "coppice_writes_total{",
        "coppice_queue_runs_total{",
        "coppice_queue_depth{",
        "coppice_queue_wait_seconds_bucket{",
        "coppice_queue_retries_total{",
        "coppice_cache_objects{resource=\"pods\"} 40",
        "coppice_cache_reflector_total{",
    ] {
        assert!(text.contains(expected), "no {expected} in\n{text}");
    }
}
