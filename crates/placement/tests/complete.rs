//! Completeness and quality: on small clusters the planner finds a plan exactly if an exhaustive search does, and one as
//! good as the best there is.

mod support;

use coppice_placement::{Options, Outcome, plan};
use support::storage::with_volumes;
use support::{Instance, Random, instance, reference};

fn compare(seed: u64, hosts: u64, pods: u32) -> bool {
    let mut random = Random::new(seed);
    compare_one(seed, &instance(&mut random, hosts, pods))
}

fn compare_with_volumes(seed: u64, hosts: u64, pods: u32) -> bool {
    let mut random = Random::new(seed);
    let plain = instance(&mut random, hosts, pods);
    compare_one(seed, &with_volumes(&mut random, plain))
}

fn compare_one(seed: u64, instance: &Instance) -> bool {
    let mut state = instance.state();
    let gang = instance.gang(&mut state);
    let before = state.clone();
    let outcome = plan(&mut state, &gang, &Options::default());
    assert!(state == before, "seed {seed}: the state changed");
    let expected = reference::best(instance);
    match (&outcome, expected) {
        (Outcome::Placed(plan), Some(best)) => {
            let (floors, extras) = instance.hosts_of(plan);
            if let Err(wrong) = reference::check(instance, &floors, &extras) {
                panic!("seed {seed}: {wrong}\n{instance:#?}\n{plan:#?}");
            }
            let score = (reference::distances(instance, &floors), plan.left_over);
            assert_eq!(score, best, "seed {seed}: {instance:#?}\n{plan:#?}");
            true
        }
        (Outcome::Infeasible(reasons), None) => {
            assert!(!reasons.is_empty(), "seed {seed}: no reason given");
            false
        }
        (outcome, expected) => {
            panic!("seed {seed}: {outcome:?}, expected {expected:?}\n{instance:#?}")
        }
    }
}

#[test]
fn agrees_with_exhaustive_search_on_a_hundred_thousand_small_clusters() {
    let placed = (0..100_000).filter(|seed| compare(*seed, 5, 6)).count();
    assert!(
        (20_000..95_000).contains(&placed),
        "{placed} of 100000: the generator leans to one side"
    );
}

#[test]
fn agrees_with_exhaustive_search_on_larger_clusters() {
    let placed = (1_000_000..1_001_500).filter(|seed| compare(*seed, 10, 9)).count();
    assert!(placed > 300, "{placed}");
    let placed = (2_000_000..2_000_500).filter(|seed| compare(*seed, 6, 12)).count();
    assert!(placed > 100, "{placed}");
}

#[test]
fn agrees_with_exhaustive_search_with_volumes_mixed_in() {
    let placed = (3_000_000..3_100_000)
        .filter(|seed| compare_with_volumes(*seed, 5, 6))
        .count();
    assert!(
        (15_000..85_000).contains(&placed),
        "{placed} of 100000: the generator leans to one side"
    );
    let placed = (4_000_000..4_001_000)
        .filter(|seed| compare_with_volumes(*seed, 8, 8))
        .count();
    assert!(placed > 100, "{placed}");
}
