//! What the planner does in situations that have a name.

mod support;

use std::collections::BTreeMap;

use coppice_placement::plan::Plan;
use coppice_placement::shape::{HOSTNAME, HostPort, KeepApart, Unsupported};
use coppice_placement::{
    ClusterState, Gang, GroupConfig, Options, Outcome, Overfull, Pack, PlacementGroup, ReasonCode, Spread, Waiting,
    plan,
};
use support::cluster::{BLOCK, HOST, RACK, bind, cluster, demands, gang, group, node, used};

fn placed(state: &mut ClusterState, gang: &Gang) -> Plan {
    match plan(state, gang, &Options::default()) {
        Outcome::Placed(plan) => plan,
        other => panic!("{}: {other:?}", gang.name),
    }
}

fn refused(state: &mut ClusterState, gang: &Gang) -> ReasonCode {
    match plan(state, gang, &Options::default()) {
        Outcome::Infeasible(reasons) => reasons[0].code,
        other => panic!("{}: {other:?}", gang.name),
    }
}

#[test]
fn floors_come_together_or_not_at_all() {
    let mut state = cluster(1, 1, 2, 8);
    let eight = state.shape(&demands(8));
    let fits = gang("a", Pack::none(), vec![group("x", eight, 2, 2, Pack::none())]);
    assert_eq!(placed(&mut state, &fits).bindings.len(), 2);
    let too_many = gang(
        "b",
        Pack::none(),
        vec![
            group("x", eight, 2, 2, Pack::none()),
            group("y", eight, 1, 1, Pack::none()),
        ],
    );
    assert_eq!(refused(&mut state, &too_many), ReasonCode::InsufficientResources);
}

#[test]
fn extras_are_looked_ahead_for() {
    let mut state = cluster(1, 2, 8, 8);
    let eight = state.shape(&demands(8));
    // Rack 0 has room for exactly the floor and would be the tighter choice.
    for host in 0..4 {
        state
            .add_pod(&format!("old-{host}"), &format!("b0-r0-h{host}"), eight)
            .unwrap();
    }
    let wanted = gang("a", Pack::required(RACK), vec![group("x", eight, 4, 8, Pack::none())]);
    let plan = placed(&mut state, &wanted);
    assert_eq!((plan.bindings.len(), plan.left_over), (8, 0));
    assert_eq!(used(&state, &plan, RACK), ["r1"]);
    let small = gang("b", Pack::required(RACK), vec![group("x", eight, 4, 4, Pack::none())]);
    let plan = placed(&mut state, &small);
    assert_eq!(
        used(&state, &plan, RACK),
        ["r0"],
        "without extras the tighter rack is right"
    );
}

#[test]
fn preferred_levels_give_way_outward_and_are_scored() {
    let mut state = cluster(2, 2, 2, 8);
    let eight = state.shape(&demands(8));
    let one_rack = gang("a", Pack::preferred(RACK), vec![group("x", eight, 2, 2, Pack::none())]);
    assert_eq!(placed(&mut state, &one_rack).distances, [0, 0, 0, 0]);
    let two_racks = gang("b", Pack::preferred(RACK), vec![group("x", eight, 3, 3, Pack::none())]);
    let plan = placed(&mut state, &two_racks);
    assert_eq!(plan.distances, [0, 1, 0, 0]);
    assert_eq!(used(&state, &plan, BLOCK).len(), 1, "one block is the next best");
    assert!(plan.score < 1.0 && plan.score > 0.0);
    let everything = gang("c", Pack::preferred(RACK), vec![group("x", eight, 5, 5, Pack::none())]);
    assert_eq!(placed(&mut state, &everything).distances, [0, 2, 0, 0]);
}

#[test]
fn three_levels_of_packing_nest() {
    let mut state = cluster(2, 3, 4, 8);
    let eight = state.shape(&demands(8));
    let one = state.shape(&demands(1));
    let mut wanted = gang("a", Pack::required(BLOCK), Vec::new());
    for replica in 0..3 {
        let at = wanted.groups.len();
        wanted
            .groups
            .push(group(&format!("leader-{replica}"), one, 1, 1, Pack::none()));
        wanted
            .groups
            .push(group(&format!("worker-{replica}"), eight, 3, 3, Pack::none()));
        wanted.configs.push(GroupConfig {
            name: format!("replica-{replica}"),
            groups: vec![at, at + 1],
            pack: Pack::required(RACK),
        });
    }
    wanted.groups.push(group("router", one, 2, 2, Pack::required(HOST)));
    let plan = placed(&mut state, &wanted);
    assert_eq!(plan.bindings.len(), 14);
    assert_eq!(used(&state, &plan, BLOCK).len(), 1);
    for config in &wanted.configs {
        let mine = |binding: &&coppice_placement::plan::Binding| config.groups.contains(&binding.group);
        let racks: Vec<_> = plan
            .bindings
            .iter()
            .filter(mine)
            .map(|binding| &binding.node[..5])
            .collect();
        assert!(racks.iter().all(|rack| *rack == racks[0]), "{racks:?}");
    }
}

