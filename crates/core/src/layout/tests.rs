use super::*;
use crate::objects::testing::set;

fn lay_out(set: &coppice_api::types::PodCliqueSet, index: u32, live: &LiveSizes) -> ReplicaLayout {
    let generation = Generation { hash: "h", given: true };
    ReplicaLayout::new(&SetFacts::of(set), index, live, &StoredGangs::default(), generation)
}

fn names(layout: &ReplicaLayout) -> Vec<(&str, &str)> {
    layout
        .cliques
        .iter()
        .map(|clique| (clique.name.as_str(), layout.gang_of(clique).name.as_str()))
        .collect()
}

/// pc-a alone; sg-x two copies, one of them the minimum, of pc-b and pc-c.
const WL2: &str = "
metadata: {name: wl, namespace: test, uid: u}
spec:
  replicas: 2
  template:
    cliqueStartupType: CliqueStartupTypeInOrder
    cliques:
    - {name: pc-a, spec: {roleName: a, replicas: 2, minAvailable: 1, podSpec: {containers: []}}}
    - {name: pc-b, spec: {roleName: b, replicas: 1, minAvailable: 1, podSpec: {containers: []}}}
    - {name: pc-c, spec: {roleName: c, replicas: 3, minAvailable: 1, podSpec: {containers: []}}}
    podCliqueScalingGroups:
    - {name: sg-x, cliqueNames: [pc-b, pc-c], replicas: 2, minAvailable: 1}
";

#[test]
fn copies_up_to_the_minimum_are_in_the_anchor_gang_and_others_have_their_own() {
    let set = set(WL2);
    let layout = lay_out(&set, 1, &LiveSizes::default());
    assert_eq!(
        names(&layout),
        [
            ("wl-1-pc-a", "wl-1-100001"),
            ("wl-1-sg-x-0-pc-b", "wl-1-100001"),
            ("wl-1-sg-x-0-pc-c", "wl-1-100001"),
            ("wl-1-sg-x-1-pc-b", "wl-1-100002-sg-x-1"),
            ("wl-1-sg-x-1-pc-c", "wl-1-100002-sg-x-1"),
        ]
    );
    assert_eq!(layout.gangs.len(), 2);
    assert_eq!(layout.gangs[1].scaled, Some((0, 1)));
}

#[test]
fn in_a_scaled_gang_only_parents_of_the_same_copy_count() {
    let set = set(WL2);
    let layout = lay_out(&set, 0, &LiveSizes::default());
    let parents = |index: usize| -> Vec<(&str, u32)> {
        layout.cliques[index]
            .newest()
            .parents
            .iter()
            .map(|parent| (parent.clique.as_str(), parent.minimum))
            .collect()
    };
    assert_eq!(parents(0), []);
    assert_eq!(parents(1), [("wl-0-pc-a", 1)]);
    assert_eq!(parents(2), [("wl-0-sg-x-0-pc-b", 1)]);
    assert_eq!(parents(3), [], "pc-a runs before a scaled gang starts");
    assert_eq!(parents(4), [("wl-0-sg-x-1-pc-b", 1)]);
}

#[test]
fn live_sizes_win_and_a_clique_scaled_below_its_minimum_lowers_it() {
    let set = set(WL2);
    let live = LiveSizes {
        cliques: BTreeMap::from([("wl-0-pc-a".to_owned(), 0), ("wl-0-sg-x-0-pc-c".to_owned(), 7)]),
        groups: BTreeMap::from([("wl-0-sg-x".to_owned(), 3)]),
        ..LiveSizes::default()
    };
    let layout = lay_out(&set, 0, &live);
    assert_eq!((layout.cliques[0].replicas, layout.cliques[0].min_available), (0, 0));
    assert_eq!((layout.cliques[2].replicas, layout.cliques[2].min_available), (7, 1));
    assert_eq!(
        layout.gangs.iter().map(|gang| gang.name.as_str()).collect::<Vec<_>>(),
        ["wl-0-100001", "wl-0-100002-sg-x-1", "wl-0-100003-sg-x-2"]
    );
}

#[test]
fn a_group_scaled_to_zero_leaves_the_anchor_gang() {
    let set = set(WL2);
    let live = LiveSizes {
        groups: BTreeMap::from([("wl-0-sg-x".to_owned(), 0)]),
        ..LiveSizes::default()
    };
    let layout = lay_out(&set, 0, &live);
    assert_eq!(names(&layout), [("wl-0-pc-a", "wl-0-100001")]);
}

#[test]
fn without_standalone_cliques_and_with_a_group_at_zero_there_is_no_gang() {
    let set = set("
metadata: {name: wl, namespace: test, uid: u}
spec:
  replicas: 1
  template:
    cliques:
    - {name: b, spec: {roleName: b, replicas: 1, podSpec: {containers: []}}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [b], replicas: 1}
");
    let live = LiveSizes {
        groups: BTreeMap::from([("wl-0-g".to_owned(), 0)]),
        ..LiveSizes::default()
    };
    let layout = lay_out(&set, 0, &live);
    assert_eq!((layout.cliques.len(), layout.live_gangs().count()), (0, 0));
}
