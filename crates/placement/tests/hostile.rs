//! Absurd input: whatever a tenant writes into a pod or a gang costs him his own placement and nothing else.

mod support;

use std::collections::BTreeSet;

use coppice_placement::explain::explain;
use coppice_placement::predicates::{Expression, Node, NodeSelector, NodeTerm, Operator};
use coppice_placement::preempt::{Running, RunningGroup, RunningPod, preempt};
use coppice_placement::shape::{HOSTNAME, KeepApart, PodDemands};
use coppice_placement::volume::{UnboundClaim, VolumeSource};
use coppice_placement::{ClusterState, Gang, Options, Outcome, Pack, PlacementGroup, ReasonCode, plan};
use support::Random;
use support::cluster::{RACK, amounts, cluster, demands, gang, group, node};

/// What the worker threads of the scheduler have.
const STACK: usize = 2 << 20;

fn with_many_names(count: usize, seed: usize) -> PodDemands {
    let mut odd = demands(1);
    let names = (0..count).map(|at| (format!("tenant.example/r{seed}-{at}"), 1));
    odd.requests.extend(names);
    odd
}

fn ordinary_fits(state: &mut ClusterState) {
    let shape = state.shape(&demands(2));
    let asked = gang(
        "ordinary",
        Pack::required(RACK),
        vec![group("a", shape, 3, 3, Pack::none())],
    );
    let outcome = plan(state, &asked, &Options::default());
    assert!(
        matches!(&outcome, Outcome::Placed(plan) if plan.bindings.len() == 3),
        "{outcome:?}"
    );
}

#[test]
fn names_that_no_node_offers_take_no_column_and_are_named_in_the_reason() {
    let mut state = cluster(2, 2, 3, 8);
    let columns = state.columns().len();
    for seed in 0..4 {
        let shape = state.shape(&with_many_names(20_000, seed));
        let asked = gang("g", Pack::none(), vec![group("a", shape, 1, 1, Pack::none())]);
        let Outcome::Infeasible(reasons) = plan(&mut state, &asked, &Options::default()) else {
            panic!("no node offers these")
        };
        assert_eq!(reasons.len(), 1);
        assert_eq!(reasons[0].code, ReasonCode::PodExceedsEveryNode);
        assert!(
            reasons[0].message.contains("tenant.example/r"),
            "{}",
            reasons[0].message
        );
        assert!(reasons[0].message.contains("and 19997 more"), "{}", reasons[0].message);
        assert!(reasons[0].message.len() < 400, "{}", reasons[0].message);
        let told = explain(&state, &asked, &[], &Options::default());
        assert_eq!(told.reasons, reasons, "explain says the same, once");
    }
    assert_eq!(state.columns().len(), columns);
    ordinary_fits(&mut state);
}

#[test]
fn a_resource_counts_from_the_first_node_that_offers_it_to_the_last() {
    let mut state = cluster(1, 1, 2, 8);
    let columns = state.columns().len();
    let mut asking = demands(1);
    asking.requests.insert("example.com/card".into(), 2);
    let shape = state.shape(&asking);
    let first = state.node_id("b0-r0-h0").unwrap();
    // It runs where nothing of the kind is offered, because somebody else put it there.
    state.add_pod("early", "b0-r0-h0", shape).unwrap();
    assert_eq!(state.room(first, shape), 0);
    let mut offering = node(0, 0, 0, 8);
    offering.allocatable.insert("example.com/card".into(), 5);
    state.put_nodes([offering]);
    assert_eq!(state.columns().len(), columns + 1);
    assert_eq!(state.room(first, shape), 1, "five cards, two of them taken");
    assert_eq!(state.room(state.node_id("b0-r0-h1").unwrap(), shape), 0);
    assert_eq!(state, state.recomputed());
    state.put_nodes([node(0, 0, 0, 8)]);
    assert_eq!(state.columns().len(), columns, "nobody offers it any more");
    assert_eq!(state.room(first, shape), 0);
    assert_eq!(state, state.recomputed());
    state.remove_pod("early");
    assert_eq!(state, state.recomputed());
}

