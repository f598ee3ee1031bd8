//! The worked examples of `docs/updates.md` as golden traces: batches, final gangs, lowest availability.

use coppice_core::update::coherent::{ComponentKind, Knobs, OnFailure, Phase, Reason, SetKnobs, SurgePolicy};
use jiff::SignedDuration;

use crate::driver::{Trace, available, gangs, round, settle, shape};
use crate::model::World;

use ComponentKind::{Group, Standalone};

const SET: SetKnobs = SetKnobs {
    max_concurrent_replicas: 1,
    on_failure: OnFailure::Pause,
};

/// F 5 pods, at least 2; P 4 copies, at least 1; D 3 copies, at least 1; as many unavailable as the minimum.
pub(crate) fn frontend_prefill_decode() -> World {
    let shapes = vec![shape(Standalone, 2, 2), shape(Group, 1, 1), shape(Group, 1, 1)];
    deployed(World::new(shapes, &[vec![5, 4, 3]], Knobs::default(), SET))
}

pub(crate) fn prefill_decode(desired: u32, max_unavailable: u32, knobs: Knobs) -> World {
    let shapes = vec![
        shape(Standalone, 1, 1),
        shape(Group, 1, max_unavailable),
        shape(Group, 1, max_unavailable),
    ];
    deployed(World::new(shapes, &[vec![0, desired, desired]], knobs, SET))
}

pub(crate) fn at_size() -> World {
    let shapes = vec![shape(Standalone, 1, 1), shape(Group, 3, 3), shape(Group, 3, 4)];
    deployed(World::new(shapes, &[vec![10, 100, 80]], Knobs::default(), SET))
}

pub(crate) fn deployed(mut world: World) -> World {
    let phase = settle(&mut world, 0, &mut Trace::default());
    assert_eq!(phase, Phase::Idle);
    world
}

fn edit(world: &mut World, components: &[usize], version: u32) -> Trace {
    for component in components {
        world.versions[*component] = version;
    }
    let mut trace = Trace::default();
    crate::driver::follow(world, 0, &mut trace);
    trace
}

fn rounds_until(world: &mut World, trace: &mut Trace, batches: usize) {
    while trace.batches.len() < batches {
        round(world, 0, trace);
    }
    // The batch is ready, and recorded as such, before anything else happens.
    let outcome = world.plan_fresh(0);
    world.store(0, &outcome);
}

fn final_gangs(world: &World) -> (usize, usize) {
    gangs(world.replicas[0].map.as_ref().unwrap())
}

#[test]
fn example_1_all_components_change() {
    let mut world = frontend_prefill_decode();
    assert_eq!(final_gangs(&world), (1, 5));
    let mut trace = edit(&mut world, &[0, 1, 2], 2);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(
        trace.texts(),
        ["A{2F P0 D0}", "T{P1}", "A+{2F} T+{P2 D1}", "A+{1F} T+{P3 D2}"]
    );
    assert_eq!(trace.lowest, [3, 3, 2]);
    assert_eq!(final_gangs(&world), (1, 5), "the shape of a fresh deployment");
}

#[test]
fn example_2_only_decode_changes() {
    let mut world = frontend_prefill_decode();
    let untouched: Vec<u64> = ids(&world, &[0, 1]);
    let mut trace = edit(&mut world, &[2], 2);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(trace.texts(), ["A{D0}", "T{D1}", "T+{D2}"]);
    assert_eq!(trace.lowest, [5, 4, 2]);
    assert_eq!(ids(&world, &[0, 1]), untouched, "frontend and prefill are not touched");
    assert_eq!(final_gangs(&world), (2, 5));
}

fn ids(world: &World, components: &[usize]) -> Vec<u64> {
    let units = world.replicas[0].units.iter();
    let mine = units.filter(|unit| components.contains(&unit.live.component));
    mine.map(|unit| unit.id).collect()
}

