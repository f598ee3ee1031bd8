//! The server under the real `kube::Client`, without sockets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use coppice_apiserver::ApiServer;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

fn server() -> ApiServer {
    ApiServer::builder().seed(1).build()
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"value": value}}, "data": {"key": value}}))
        .expect("a config map")
}

fn status(error: &kube::Error) -> (u16, String, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn objects_live_and_die() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let created = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    assert!(created.uid().is_some());
    assert!(created.creation_timestamp().is_some());

    let again = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    assert_eq!(
        status(&again),
        (409, "AlreadyExists".into(), "configmaps \"a\" already exists".into())
    );

    let mut changed = created.clone();
    changed.data = Some(BTreeMap::from([("key".into(), "2".into())]));
    let replaced = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = maps.replace("a", &PostParams::default(), &changed).await.unwrap_err();
    assert_eq!(status(&stale).1, "Conflict");

    let merge = json!({"data": {"other": "3"}});
    let patched = maps
        .patch("a", &PatchParams::default(), &Patch::Merge(&merge))
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let gone = maps.get("a").await.unwrap_err();
    assert_eq!(
        status(&gone),
        (404, "NotFound".into(), "configmaps \"a\" not found".into())
    );
}

#[tokio::test]
async fn a_write_without_change_keeps_the_revision() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let created = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let before = server.store().revision();
    let same = maps.replace("a", &PostParams::default(), &created).await.unwrap();
    assert_eq!(same.resource_version(), created.resource_version());
    let patch = json!({"data": {"key": "1"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(server.store().revision(), before);
}

#[tokio::test]
async fn lists_are_selected_and_paged() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for index in 0..5 {
        let map = config_map(&format!("m{index}"), if index % 2 == 0 { "even" } else { "odd" });
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let even = maps
        .list(&ListParams::default().labels("value in (even)"))
        .await
        .unwrap();
    assert_eq!(even.items.len(), 3);
    let one = maps
        .list(&ListParams::default().fields("metadata.name=m1"))
        .await
        .unwrap();
    assert_eq!(one.items.len(), 1);
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(3)));
    maps.delete("m3", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<_> = rest.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["m2", "m3", "m4"]);
    server.store().compact(server.store().revision());
    let expired = maps
        .list(&ListParams::default().continue_token(&token))
        .await
        .unwrap_err();
    assert_eq!((status(&expired).0, status(&expired).1), (410, "Expired".into()));
    let wrong = maps
        .list(&ListParams::default().fields("data.key=1"))
        .await
        .unwrap_err();
    assert_eq!(
        status(&wrong),
        (
            400,
            "BadRequest".into(),
            "\"data.key\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"".into()
        )
    );
}

#[tokio::test]
async fn a_watch_follows_a_revision() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let start = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    maps.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let patch = json!({"data": {"key": "2"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(object) => ("ADDED", object.data.unwrap()["key"].clone()),
            WatchEvent::Modified(object) => ("MODIFIED", object.data.unwrap()["key"].clone()),
            WatchEvent::Deleted(object) => ("DELETED", object.data.unwrap()["key"].clone()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(
        seen,
        [("ADDED", "1".into()), ("MODIFIED", "2".into()), ("DELETED", "2".into())]
    );
    server.store().compact(server.store().revision());
    let mut events = maps.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    let expired = match events.next().await {
        Some(Ok(WatchEvent::Error(status))) => status.code,
        other => panic!("{other:?}"),
    };
    assert!(events.next().await.is_none(), "the stream ends after the error");
    assert_eq!(expired, 410);
}

#[tokio::test(start_paused = true)]
async fn watchers_keep_in_step_by_list_and_by_streaming_list() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    maps.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut events = watcher(maps.clone(), config).boxed();
        assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::Init));
        let watcher::Event::InitApply(first) = events.next().await.unwrap().unwrap() else {
            panic!("no object")
        };
        assert_eq!(first.name_any(), "a");
        assert!(matches!(
            events.next().await.unwrap().unwrap(),
            watcher::Event::InitDone
        ));
        let name = format!("n{}", server.store().revision());
        maps.create(&PostParams::default(), &config_map(&name, "1"))
            .await
            .unwrap();
        let watcher::Event::Apply(object) = events.next().await.unwrap().unwrap() else {
            panic!("no event")
        };
        assert_eq!(object.name_any(), name);
        maps.delete(&name, &DeleteParams::default()).await.unwrap();
        let watcher::Event::Delete(object) = events.next().await.unwrap().unwrap() else {
            panic!("no event")
        };
        assert_eq!(object.name_any(), name);
    }
}

