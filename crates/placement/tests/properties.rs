//! Properties of single decisions: monotone, symmetric, repeatable, within budget, and never worse than simpler planners.

mod support;

use coppice_placement::{ClusterState, Gang, Options, Outcome, plan};
use proptest::prelude::*;
use support::{Host, Instance, Random, instance, reference};

/// Whether it fits, and how well; lower is better.
fn answer(instance: &Instance) -> Option<([u32; 4], u32)> {
    let mut state = instance.state();
    let gang = instance.gang(&mut state);
    match plan(&mut state, &gang, &Options::default()) {
        Outcome::Placed(plan) => Some((plan.distances, plan.left_over)),
        Outcome::Infeasible(_) => None,
        other => panic!("{other:?}"),
    }
}

fn shuffled<T>(random: &mut Random, list: &mut [T]) {
    for at in (1..list.len()).rev() {
        list.swap(at, random.below(at as u64 + 1) as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn more_room_never_hurts(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let before = instance(&mut random, 7, 10);
        let mut after = before.clone();
        if random.one_in(2) {
            let at = random.below(after.hosts.len() as u64) as usize;
            after.hosts[at].gpu += 1 + random.below(4) as i64;
            after.hosts[at].cpu += random.below(3) as i64;
        } else {
            let path = after.hosts[0].path.iter().map(|_| Some(random.below(3))).collect();
            after.hosts.push(Host { gpu: 8, cpu: 8, path, tainted: false });
        }
        if let Some(score) = answer(&before) {
            let better = answer(&after);
            prop_assert!(better.is_some_and(|better| better <= score), "{score:?} became {better:?}");
        }
    }

    #[test]
    fn the_departure_of_another_gang_never_hurts(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let wanted = instance(&mut random, 6, 8);
        let mut state = wanted.state();
        let other = instance(&mut random, 1, 4);
        let shapes: Vec<_> = (0..other.parts.len()).map(|at| {
            let demands = other.demands(at, &state);
            state.shape(&demands)
        }).collect();
        for (at, shape) in shapes.iter().enumerate() {
            let node = format!("node-{}", random.below(wanted.hosts.len() as u64));
            state.add_pod(&format!("other-{at}"), &node, *shape).expect("the node is there");
        }
        let gang = wanted.gang(&mut state);
        let crowded = plan(&mut state, &gang, &Options::default());
        for at in 0..shapes.len() {
            state.remove_pod(&format!("other-{at}"));
        }
        let free = plan(&mut state, &gang, &Options::default());
        if let Some(crowded) = crowded.plan() {
            let free = free.plan().expect("still fits");
            prop_assert!((free.distances, free.left_over) <= (crowded.distances, crowded.left_over));
        }
    }

    #[test]
    fn names_and_orders_do_not_matter(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let first = instance(&mut random, 7, 10);
        let mut second = first.clone();
        shuffled(&mut random, &mut second.hosts);
        shuffled(&mut random, &mut second.parts);
        prop_assert_eq!(answer(&first), answer(&second));
    }

    #[test]
    fn the_same_question_gets_the_same_plan(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let question = instance(&mut random, 7, 10);
        let mut state = question.state();
        let gang = question.gang(&mut state);
        // The same cluster, heard of in another order and with a detour.
        let mut order: Vec<usize> = (0..question.hosts.len()).collect();
        shuffled(&mut random, &mut order);
        let keys = (1..=question.levels).map(support::key).collect();
        let mut other = ClusterState::new(&[("fabric".to_owned(), keys)]);
        for at in order {
            other.put_nodes([question.node(at)]);
        }
        let same: Gang = question.gang(&mut other);
        let detour = same.groups[0].shape;
        other.add_pod("passing", "node-0", detour).expect("the node is there");
        other.remove_pod("passing");
        let options = Options::default();
        prop_assert_eq!(plan(&mut state, &gang, &options), plan(&mut other, &same, &options));
        prop_assert_eq!(plan(&mut state, &gang, &options), plan(&mut other, &same, &options));
    }

    #[test]
    fn steps_stay_within_any_budget_and_no_budget_makes_a_wrong_no(seed in any::<u64>(), budget in 0..3000_u64) {
        let question = instance(&mut Random::new(seed), 6, 8);
        let mut state = question.state();
        let gang = question.gang(&mut state);
        let before = state.clone();
        let options = Options { budget, ..Options::default() };
        let outcome = plan(&mut state, &gang, &options);
        prop_assert!(state == before, "the state changed");
        match outcome {
            Outcome::Placed(plan) => {
                prop_assert!(plan.steps <= budget);
                let (floors, extras) = question.hosts_of(&plan);
                prop_assert_eq!(reference::check(&question, &floors, &extras), Ok(()));
            }
            Outcome::BudgetExhausted { steps } => prop_assert!(steps <= budget),
            Outcome::Infeasible(_) => prop_assert_eq!(reference::best(&question), None),
            Outcome::Waiting(waiting) => prop_assert!(false, "{:?}", waiting),
        }
    }

    #[test]
    fn whatever_simpler_planners_place_is_placed(seed in any::<u64>()) {
        let question = instance(&mut Random::new(seed), 14, 14);
        let simple = support::simple::greedy(&question) || support::simple::pod_by_pod(&question);
        let mut state = question.state();
        let gang = question.gang(&mut state);
        let outcome = plan(&mut state, &gang, &Options::default());
        if let Some(plan) = outcome.plan() {
            let (floors, extras) = question.hosts_of(plan);
            prop_assert_eq!(reference::check(&question, &floors, &extras), Ok(()));
        } else {
            prop_assert!(!simple, "{:?}", outcome);
        }
    }
}

/// Pods of many sizes on nodes where hardly anything fits: the worst there is for a packer.
#[test]
fn adversarial_gangs_end_within_their_budget() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut hard = instance(&mut random, 1, 1);
        hard.levels = 2;
        hard.hosts = (0..40)
            .map(|at| Host {
                gpu: 7 + random.below(5) as i64,
                cpu: 7 + random.below(5) as i64,
                path: vec![Some(at / 20), Some(at / 5)],
                tainted: false,
            })
            .collect();
        hard.parts = (0..12)
            .map(|_| support::Part {
                gpu: 3 + random.below(4) as i64,
                cpu: 3 + random.below(4) as i64,
                floor: 5 + random.below(3) as u32,
                extras: random.below(3) as u32,
                exclusive: false,
                config: None,
                wish: support::Wish {
                    required: Some(1 + random.below(2) as usize),
                    preferred: None,
                },
            })
            .collect();
        hard.configs.clear();
        (hard.gang, hard.outer) = Default::default();
        let mut state = hard.state();
        let gang = hard.gang(&mut state);
        let before = state.clone();
        let options = Options {
            budget: 200_000,
            ..Options::default()
        };
        match plan(&mut state, &gang, &options) {
            Outcome::Placed(plan) => {
                assert!(plan.steps <= options.budget);
                let (floors, extras) = hard.hosts_of(&plan);
                assert_eq!(reference::check(&hard, &floors, &extras), Ok(()), "seed {seed}");
            }
            Outcome::BudgetExhausted { steps } => assert!(steps <= options.budget),
            // A proof by sums; checked on small clusters against exhaustive search.
            Outcome::Infeasible(reasons) => assert!(!reasons.is_empty()),
            Outcome::Waiting(waiting) => panic!("{waiting:?}"),
        }
        assert!(state == before, "seed {seed}");
    }
}
