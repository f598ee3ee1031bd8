//! A small controller built from the whole crate: cache, queue, writer, faults. A parent config map says how many
//! children it wants; the controller makes and removes them.

use std::{sync::Arc, time::Duration};

use crate::support::{Maps, Watched, client, clock, pass, server, watched};
use coppice_runtime::{
    cache::{Cache, Index, Meta, ObjectKey, reflect},
    layers::{Call, Ending, Fault},
    lease::Leadership,
    queue::{self, Outcome, Priority, Queue},
    write::{self, DeleteOptions, WriteError, Writer},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
struct Controller {
    cache: Cache,
    maps: Maps,
    children: Index<ConfigMap, String>,
    writer: Writer,
}

impl Controller {
    /// Reads one consistent moment, decides, acts.
    async fn reconcile(self, parent: String) -> Outcome<WriteError> {
        let (wanted, present) = {
            let moment = self.cache.moment();
            let Some(parent) = self.maps.get(&moment, &ObjectKey::new("default", parent.as_str())) else {
                return Outcome::Done;
            };
            let wanted: usize = parent.data.as_ref().unwrap()["children"].parse().unwrap();
            (
                wanted,
                self.children.get(&moment, parent.metadata.name.as_ref().unwrap()),
            )
        };
        let name_of = |number: usize| format!("{parent}-{number}");
        let is_there = |name: &str| present.iter().any(|child| child.metadata.name.as_deref() == Some(name));
        for name in (0..wanted).map(name_of).filter(|name| !is_there(name)) {
            let child = json!({"metadata": {"name": name, "labels": {"parent": parent}}});
            match self.writer.create(&self.maps, Some("default"), &child).await {
                Ok(_) => {}
                // Ours, from an answer that was lost: have a look at it.
                Err(WriteError::AlreadyExists(_)) => {
                    if let Err(error) = self.writer.read(&self.maps, &ObjectKey::new("default", name)).await {
                        return Outcome::Retry(error);
                    }
                }
                Err(error) => return Outcome::Retry(error),
            }
        }
        let wanted: Vec<String> = (0..wanted).map(name_of).collect();
        for child in present
            .iter()
            .filter(|child| !wanted.contains(child.metadata.name.as_ref().unwrap()))
        {
            match self
                .writer
                .delete(&self.maps, &Meta::of(&**child).unwrap(), DeleteOptions::default())
                .await
            {
                Ok(()) | Err(WriteError::NotFound(_)) => {}
                Err(error) => return Outcome::Retry(error),
            }
        }
        Outcome::Done
    }
}

fn parent_of(map: &ConfigMap) -> Option<String> {
    map.metadata.labels.as_ref()?.get("parent").cloned()
}

/// What the controller asked of the server, in order.
type Log = Arc<Mutex<Vec<String>>>;

struct Run {
    log: Log,
    children: Vec<String>,
    quiet_writes: usize,
}

/// Three parents grow and shrink while `faults` has its way; then everything calms down.
async fn run(seed: u64, faults: impl Fn(&Call, &mut ChaCha8Rng) -> Fault + Send + Sync + 'static) -> Run {
    let server = server();
    let log = Log::default();
    let calm = Arc::new(Mutex::new(false));
    let hook = {
        let (log, calm) = (log.clone(), calm.clone());
        let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed));
        move |call: &Call| {
            let fault = if *calm.lock() {
                Fault::Pass
            } else {
                faults(call, &mut random.lock())
            };
            let name = call.name.as_deref().unwrap_or_default();
            log.lock().push(format!("{} {name} {fault:?}", call.verb));
            fault
        }
    };
    let client_of_controller = client(&server, hook);
    let Watched { cache, maps, .. } = &watched(
        client_of_controller.clone(),
        reflect::Options {
            seed,
            ..Default::default()
        },
    );
    let queue = Queue::new(
        queue::Options {
            workers: 2,
            seed,
            ..queue::Options::named("parents")
        },
        Arc::new(clock()),
    );
    let children = maps.index(|map: &ConfigMap, emit| parent_of(map).into_iter().for_each(emit));
    maps.on_change({
        let queue = queue.clone();
        move |change| {
            for map in change.old.iter().chain(&change.new) {
                let key = parent_of(map).unwrap_or_else(|| map.metadata.name.clone().unwrap());
                queue.mark(key, Priority::High);
            }
        }
    });
    let writer = Writer::new(client_of_controller, Leadership::always(), write::Options::default());
    let controller = Controller {
        cache: cache.clone(),
        maps: maps.clone(),
        children,
        writer,
    };
    cache.wait_synced().await;
    let stop = CancellationToken::new();
    let worker = tokio::spawn(
        queue
            .clone()
            .run(stop.clone(), move |key| controller.clone().reconcile(key)),
    );

    let api: Api<ConfigMap> = Api::default_namespaced(client(&server, pass));
    let count = |count: usize| json!({"data": {"children": count.to_string()}});
    for (name, wanted) in [("a", 5), ("b", 3), ("c", 0)] {
        let mut parent = count(wanted);
        parent["metadata"] = json!({"name": name});
        api.create(&PostParams::default(), &serde_json::from_value(parent).unwrap())
            .await
            .unwrap();
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    for (name, wanted) in [("a", 2), ("b", 6), ("c", 1)] {
        api.patch(name, &PatchParams::default(), &Patch::Merge(count(wanted)))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    *calm.lock() = true;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let writes = |log: &Log| {
        log.lock()
            .iter()
            .filter(|call| !matches!(&call[..3], "wat" | "lis" | "get"))
            .count()
    };
    let before = writes(&log);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let quiet_writes = writes(&log) - before;
    stop.cancel();
    worker.await.unwrap();
    // Names of children are a letter, a hyphen and a digit; other maps (the cluster's CA) have longer ones.
    let children = crate::support::truth(&api)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.len() == 3)
        .collect();
    Run {
        log,
        children,
        quiet_writes,
    }
}

