//! The rows of a clique under random histories: up to twenty nodes, daemons that crash, lost writes and answers, two
//! controllers with old caches, daemons that insert themselves, daemons of another driver, and an object that is deleted
//! under its daemons.
//!
//! At every revision: indices unique, within bounds, and fixed for each row that stays; no row of a living daemon is
//! released or loses its address while its node exists; every index below the largest membership so far. At the end, when
//! nothing happens any more: one row for each member and no other, and not one further write.
//!
//! `COPPICE_PROPERTY_CASES` sets the number of histories, `COPPICE_PROPERTY_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod formation;
mod world;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use world::{Event, Trouble, World};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn config(cases: u64) -> ProptestConfig {
    ProptestConfig {
        cases: u32::try_from(setting("COPPICE_PROPERTY_CASES", cases)).unwrap_or(u32::MAX),
        rng_seed: RngSeed::Fixed(setting("COPPICE_PROPERTY_SEED", 20_260_101)),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    }
}

const NODES: usize = 20;

fn joins() -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    prop_oneof![
        4 => node.clone().prop_map(Event::Label),
        4 => node.clone().prop_map(Event::StartPod),
        2 => (node, any::<bool>()).prop_map(|(node, ready)| Event::Ready(node, ready)),
    ]
}

fn departures() -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    prop_oneof![
        2 => node.clone().prop_map(Event::Unlabel),
        1 => node.clone().prop_map(Event::DeleteNode),
        3 => node.prop_map(Event::DeletePod),
    ]
}

fn foreign() -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    prop_oneof![
        3 => node.clone().prop_map(Event::StartForeignPod),
        4 => (node.clone(), any::<bool>()).prop_map(|(node, stale)| Event::ForeignWrite(node, stale)),
        3 => (node, any::<bool>()).prop_map(|(node, stale)| Event::SelfInsert(node, stale)),
    ]
}

fn controllers() -> impl Strategy<Value = Event> {
    let controller = 0..2_usize;
    let trouble = prop_oneof![
        5 => Just(Trouble::None),
        1 => Just(Trouble::LostBefore),
        1 => Just(Trouble::LostAfter),
        1 => Just(Trouble::CrashBefore),
        1 => Just(Trouble::CrashAfter),
    ];
    prop_oneof![
        4 => controller.clone().prop_map(Event::Sync),
        6 => controller.clone().prop_map(Event::Begin),
        6 => (controller.clone(), trouble).prop_map(|(controller, trouble)| Event::Finish(controller, trouble)),
        4 => controller.clone().prop_map(Event::Turn),
        2 => controller.clone().prop_map(Event::Check),
        1 => controller.prop_map(Event::Crash),
        3 => (1..5_000_i64).prop_map(Event::Advance),
    ]
}

fn history() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![6 => joins(), 2 => departures(), 2 => foreign(), 12 => controllers()];
    prop::collection::vec(event, 1..160)
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn indices_stay_unique_bounded_fixed_and_low_and_rest_means_no_writes(events in history(), deletions in prop::bool::weighted(0.2)) {
        let mut world = World::new(NODES, 18);
        for (number, event) in events.iter().enumerate() {
            if deletions && number % 37 == 36 {
                world.delete_object();
            }
            world.apply(event);
        }
        world.settle();
    }

    #[test]
    fn without_departures_the_indices_of_n_nodes_are_the_first_n(
        events in prop::collection::vec(prop_oneof![3 => joins(), 4 => controllers()], 1..160),
    ) {
        let mut world = World::new(NODES, 18);
        for event in &events {
            world.apply(event);
        }
        world.settle();
        let rows = world.rows();
        let indices: Vec<i64> = rows.iter().map(|row| row.index.unwrap()).collect();
        let count = i64::try_from(rows.len()).unwrap();
        prop_assert_eq!(indices, (0..count).collect::<Vec<_>>());
    }
}
