//! Gangs of one replica of a set: the first of them leaves room for the others, and what has no packing stays near the rest.

mod support;

use coppice_placement::plan::Plan;
use coppice_placement::shape::ShapeId;
use coppice_placement::{
    ClusterState, Gang, GroupConfig, Options, Outcome, Pack, PlacementGroup, ReasonCode, Sibling, plan,
};
use support::cluster::{BLOCK, HOST, RACK, bind, cluster, demands, gang, group, used};

fn placed(state: &mut ClusterState, gang: &Gang) -> Plan {
    match plan(state, gang, &Options::default()) {
        Outcome::Placed(plan) => plan,
        other => panic!("{}: {other:?}", gang.name),
    }
}

/// So many pods of a shape on a node that others hold.
fn fill(state: &mut ClusterState, node: &str, shape: ShapeId, pods: u32) {
    for pod in 0..pods {
        state
            .add_pod(&format!("{node}-{pod}"), node, shape)
            .expect("the node is known");
    }
}

/// A copy of a scaling group: two pods on one host.
fn pair(number: u32, shape: ShapeId) -> Sibling {
    let name = format!("copy-{number}");
    Sibling {
        configs: vec![GroupConfig {
            name: name.clone(),
            groups: vec![0],
            pack: Pack::required(HOST),
        }],
        groups: vec![group("pair", shape, 2, 2, Pack::none())],
        pack: Pack::none(),
        name,
    }
}

fn base(shape: ShapeId, pods: u32, siblings: Vec<Sibling>) -> Gang {
    let mut base = gang(
        "base",
        Pack::none(),
        vec![group("router", shape, pods, pods, Pack::none())],
    );
    base.placement_group = Some(PlacementGroup {
        pack: Pack::required(BLOCK),
        siblings,
        ..PlacementGroup::default()
    });
    base
}

/// The sibling as a gang of its own, in the domain that the base chose.
fn as_gang(sibling: &Sibling, base: &Plan) -> Gang {
    Gang {
        name: sibling.name.clone(),
        configs: sibling.configs.clone(),
        groups: sibling.groups.clone(),
        placement_group: Some(PlacementGroup {
            pack: Pack::required(BLOCK),
            pinned: base.placement_group.clone(),
            ..PlacementGroup::default()
        }),
        ..gang("", Pack::none(), Vec::new())
    }
}

#[test]
fn a_domain_is_chosen_where_pairs_of_siblings_find_hosts() {
    let mut state = cluster(2, 2, 6, 3);
    let one = state.shape(&demands(1));
    // Block 0 has 12 single slots, as many as there are pods, and is the tighter one. Block 1 has 12 hosts with three.
    for rack in 0..2 {
        for host in 0..6 {
            fill(&mut state, &format!("b0-r{rack}-h{host}"), one, 2);
        }
    }
    let siblings: Vec<Sibling> = (0..5).map(|number| pair(number, one)).collect();
    let first = base(one, 2, siblings.clone());
    let plan = placed(&mut state, &first);
    assert_eq!(used(&state, &plan, BLOCK), ["b1"]);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    assert_eq!(plan.bindings.len(), 2, "its own pods only");
    bind(&mut state, &first, &plan);
    for sibling in &siblings {
        let scaled = as_gang(sibling, &plan);
        let of_sibling = placed(&mut state, &scaled);
        bind(&mut state, &scaled, &of_sibling);
    }
}

#[test]
fn ten_pairs_on_hosts_of_three_slots_find_room_beside_single_pods() {
    // Ten hosts with three slots: ten pairs fit only if single pods take the third slots.
    let mut state = cluster(1, 2, 5, 3);
    let one = state.shape(&demands(1));
    let siblings: Vec<Sibling> = (0..9).map(|number| pair(number, one)).collect();
    let mut first = base(one, 10, siblings.clone());
    first.groups.push(group("pair", one, 2, 2, Pack::required(HOST)));
    let plan = placed(&mut state, &first);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    bind(&mut state, &first, &plan);
    for sibling in &siblings {
        let scaled = as_gang(sibling, &plan);
        let of_sibling = placed(&mut state, &scaled);
        bind(&mut state, &scaled, &of_sibling);
    }
}