const EXPECTED: [&str; 9] = ["a-0", "a-1", "b-0", "b-1", "b-2", "b-3", "b-4", "b-5", "c-0"];

#[tokio::test(start_paused = true)]
async fn without_faults_every_write_is_needed_and_none_conflicts() {
    let run = run(0, |_, _| Fault::Pass).await;
    assert_eq!(run.children, EXPECTED);
    let count = |verb: &str| run.log.lock().iter().filter(|call| call.starts_with(verb)).count();
    assert_eq!(
        (count("create"), count("delete"), count("get"), run.quiet_writes),
        (12, 3, 0, 0)
    );
}

fn rough(call: &Call, random: &mut ChaCha8Rng) -> Fault {
    let fault = match (random.random_range(0..10), call.verb.as_str()) {
        (0, _) => Fault::FailBefore,
        (1, "create" | "delete") => Fault::LoseResponse,
        (1 | 2, "watch") => Fault::CutBody {
            after_lines: 2,
            ending: Ending::Reset,
        },
        (3, "watch") => Fault::CutBody {
            after_lines: 1,
            ending: Ending::Expired,
        },
        (3, _) => Fault::Status {
            code: 503,
            reason: "ServiceUnavailable".into(),
            message: "busy".into(),
            retry_after: None,
        },
        _ => Fault::Pass,
    };
    Fault::Delay(Duration::from_millis(random.random_range(0..2000)), Box::new(fault))
}

#[tokio::test(start_paused = true)]
async fn under_faults_it_ends_the_same_and_is_then_quiet() {
    for seed in 0..15 {
        let run = run(seed, rough).await;
        assert_eq!(run.children, EXPECTED, "seed {seed}");
        assert_eq!(run.quiet_writes, 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_every_call() {
    for seed in 0..3 {
        let (one, two) = (run(seed, rough).await, run(seed, rough).await);
        assert_eq!(*one.log.lock(), *two.log.lock(), "seed {seed}");
    }
    let (one, two) = (run(1, rough).await, run(2, rough).await);
    assert_ne!(*one.log.lock(), *two.log.lock());
}
