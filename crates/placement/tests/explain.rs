//! Explanations: for a gang that fitted until one thing was changed, the explanation names that thing.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::collections::BTreeMap;

use coppice_placement::explain::{Explanation, LIST_LIMIT, RemedyCode, Verdict, explain};
use coppice_placement::predicates::{Effect, Expression, Node, NodeSelector, NodeTerm, Operator, Taint};
use coppice_placement::preempt::{Running, RunningGroup, RunningPod};
use coppice_placement::shape::{HostPort, PodDemands, Unsupported};
use coppice_placement::{ClusterState, Gang, GroupConfig, Options, Pack, PlacementGroup, ReasonCode, plan};
use support::Random;
use support::cluster::{BLOCK, RACK, cluster, demands, gang, group, node};

/// What was done to the gang or the cluster, and how the explanation has to call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Taint,
    Cordon,
    NotReady,
    Selector,
    Affinity,
    Capacity,
    Packing,
    ReplicaPacking,
    Unsupported,
    TooLarge,
    Pinned,
    LowerPriority,
    Held,
    Ports,
    Dependency,
    Gates,
}

const CAUSES: [Cause; 16] = [
    Cause::Taint,
    Cause::Cordon,
    Cause::NotReady,
    Cause::Selector,
    Cause::Affinity,
    Cause::Capacity,
    Cause::Packing,
    Cause::ReplicaPacking,
    Cause::Unsupported,
    Cause::TooLarge,
    Cause::Pinned,
    Cause::LowerPriority,
    Cause::Held,
    Cause::Ports,
    Cause::Dependency,
    Cause::Gates,
];

impl Cause {
    /// Whether the explanation leads with the cause (or, for room and packing, offers the remedy that undoes it).
    fn named_by(self, explanation: &Explanation) -> bool {
        let first = |code| explanation.reasons.first().is_some_and(|reason| reason.code == code);
        let offers = |code| explanation.remedies.iter().any(|remedy| remedy.code == code);
        match self {
            Self::Taint => first(ReasonCode::UntoleratedTaint) && offers(RemedyCode::Taint),
            Self::Cordon => first(ReasonCode::NodeUnschedulable) && offers(RemedyCode::Uncordon),
            Self::NotReady => first(ReasonCode::NodeNotReady) && offers(RemedyCode::RepairNodes),
            Self::Selector => first(ReasonCode::NodeSelectorMismatch) && offers(RemedyCode::NodeSelector),
            Self::Affinity => first(ReasonCode::NodeAffinityMismatch) && offers(RemedyCode::NodeAffinity),
            Self::Capacity => {
                let lacking = explanation
                    .levels
                    .iter()
                    .any(|level| level.lacks.contains_key("nvidia.com/gpu"));
                first(ReasonCode::InsufficientResources) && lacking && offers(RemedyCode::AddNodes)
            }
            Self::Packing | Self::ReplicaPacking => {
                first(ReasonCode::InsufficientResources) && offers(RemedyCode::RelaxPacking)
            }
            Self::Unsupported => first(ReasonCode::Unsupported),
            Self::TooLarge => first(ReasonCode::PodExceedsEveryNode),
            Self::Pinned => first(ReasonCode::PinnedDomainFull) && offers(RemedyCode::Unpin),
            Self::LowerPriority => first(ReasonCode::InsufficientResources) && offers(RemedyCode::Preempt),
            Self::Held => first(ReasonCode::DomainExcluded) && offers(RemedyCode::ReleaseDomains),
            Self::Ports => first(ReasonCode::NodeConflict) && offers(RemedyCode::ShareNodes),
            Self::Dependency => first(ReasonCode::WaitingForGang),
            Self::Gates => first(ReasonCode::WaitingForPods),
        }
    }
}

struct Situation {
    state: ClusterState,
    nodes: Vec<Node>,
    gang: Gang,
    running: Vec<Running>,
    options: Options,
}

/// A cluster with some noise (load, a few bad nodes) and a gang of two roles that fits.
fn healthy(random: &mut Random) -> Option<Situation> {
    let (blocks, racks, hosts) = (
        1 + random.below(2) as usize,
        2 + random.below(2) as usize,
        2 + random.below(4) as usize,
    );
    let mut state = cluster(blocks, racks, hosts, 8);
    let mut nodes = Vec::new();
    for block in 0..blocks {
        for rack in 0..racks {
            for host in 0..hosts {
                let mut node = node(block, rack, host, 8);
                node.unschedulable = random.one_in(12);
                node.not_ready = random.one_in(12);
                if random.one_in(12) {
                    node.taints.push(taint("noise"));
                }
                nodes.push(node);
            }
        }
    }
    state.put_nodes(nodes.clone());
    let (large, small) = (state.shape(&demands(8)), state.shape(&demands(1)));
    let floor = 1 + random.below(hosts as u64) as u32;
    let pack = [
        Pack::none(),
        Pack::required(RACK),
        Pack::required(BLOCK),
        Pack::preferred(RACK),
    ];
    let groups = vec![
        group("worker", large, floor, floor, Pack::none()),
        group("leader", small, 1, 1, Pack::none()),
    ];
    let mut wanted = gang("serving", pack[random.below(4) as usize].clone(), groups);
    wanted.priority = 10;
    plan(&mut state, &wanted, &Options::default()).plan()?;
    Some(Situation {
        state,
        nodes,
        gang: wanted,
        running: Vec::new(),
        options: Options::default(),
    })
}

fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        value: "yes".into(),
        effect: Effect::NoSchedule,
    }
}

impl Situation {
    fn change_nodes(&mut self, change: impl Fn(&mut Node)) {
        self.nodes.iter_mut().for_each(change);
        self.state.put_nodes(self.nodes.clone());
    }

    fn change_demands(&mut self, change: impl Fn(&mut PodDemands)) {
        for group in &mut self.gang.groups {
            let mut demands = self.state.shape_of(group.shape).demands.clone();
            change(&mut demands);
            group.shape = self.state.shape(&demands);
        }
    }

    /// Fills GPUs, one pod per node; `keep` free nodes are left.
    fn fill(&mut self, keep: usize, priority: i32, within: Option<&str>) {
        let shape = self.state.shape(&demands(8));
        let all: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for name in all
            .iter()
            .filter(|name| within.is_none_or(|prefix| name.starts_with(prefix)))
            .skip(keep)
        {
            let pod = format!("filler-{name}");
            self.state.add_pod(&pod, name, shape).unwrap();
            self.running.push(Running {
                name: pod.clone(),
                priority,
                base: None,
                sequence: 0,
                protected: false,
                groups: vec![RunningGroup {
                    floor: 1,
                    pods: vec![RunningPod {
                        name: pod,
                        guarded: false,
                    }],
                }],
            });
        }
    }

    fn inject(&mut self, cause: Cause, random: &mut Random) {
        match cause {
            Cause::Taint => self.change_nodes(|node| node.taints.push(taint("reserved"))),
            Cause::Cordon => self.change_nodes(|node| node.unschedulable = true),
            Cause::NotReady => self.change_nodes(|node| node.not_ready = true),
            Cause::Selector => self.change_demands(|demands| {
                demands.node.selector.insert("pool".into(), "gold".into());
            }),
            Cause::Affinity => self.change_demands(|demands| {
                let expression = Expression {
                    key: "pool".into(),
                    operator: Operator::Exists,
                    values: Vec::new(),
                };
                let term = NodeTerm {
                    expressions: vec![expression],
                    ..NodeTerm::default()
                };
                demands.node.required.push(NodeSelector { terms: vec![term] });
            }),
            Cause::Capacity => self.fill(random.below(u64::from(self.gang.groups[0].floor)) as usize, 10, None),
            Cause::LowerPriority => self.fill(0, 1, None),
            Cause::Packing => {
                let hosts = self.nodes.iter().filter(|node| node.name.starts_with("b0-r0-")).count();
                self.gang.pack = Pack::required(RACK);
                self.grow(hosts as u32 + 1);
            }
            Cause::ReplicaPacking => {
                let hosts = self.nodes.iter().filter(|node| node.name.starts_with("b0-r0-")).count();
                self.gang.pack = Pack::none();
                self.gang.configs.push(GroupConfig {
                    name: "replica-0".into(),
                    groups: vec![0, 1],
                    pack: Pack::required(RACK),
                });
                self.grow(hosts as u32 + 1);
            }
            Cause::Unsupported => self.change_demands(|demands| {
                demands.unsupported.push(Unsupported::UnboundVolume("data".into()));
            }),
            Cause::TooLarge => self.change_demands(|demands| {
                demands.requests.insert("nvidia.com/gpu".into(), 9 + 8);
            }),
            Cause::Pinned => {
                self.fill(0, 10, Some("b0-r0-"));
                self.gang.pack = Pack::none();
                self.gang.placement_group = Some(PlacementGroup {
                    pack: Pack::required(RACK),
                    pinned: Some(vec![Some("b0".into()), Some("r0".into())]),
                    ..PlacementGroup::default()
                });
            }
            Cause::Held => {
                let blocks = ["b0", "b1"].map(|block| vec![Some(block.to_owned())]);
                self.options.held.extend(blocks);
            }
            Cause::Ports => {
                self.change_demands(|demands| {
                    demands.requests.insert("nvidia.com/gpu".into(), 1);
                    demands.host_ports.push(HostPort {
                        protocol: "TCP".into(),
                        address: String::new(),
                        port: 8000,
                    });
                });
                self.gang.pack = Pack::none();
                self.grow(self.nodes.len() as u32);
            }
            Cause::Dependency => self.gang.depends_on.push("base".into()),
            Cause::Gates => drop(self.gang.groups[0].pending.pop()),
        }
    }

