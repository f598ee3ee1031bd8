//! Preemption: strictly lower priorities, whole gangs, and never one victim more than needed.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use coppice_placement::preempt::{Preemption, Running, RunningGroup, RunningPod, Verdict, preempt};
use coppice_placement::{ClusterState, Gang, Options, Pack, plan};
use support::Random;
use support::cluster::{RACK, cluster, demands, gang, group};
use support::crowded::crowded;

fn run(state: &mut ClusterState, name: &str, priority: i32, floor: u32, nodes: &[&str]) -> Running {
    let eight = state.shape(&demands(8));
    let pods = nodes.iter().enumerate().map(|(at, node)| {
        let pod = format!("{name}-{at}");
        state.add_pod(&pod, node, eight).unwrap();
        RunningPod {
            name: pod,
            budgets: Vec::new(),
        }
    });
    Running {
        name: name.into(),
        priority,
        base: None,
        sequence: 0,
        protected: false,
        groups: vec![RunningGroup {
            floor,
            pods: pods.collect(),
        }],
    }
}

fn wanted(state: &mut ClusterState, priority: i32, floor: u32, pack: Pack) -> Gang {
    let eight = state.shape(&demands(8));
    let mut wanted = gang("new", pack, vec![group("x", eight, floor, floor, Pack::none())]);
    wanted.priority = priority;
    wanted
}

fn possible(verdict: Verdict) -> Preemption {
    match verdict {
        Verdict::Possible(preemption) => preemption,
        other => panic!("{other:?}"),
    }
}

fn names(preemption: &Preemption) -> Vec<&str> {
    preemption.victims.iter().map(|victim| victim.gang.as_str()).collect()
}

#[test]
fn equal_priority_is_never_a_victim() {
    let mut state = cluster(1, 1, 1, 8);
    let old = run(&mut state, "old", 5, 1, &["b0-r0-h0"]);
    let same = wanted(&mut state, 5, 1, Pack::none());
    assert_eq!(
        preempt(&mut state, &same, std::slice::from_ref(&old), &Options::default()),
        Verdict::Impossible
    );
    let higher = wanted(&mut state, 6, 1, Pack::none());
    let before = state.clone();
    let answer = possible(preempt(&mut state, &higher, &[old], &Options::default()));
    assert!(state == before, "only a question");
    assert_eq!(names(&answer), ["old"]);
    assert!(answer.victims[0].whole);
    assert_eq!(answer.plan.bindings.len(), 1);
}

#[test]
fn extras_go_before_gangs_and_gangs_go_whole() {
    let mut state = cluster(1, 1, 4, 8);
    let elastic = run(&mut state, "elastic", 1, 1, &["b0-r0-h0", "b0-r0-h1"]);
    let rigid = run(&mut state, "rigid", 1, 2, &["b0-r0-h2", "b0-r0-h3"]);
    let running = [elastic, rigid];
    let one = wanted(&mut state, 9, 1, Pack::none());
    let answer = possible(preempt(&mut state, &one, &running, &Options::default()));
    assert_eq!(
        answer.victims[0].pods,
        ["elastic-1"],
        "the youngest pod above the floor"
    );
    assert!(!answer.victims[0].whole);
    let three = wanted(&mut state, 9, 3, Pack::none());
    let answer = possible(preempt(&mut state, &three, &running, &Options::default()));
    assert_eq!(names(&answer), ["elastic", "rigid"]);
    assert_eq!(answer.victims[1].pods.len(), 2, "no half of a gang");
}

#[test]
fn a_base_gang_takes_its_dependents_along() {
    let mut state = cluster(1, 1, 3, 8);
    let base = run(&mut state, "base", 1, 1, &["b0-r0-h0"]);
    let mut scaled = run(&mut state, "scaled", 1, 1, &["b0-r0-h1"]);
    scaled.base = Some("base".into());
    let keeper = run(&mut state, "keeper", 9, 1, &["b0-r0-h2"]);
    let running = [base, scaled, keeper];
    let one = wanted(&mut state, 5, 1, Pack::none());
    assert_eq!(
        names(&possible(preempt(&mut state, &one, &running, &Options::default()))),
        ["scaled"]
    );
    let two = wanted(&mut state, 5, 2, Pack::none());
    let answer = possible(preempt(&mut state, &two, &running, &Options::default()));
    assert_eq!(names(&answer), ["base", "scaled"]);
    let three = wanted(&mut state, 5, 3, Pack::none());
    assert_eq!(
        preempt(&mut state, &three, &running, &Options::default()),
        Verdict::Impossible
    );
}

#[test]
fn a_base_gang_is_safe_while_a_dependent_outranks_the_newcomer() {
    let mut state = cluster(1, 1, 2, 8);
    let base = run(&mut state, "base", 1, 1, &["b0-r0-h0"]);
    let mut scaled = run(&mut state, "scaled", 7, 1, &["b0-r0-h1"]);
    scaled.base = Some("base".into());
    let one = wanted(&mut state, 5, 1, Pack::none());
    assert_eq!(
        preempt(&mut state, &one, &[base, scaled], &Options::default()),
        Verdict::Impossible
    );
}

