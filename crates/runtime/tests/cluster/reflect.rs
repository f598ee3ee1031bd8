//! The cache against the embedded API server: in step through cut watches, expired versions, refusals and resets.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use crate::support::{Watched, client, pass, server, truth, watched};
use coppice_apiserver::ApiServer;
use coppice_runtime::{
    cache::{
        Change, Meta, Origin,
        reflect::{ListStrategy, Options},
    },
    layers::{self, Call, Ending, Fault},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tower::ServiceExt;

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap()
}

async fn edit(api: &Api<ConfigMap>, random: &mut ChaCha8Rng) {
    let name = format!("map-{}", random.random_range(0..8));
    let value = random.random_range(0..1000_u32).to_string();
    // Whether the object is there decides which of these succeed; all outcomes are welcome.
    match random.random_range(0..4) {
        0 => drop(api.delete(&name, &DeleteParams::default()).await),
        1 => drop(api.create(&PostParams::default(), &map(&name, &value)).await),
        _ => {
            let patch = json!({"data": {"value": value}});
            drop(api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await);
        }
    }
}

/// Waits in virtual time until the cache equals the server.
async fn settle(watched: &Watched, api: &Api<ConfigMap>) {
    for _ in 0..600 {
        if watched.versions() == truth(api).await {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("cache {:?}, server {:?}", watched.versions(), truth(api).await);
}

/// No version of an object is ever followed by an older one, and changes follow from each other.
fn watch_order(watched: &Watched) -> Arc<Mutex<BTreeMap<String, u64>>> {
    let newest = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = newest.clone();
    watched.maps.on_change(move |change: &Change<ConfigMap>| {
        if let Some(new) = &change.new {
            let version: u64 = new.metadata.resource_version.as_ref().unwrap().parse().unwrap();
            let before = seen.lock().insert(change.key.to_string(), version).unwrap_or(0);
            assert!(version > before, "{} went from {before} to {version}", change.key);
        }
    });
    newest
}

#[tokio::test(start_paused = true)]
async fn in_step_through_every_kind_of_interruption() {
    for strategy in [
        ListStrategy::Paged,
        ListStrategy::Streaming,
        ListStrategy::StreamingFromCache,
    ] {
        for seed in 0..10 {
            let server = server();
            let calm = Arc::new(Mutex::new(false));
            let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed));
            let hook = {
                let calm = calm.clone();
                move |call: &Call| {
                    if *calm.lock() {
                        return Fault::Pass;
                    }
                    let random = &mut *random.lock();
                    let status = |code: u16, reason: &str| Fault::Status {
                        code,
                        reason: reason.into(),
                        message: "injected".into(),
                        retry_after: None,
                    };
                    let cut = |ending, random: &mut ChaCha8Rng| Fault::CutBody {
                        after_lines: random.random_range(0..6),
                        ending,
                    };
                    let fault = match random.random_range(0..8) {
                        0 => Fault::FailBefore,
                        1 => status(410, "Expired"),
                        2 => status(500, "InternalError"),
                        3 if call.verb == "watch" => cut(Ending::Close, random),
                        4 if call.verb == "watch" => cut(Ending::Reset, random),
                        5 if call.verb == "watch" => cut(Ending::Expired, random),
                        _ => Fault::Pass,
                    };
                    let delay = Duration::from_millis(random.random_range(0..3000));
                    Fault::Delay(delay, Box::new(fault))
                }
            };
            let options = Options {
                strategy,
                page_size: 3,
                seed,
                watch_seconds: 20,
                ..Options::default()
            };
            let watched = watched(client(&server, hook), options);
            let newest = watch_order(&watched);
            let api = Api::default_namespaced(client(&server, pass));
            let mut random = ChaCha8Rng::seed_from_u64(seed + 1000);
            for _ in 0..150 {
                edit(&api, &mut random).await;
                let pause = Duration::from_millis(random.random_range(0..2000));
                tokio::time::sleep(pause).await;
            }
            *calm.lock() = true;
            settle(&watched, &api).await;
            assert!(!newest.lock().is_empty());
            assert_eq!(watched.maps.status().unconfirmed, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_start_is_answered_with_gone_lists_again() {
    let server = server();
    let hook = |call: &Call| match (call.verb.as_str(), call.number) {
        ("watch", number) if number < 4 => Fault::Status {
            code: 410,
            reason: "Expired".into(),
            message: "too old".into(),
            retry_after: None,
        },
        _ => Fault::Pass,
    };
    let watched = watched(client(&server, hook), Options::default());
    watched.cache.wait_synced().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server, pass));
    api.create(&PostParams::default(), &map("late", "1")).await.unwrap();
    settle(&watched, &api).await;
    assert!(watched.get("late").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_paged() {
    let server = server();
    let hook = |call: &Call| match call.number {
        1 => Fault::Status {
            code: 422,
            reason: "Invalid".into(),
            message: "sendInitialEvents".into(),
            retry_after: None,
        },
        _ => Fault::Pass,
    };
    let watched = watched(
        client(&server, hook),
        Options {
            strategy: ListStrategy::Streaming,
            ..Options::default()
        },
    );
    watched.cache.wait_synced().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server, pass));
    settle(&watched, &api).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_bounds_the_cache_also_for_own_writes() {
    let server = server();
    let options = Options {
        label_selector: Some("in=yes".into()),
        ..Options::default()
    };
    let watched = watched(client(&server, pass), options);
    watched.cache.wait_synced().await;
    let client = client(&server, pass);
    let writer = coppice_runtime::write::Writer::new(
        client.clone(),
        coppice_runtime::lease::Leadership::always(),
        coppice_runtime::write::Options::default(),
    );
    let labelled = |name: &str, value: &str| json!({"metadata": {"name": name, "labels": {"in": value}}});
    writer
        .create(&watched.maps, Some("default"), &labelled("inside", "yes"))
        .await
        .unwrap();
    writer
        .create(&watched.maps, Some("default"), &labelled("outside", "no"))
        .await
        .unwrap();
    assert!(
        watched.get("outside").is_some(),
        "folded in, until the watch has passed it"
    );
    // A bookmark comes within a minute.
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(
        (watched.get("inside").is_some(), watched.get("outside").is_some()),
        (true, false)
    );
}

/// A client whose server can be exchanged, as when a cluster is restored from a backup.
fn exchangeable(server: &Arc<Mutex<ApiServer>>) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let service = server.lock().service();
        async move { Ok::<_, Infallible>(service.oneshot(request).await.unwrap()) }
    });
    layers::client_of_service(service, "default", &layers::Options::default())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_set_back_is_followed() {
    let current = Arc::new(Mutex::new(server()));
    let options = Options {
        watch_seconds: 10,
        ..Options::default()
    };
    let watched = watched(exchangeable(&current), options);
    watched.cache.wait_synced().await;
    let api: Api<ConfigMap> = Api::default_namespaced(exchangeable(&current));
    for number in 0..40 {
        api.create(&PostParams::default(), &map(&format!("old-{number}"), "1"))
            .await
            .unwrap();
    }
    settle(&watched, &api).await;
    let before = watched.maps.status().passed;
    *current.lock() = server();
    api.create(&PostParams::default(), &map("new", "1")).await.unwrap();
    settle(&watched, &api).await;
    assert!(watched.maps.status().passed < before && watched.get("new").is_some());
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_seen_at_once_and_told_once() {
    let server = server();
    // Each watch begins half a minute late: the cache would lag far behind.
    let hook = |call: &Call| match call.verb.as_str() {
        "watch" => Fault::Delay(Duration::from_secs(30), Box::new(Fault::Pass)),
        _ => Fault::Pass,
    };
    let client = client(&server, hook);
    let watched = watched(client.clone(), Options::default());
    watched.cache.wait_synced().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    watched.maps.on_change({
        let told = told.clone();
        move |change: &Change<ConfigMap>| told.lock().push((change.new.is_some(), change.origin))
    });
    let writer = coppice_runtime::write::Writer::new(
        client,
        coppice_runtime::lease::Leadership::always(),
        coppice_runtime::write::Options::default(),
    );
    use coppice_runtime::write::{DeleteOptions, Patch as OwnPatch, Precondition};
    let created = writer
        .create(&watched.maps, Some("default"), &map("a", "1"))
        .await
        .unwrap();
    assert_eq!(watched.get("a"), Some(created.clone()));
    let meta = Meta::of(&*created).unwrap();
    let patch = OwnPatch::Merge(json!({"data": {"value": "2"}}));
    let patched = writer
        .patch(&watched.maps, &meta.key, &Precondition::version(&meta), patch.clone())
        .await
        .unwrap();
    assert_eq!(watched.get("a").unwrap().data.as_ref().unwrap()["value"], "2");
    let refused = writer
        .patch(&watched.maps, &meta.key, &Precondition::version(&meta), patch)
        .await;
    assert_eq!(refused.unwrap_err().class(), "Conflict");
    writer
        .delete(&watched.maps, &Meta::of(&*patched).unwrap(), DeleteOptions::default())
        .await
        .unwrap();
    assert_eq!(watched.get("a"), None);
    let kept = writer
        .create(&watched.maps, Some("default"), &map("a", "3"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(watched.get("a"), Some(kept));
    let own = Origin::OwnWrite;
    assert_eq!(
        *told.lock(),
        [(true, own), (true, own), (false, own), (true, own)],
        "the watch had nothing to add"
    );
    assert_eq!(watched.maps.status().unconfirmed, 0);
}
