//! The assumptions of the cache and the writer, checked on a real kube-apiserver and etcd: versions, answers of deletes,
//! preconditions, streaming lists, and a server that dies. Needs `KUBEBUILDER_ASSETS`; without it this fails.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use coppice_harness::control_plane::{ControlPlane, Options};
use coppice_runtime::{
    cache::{
        Cache, Kind, Meta, ObjectKey, PodProjection, Projection, Typed,
        reflect::{self, ListStrategy},
    },
    lease::Leadership,
    write::{self, DeleteOptions, Patch, Precondition, Writer},
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Watched<P: Projection> {
    cache: Cache,
    kind: Kind<P>,
    changed: Arc<Notify>,
    _stop: DropGuard,
}

fn watched<P: Projection>(client: Client, resource: ApiResource, projection: P, strategy: ListStrategy) -> Watched<P> {
    let cache = Cache::default();
    let kind = cache.kind(resource, projection);
    let changed = Arc::new(Notify::new());
    let told = changed.clone();
    kind.on_change(move |_| told.notify_one());
    let stop = CancellationToken::new();
    let options = reflect::Options {
        namespace: Some("default".into()),
        strategy,
        page_size: 2,
        ..Default::default()
    };
    tokio::spawn(reflect::reflect(client, kind.clone(), options, stop.clone()));
    Watched {
        cache,
        kind,
        changed,
        _stop: stop.drop_guard(),
    }
}

impl<P: Projection> Watched<P> {
    fn get(&self, name: &str) -> Option<Arc<P::View>> {
        self.kind.get(&self.cache.moment(), &ObjectKey::new("default", name))
    }

    /// Waits for changes until the cache is as it should be.
    async fn until(&self, right: impl Fn(&Self) -> bool) {
        let wait = async {
            while !right(self) {
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .expect("the cache follows within a minute");
    }
}

fn writer(client: &Client) -> Writer {
    Writer::new(client.clone(), Leadership::always(), write::Options::default())
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x"}], "automountServiceAccountToken": false},
    })
}

#[tokio::test]
async fn the_cache_and_the_writer_on_a_real_server() {
    let control_plane = ControlPlane::start(&Options::default()).await.unwrap();
    let client = control_plane.client();
    every_strategy_lists_and_follows(&client).await;
    answers_are_folded_as_they_are_meant(&client).await;
    a_server_that_dies_is_followed_when_it_is_back(&control_plane).await;
}

async fn every_strategy_lists_and_follows(client: &Client) {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let create = async |name: &str| {
        api.create(&PostParams::default(), &serde_json::from_value(map(name)).unwrap())
            .await
            .unwrap();
    };
    for number in 0..5 {
        create(&format!("before-{number}")).await;
    }
    for (number, strategy) in [
        ListStrategy::Paged,
        ListStrategy::Streaming,
        ListStrategy::StreamingFromCache,
    ]
    .into_iter()
    .enumerate()
    {
        let resource = ApiResource::erase::<ConfigMap>(&());
        let watched = watched(client.clone(), resource, Typed::<ConfigMap>::default(), strategy);
        watched.cache.wait_synced().await;
        assert!(
            (0..5).all(|number| watched.get(&format!("before-{number}")).is_some()),
            "{strategy:?}"
        );
        let name = format!("after-{number}");
        create(&name).await;
        watched.until(|watched| watched.get(&name).is_some()).await;
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        watched.until(|watched| watched.get(&name).is_none()).await;
        assert!(watched.kind.status().malformed.is_empty());
    }
}

async fn answers_are_folded_as_they_are_meant(client: &Client) {
    let writer = writer(client);
    let maps = watched(
        client.clone(),
        ApiResource::erase::<ConfigMap>(&()),
        Typed::<ConfigMap>::default(),
        ListStrategy::Paged,
    );
    let pods = watched(
        client.clone(),
        ApiResource::erase::<Pod>(&()),
        PodProjection::default(),
        ListStrategy::Paged,
    );
    maps.cache.wait_synced().await;
    pods.cache.wait_synced().await;

    // Preconditions: another version and another uid are conflicts, for merge and apply alike.
    let created = writer.create(&maps.kind, Some("default"), &map("a")).await.unwrap();
    let known = Meta::of(&*created).unwrap();
    assert!(maps.get("a").is_some(), "at once");
    let stranger = Meta {
        uid: "00000000-0000-4000-8000-000000000000".into(),
        ..known.clone()
    };
    let label = || Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let refused = writer
        .patch(&maps.kind, &known.key, &Precondition::uid(&stranger), label())
        .await
        .unwrap_err();
    assert_eq!(refused.class(), "Conflict", "{refused}");
    let patched = writer
        .patch(&maps.kind, &known.key, &Precondition::version(&known), label())
        .await
        .unwrap();
    let outdated = writer
        .patch(&maps.kind, &known.key, &Precondition::version(&known), label())
        .await
        .unwrap_err();
    assert_eq!(outdated.class(), "Conflict", "{outdated}");
    let mut fields = map("absent");
    fields["data"] = json!({"k": "v"});
    let absent = ObjectKey::new("default", "absent");
    let apply = Patch::Apply { fields, force: false };
    let refused = writer
        .patch(&maps.kind, &absent, &Precondition::uid(&stranger), apply)
        .await
        .unwrap_err();
    assert_eq!(
        refused.class(),
        "Conflict",
        "an apply that demands a uid creates nothing: {refused}"
    );

    // Deletes: of another object, for good, held by a finalizer, and of pods.
    let refused = writer
        .delete(&maps.kind, &stranger, DeleteOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.class(), "Conflict", "{refused}");
    writer
        .delete(&maps.kind, &Meta::of(&*patched).unwrap(), DeleteOptions::default())
        .await
        .unwrap();
    assert!(maps.get("a").is_none(), "at once");
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let held = writer.create(&maps.kind, Some("default"), &held).await.unwrap();
    writer
        .delete(&maps.kind, &Meta::of(&*held).unwrap(), DeleteOptions::default())
        .await
        .unwrap();
    assert!(maps.get("held").unwrap().metadata.deletion_timestamp.is_some());
    let gone = writer
        .create(&pods.kind, Some("default"), &pod("unscheduled"))
        .await
        .unwrap();
    writer
        .delete(&pods.kind, &gone.meta, DeleteOptions::default())
        .await
        .unwrap();
    assert!(
        pods.get("unscheduled").is_none(),
        "a pod without a node is gone at once"
    );
    let again = writer
        .create(&pods.kind, Some("default"), &pod("unscheduled"))
        .await
        .unwrap();
    assert!(again.meta.version > gone.meta.version);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unscheduled"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"},
    });
    writer
        .post_subresource(&pods.kind, &again.meta.key, "binding", &binding)
        .await
        .unwrap();
    pods.until(|pods| pods.get("unscheduled").is_some_and(|pod| pod.node_name.is_some()))
        .await;
    let bound = pods.get("unscheduled").unwrap();
    writer
        .delete(&pods.kind, &bound.meta, DeleteOptions::default())
        .await
        .unwrap();
    assert!(
        pods.get("unscheduled").unwrap().is_terminating(),
        "a bound pod waits for its node"
    );
    let now = DeleteOptions {
        grace_seconds: Some(0),
        ..DeleteOptions::default()
    };
    writer.delete(&pods.kind, &bound.meta, now).await.unwrap();
    assert!(pods.get("unscheduled").is_none());

    // The watch catches up and has nothing left to confirm: one more change of each kind is told in its turn.
    writer.create(&maps.kind, Some("default"), &map("last")).await.unwrap();
    writer.create(&pods.kind, Some("default"), &pod("last")).await.unwrap();
    let foreign: Api<ConfigMap> = Api::default_namespaced(client.clone());
    foreign
        .create(&PostParams::default(), &serde_json::from_value(map("foreign")).unwrap())
        .await
        .unwrap();
    maps.until(|maps| maps.get("foreign").is_some()).await;
    assert_eq!(maps.kind.status().unconfirmed, 0);
    assert!(maps.get("last").is_some() && pods.get("last").is_some());
}

async fn a_server_that_dies_is_followed_when_it_is_back(control_plane: &ControlPlane) {
    let client = control_plane.client();
    let resource = ApiResource::erase::<ConfigMap>(&());
    let watched = watched(
        client.clone(),
        resource,
        Typed::<ConfigMap>::default(),
        ListStrategy::Paged,
    );
    watched.cache.wait_synced().await;
    control_plane.kill_api_server().unwrap();
    let refused = writer(&client)
        .create(&watched.kind, Some("default"), &map("vain"))
        .await
        .unwrap_err();
    assert_eq!(refused.class(), "Unavailable", "nothing listens: {refused}");
    control_plane.restart_api_server().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &serde_json::from_value(map("back")).unwrap())
        .await
        .unwrap();
    watched.until(|watched| watched.get("back").is_some()).await;
}