#[test]
fn the_domain_with_the_least_harm_is_chosen() {
    let mut state = cluster(1, 3, 2, 8);
    let important = run(&mut state, "important", 4, 2, &["b0-r0-h0", "b0-r0-h1"]);
    let first = run(&mut state, "first", 1, 1, &["b0-r1-h0"]);
    let second = run(&mut state, "second", 1, 1, &["b0-r1-h1"]);
    let lone = run(&mut state, "lone", 1, 2, &["b0-r2-h0", "b0-r2-h1"]);
    let running = [important, first, second, lone];
    let pair = wanted(&mut state, 9, 2, Pack::required(RACK));
    let answer = possible(preempt(&mut state, &pair, &running, &Options::default()));
    assert_eq!(
        names(&answer),
        ["lone"],
        "one gang of low priority instead of two, or of a higher one"
    );
}

#[test]
fn protected_gangs_stay_and_budgets_are_never_exceeded() {
    let mut state = cluster(1, 1, 3, 8);
    let mut fresh = run(&mut state, "fresh", 1, 1, &["b0-r0-h0"]);
    fresh.protected = true;
    let mut guarded = run(&mut state, "guarded", 1, 1, &["b0-r0-h1"]);
    guarded.groups[0].pods[0].budgets = vec!["budget".into()];
    let plain = run(&mut state, "plain", 1, 1, &["b0-r0-h2"]);
    let running = [fresh, guarded, plain];
    let one = wanted(&mut state, 9, 1, Pack::none());
    let answer = possible(preempt(&mut state, &one, &running, &Options::default()));
    assert_eq!(names(&answer), ["plain"]);
    let two = wanted(&mut state, 9, 2, Pack::none());
    assert_eq!(
        preempt(&mut state, &two, &running, &Options::default()),
        Verdict::Impossible
    );
    let answer = possible(preempt(&mut state, &two, &running, &allowing(1)));
    assert_eq!(names(&answer), ["guarded", "plain"]);
    let three = wanted(&mut state, 9, 3, Pack::none());
    assert_eq!(preempt(&mut state, &three, &running, &allowing(9)), Verdict::Impossible);
}

fn allowing(pods: u32) -> Options {
    Options {
        disruptions: [("budget".into(), pods)].into(),
        ..Options::default()
    }
}

#[test]
fn a_budget_counts_all_victims_together() {
    let mut state = cluster(1, 1, 3, 8);
    let mut pair = run(&mut state, "pair", 1, 2, &["b0-r0-h0", "b0-r0-h1"]);
    let mut lone = run(&mut state, "lone", 2, 1, &["b0-r0-h2"]);
    for pod in pair.groups[0].pods.iter_mut().chain(&mut lone.groups[0].pods) {
        pod.budgets = vec!["budget".into()];
    }
    let running = [pair, lone];
    let (one, two) = (
        wanted(&mut state, 9, 1, Pack::none()),
        wanted(&mut state, 9, 2, Pack::none()),
    );
    let three = wanted(&mut state, 9, 3, Pack::none());
    let mut victims = |gang: &Gang, allowed: u32| match preempt(&mut state, gang, &running, &allowing(allowed)) {
        Verdict::Possible(answer) => names(&answer).join(" "),
        other => format!("{other:?}"),
    };
    assert_eq!(victims(&one, 0), "Impossible");
    assert_eq!(victims(&one, 1), "lone", "the cheaper gang has two pods");
    assert_eq!(victims(&one, 2), "pair");
    assert_eq!(victims(&two, 1), "Impossible");
    assert_eq!(victims(&three, 2), "Impossible");
    assert_eq!(victims(&three, 3), "lone pair");
}

#[test]
fn a_budget_used_up_by_those_that_do_not_help_is_not_the_end() {
    let mut state = cluster(1, 2, 2, 8);
    // The cheapest one is in a rack where the newcomer does not fit.
    let mut useless = run(&mut state, "useless", 0, 1, &["b0-r0-h0"]);
    let keeper = run(&mut state, "keeper", 9, 1, &["b0-r0-h1"]);
    let mut needed = run(&mut state, "needed", 1, 1, &["b0-r1-h0"]);
    useless.groups[0].pods[0].budgets = vec!["budget".into()];
    needed.groups[0].pods[0].budgets = vec!["budget".into()];
    let eight = state.shape(&demands(8));
    let mut pair = gang("new", Pack::none(), vec![group("x", eight, 2, 2, Pack::required(RACK))]);
    pair.priority = 5;
    let answer = possible(preempt(&mut state, &pair, &[useless, keeper, needed], &allowing(1)));
    assert_eq!(names(&answer), ["needed"]);
}