#[test]
fn a_node_with_very_many_names_does_not_push_out_what_others_offer() {
    let mut state = cluster(2, 2, 3, 8);
    let mut odd = node(0, 0, 0, 8);
    odd.name = "odd".into();
    odd.allocatable
        .extend((0..70_000).map(|at| (format!("aaa.example/r{at}"), 1)));
    state.put_nodes([odd]);
    assert!(state.columns().len() <= 600, "{}", state.columns().len());
    assert!(state.columns().get("nvidia.com/gpu").is_some());
    ordinary_fits(&mut state);
    assert_eq!(state, state.recomputed());
    state.remove_nodes(["odd"]);
    assert_eq!(state.columns().len(), 5);
}

#[test]
fn absurd_amounts_neither_wrap_nor_panic_and_are_given_back_exactly() {
    let mut state = cluster(2, 2, 3, 8);
    let mut vast = node(0, 0, 0, i64::MAX);
    vast.allocatable.insert("memory".into(), i64::MAX);
    vast.allocatable.insert("cpu".into(), i64::MIN);
    let mut vaster = node(0, 0, 1, i64::MAX);
    vaster.allocatable.insert("memory".into(), i64::MAX);
    state.put_nodes([vast, vaster]);
    let mut hungry = demands(i64::MAX);
    hungry.requests.insert("memory".into(), i64::MAX);
    hungry.requests.insert("cpu".into(), i64::MIN);
    let shape = state.shape(&hungry);
    let before = state.clone();
    for pod in 0..50 {
        state.add_pod(&format!("p{pod}"), "b0-r0-h0", shape).unwrap();
        state.add_pod(&format!("q{pod}"), "b1-r1-h2", shape).unwrap();
    }
    assert_eq!(state, state.recomputed());
    let mark = state.mark();
    let vast = state.node_id("b0-r0-h0").unwrap();
    state.place(vast, shape, i32::MAX as u32);
    state.rollback(mark);
    let asked = |count: u32, shape| {
        let groups = vec![
            group("a", shape, count, count, Pack::required(RACK)),
            group("b", shape, count, count, Pack::none()),
        ];
        gang("g", Pack::preferred(RACK), groups)
    };
    for count in [1, 2, 40] {
        let other = state.shape(&demands(i64::MAX / 2));
        for shape in [shape, other] {
            let asked = asked(count, shape);
            let running = Running {
                name: "r".into(),
                priority: i32::MIN,
                base: None,
                sequence: 0,
                protected: false,
                groups: vec![RunningGroup {
                    floor: 50,
                    pods: (0..50)
                        .flat_map(|pod| [format!("p{pod}"), format!("q{pod}")])
                        .map(|name| RunningPod {
                            name,
                            budgets: Vec::new(),
                        })
                        .collect(),
                }],
            };
            plan(&mut state, &asked, &Options::default());
            preempt(&mut state, &asked, std::slice::from_ref(&running), &Options::default());
            let _ = explain(&state, &asked, &[running], &Options::default());
        }
    }
    ordinary_fits(&mut state);
    for pod in 0..50 {
        state.remove_pod(&format!("p{pod}"));
        state.remove_pod(&format!("q{pod}"));
    }
    assert_eq!(state.room(vast, shape), before.room(vast, shape));
    assert_eq!(state, state.recomputed());
}

/// Runs with the stack of a worker thread: what runs out of stack kills the process and cannot be caught.
fn on_a_worker(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(test);
    thread.expect("a thread").join().expect("it ended well");
}

#[test]
fn thousands_of_packed_groups_end_within_the_stack_and_the_budget() {
    on_a_worker(|| {
        let mut state = cluster(2, 2, 3, 8);
        let small = state.shape(&demands(0));
        for (pods, floor) in [(1, 1), (1, 0), (0, 0)] {
            let groups: Vec<_> = (0..20_000)
                .map(|at| {
                    let pods = if at < 500 { pods } else { 0 };
                    group(&format!("c{at}"), small, floor.min(pods), pods, Pack::required(RACK))
                })
                .collect();
            let mut asked = gang("g", Pack::required(RACK), groups);
            asked.placement_group = Some(PlacementGroup {
                ahead: vec![(small, u32::MAX), (small, u32::MAX)],
                ..PlacementGroup::default()
            });
            let outcome = plan(&mut state, &asked, &Options::default());
            assert!(!matches!(outcome, Outcome::Waiting(_)), "{outcome:?}");
            preempt(&mut state, &asked, &[], &Options::default());
        }
        ordinary_fits(&mut state);
    });
}