#[test]
fn example_3a_without_capacity_the_old_side_keeps_serving() {
    let mut world = prefill_decode(2, 1, Knobs::default());
    // Another tenant takes the node that the first batch frees.
    world.capacity = Some(3);
    let mut trace = edit(&mut world, &[1, 2], 2);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Settling);
    assert_eq!(trace.texts(), ["A{P0 D0}"]);
    assert_eq!(available(&world, 0), [0, 1, 1]);
    world.now += 1801;
    let outcome = world.plan_fresh(0);
    assert_eq!(
        (outcome.phase, outcome.reason),
        (Phase::Stalled, Reason::GangUnschedulable)
    );
    assert!(!outcome.failed, "taking it back would need the same node");
    world.capacity = None;
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(trace.texts(), ["A{P0 D0}", "T{P1 D1}"]);
}

fn surging(policy: SurgePolicy) -> Knobs {
    Knobs {
        max_surge_units: 1,
        surge_policy: policy,
        ..Knobs::default()
    }
}

#[test]
fn example_3b_a_bridge_that_cannot_be_placed_costs_nothing() {
    for (max_unavailable, policy, goes_on) in [
        (0, SurgePolicy::BestEffort, false),
        (1, SurgePolicy::Required, false),
        (1, SurgePolicy::BestEffort, true),
    ] {
        let mut world = prefill_decode(2, max_unavailable, surging(policy));
        world.capacity = Some(4);
        let mut trace = edit(&mut world, &[1, 2], 2);
        assert_eq!(settle(&mut world, 0, &mut trace), Phase::Settling);
        assert_eq!(trace.texts(), ["B{P2 D2}"]);
        assert_eq!(trace.lowest, [0, 2, 2], "nothing is lost");
        world.now += 1801;
        if goes_on {
            assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
            assert_eq!(trace.texts(), ["B{P2 D2}", "-B", "A{P0 D0}", "T{P1 D1}"]);
            assert_eq!(trace.lowest, [0, 1, 1]);
        } else {
            assert_eq!(settle(&mut world, 0, &mut trace), Phase::Stalled);
            assert_eq!(world.plan_fresh(0).reason, Reason::SurgeCapacityUnavailable);
            assert_eq!(trace.lowest, [0, 2, 2]);
        }
    }
}

#[test]
fn example_3c_one_of_each_without_an_interruption() {
    let mut world = prefill_decode(1, 0, surging(SurgePolicy::BestEffort));
    let mut trace = edit(&mut world, &[1, 2], 2);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(trace.texts(), ["B{P1 D1}", "A{P0 D0}", "-B"]);
    assert_eq!(trace.lowest, [0, 1, 1]);
    assert_eq!(final_gangs(&world), (1, 0));
}

fn broken_after_the_first_batch() -> (World, Trace) {
    let mut world = frontend_prefill_decode();
    world.broken = [(0, 2), (1, 2), (2, 2)].into();
    let mut trace = edit(&mut world, &[0, 1, 2], 2);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Settling);
    assert_eq!(available(&world, 0), [3, 3, 2], "exactly at the floor");
    (world, trace)
}

#[test]
fn example_4_a_broken_release_is_fixed() {
    let (mut world, mut trace) = broken_after_the_first_batch();
    world.versions = vec![3; 3];
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(
        trace.texts(),
        [
            "A{2F P0 D0}",
            "A{2F P0 D0}",
            "T{P1}",
            "A+{2F} T+{P2 D1}",
            "A+{1F} T+{P3 D2}"
        ]
    );
    assert_eq!(trace.lowest, [3, 3, 2], "the fix costs nothing");
    assert_eq!(final_gangs(&world), (1, 5));
}

#[test]
fn example_4_a_broken_release_is_reverted_moving_only_what_moved() {
    let (mut world, mut trace) = broken_after_the_first_batch();
    let serving: Vec<u64> = ready(&world);
    assert_eq!(serving.len(), 8);
    world.versions = vec![1; 3];
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(trace.texts(), ["A{2F P0 D0}", "A{2F P0 D0}"]);
    let now = ready(&world);
    assert!(
        serving.iter().all(|id| now.contains(id)),
        "the other eight were not touched"
    );
    assert_eq!(now.len(), 12);
}