#[test]
fn a_pod_with_two_budgets_stays_and_a_gang_that_never_preempts_evicts_nobody() {
    let mut state = cluster(1, 1, 1, 8);
    let mut old = run(&mut state, "old", 1, 1, &["b0-r0-h0"]);
    let mut one = wanted(&mut state, 9, 1, Pack::none());
    one.never_preempts = true;
    assert_eq!(
        preempt(&mut state, &one, std::slice::from_ref(&old), &Options::default()),
        Verdict::Impossible
    );
    one.never_preempts = false;
    old.groups[0].pods[0].budgets = vec!["budget".into(), "other".into()];
    let options = Options {
        disruptions: [("budget".into(), 9), ("other".into(), 9)].into(),
        ..Options::default()
    };
    assert_eq!(preempt(&mut state, &one, &[old], &options), Verdict::Impossible);
}

#[test]
fn among_equals_the_youngest_goes() {
    let mut state = cluster(1, 1, 2, 8);
    let mut running = [
        run(&mut state, "a", 1, 1, &["b0-r0-h0"]),
        run(&mut state, "b", 1, 1, &["b0-r0-h1"]),
    ];
    let one = wanted(&mut state, 9, 1, Pack::none());
    for (sequences, victim) in [([1, 2], "b"), ([2, 1], "a")] {
        running[0].sequence = sequences[0];
        running[1].sequence = sequences[1];
        assert_eq!(
            names(&possible(preempt(&mut state, &one, &running, &Options::default()))),
            [victim]
        );
    }
}

fn fits_without(state: &ClusterState, gang: &Gang, pods: &[&String]) -> bool {
    let mut scratch = state.clone();
    for pod in pods {
        scratch.remove_pod(pod);
    }
    plan(&mut scratch, gang, &Options::default()).plan().is_some()
}

#[test]
fn victims_are_lower_whole_and_minimal_on_random_clusters() {
    let (mut needed, mut impossible) = (0, 0);
    for seed in 0..4_000 {
        let (mut state, running, gang) = crowded(&mut Random::new(seed));
        let before = state.clone();
        let verdict = preempt(&mut state, &gang, &running, &Options::default());
        assert!(state == before, "seed {seed}");
        let evictable = |gang_: &&Running| gang_.priority < gang.priority && !gang_.protected;
        let Verdict::Possible(answer) = verdict else {
            assert_eq!(verdict, Verdict::Impossible, "seed {seed}");
            impossible += 1;
            // Even without everything that may go at all, dependents of a protected or higher gang aside.
            let whole = |gang_: &&Running| {
                let dependents = running.iter().filter(|other| other.base.as_ref() == Some(&gang_.name));
                evictable(gang_) && dependents.clone().all(|other| evictable(&other))
            };
            let pods: Vec<_> = running
                .iter()
                .filter(whole)
                .flat_map(|gang_| &gang_.groups)
                .flat_map(|group| &group.pods)
                .map(|pod| &pod.name)
                .collect();
            assert!(!fits_without(&state, &gang, &pods), "seed {seed}: there was a way");
            continue;
        };
        let evicted: Vec<&String> = answer.victims.iter().flat_map(|victim| &victim.pods).collect();
        assert!(fits_without(&state, &gang, &evicted), "seed {seed}: not enough");
        if evicted.is_empty() {
            continue;
        }
        needed += 1;
        for victim in &answer.victims {
            let gang_ = running.iter().find(|gang_| gang_.name == victim.gang).unwrap();
            assert!(evictable(&gang_), "seed {seed}: {victim:?}");
            for group in &gang_.groups {
                let left = group.pods.iter().filter(|pod| !victim.pods.contains(&pod.name)).count();
                assert!(
                    left >= group.floor as usize || left == 0,
                    "seed {seed}: below its floor yet alive"
                );
            }
            if victim.whole {
                let kept = gang_
                    .groups
                    .iter()
                    .flat_map(|group| &group.pods)
                    .filter(|pod| !victim.pods.contains(&pod.name))
                    .count();
                assert_eq!(kept, 0, "seed {seed}");
                let spared = running.iter().filter(|other| other.base.as_ref() == Some(&gang_.name));
                let gone = |other: &Running| {
                    answer
                        .victims
                        .iter()
                        .any(|victim| victim.gang == other.name && victim.whole)
                };
                assert!(
                    spared
                        .filter(|other| !other.groups.iter().all(|group| group.pods.is_empty()))
                        .all(gone),
                    "seed {seed}"
                );
            }
            // Leaving this victim (and whoever depends on it) alone leaves too little room.
            let related = |other: &str| {
                other == victim.gang
                    || running
                        .iter()
                        .any(|r| r.name == *other && r.base.as_deref() == Some(&victim.gang))
            };
            let others: Vec<_> = answer
                .victims
                .iter()
                .filter(|other| !related(&other.gang))
                .flat_map(|other| &other.pods)
                .collect();
            let base_gone = gang_
                .base
                .as_ref()
                .is_some_and(|base| answer.victims.iter().any(|other| other.gang == *base && other.whole));
            assert!(
                base_gone || !fits_without(&state, &gang, &others),
                "seed {seed}: {victim:?} was not needed"
            );
        }
    }
    assert!(
        needed > 300 && impossible > 300,
        "{needed} {impossible}: the generator leans to one side"
    );
}
