use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use parking_lot::Mutex;

use super::*;
use crate::{
    cache::{Cache, PodProjection, PodView},
    clock::TokioClock,
    layers::{self, Call, Fault},
    lease::{Elector, Options as LeaseOptions},
    testing::Store,
};

struct Bench {
    store: Store,
    cache: Cache,
    pods: Kind<PodProjection>,
    writer: Writer,
    options: Options,
}

fn bench(leadership: Leadership, faults: impl Fn(&Call) -> Fault + Send + Sync + 'static) -> Bench {
    let (store, cache, options) = (Store::default(), Cache::default(), Options::default());
    let pods = cache.kind(ApiResource::erase::<Pod>(&()), PodProjection::default());
    let client = store.client(&layers::Options {
        faults: Some(Arc::new(faults)),
        ..layers::Options::default()
    });
    let writer = Writer::new(client, leadership, options.clone());
    Bench {
        store,
        cache,
        pods,
        writer,
        options,
    }
}

fn pass(_: &Call) -> Fault {
    Fault::Pass
}

impl Bench {
    async fn create(&self, name: &str) -> Result<Arc<PodView>, WriteError> {
        self.writer
            .create(
                &self.pods,
                Some("n"),
                &json!({"metadata": {"name": name, "namespace": "n"}}),
            )
            .await
    }

    fn cached(&self, name: &str) -> Option<Arc<PodView>> {
        self.pods.get(&self.cache.moment(), &ObjectKey::new("n", name))
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_in_the_cache() {
    let bench = bench(Leadership::always(), pass);
    let view = bench.create("a").await.unwrap();
    assert_eq!(bench.cached("a").unwrap().meta, view.meta);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let patched = bench
        .writer
        .patch(
            &bench.pods,
            &view.meta.key,
            &Precondition::version(&view.meta),
            patch.clone(),
        )
        .await
        .unwrap();
    assert_eq!(bench.cached("a").unwrap().label("x").map(|value| &**value), Some("y"));
    let stale = bench
        .writer
        .patch(&bench.pods, &view.meta.key, &Precondition::version(&view.meta), patch)
        .await;
    assert_eq!(stale.unwrap_err().class(), "Conflict");
    bench
        .writer
        .delete(&bench.pods, &patched.meta, DeleteOptions::default())
        .await
        .unwrap();
    assert!(bench.cached("a").is_none());
    let text = bench.options.metrics.render();
    assert!(
        text.contains("writes_total{resource=\"pods\",verb=\"create\",result=\"ok\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("writes_total{resource=\"pods\",verb=\"patch\",result=\"Conflict\"} 1"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_known_object_is_deleted() {
    let bench = bench(Leadership::always(), pass);
    let first = bench.create("a").await.unwrap();
    bench
        .writer
        .delete(&bench.pods, &first.meta, DeleteOptions::default())
        .await
        .unwrap();
    let second = bench.create("a").await.unwrap();
    let wrong = bench
        .writer
        .delete(&bench.pods, &first.meta, DeleteOptions::default())
        .await;
    assert_eq!(wrong.unwrap_err().class(), "Conflict");
    assert_eq!(bench.cached("a").unwrap().meta.uid, second.meta.uid);
    let outdated = Meta {
        version: Version(1),
        ..second.meta.clone()
    };
    let options = DeleteOptions {
        only_known_version: true,
        ..DeleteOptions::default()
    };
    assert_eq!(
        bench
            .writer
            .delete(&bench.pods, &outdated, options)
            .await
            .unwrap_err()
            .class(),
        "Conflict"
    );
    assert_eq!(bench.create("a").await.unwrap_err().class(), "AlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_the_object_terminating_in_the_cache() {
    let bench = bench(Leadership::always(), pass);
    let object = json!({"metadata": {"name": "a", "namespace": "n", "finalizers": ["f"]}});
    let view = bench.writer.create(&bench.pods, Some("n"), &object).await.unwrap();
    bench
        .writer
        .delete(&bench.pods, &view.meta, DeleteOptions::default())
        .await
        .unwrap();
    assert!(bench.cached("a").unwrap().is_terminating());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_unknown_outcome_that_a_read_settles() {
    let bench = bench(Leadership::always(), |call| {
        if call.number == 1 {
            Fault::LoseResponse
        } else {
            Fault::Pass
        }
    });
    let error = bench.create("a").await.unwrap_err();
    assert!(error.may_have_happened() && bench.cached("a").is_none());
    bench.writer.read(&bench.pods, &ObjectKey::new("n", "a")).await.unwrap();
    assert!(bench.cached("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
    let silent = Duration::from_secs(3600);
    let bench = bench(Leadership::always(), move |_| {
        Fault::Delay(silent, Box::new(Fault::Pass))
    });
    assert!(bench.create("a").await.unwrap_err().may_have_happened());
    assert!(bench.store.contents.lock().calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_write_leaves_after_the_lease_has_lapsed() {
    let lease_store = Store::default();
    let cut_off = Arc::new(Mutex::new(false));
    let faults = {
        let cut_off = cut_off.clone();
        move |_: &Call| {
            if *cut_off.lock() {
                Fault::FailBefore
            } else {
                Fault::Pass
            }
        }
    };
    let client = lease_store.client(&layers::Options {
        faults: Some(Arc::new(faults)),
        ..layers::Options::default()
    });
    let clock = Arc::new(TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let elector = Elector::new(client, LeaseOptions::new("n", "l", "me"), clock).unwrap();
    let slow = |call: &Call| {
        if call.number == 1 {
            Fault::Delay(Duration::from_secs(20), Box::new(Fault::Pass))
        } else {
            Fault::Pass
        }
    };
    let mut bench = bench(elector.leadership(), slow);
    bench.writer.gate = Gate::new(1);
    assert_eq!(bench.create("early").await.unwrap_err().class(), "Fenced");
    let leadership = elector.leadership();
    tokio::spawn(elector.run(tokio_util::sync::CancellationToken::new()));
    leadership.wait_leading().await;
    *cut_off.lock() = true;
    // The first write leaves in time and is slow; the second waits behind it until the lease has lapsed.
    let (first, second) = tokio::join!(bench.create("first"), bench.create("second"));
    assert!(first.is_ok());
    assert_eq!(second.unwrap_err().class(), "Fenced");
    assert_eq!(bench.store.contents.lock().calls.len(), 1);
}
