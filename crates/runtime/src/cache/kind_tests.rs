use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{json, value::to_raw_value};

use super::*;
use crate::cache::{PodProjection, Typed};

fn pods(cache: &Cache) -> Kind<PodProjection> {
    cache.kind(ApiResource::erase::<Pod>(&()), PodProjection::default())
}

fn pod(name: &str, version: u64, owner: &str) -> Box<RawValue> {
    to_raw_value(&json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "ownerReferences": [{"uid": owner, "controller": true}],
        },
    }))
    .unwrap()
}

fn names(views: &[Arc<crate::cache::PodView>]) -> Vec<String> {
    views.iter().map(|view| view.meta.key.name.to_string()).collect()
}

#[test]
fn an_index_follows_changes_and_is_ordered() {
    let cache = Cache::default();
    let pods = pods(&cache);
    pods.observe(&pod("early", 1, "x")).unwrap();
    let by_owner = pods.index(|pod, emit| pod.controller_uid.iter().for_each(|uid| emit(uid.clone())));
    pods.observe(&pod("b", 2, "x")).unwrap();
    pods.observe(&pod("a", 3, "x")).unwrap();
    pods.observe(&pod("c", 4, "y")).unwrap();
    assert_eq!(names(&by_owner.get(&cache.moment(), &"x".into())), ["a", "b", "early"]);
    pods.observe(&pod("b", 5, "y")).unwrap();
    pods.observe_deleted(&pod("a", 6, "x")).unwrap();
    let moment = cache.moment();
    assert_eq!(names(&by_owner.get(&moment, &"x".into())), ["early"]);
    assert_eq!(names(&by_owner.get(&moment, &"y".into())), ["b", "c"]);
    assert_eq!(by_owner.count(&moment, &"y".into()), 2);
    assert_eq!(by_owner.keys(&moment), ["x".into(), "y".into()]);
}

#[test]
fn a_composite_index_is_read_by_prefix() {
    let cache = Cache::default();
    let pods = pods(&cache);
    let index = pods.index(|pod, emit| {
        let owner = pod.controller_uid.clone().unwrap_or_else(|| "".into());
        emit((owner, pod.meta.key.name.to_string()));
    });
    for (version, (name, owner)) in [("a", "x"), ("b", "y"), ("c", "x")].into_iter().enumerate() {
        pods.observe(&pod(name, version as u64 + 1, owner)).unwrap();
    }
    let found = index.range(&cache.moment(), &("x".into(), String::new()), |(owner, _)| {
        &**owner == "x"
    });
    assert_eq!(names(&found), ["a", "c"]);
}

#[test]
fn handlers_see_old_and_new_and_may_read() {
    let cache = Cache::default();
    let pods = pods(&cache);
    let seen = Arc::new(Mutex::new(Vec::new()));
    pods.on_change({
        let (cache, pods, seen) = (cache.clone(), pods.clone(), seen.clone());
        move |change| {
            let version = |view: &Option<Arc<crate::cache::PodView>>| view.as_ref().map(|view| view.meta.version.0);
            let now = pods.get(&cache.moment(), &change.key).map(|view| view.meta.version.0);
            seen.lock()
                .push((version(&change.old), version(&change.new), now, change.origin));
        }
    });
    pods.observe(&pod("a", 1, "x")).unwrap();
    let view = pods.fold_write(&pod("a", 5, "x")).unwrap();
    pods.observe(&pod("a", 3, "x")).unwrap();
    let gone = to_raw_value(&json!({"kind": "Status", "status": "Success"})).unwrap();
    pods.fold_delete(&view.meta, &gone).unwrap();
    use crate::cache::Origin::{OwnWrite, Watch};
    assert_eq!(
        *seen.lock(),
        [
            (None, Some(1), Some(1), Watch),
            (Some(1), Some(5), Some(5), OwnWrite),
            (Some(5), None, None, OwnWrite),
        ]
    );
    assert!(
        cache
            .shared
            .metrics
            .render()
            .contains("cache_stale_accounts_total{resource=\"pods\"} 1")
    );
}