#[test]
fn identical_replicas_are_counted() {
    let mut state = cluster(10, 10, 18, 8);
    let (eight, one) = (state.shape(&demands(8)), state.shape(&demands(1)));
    let replicas = |count: usize| {
        let mut wanted = gang("a", Pack::required(BLOCK), Vec::new());
        for replica in 0..count {
            wanted
                .groups
                .push(group(&format!("leader-{replica}"), one, 1, 1, Pack::none()));
            wanted
                .groups
                .push(group(&format!("worker-{replica}"), eight, 8, 8, Pack::none()));
            wanted.configs.push(GroupConfig {
                name: format!("replica-{replica}"),
                groups: vec![replica * 2, replica * 2 + 1],
                pack: Pack::required(RACK),
            });
        }
        wanted
    };
    // Two nine-pod replicas fit a rack, so a block holds twenty.
    assert_eq!(placed(&mut state, &replicas(20)).bindings.len(), 180);
    let budget = Options {
        budget: 40_000,
        ..Options::default()
    };
    let outcome = plan(&mut state, &replicas(21), &budget);
    assert!(
        matches!(outcome, Outcome::Infeasible(_)),
        "proven in few steps: {outcome:?}"
    );
}

#[test]
fn siblings_give_way_to_each_other() {
    // Taken greedily the small group sits in the only rack that is large enough for the other one.
    let mut state = cluster(1, 2, 2, 8);
    state.put_nodes([node(0, 0, 0, 4), node(0, 0, 1, 4), node(0, 1, 0, 8), node(0, 1, 1, 0)]);
    let (four, eight) = (state.shape(&demands(4)), state.shape(&demands(8)));
    let small = group("small", four, 2, 2, Pack::required(RACK));
    let large = group("large", eight, 1, 1, Pack::required(RACK));
    for groups in [vec![small.clone(), large.clone()], vec![large, small]] {
        assert_eq!(placed(&mut state, &gang("a", Pack::none(), groups)).bindings.len(), 3);
    }
}

#[test]
fn late_pods_join_the_domain_of_those_bound() {
    let mut state = cluster(1, 3, 4, 8);
    let eight = state.shape(&demands(8));
    let mut wanted = gang("a", Pack::required(RACK), vec![group("x", eight, 3, 2, Pack::none())]);
    wanted.groups[0].bound = vec!["b0-r2-h0".into()];
    state.add_pod("bound", "b0-r2-h0", eight).unwrap();
    let plan = placed(&mut state, &wanted);
    assert_eq!(used(&state, &plan, RACK), ["r2"]);
    for host in 1..4 {
        state
            .add_pod(&format!("other-{host}"), &format!("b0-r2-h{host}"), eight)
            .unwrap();
    }
    assert_eq!(refused(&mut state, &wanted), ReasonCode::PinnedDomainFull);
}

#[test]
fn members_in_two_domains_are_reported_and_not_wedged() {
    let mut state = cluster(1, 2, 4, 8);
    let eight = state.shape(&demands(8));
    let mut wanted = gang("a", Pack::required(RACK), vec![group("x", eight, 4, 2, Pack::none())]);
    wanted.groups[0].bound = vec!["b0-r0-h0".into(), "b0-r1-h0".into()];
    for (at, host) in wanted.groups[0].bound.clone().iter().enumerate() {
        state.add_pod(&format!("bound-{at}"), host, eight).unwrap();
    }
    let plan = placed(&mut state, &wanted);
    assert_eq!(plan.bindings.len(), 2);
    assert_eq!(used(&state, &plan, RACK).len(), 1, "still as near as possible");
    assert_eq!(plan.notes[0].code, ReasonCode::SplitAcrossDomains);
}

