//! Coherent updates: the planner, driven through worked examples and random histories.
//!
//! `COPPICE_COHERENT_HISTORIES` sets the number of histories and `COPPICE_COHERENT_SEED` the first seed; a failure names
//! its seed and is made smaller before it is shown.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod driver;
mod examples;
mod history;
mod model;
mod oracles;
mod subject;
mod upstream;
mod wire;

use history::{Counts, History, live, shrink};
use subject::Invariant;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn every_invariant_holds_in_random_histories() {
    let histories = setting("COPPICE_COHERENT_HISTORIES", 60_000);
    let first = setting("COPPICE_COHERENT_SEED", 0);
    let threads = 2;
    let total = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut total = Counts::default();
                    for seed in (first + thread..first + histories).step_by(usize::try_from(threads).unwrap()) {
                        let history = History::random(seed);
                        match live(&history, None, None) {
                            Ok(counts) => {
                                total.batches += counts.batches;
                                total.maps += counts.maps;
                                total.conflicts += counts.conflicts;
                            }
                            Err(failure) => {
                                let (small, (invariant, words)) = shrink(&history, &failure);
                                panic!("seed {seed} breaks {invariant:?}: {words}\n{small:?}");
                            }
                        }
                    }
                    total
                })
            })
            .collect();
        let mut total = Counts::default();
        for worker in workers {
            let counts = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            total.batches += counts.batches;
            total.maps += counts.maps;
            total.conflicts += counts.conflicts;
        }
        total
    });
    println!("{histories} histories: {total:?}");
    assert!(total.batches > histories && total.conflicts > 0, "{total:?}");
}

#[test]
fn every_mutation_breaks_its_invariant() {
    for invariant in Invariant::ALL {
        let caught = (0..20_000).find(|seed| {
            let failure = live(&History::random(*seed), Some(invariant), Some(invariant)).err();
            failure.is_some_and(|(broken, _)| broken == invariant)
        });
        println!("{invariant:?}: caught by history {caught:?}");
        assert!(caught.is_some(), "no history catches the mutation of {invariant:?}");
    }
}