#[test]
fn a_delete_that_is_held_up_shows_the_object_terminating() {
    let cache = Cache::default();
    let pods = pods(&cache);
    let view = pods.fold_write(&pod("a", 5, "x")).unwrap();
    let held = json!({"metadata": {
        "name": "a", "namespace": "n", "uid": "uid-a", "resourceVersion": "6",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30,
    }});
    pods.fold_delete(&view.meta, &to_raw_value(&held).unwrap()).unwrap();
    assert!(pods.get(&cache.moment(), &view.meta.key).unwrap().is_terminating());
    let mut gone = held;
    gone["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    gone["metadata"]["resourceVersion"] = json!("7");
    pods.fold_delete(&view.meta, &to_raw_value(&gone).unwrap()).unwrap();
    assert_eq!(pods.status().objects, 0);
    pods.observe(&pod("a", 6, "x")).unwrap();
    assert_eq!(pods.status().objects, 0);
}

#[test]
fn a_write_that_removes_the_last_finalizer_of_a_deleted_object_ends_it() {
    let cache = Cache::default();
    let maps = cache.kind(ApiResource::erase::<ConfigMap>(&()), Typed::<ConfigMap>::default());
    let map = |finalizers: &[&str]| {
        let metadata = json!({
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "finalizers": finalizers,
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
        });
        to_raw_value(&json!({"metadata": metadata})).unwrap()
    };
    maps.observe(&map(&["ours", "theirs"])).unwrap();
    maps.fold_write(&map(&["theirs"])).unwrap();
    assert_eq!(maps.status().objects, 1, "somebody else holds it");
    // The server answers with the version that it deleted, which we have already.
    maps.fold_write(&map(&[])).unwrap();
    assert_eq!(maps.status().objects, 0);
    maps.observe(&map(&["theirs"])).unwrap();
    assert_eq!(maps.status().objects, 0, "an older account does not bring it back");
}

#[test]
fn a_deleted_namespace_stays_until_it_is_empty() {
    use k8s_openapi::api::core::v1::Namespace;
    let cache = Cache::default();
    let namespaces = cache.kind(ApiResource::erase::<Namespace>(&()), Typed::<Namespace>::default());
    let mut object = json!({
        "kind": "Namespace", "metadata": {"name": "a", "uid": "u", "resourceVersion": "5"},
        "spec": {"finalizers": ["kubernetes"]},
    });
    let view = namespaces.fold_write(&to_raw_value(&object).unwrap()).unwrap();
    object["metadata"]["resourceVersion"] = json!("6");
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let known = Meta::of(&*view).unwrap();
    namespaces.fold_delete(&known, &to_raw_value(&object).unwrap()).unwrap();
    let held = namespaces.get(&cache.moment(), &known.key).unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
}

#[test]
fn one_malformed_object_is_reported_and_skipped() {
    let cache = Cache::default();
    let maps = cache.kind(ApiResource::erase::<ConfigMap>(&()), Typed::<ConfigMap>::default());
    let map = |name: &str, version: u64, data: serde_json::Value| {
        let metadata = json!({
            "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "x"}],
        });
        to_raw_value(&json!({"metadata": metadata, "data": data})).unwrap()
    };
    maps.begin_list();
    assert!(maps.list(&map("bad", 1, json!([]))).is_err());
    maps.list(&map("good", 2, json!({"k": "v"}))).unwrap();
    maps.finish_list(Version(3), true).unwrap();
    let status = maps.status();
    assert_eq!((status.synced, status.objects, status.malformed.len()), (true, 1, 1));
    let good = maps.get(&cache.moment(), &ObjectKey::new("n", "good")).unwrap();
    assert!(good.metadata.managed_fields.is_none() && good.data.as_ref().unwrap()["k"] == "v");
    maps.observe(&map("bad", 5, json!({}))).unwrap();
    assert!(maps.status().malformed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_barrier_of_the_first_sync_spans_all_kinds() {
    let cache = Cache::default();
    let (one, two) = (
        pods(&cache),
        cache.kind(ApiResource::erase::<ConfigMap>(&()), Typed::<ConfigMap>::default()),
    );
    let done = Arc::new(AtomicUsize::new(0));
    let waiter = tokio::spawn({
        let (cache, done) = (cache.clone(), done.clone());
        async move {
            cache.wait_synced().await;
            done.fetch_add(1, Ordering::SeqCst);
        }
    });
    one.begin_list();
    one.finish_list(Version(1), true).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(
        (done.load(Ordering::SeqCst), cache.unsynced()),
        (0, vec!["configmaps".to_owned()])
    );
    two.begin_list();
    two.finish_list(Version(1), true).unwrap();
    waiter.await.unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1);
}
