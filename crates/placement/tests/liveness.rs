//! Liveness: what fits an idle cluster is placed in the end, however the cluster is used meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use coppice_placement::{ClusterState, Gang, Options, Pack, plan};
use support::Random;
use support::cluster::{RACK, bind, cluster, demands, gang, group};

/// Small pods come whenever there is room for them and stay for a few rounds.
struct Churn {
    random: Random,
    next: usize,
    /// Pods and when they leave.
    guests: Vec<(usize, String)>,
}

impl Churn {
    fn round(&mut self, state: &mut ClusterState, now: usize, options: &Options) {
        let (gone, stay): (Vec<_>, Vec<_>) = self.guests.drain(..).partition(|(until, _)| *until <= now);
        self.guests = stay;
        for (_, pod) in gone {
            state.remove_pod(&pod).unwrap();
        }
        let four = state.shape(&demands(4));
        for _ in 0..6 {
            let small = gang(
                &format!("small-{}", self.next),
                Pack::none(),
                vec![group("x", four, 1, 1, Pack::none())],
            );
            self.next += 1;
            if let Some(found) = plan(state, &small, options).plan().cloned() {
                bind(state, &small, &found);
                let until = now + 1 + self.random.below(4) as usize;
                self.guests.push((until, format!("{}/x-0", small.name)));
            }
        }
    }
}

fn large(state: &mut ClusterState, name: &str, hosts: u32) -> Gang {
    let eight = state.shape(&demands(8));
    gang(
        name,
        Pack::required(RACK),
        vec![group("worker", eight, hosts, hosts, Pack::none())],
    )
}

/// Rounds until the gang is placed, at most `limit`; `hold` keeps its rack free of newcomers.
fn rounds(seed: u64, hold: bool, limit: usize) -> Option<usize> {
    let mut state = cluster(1, 2, 4, 8);
    let wanted = large(&mut state, "large", 4);
    let mut churn = Churn {
        random: Random::new(seed),
        next: 0,
        guests: Vec::new(),
    };
    // The cluster is full of guests before the gang comes.
    churn.round(&mut state, 0, &Options::default());
    churn.round(&mut state, 0, &Options::default());
    churn.round(&mut state, 0, &Options::default());
    let mut held = Options::default();
    if hold {
        held.held.push(vec![Some("b0".to_owned()), Some("r0".to_owned())]);
    }
    (1..=limit).find(|now| {
        churn.round(&mut state, *now, &held);
        plan(&mut state, &wanted, &Options::default()).plan().is_some()
    })
}

#[test]
fn a_held_domain_lets_a_large_gang_in() {
    let mut starved = 0;
    for seed in 0..40 {
        // Guests stay four rounds at most, so a rack that nobody enters is empty after that.
        let held = rounds(seed, true, 6);
        assert!(held.is_some(), "seed {seed}: starved in spite of the lock");
        starved += usize::from(rounds(seed, false, 6).is_none());
    }
    assert!(
        starved > 20,
        "{starved}: without the lock there is nothing to protect from"
    );
}

#[test]
fn every_feasible_gang_is_placed_under_fair_churn() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut state = cluster(2, 2, 3, 8);
        // Oldest first; each gang runs for a while and leaves. Whatever fits the idle cluster gets its turn.
        let mut queue: Vec<Gang> = (0..12)
            .map(|number| {
                let hosts = 1 + random.below(3) as u32;
                large(&mut state, &format!("gang-{number}"), hosts)
            })
            .collect();
        let mut running: Vec<(usize, Gang, Vec<String>)> = Vec::new();
        let mut now = 0;
        while !queue.is_empty() {
            now += 1;
            assert!(now < 100, "seed {seed}: {} gangs are never placed", queue.len());
            let (gone, stay): (Vec<_>, Vec<_>) = running.drain(..).partition(|(until, ..)| *until <= now);
            running = stay;
            for pod in gone.into_iter().flat_map(|(_, _, pods)| pods) {
                state.remove_pod(&pod).unwrap();
            }
            let mut waiting = Vec::new();
            for next in queue {
                match plan(&mut state, &next, &Options::default()).plan().cloned() {
                    Some(found) => {
                        bind(&mut state, &next, &found);
                        let pods = found
                            .bindings
                            .iter()
                            .map(|binding| format!("{}/{}", next.name, binding.pod));
                        let until = now + 1 + random.below(3) as usize;
                        running.push((until, next.clone(), pods.collect()));
                    }
                    None => waiting.push(next),
                }
            }
            queue = waiting;
        }
    }
}