#[test]
fn gangs_of_one_placement_group_share_its_domain() {
    let mut state = cluster(2, 2, 2, 8);
    let eight = state.shape(&demands(8));
    // Block 0 is the tighter one for the first gang, but has no room for its sibling.
    state.add_pod("old-0", "b0-r0-h0", eight).unwrap();
    state.add_pod("old-1", "b0-r0-h1", eight).unwrap();
    let mut first = gang("base", Pack::none(), vec![group("x", eight, 2, 2, Pack::none())]);
    first.placement_group = Some(PlacementGroup {
        pack: Pack::required(BLOCK),
        ahead: vec![(eight, 2)],
        ..PlacementGroup::default()
    });
    let base = placed(&mut state, &first);
    assert_eq!(used(&state, &base, BLOCK), ["b1"]);
    let domain = base.placement_group.clone().unwrap();
    assert_eq!(domain, vec![Some("b1".to_owned())]);
    bind(&mut state, &first, &base);

    let mut sibling = gang(
        "scaled",
        Pack::required(RACK),
        vec![group("x", eight, 2, 2, Pack::none())],
    );
    sibling.placement_group = Some(PlacementGroup {
        pack: Pack::required(BLOCK),
        pinned: Some(domain.clone()),
        ..PlacementGroup::default()
    });
    let scaled = placed(&mut state, &sibling);
    assert_eq!(used(&state, &scaled, BLOCK), ["b1"]);
    bind(&mut state, &sibling, &scaled);

    sibling.name = "another".into();
    assert_eq!(refused(&mut state, &sibling), ReasonCode::PinnedDomainFull);
    sibling.placement_group.as_mut().unwrap().overfull = Overfull::Spill;
    let spilled = placed(&mut state, &sibling);
    assert_eq!(used(&state, &spilled, BLOCK), ["b0"]);
    assert!(spilled.notes.iter().any(|note| note.code == ReasonCode::SpilledOver));

    let group = sibling.placement_group.as_mut().unwrap();
    group.overfull = Overfull::Block;
    group.pinned = Some(vec![Some("gone".into())]);
    assert_eq!(refused(&mut state, &sibling), ReasonCode::PinnedDomainGone);
}

#[test]
fn dependents_and_incomplete_gangs_wait() {
    let mut state = cluster(1, 1, 1, 8);
    let one = state.shape(&demands(1));
    let mut dependent = gang("scaled", Pack::none(), vec![group("x", one, 2, 1, Pack::none())]);
    dependent.depends_on = vec!["base".into()];
    let mut options = Options::default();
    let pods = Waiting::Pods {
        group: "x".into(),
        have: 1,
        need: 2,
    };
    assert_eq!(
        plan(&mut state, &dependent, &options),
        Outcome::Waiting(vec![Waiting::Gang("base".into()), pods])
    );
    options.scheduled.insert("base".into());
    dependent.groups[0].pending.push("x-1".into());
    assert!(plan(&mut state, &dependent, &options).plan().is_some());
}

#[test]
fn replicas_of_a_set_spread_softly_or_strictly() {
    let mut state = cluster(2, 1, 2, 8);
    let four = state.shape(&demands(4));
    state.add_pod("old", "b0-r0-h0", four).unwrap();
    let mut wanted = gang("a", Pack::required(BLOCK), vec![group("x", four, 2, 2, Pack::none())]);
    assert_eq!(
        placed(&mut state, &wanted).domains[0].domain,
        vec![Some("b0".to_owned())]
    );
    let mut spread = Spread {
        key: BLOCK.into(),
        taken: BTreeMap::from([(vec![Some("b0".to_owned())], 1)]),
        hard: false,
    };
    wanted.spread = Some(spread.clone());
    let plan = placed(&mut state, &wanted);
    assert_eq!(used(&state, &plan, BLOCK), ["b1"]);
    spread.taken.insert(vec![Some("b1".to_owned())], 2);
    wanted.spread = Some(spread.clone());
    let plan = placed(&mut state, &wanted);
    assert_eq!(used(&state, &plan, BLOCK), ["b0"], "the lesser evil");
    spread.hard = true;
    wanted.spread = Some(spread);
    assert_eq!(refused(&mut state, &wanted), ReasonCode::NoEligibleNodes);
}

#[test]
fn held_domains_are_left_alone() {
    let mut state = cluster(1, 2, 1, 8);
    let eight = state.shape(&demands(8));
    let wanted = gang("a", Pack::none(), vec![group("x", eight, 1, 1, Pack::none())]);
    let held = vec![Some("b0".to_owned()), Some("r0".to_owned())];
    let options = Options {
        held: vec![held],
        ..Options::default()
    };
    let outcome = plan(&mut state, &wanted, &options);
    assert_eq!(outcome.plan().unwrap().bindings[0].node, "b0-r1-h0");
}