    fn grow(&mut self, floor: u32) {
        let shape = self.gang.groups[0].shape;
        self.gang.groups[0] = group("worker", shape, floor, floor, Pack::none());
    }
}

#[test]
fn names_the_injected_cause() {
    let mut totals: BTreeMap<Cause, (u32, u32)> = BTreeMap::new();
    let mut missed = Vec::new();
    for seed in 0..640_u64 {
        let cause = CAUSES[seed as usize % CAUSES.len()];
        let mut random = Random::new(seed);
        let Some(mut situation) = healthy(&mut random) else {
            continue;
        };
        situation.inject(cause, &mut random);
        let Situation {
            state,
            gang,
            running,
            options,
            ..
        } = &mut situation;
        // Large gangs of the packing cases must fit somewhere, or packing is not the cause.
        if plan(state, gang, options).plan().is_some() {
            continue;
        }
        if matches!(
            cause,
            Cause::Packing | Cause::ReplicaPacking | Cause::Pinned | Cause::Ports
        ) {
            let mut relaxed = gang.clone();
            relaxed.pack = Pack::none();
            relaxed.configs.clear();
            relaxed.placement_group = None;
            if cause == Cause::Ports {
                let shape = state.shape(&demands(1));
                relaxed.groups.iter_mut().for_each(|group| group.shape = shape);
            }
            if plan(state, &relaxed, options).plan().is_none() {
                continue;
            }
        }
        let before = state.clone();
        let explanation = explain(state, gang, running, options);
        assert!(*state == before);
        let total = totals.entry(cause).or_default();
        total.0 += 1;
        if cause.named_by(&explanation) {
            total.1 += 1;
        } else {
            missed.push(format!("{cause:?} (seed {seed}): {explanation}"));
        }
    }
    let (all, named) = totals
        .values()
        .fold((0, 0), |sum, total| (sum.0 + total.0, sum.1 + total.1));
    println!("{named} of {all} causes named: {totals:?}");
    assert!(all >= 200, "{all} situations: {totals:?}");
    assert_eq!(totals.len(), CAUSES.len(), "{totals:?}");
    assert!(
        named * 100 >= all * 95,
        "{named} of {all}: {totals:?}\n{}",
        missed.join("\n")
    );
}

#[test]
fn every_remedy_about_nodes_is_exact() {
    let mut state = cluster(1, 2, 4, 8);
    let eight = state.shape(&demands(8));
    for host in 0..3 {
        state
            .add_pod(&format!("old-{host}"), &format!("b0-r0-h{host}"), eight)
            .unwrap();
        state
            .add_pod(&format!("older-{host}"), &format!("b0-r1-h{host}"), eight)
            .unwrap();
    }
    let wanted = gang(
        "serving",
        Pack::required(RACK),
        vec![group("worker", eight, 3, 3, Pack::none())],
    );
    let explanation = explain(&state, &wanted, &[], &Options::default());
    assert_eq!(explanation.verdict, Verdict::DoesNotFit);
    let nodes = explanation
        .remedies
        .iter()
        .find(|remedy| remedy.code == RemedyCode::AddNodes)
        .unwrap();
    assert_eq!(nodes.text, "add 2 nodes like b0-r0-h0 to b0/r0");
    let level = explanation.levels.iter().find(|level| level.required).unwrap();
    assert_eq!((level.slots[0].have, level.slots[0].need), (1, 3));
    assert_eq!(level.lacks, BTreeMap::from([("nvidia.com/gpu".to_owned(), 16)]));
    let text = explanation.to_string();
    assert!(
        text.contains("serving, rack, required: b0/r0; 1 of 3 slots for worker; short 16 of nvidia.com/gpu"),
        "{text}"
    );
}

#[test]
fn a_gang_that_fits_says_so_and_lists_stay_short() {
    let mut state = cluster(1, 1, 60, 8);
    let eight = state.shape(&demands(8));
    let fits = gang(
        "serving",
        Pack::none(),
        vec![group("worker", eight, 1, 1, Pack::none())],
    );
    assert_eq!(explain(&state, &fits, &[], &Options::default()).verdict, Verdict::Fits);
    // Sixty different taints make sixty rules; the list stays bounded.
    let nodes = (0..60).map(|host| {
        let mut node = node(0, 0, host, 8);
        node.taints.push(taint(&format!("taint-{host}")));
        node
    });
    state.put_nodes(nodes);
    let many = gang(
        "serving",
        Pack::none(),
        vec![group("worker", eight, 60, 60, Pack::none())],
    );
    let explanation = explain(&state, &many, &[], &Options::default());
    assert_eq!(explanation.verdict, Verdict::DoesNotFit);
    assert_eq!(explanation.ruled_out.len(), LIST_LIMIT);
    assert!(explanation.to_string().len() < 4_000);
}