#[tokio::test]
async fn generated_names_and_finalizers() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"generateName": "x-", "finalizers": ["example.com/hold"]}}))
            .unwrap();
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    let name = created.name_any();
    assert!(name.starts_with("x-") && name.len() == 7, "{name}");
    maps.delete(&name, &DeleteParams::default()).await.unwrap();
    let held = maps.get(&name).await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let refused = maps
        .patch(&name, &PatchParams::default(), &Patch::Merge(&more))
        .await
        .unwrap_err();
    assert_eq!(status(&refused).0, 422);
    let none = json!({"metadata": {"finalizers": null}});
    maps.patch(&name, &PatchParams::default(), &Patch::Merge(&none))
        .await
        .unwrap();
    assert!(maps.get_opt(&name).await.unwrap().is_none());
}

#[tokio::test]
async fn content_needs_a_namespace() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(client(&server), "nowhere");
    let error = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    assert_eq!(
        status(&error),
        (404, "NotFound".into(), "namespaces \"nowhere\" not found".into())
    );
    let namespaces: Api<Namespace> = Api::all(client(&server));
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
}

#[tokio::test]
async fn unknown_fields_are_dropped_or_refused() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "imagee": "x"}]}});
    let request = |strict: &str| {
        http::Request::post(format!("/api/v1/namespaces/default/pods?fieldValidation={strict}"))
            .header("content-type", "application/json")
            .body(pod.to_string().into_bytes())
            .unwrap()
    };
    let refused = client(&server).request::<Pod>(request("Strict")).await.unwrap_err();
    assert!(
        status(&refused)
            .2
            .contains("unknown field \"spec.containers[0].imagee\""),
        "{refused}"
    );
    client(&server).request::<Pod>(request("Warn")).await.unwrap();
    assert!(pods.get("p").await.is_ok());

    let patch = http::Request::patch("/api/v1/namespaces/default/pods/p?fieldValidation=Strict")
        .header("content-type", "application/merge-patch+json")
        .body(json!({"metadata": {"lables": {}}}).to_string().into_bytes())
        .unwrap();
    let (code, reason, message) = status(&client(&server).request::<Pod>(patch).await.unwrap_err());
    assert_eq!((code, &*reason), (422, "Invalid"));
    let problem = "strict decoding error: unknown field \"metadata.lables\"";
    assert!(
        message.contains("patch: Invalid value") && message.ends_with(problem),
        "{message}"
    );
}

#[tokio::test]
async fn one_seed_and_one_clock_give_the_same_bytes() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let server = ApiServer::builder().seed(7).clock(move || now).build();
        let record = Arc::new(Mutex::new(Vec::new()));
        let seen = record.clone();
        server.store().observe(move |commit| {
            seen.lock()
                .expect("no panic before")
                .push((commit.revision(), commit.object().json()));
        });
        let pods: Api<Pod> = Api::default_namespaced(client(&server));
        for _ in 0..3 {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"generateName": "p-"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}))
            .unwrap();
            let created = pods.create(&PostParams::default(), &pod).await.unwrap();
            pods.delete(&created.name_any(), &DeleteParams::default())
                .await
                .unwrap();
        }
        let commits = record.lock().unwrap().clone();
        assert_eq!(commits.len(), 9, "each pod is created, marked and removed");
        runs.push(commits);
    }
    assert_eq!(runs[0], runs[1]);
}