#[test]
fn example_4_a_broken_release_is_taken_back_by_policy() {
    let (mut world, mut trace) = broken_after_the_first_batch();
    let serving = ready(&world);
    world.set_knobs.on_failure = OnFailure::Rollback;
    world.now += 1801;
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert!(world.set_record.rolled_back);
    let now = ready(&world);
    assert!(serving.iter().all(|id| now.contains(id)) && now.len() == 12);
}

fn ready(world: &World) -> Vec<u64> {
    let units = world.replicas[0].units.iter();
    units
        .filter(|unit| unit.live.ready_since.is_some())
        .map(|unit| unit.id)
        .collect()
}

#[test]
fn example_5_a_second_change_of_one_component() {
    let mut world = frontend_prefill_decode();
    let mut trace = edit(&mut world, &[0, 1, 2], 2);
    rounds_until(&mut world, &mut trace, 2);
    world.versions[2] = 3;
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(
        trace.texts(),
        ["A{2F P0 D0}", "T{P1}", "A{2F P2 D0}", "A+{1F} T{P3 D1}", "T+{D2}"]
    );
    assert_eq!(trace.lowest, [3, 3, 2]);
    let frontends_and_prefills = world.replaced.iter().filter(|component| **component < 2).count();
    assert_eq!(frontends_and_prefills, 9, "none of them moved twice");
}

#[test]
fn example_6_scaling_during_an_update() {
    let mut world = frontend_prefill_decode();
    let mut trace = edit(&mut world, &[0, 1, 2], 2);
    rounds_until(&mut world, &mut trace, 2);
    world.replicas[0].desired[1] = 6;
    rounds_until(&mut world, &mut trace, 4);
    assert_eq!(trace.texts()[2..], ["T+{P4 P5}", "A+{2F} T+{P2 D1}"]);
    world.replicas[0].desired[2] = 2;
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(
        trace.texts()[4..],
        ["", "A+{1F} T+{P3 D2}"],
        "D1 goes, although D2 is old"
    );
    let copies: Vec<Option<u32>> = world.replicas[0]
        .units
        .iter()
        .filter(|unit| unit.live.component == 2)
        .map(|unit| unit.live.copy)
        .collect();
    assert_eq!(copies, [Some(0), Some(2)]);
}

#[test]
fn example_6_scaling_before_the_anchor_exists() {
    let mut world = frontend_prefill_decode();
    world.paused = true;
    let mut trace = edit(&mut world, &[0, 1, 2], 2);
    world.replicas[0].desired[1] = 5;
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Paused);
    assert_eq!(trace.texts(), ["T+{P4}"]);
    let old = world.revision(1, 1);
    assert!(
        world.replicas[0]
            .units
            .iter()
            .any(|unit| unit.live.copy == Some(4) && unit.live.revision == old)
    );
    world.paused = false;
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
}

#[test]
fn example_7_ratio_at_size() {
    let mut world = at_size();
    let mut trace = edit(&mut world, &[0, 1, 2], 2);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Idle);
    assert_eq!(trace.batches.len(), 40);
    assert_eq!(trace.lowest, [9, 97, 76]);
    assert_eq!(final_gangs(&world), (1, 97 + 77));
}

#[test]
fn an_update_waits_until_units_were_ready_for_long_enough() {
    let mut world = frontend_prefill_decode();
    world.knobs.min_ready = SignedDuration::from_secs(60);
    world.now += 100;
    let mut trace = edit(&mut world, &[2], 2);
    rounds_until(&mut world, &mut trace, 1);
    assert_eq!(settle(&mut world, 0, &mut trace), Phase::Settling);
    let outcome = world.plan_fresh(0);
    let due = outcome.deadline.unwrap();
    assert!(
        due > world.time() && due.as_second() - world.now <= 60,
        "it asks to be called when they are"
    );
    world.now = due.as_second();
    rounds_until(&mut world, &mut trace, 2);
}
