//! The operator is killed after every single write of a story, and before it; the next one ends where an undisturbed
//! one ends, and no pod is created twice or deleted in vain on the way. One story has a death in each of its chapters,
//! because every chapter is compared on its own.
#![allow(clippy::print_stdout, reason = "the log of a test run says how much was tried")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use coppice_proofs::audit::PodHistory;
use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::state::{State, difference, read};
use coppice_proofs::story::{CHAPTERS, NAMESPACE, Updates};
use coppice_runtime::layers::{Call, Fault};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where an operator dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// In each chapter, the write with this number never arrives.
    Before(u64),
    /// In each chapter, the write with this number is the last.
    After(u64),
    /// The first write of every operator is its last, so often in each chapter.
    Always(u64),
}

/// How a story went.
#[derive(Debug, Default)]
struct Outcome {
    /// The state at the end of each chapter.
    states: Vec<State>,
    pods: PodHistory,
    /// Writes that operators sent in each chapter.
    writes: Vec<u64>,
    /// Operators that died.
    deaths: u64,
}

/// Counts the writes of all operators, and ends one of them.
struct Executioner {
    death: Option<Death>,
    sent: AtomicU64,
    deaths: AtomicU64,
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
        // What is told to people is no step of the work; how often it is told depends on what was told before.
        if call.resource == "events" {
            return Fault::Pass;
        }
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = match self.death {
            Some(Death::Before(last)) if number == last => Fault::FailBefore,
            Some(Death::After(last)) if number == last => Fault::LoseResponse,
            Some(Death::Always(times)) if number <= times => Fault::LoseResponse,
            _ => return Fault::Pass,
        };
        *alive = false;
        self.deaths.fetch_add(1, Ordering::Relaxed);
        self.dead.notify_one();
        fault
    }
}

async fn live_through(stage: &Arc<Stage>, updates: Updates, death: Option<Death>) -> Outcome {
    let executioner = Arc::new(Executioner {
        death,
        sent: AtomicU64::new(0),
        deaths: AtomicU64::new(0),
        dead: Notify::new(),
    });
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let supervisor = tokio::spawn({
        let (stage, executioner) = (stage.clone(), executioner.clone());
        async move {
            let mut ended = ended;
            for number in 0.. {
                let (alive, asked) = (Mutex::new(true), executioner.clone());
                let hook = move |call: &Call| asked.decide(&alive, call);
                let operator = stage.operator(&format!("operator-{number}"), hook).await;
                tokio::select! {
                    biased;
                    _ = &mut ended => return operator.abort(),
                    () = executioner.dead.notified() => operator.abort(),
                }
            }
        }
    });
    stage.audit.clear();
    let mut outcome = Outcome::default();
    for chapter in CHAPTERS {
        executioner.sent.store(0, Ordering::Relaxed);
        chapter.begin(&stage.client, updates).await;
        tokio::time::sleep(LONG).await;
        outcome.states.push(read(&stage.client, NAMESPACE).await);
        outcome.writes.push(executioner.sent.load(Ordering::Relaxed));
    }
    drop(end);
    supervisor.await.expect("the supervisor does not panic");
    outcome.pods = stage.audit.pods();
    outcome.deaths = executioner.deaths.load(Ordering::Relaxed);
    outcome
}

fn verdict(expected: &Outcome, found: &Outcome) -> Option<String> {
    for (chapter, (expected, found)) in CHAPTERS.iter().zip(expected.states.iter().zip(&found.states)) {
        if let Some(difference) = difference(expected, found) {
            return Some(format!("after {chapter:?}:\n{difference}"));
        }
    }
    (expected.pods != found.pods).then(|| format!("pods: {:#?}\nexpected {:#?}", found.pods, expected.pods))
}

/// Lives through the story once for each death, on all processors.
fn try_all(expected: &Outcome, updates: Updates, deaths: &[Death]) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                // The story ends with nothing left, so the next one can begin on the same stage; unless it went wrong.
                while next.load(Ordering::Relaxed) < deaths.len() {
                    in_virtual_time(async {
                        let stage = Arc::new(Stage::start().await);
                        while let Some(death) = deaths.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let found = live_through(&stage, updates, Some(*death)).await;
                            assert!(found.deaths > 0, "{death:?} never came");
                            if let Some(problem) = verdict(expected, &found) {
                                failures.lock().push(format!("{death:?}: {problem}"));
                                return;
                            }
                        }
                    });
                }
            });
        }
    });
    failures.into_inner()
}

fn undisturbed(updates: Updates) -> Outcome {
    in_virtual_time(async { live_through(&Arc::new(Stage::start().await), updates, None).await })
}

#[test]
fn undisturbed_it_ends_the_same_every_time_and_leaves_nothing_behind() {
    let (one, other) = in_virtual_time(async {
        let stage = Arc::new(Stage::start().await);
        (
            live_through(&stage, Updates::default(), None).await,
            live_through(&stage, Updates::default(), None).await,
        )
    });
    assert!(one.pods.doubles.is_empty());
    assert!(one.states[0].len() > 15, "{:?}", one.states[0].keys());
    assert!(one.states[3].is_empty(), "left behind: {:?}", one.states[3].keys());
    assert_eq!(verdict(&one, &other), None);
    assert_eq!((one.writes, one.deaths), (other.writes, other.deaths));
}

#[test]
fn killed_at_any_write_it_ends_the_same() {
    kill_at_every_write(Updates::RollingRecreate);
}

#[test]
fn killed_at_any_write_of_a_coherent_update_it_ends_the_same() {
    kill_at_every_write(Updates::Coherent);
}

fn kill_at_every_write(updates: Updates) {
    let undisturbed = undisturbed(updates);
    let most = undisturbed.writes.iter().copied().max().unwrap_or(0);
    let deaths: Vec<Death> = (1..=most)
        .flat_map(|number| [Death::Before(number), Death::After(number)])
        .chain([Death::Always(most)])
        .collect();
    println!(
        "writes in each chapter: {:?}; {} stories",
        undisturbed.writes,
        deaths.len()
    );
    let failures = try_all(&undisturbed, updates, &deaths);
    assert!(
        failures.is_empty(),
        "{} of {} stories ended differently:\n{}",
        failures.len(),
        deaths.len(),
        failures.join("\n\n")
    );
}