#[test]
fn where_not_all_siblings_fit_most_of_them_count_and_the_plan_says_so() {
    let mut state = cluster(2, 1, 4, 3);
    let one = state.shape(&demands(1));
    // Block 0 has room for the base and one pair, block 1 for the base and three.
    for host in 1..4 {
        fill(&mut state, &format!("b0-r0-h{host}"), one, 2);
    }
    let siblings: Vec<Sibling> = (0..8).map(|number| pair(number, one)).collect();
    let first = base(one, 2, siblings.clone());
    let plan = placed(&mut state, &first);
    assert_eq!(used(&state, &plan, BLOCK), ["b1"]);
    let note = &plan.notes[0];
    assert_eq!(note.code, ReasonCode::ReplicaFitsInPart);
    assert!(
        note.message.contains("room for 4 of 8 further gangs"),
        "{}",
        note.message
    );
    bind(&mut state, &first, &plan);
    for sibling in &siblings[..4] {
        let scaled = as_gang(sibling, &plan);
        let of_sibling = placed(&mut state, &scaled);
        bind(&mut state, &scaled, &of_sibling);
    }
}

#[test]
fn pods_above_the_floor_count_for_the_choice_of_a_domain() {
    let mut state = cluster(2, 1, 4, 3);
    let one = state.shape(&demands(1));
    // Block 0 has room for the floor and both pairs, but not for the extras beside them.
    fill(&mut state, "b0-r0-h0", one, 3);
    fill(&mut state, "b0-r0-h1", one, 2);
    let mut first = base(one, 2, (0..2).map(|number| pair(number, one)).collect());
    first.groups[0]
        .pending
        .extend((0..4).map(|extra| format!("extra-{extra}")));
    let plan = placed(&mut state, &first);
    assert_eq!(used(&state, &plan, BLOCK), ["b1"]);
    let extras = plan.bindings.iter().filter(|binding| binding.extra).count();
    assert_eq!((plan.bindings.len(), extras, plan.left_over), (6, 4, 0));
}

#[test]
fn a_gang_without_packing_stays_together_in_an_empty_cluster() {
    let mut state = cluster(3, 2, 4, 8);
    let eight = state.shape(&demands(8));
    // The first host of each block has no room, so that equal blocks are not simply taken in order.
    fill(&mut state, "b0-r0-h0", eight, 1);
    fill(&mut state, "b0-r0-h1", eight, 1);
    let wanted = gang("a", Pack::none(), vec![group("x", eight, 4, 4, Pack::none())]);
    let plan = placed(&mut state, &wanted);
    assert_eq!(used(&state, &plan, RACK).len(), 1, "{plan:?}");
    assert_eq!(used(&state, &plan, BLOCK).len(), 1);
}

#[test]
fn nearness_to_siblings_comes_before_tightness() {
    let mut state = cluster(3, 2, 2, 8);
    let four = state.shape(&demands(4));
    // Block 0 is the tightest. The rest of the replica is in block 2.
    fill(&mut state, "b0-r0-h0", four, 1);
    fill(&mut state, "b2-r1-h1", four, 1);
    let mut more = gang("more", Pack::none(), vec![group("x", four, 1, 1, Pack::none())]);
    more.placement_group = Some(PlacementGroup {
        near: vec!["b2-r1-h1".into()],
        ..PlacementGroup::default()
    });
    let plan = placed(&mut state, &more);
    assert_eq!(plan.bindings[0].node, "b2-r1-h1");
    // The same for a part with packing of its own: the whole host near the rest, not the tighter one elsewhere.
    more.groups = vec![group("x", four, 2, 2, Pack::required(HOST))];
    let plan = placed(&mut state, &more);
    assert_eq!(used(&state, &plan, HOST), ["b2-r1-h0"], "{plan:?}");
    // And for pods of the gang that are bound already.
    more.placement_group = None;
    more.groups = vec![group("x", four, 2, 1, Pack::none())];
    more.groups[0].bound = vec!["b1-r0-h0".into()];
    let plan = placed(&mut state, &more);
    assert_eq!(used(&state, &plan, BLOCK), ["b1"], "{plan:?}");
}