#[test]
fn the_domain_used_before_wins_among_equals() {
    let mut state = cluster(1, 3, 1, 8);
    let eight = state.shape(&demands(8));
    let mut wanted = gang("a", Pack::required(RACK), vec![group("x", eight, 1, 1, Pack::none())]);
    wanted.previous = Some(vec![Some("b0".to_owned()), Some("r2".to_owned())]);
    let plan = placed(&mut state, &wanted);
    assert_eq!(used(&state, &plan, RACK), ["r2"]);
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let mut state = cluster(1, 1, 4, 8);
    let mut odd = demands(1);
    odd.keep_apart.push(KeepApart {
        topology_key: RACK.into(),
        namespaces: Default::default(),
        selector: Vec::new(),
    });
    odd.unsupported.push(Unsupported::UnallocatedClaim("channel".into()));
    let odd = state.shape(&odd);
    let wanted = gang("a", Pack::none(), vec![group("x", odd, 1, 1, Pack::none())]);
    let Outcome::Infeasible(reasons) = plan(&mut state, &wanted, &Options::default()) else {
        panic!("placed")
    };
    assert_eq!(reasons.len(), 2);
    assert!(reasons.iter().all(|reason| reason.code == ReasonCode::Unsupported));
    let one = state.shape(&demands(1));
    let unknown = gang(
        "b",
        Pack::required("pod-of-racks"),
        vec![group("x", one, 1, 1, Pack::none())],
    );
    assert_eq!(refused(&mut state, &unknown), ReasonCode::UnknownTopology);
    let mut elsewhere = unknown.clone();
    elsewhere.topology = "missing".into();
    assert_eq!(refused(&mut state, &elsewhere), ReasonCode::UnknownTopology);
}

#[test]
fn ports_and_anti_affinity_cap_pods_per_node() {
    let mut state = cluster(1, 1, 3, 8);
    let mut port = demands(1);
    port.host_ports.push(HostPort {
        protocol: "TCP".into(),
        address: String::new(),
        port: 9000,
    });
    let mut shy = demands(1);
    shy.labels.insert("app".into(), "shy".into());
    shy.keep_apart.push(KeepApart {
        topology_key: HOSTNAME.into(),
        namespaces: Default::default(),
        selector: Vec::new(),
    });
    let (port, shy) = (state.shape(&port), state.shape(&shy));
    for (shape, fits) in [(port, 3), (shy, 3)] {
        let wanted = |count| gang("a", Pack::none(), vec![group("x", shape, count, count, Pack::none())]);
        let plan = placed(&mut state, &wanted(fits));
        assert_eq!(used(&state, &plan, HOST).len(), 3);
        assert_eq!(
            refused(&mut state, &wanted(fits + 1)),
            ReasonCode::InsufficientResources
        );
    }
    // The shy pod shuns everybody in its namespace, so the other group has to go elsewhere.
    let one = state.shape(&demands(1));
    let mixed = gang(
        "b",
        Pack::none(),
        vec![
            group("shy", shy, 2, 2, Pack::none()),
            group("x", one, 3, 3, Pack::none()),
        ],
    );
    let plan = placed(&mut state, &mixed);
    let hosts = |at: usize| {
        plan.bindings
            .iter()
            .filter(|b| b.group == at)
            .map(|b| b.node.clone())
            .collect::<Vec<_>>()
    };
    assert!(hosts(0).iter().all(|host| !hosts(1).contains(host)));
}

#[test]
fn a_tiny_budget_is_never_a_no() {
    let mut state = cluster(2, 2, 2, 8);
    let (eight, one) = (state.shape(&demands(8)), state.shape(&demands(1)));
    let groups = vec![
        group("x", eight, 3, 3, Pack::none()),
        group("y", one, 8, 8, Pack::required(RACK)),
    ];
    let wanted = gang("a", Pack::required(BLOCK), groups);
    let mut placed = 0;
    for budget in 0..400 {
        let options = Options {
            budget,
            ..Options::default()
        };
        match plan(&mut state, &wanted, &options) {
            Outcome::Placed(plan) => {
                assert!(plan.steps <= budget);
                placed += 1;
            }
            Outcome::BudgetExhausted { steps } => assert!(steps <= budget),
            other => panic!("{other:?}"),
        }
    }
    assert!(placed > 0);
}

#[test]
fn a_floor_of_zero_keeps_its_domain() {
    let mut state = cluster(1, 2, 3, 8);
    let eight = state.shape(&demands(8));
    let mut wanted = gang("a", Pack::required(RACK), vec![group("x", eight, 0, 4, Pack::none())]);
    wanted.groups[0].bound = vec!["b0-r1-h0".into()];
    state.add_pod("bound", "b0-r1-h0", eight).unwrap();
    let plan = placed(&mut state, &wanted);
    assert_eq!((plan.bindings.len(), plan.left_over), (2, 2));
    assert_eq!(used(&state, &plan, RACK), ["r1"]);
}