#[test]
fn thousands_of_kinds_of_pods_in_thousands_of_groups_cost_no_more_than_the_budget() {
    on_a_worker(|| {
        let mut state = cluster(2, 2, 3, 8);
        let groups: Vec<_> = (0..4_000)
            .map(|at| {
                let mut own = demands(0);
                own.requests.insert("memory".into(), at + 1);
                let shape = state.shape(&own);
                group(&format!("c{at}"), shape, 1, 1, Pack::preferred(RACK))
            })
            .collect();
        let asked = gang("g", Pack::none(), groups);
        let outcome = plan(&mut state, &asked, &Options::default());
        assert!(matches!(outcome, Outcome::BudgetExhausted { .. }), "{outcome:?}");
        ordinary_fits(&mut state);
    });
}

fn amount(random: &mut Random) -> i64 {
    match random.below(7) {
        0 => i64::MAX,
        1 => i64::MAX - 1,
        2 => i64::MIN,
        3 => -1,
        4 => 0,
        5 => i64::MAX / 2 + 1,
        _ => 1 + random.below(1 << 20) as i64,
    }
}

fn expression(random: &mut Random) -> Expression {
    let operators = [
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::Gt,
        Operator::Lt,
    ];
    let values = ["", "r0", "99999999999999999999999", "-1", "b0-r0-h0", "\u{0}"];
    let count = [0, 1, 2, 300][random.below(4) as usize];
    Expression {
        key: ["", RACK, "host", "app", "metadata.name"][random.below(5) as usize].into(),
        operator: operators[random.below(6) as usize],
        values: (0..count)
            .map(|_| values[random.below(6) as usize].to_owned())
            .collect(),
    }
}

fn odd_demands(random: &mut Random) -> PodDemands {
    let mut odd = PodDemands::default();
    for name in ["cpu", "memory", "pods", "nvidia.com/gpu", "odd.example/x", ""] {
        if random.one_in(2) {
            odd.requests.insert(name.into(), amount(random));
        }
    }
    if random.one_in(4) {
        odd.requests
            .extend(with_many_names(2_000, random.below(4) as usize).requests);
    }
    let term = |random: &mut Random| NodeTerm {
        expressions: (0..random.below(4)).map(|_| expression(random)).collect(),
        fields: (0..random.below(2)).map(|_| expression(random)).collect(),
    };
    if random.one_in(2) {
        odd.node.required = vec![NodeSelector {
            terms: (0..random.below(3)).map(|_| term(random)).collect(),
        }];
    }
    let weights = [i32::MAX, i32::MIN, 0, 7];
    odd.node.preferred = (0..random.below(3))
        .map(|_| (weights[random.below(4) as usize], term(random)))
        .collect();
    odd.labels.insert("app".into(), random.below(3).to_string());
    if random.one_in(3) {
        odd.keep_apart.push(KeepApart {
            topology_key: [HOSTNAME, "", "zone"][random.below(3) as usize].into(),
            namespaces: BTreeSet::new(),
            selector: (0..random.below(3)).map(|_| expression(random)).collect(),
        });
    }
    odd
}

fn odd_pack(random: &mut Random) -> Pack {
    let keys = [None, Some(RACK), Some("host"), Some("block"), Some("nowhere")];
    let key = |random: &mut Random| keys[random.below(5) as usize].map(str::to_owned);
    Pack {
        required: key(random),
        preferred: key(random),
    }
}

fn odd_gang(random: &mut Random, state: &mut ClusterState) -> Gang {
    let groups = (0..1 + random.below(5))
        .map(|at| {
            let shape = state.shape(&odd_demands(random));
            let pods = random.below(4) as u32;
            let floor = [0, 1, pods, u32::MAX][random.below(4) as usize];
            let mut group = group(&format!("g{at}"), shape, floor, pods, odd_pack(random));
            if random.one_in(4) {
                group.bound = vec!["gone".into(), "b0-r0-h1".into(), "b1-r1-h0".into()];
            }
            group
        })
        .collect();
    let mut asked = gang("odd", odd_pack(random), groups);
    asked.priority = [i32::MIN, -1, 0, 7, i32::MAX][random.below(5) as usize];
    asked.depends_on = if random.one_in(8) {
        vec!["odd".into()]
    } else {
        Vec::new()
    };
    asked.topology = ["unknown", "", "fabric"][(random.below(8) as usize).min(2)].into();
    asked
}

