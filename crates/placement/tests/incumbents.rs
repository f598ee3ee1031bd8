//! The kept index of running gangs: the same answers as from scratch, and never a domain with less harm passed over.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use coppice_placement::preempt::{
    Incumbents, Preemption, Running, RunningGroup, RunningPod, Verdict, preempt, preempt_among,
};
use coppice_placement::topology::DomainId;
use coppice_placement::{ClusterState, Gang, Options, Pack};
use support::Random;
use support::cluster::{HOST, RACK, cluster, demands, gang, group};
use support::crowded::crowded;

fn harm(running: &[Running], answer: &Preemption) -> (i32, usize, usize) {
    let priority = |name: &str| running.iter().find(|gang| gang.name == name).unwrap().priority;
    let highest = answer.victims.iter().map(|victim| priority(&victim.gang)).max();
    let pods = answer.victims.iter().map(|victim| victim.pods.len()).sum();
    (highest.unwrap_or(i32::MIN), answer.victims.len(), pods)
}

/// The least harm of all domains of the outermost required level, each asked by itself.
fn least(state: &mut ClusterState, gang: &Gang, running: &[Running]) -> Option<(i32, usize, usize)> {
    let outer = gang
        .placement_group
        .as_ref()
        .and_then(|group| group.pack.required.clone());
    let key = outer.or(gang.pack.required.clone())?;
    let view = state.view(state.view_named(&gang.topology).unwrap());
    let domains = view.inside(DomainId::ROOT, view.depth_of(&key).unwrap()).iter();
    let paths: Vec<_> = domains.map(|id| view.domain(*id).path.clone()).collect();
    let answers = paths.into_iter().filter_map(|path| {
        let options = Options {
            within: Some(path),
            ..Options::default()
        };
        match preempt(state, gang, running, &options) {
            Verdict::Possible(answer) => Some(harm(running, &answer)),
            _ => None,
        }
    });
    answers.min()
}

#[test]
fn no_domain_with_less_harm_is_passed_over() {
    let mut compared = 0;
    for seed in 0..4_000 {
        let (mut state, running, mut gang) = crowded(&mut Random::new(seed));
        // Level 1 exists in three of four clusters; the others have nothing to choose from.
        if state.view(state.view_named("fabric").unwrap()).keys().is_empty() {
            continue;
        }
        gang.pack.required.get_or_insert_with(|| support::key(1));
        let expected = least(&mut state, &gang, &running);
        let found = match preempt(&mut state, &gang, &running, &Options::default()) {
            Verdict::Possible(answer) => Some(harm(&running, &answer)),
            Verdict::Impossible => None,
            Verdict::BudgetExhausted => panic!("seed {seed}: small clusters are decided"),
        };
        assert_eq!(found, expected, "seed {seed}");
        compared += usize::from(expected.is_some_and(|harm| harm.1 > 0));
    }
    assert!(compared > 200, "{compared}: the generator leans to one side");
}

#[test]
fn an_index_kept_up_to_date_answers_as_a_new_one() {
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let (mut state, running, gang) = crowded(&mut random);
        let mut kept = Incumbents::default();
        let mut present: Vec<Running> = Vec::new();
        for _ in 0..12 {
            if running.is_empty() {
                break;
            }
            let mut next = running[random.below(running.len() as u64) as usize].clone();
            let known = present.iter().position(|other| other.name == next.name);
            if random.one_in(3) {
                assert_eq!(kept.remove(&state, &next.name), known.is_some(), "seed {seed}");
                known.map(|at| present.remove(at));
                continue;
            }
            next.priority = random.below(4) as i32;
            next.protected = random.one_in(8);
            next.base = (next.name != "gang-0" && random.one_in(2)).then(|| "gang-0".to_owned());
            kept.put(&state, next.clone());
            match known {
                Some(at) => present[at] = next,
                None => present.push(next),
            }
        }
        assert_eq!(kept.len(), present.len());
        let options = Options::default();
        let fresh = preempt(&mut state, &gang, &present, &options);
        assert_eq!(preempt_among(&mut state, &gang, &kept, &options), fresh, "seed {seed}");
    }
}

#[test]
fn pods_that_free_nothing_useful_are_left_alone() {
    let mut state = cluster(1, 2, 4, 8);
    let eight = state.shape(&demands(8));
    let mut idle = demands(0);
    idle.requests.insert("cpu".into(), 500);
    let idle = state.shape(&idle);
    let mut running = Vec::new();
    for host in 0..4 {
        for (rack, shape, kind) in [
            (0, eight, "gpu"),
            (1, eight, "gpu"),
            (0, idle, "idle"),
            (1, idle, "idle"),
        ] {
            let node = format!("b0-r{rack}-h{host}");
            let name = format!("{kind}-{node}");
            state.add_pod(&name, &node, shape).unwrap();
            running.push(Running {
                name: name.clone(),
                // The pods that do not help are the cheapest of all.
                priority: if kind == "idle" { 0 } else { 1 + rack },
                base: None,
                sequence: 0,
                protected: false,
                groups: vec![RunningGroup {
                    floor: 1,
                    pods: vec![RunningPod {
                        name,
                        budgets: Vec::new(),
                    }],
                }],
            });
        }
    }
    for (pack, victims) in [(Pack::required(RACK), 3), (Pack::none(), 3), (Pack::preferred(HOST), 3)] {
        let mut wanted = gang("new", pack, vec![group("x", eight, 3, 3, Pack::none())]);
        wanted.priority = 9;
        let Verdict::Possible(answer) = preempt(&mut state, &wanted, &running, &Options::default()) else {
            panic!("there is a way");
        };
        assert_eq!(answer.victims.len(), victims);
        assert!(
            answer.victims.iter().all(|victim| victim.gang.starts_with("gpu-b0-r0")),
            "{:?}",
            answer.victims
        );
    }
}

#[test]
fn extras_go_youngest_first() {
    let mut state = cluster(1, 1, 3, 8);
    let eight = state.shape(&demands(8));
    let pods = (0..3).map(|at| {
        let name = format!("old-{at}");
        state.add_pod(&name, &format!("b0-r0-h{at}"), eight).unwrap();
        RunningPod {
            name,
            budgets: Vec::new(),
        }
    });
    let running = [Running {
        name: "old".into(),
        priority: 1,
        base: None,
        sequence: 0,
        protected: false,
        groups: vec![RunningGroup {
            floor: 1,
            pods: pods.collect(),
        }],
    }];
    let mut wanted = gang("new", Pack::none(), vec![group("x", eight, 1, 1, Pack::none())]);
    wanted.priority = 9;
    let Verdict::Possible(answer) = preempt(&mut state, &wanted, &running, &Options::default()) else {
        panic!("there is a way");
    };
    assert_eq!(answer.victims[0].pods, ["old-2"]);
}
