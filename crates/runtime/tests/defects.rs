//! Defects of the Go operator that ours must not have, each in a test with its number; `docs/defects-not-repeated.md`
//! lists them all. Here are those about shared state. The compiler rules the data races themselves out; what is left to
//! show is that readers and writers at the same time see whole, unchanging states.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};

use coppice_runtime::cache::{Cache, ObjectKey, Typed};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

fn map(name: &str, version: u64) -> Box<RawValue> {
    let metadata = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()});
    to_raw_value(&json!({"metadata": metadata, "data": {"version": version.to_string()}})).unwrap()
}

#[test]
fn w10_what_is_known_is_read_and_written_by_many_at_once() {
    const WRITERS: u64 = 4;
    const VERSIONS: u64 = 500;
    let cache = Cache::default();
    let maps = cache.kind(ApiResource::erase::<ConfigMap>(&()), Typed::<ConfigMap>::default());
    let by_name = maps.index(|map, emit| map.metadata.name.iter().for_each(|name| emit(name.clone())));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let moment = cache.moment();
                    for map in maps.all(&moment) {
                        let name = map.metadata.name.clone().unwrap();
                        let indexed = by_name.get(&moment, &name);
                        assert_eq!(indexed.len(), 1, "an index agrees with what it indexes at every moment");
                        assert_eq!(indexed[0].metadata.resource_version, map.metadata.resource_version);
                    }
                }
            });
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let maps = maps.clone();
                scope.spawn(move || {
                    for version in 1..=VERSIONS {
                        let name = format!("{writer}-{}", version % 7);
                        let object = map(&name, version * WRITERS + writer);
                        if version % 5 == 0 {
                            maps.observe_deleted(&object).unwrap();
                        } else {
                            maps.observe(&object).unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    let held = maps.all(&cache.moment()).len();
    assert!(held > 0 && held <= 28, "{held} objects of 4 writers with 7 names each");
}

#[test]
fn w14_what_was_read_does_not_change_under_the_reader() {
    let cache = Cache::default();
    let maps = cache.kind(ApiResource::erase::<ConfigMap>(&()), Typed::<ConfigMap>::default());
    maps.observe(&map("a", 1)).unwrap();
    let key = ObjectKey::new("n", "a");
    let read = maps.get(&cache.moment(), &key).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| maps.observe(&map("a", 2)).unwrap());
    });
    let version = |map: &ConfigMap| map.data.as_ref().unwrap()["version"].clone();
    assert_eq!(version(&read), "1", "who reads keeps the object as it was");
    assert_eq!(
        version(&maps.get(&cache.moment(), &key).unwrap()),
        "2",
        "who reads anew sees the new one"
    );
}