#[test]
fn random_absurdities_harm_nobody_else() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut state = cluster(2, 2, 3, 8);
        let mut odd = node(0, 0, 0, 8);
        for name in ["cpu", "memory", "nvidia.com/gpu", "odd.example/x"] {
            odd.allocatable.insert(name.into(), amount(&mut random));
        }
        if random.one_in(4) {
            odd.allocatable.extend(with_many_names(2_000, 0).requests);
        }
        state.put_nodes([odd]);
        let mut residents = Vec::new();
        for pod in 0..random.below(6) {
            let shape = state.shape(&PodDemands {
                keep_apart: Vec::new(),
                ..odd_demands(&mut random)
            });
            // Not where the ordinary gang has its place: a pod that runs takes its room.
            state.add_pod(&format!("r{pod}"), "b0-r0-h0", shape).unwrap();
            residents.push(RunningPod {
                name: format!("r{pod}"),
                budgets: Vec::new(),
            });
        }
        let running = [Running {
            name: "running".into(),
            priority: 0,
            base: Some("running".into()),
            sequence: u64::MAX,
            protected: false,
            groups: vec![RunningGroup {
                floor: [0, 1, u32::MAX][random.below(3) as usize],
                pods: residents,
            }],
        }];
        for _ in 0..4 {
            let asked = odd_gang(&mut random, &mut state);
            let before = state.clone();
            plan(&mut state, &asked, &Options::default());
            preempt(&mut state, &asked, &running, &Options::default());
            assert_eq!(state, before, "seed {seed}");
            let _ = explain(&state, &asked, &running, &Options::default());
        }
        assert_eq!(state, state.recomputed(), "seed {seed}");
        ordinary_fits(&mut state);
    }
}

#[test]
fn a_node_without_a_name_or_room_is_a_node() {
    let mut state = ClusterState::default();
    state.put_nodes([Node {
        allocatable: amounts(&[("", 1), ("cpu", -5)]),
        ..Node::default()
    }]);
    let shape = state.shape(&PodDemands::default());
    assert_eq!(state.room(state.node_id("").unwrap(), shape), 0);
    assert_eq!(state, state.recomputed());
}

#[test]
fn any_number_of_claims_and_volumes_ends_within_the_budget() {
    let mut state = cluster(4, 4, 8, 8);
    let names: Vec<String> = state
        .view(0)
        .nodes_in(coppice_placement::topology::DomainId::ROOT)
        .iter()
        .map(|node| state.node(*node).name.clone())
        .collect();
    let mut odd = demands(8);
    let mut asked = gang("g", Pack::none(), Vec::new());
    for claim in 0..200 {
        let name = format!("n/claim-{claim}");
        odd.claims.insert(name.clone());
        // Each claim fits one of many volumes, each volume on one node: two pods never share a claim.
        let volume = |at: usize| {
            let only = Expression {
                key: "metadata.name".into(),
                operator: Operator::In,
                values: vec![names[at % names.len()].clone()],
            };
            let term = NodeTerm {
                expressions: Vec::new(),
                fields: vec![only],
            };
            VolumeSource::Volume {
                name: format!("volume-{at}"),
                nodes: Some(NodeSelector { terms: vec![term] }),
            }
        };
        let claim = UnboundClaim {
            what: name.clone(),
            sources: (0..300).map(volume).collect(),
        };
        asked.claims.insert(name, std::sync::Arc::new(claim));
    }
    let shape = state.shape(&odd);
    asked.groups = vec![group("a", shape, 4, 4, Pack::none())];
    let before = state.clone();
    let options = Options::default();
    match plan(&mut state, &asked, &options) {
        Outcome::BudgetExhausted { steps } => assert!(steps <= options.budget, "{steps}"),
        Outcome::Infeasible(reasons) => assert!(reasons.len() <= 3, "{reasons:?}"),
        other => panic!("{other:?}"),
    }
    assert!(state == before, "the state changed");
    ordinary_fits(&mut state);
}
