//! The controller is killed before and after every single write of a story; the next one ends where an undisturbed one
//! ends, no index is ever held twice, and none moves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coppice_domains::api::{Clique, ComputeDomain, names};
use coppice_domains::decide::status::READY;
use coppice_runtime::layers::{Call, Fault};
use kube::Api;
use kube::api::DeleteParams;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::stage::{CLIQUE, DRIVER, LONG, Stage, TEAM, node_name};

const NODES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Never,
    /// The write with this number never arrives.
    Before(u64),
    /// The answer to the write with this number is lost.
    After(u64),
    /// Every controller dies after its first write, so often.
    Always(u64),
}

struct Executioner {
    death: Death,
    sent: AtomicU64,
    dead: Notify,
}

impl Executioner {
    fn decide(&self, alive: &Mutex<bool>, call: &Call) -> Fault {
        if !call.is_write() {
            return Fault::Pass;
        }
        let mut alive = alive.lock();
        if !*alive {
            return Fault::FailBefore;
        }
        if call.resource == "events" {
            return Fault::Pass;
        }
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = match self.death {
            Death::Before(last) if number == last => Fault::FailBefore,
            Death::After(last) if number == last => Fault::LoseResponse,
            Death::Always(times) if number <= times => Fault::LoseResponse,
            _ => return Fault::Pass,
        };
        *alive = false;
        self.dead.notify_one();
        fault
    }
}

/// What a story ended with.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    formed: Vec<(String, Option<i64>, String)>,
    reason: String,
    after_loss: Vec<(String, Option<i64>, String)>,
    left_behind: Vec<String>,
    domain_is_gone: bool,
}

async fn rows(stage: &Stage, uid: &str, seen: &mut BTreeMap<String, i64>) -> Vec<(String, Option<i64>, String)> {
    let rows = stage.rows(uid).await;
    for row in &rows {
        let index = row.index.unwrap();
        let before = *seen.entry(row.node_name.clone()).or_insert(index);
        assert_eq!(before, index, "the index of {} has moved", row.node_name);
    }
    rows.into_iter()
        .map(|row| (row.node_name, row.index, row.ip_address))
        .collect()
}

async fn live_through(death: Death) -> (Ending, u64) {
    let stage = Stage::start().await;
    for number in 0..NODES {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let stage = Arc::new(stage);
    let executioner = Arc::new(Executioner {
        death,
        sent: AtomicU64::new(0),
        dead: Notify::new(),
    });
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let supervisor = tokio::spawn({
        let (stage, executioner) = (stage.clone(), executioner.clone());
        async move {
            let mut ended = ended;
            loop {
                let (alive, asked) = (Mutex::new(true), executioner.clone());
                let controller = stage.controller(move |call: &Call| asked.decide(&alive, call)).await;
                tokio::select! {
                    biased;
                    _ = &mut ended => return controller.abort(),
                    () = executioner.dead.notified() => controller.abort(),
                }
            }
        }
    });
    let mut seen = BTreeMap::new();
    let uid = stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    stage.join(0..NODES, &uid).await;
    tokio::time::sleep(LONG).await;
    let formed = rows(&stage, &uid, &mut seen).await;
    let reason = stage.condition("imex", READY).await.0;
    stage.delete_pod("daemon-02").await;
    tokio::time::sleep(LONG).await;
    let after_loss = rows(&stage, &uid, &mut seen).await;
    let domains: Api<ComputeDomain> = Api::namespaced(stage.client.clone(), TEAM);
    domains.delete("imex", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(LONG).await;
    let ending = Ending {
        formed,
        reason,
        after_loss,
        left_behind: stage.objects(&uid).await,
        domain_is_gone: stage.domain("imex").await.is_none(),
    };
    drop(end);
    supervisor.await.unwrap();
    (ending, executioner.sent.load(Ordering::Relaxed))
}

fn in_virtual_time<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn killed_at_any_write_it_ends_the_same() {
    let (expected, writes) = in_virtual_time(live_through(Death::Never));
    assert_eq!(expected.formed.len(), NODES);
    assert_eq!(
        (expected.reason.as_str(), expected.domain_is_gone),
        ("AllNodesReady", true)
    );
    assert_eq!(expected.left_behind, Vec::<String>::new());
    assert!(writes > 10, "{writes}");
    let deaths = (1..=writes).flat_map(|number| [Death::Before(number), Death::After(number)]);
    for death in deaths.chain([Death::Always(writes)]) {
        let (found, _) = in_virtual_time(live_through(death));
        assert_eq!(found, expected, "{death:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cliques_that_were_deleted_under_their_daemons_come_back_with_the_same_indices() {
    let stage = Stage::start().await;
    for number in 0..NODES {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let stage = Arc::new(stage);
    let controller = stage.controller(|_: &Call| Fault::Pass).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..2, &uid).await;
    stage.join(2..4, &uid).await;
    tokio::time::sleep(LONG).await;
    let before = stage.rows(&uid).await;
    let cliques: Api<Clique> = Api::namespaced(stage.client.clone(), DRIVER);
    cliques
        .delete(&names::clique(&uid, CLIQUE), &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.rows(&uid).await, before);
    controller.stop().await;
}
