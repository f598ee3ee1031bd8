//! What is done to a situation, and how its explanation has to call it.

use std::sync::Arc;

use coppice_placement::explain::{Explanation, RemedyCode, Verdict};
use coppice_placement::predicates::{Expression, NodeSelector, NodeTerm, Operator, VolumeReach};
use coppice_placement::resources::attach_limit;
use coppice_placement::shape::{HOSTNAME, HostPort, KeepApart, PodDemands, Unsupported};
use coppice_placement::volume::{UnboundClaim, VolumeSource};
use coppice_placement::{GroupConfig, Pack, PlacementGroup, ReasonCode, Spread};

use crate::situation::{Situation, taint};
use crate::support::Random;
use crate::support::cluster::{BLOCK, HOST, RACK, demands, gang, group};

/// What the explanation must say: a leading code, words that must occur, and the remedy that undoes the cause.
pub struct Expected {
    pub code: ReasonCode,
    pub words: Vec<String>,
    pub remedy: Option<RemedyCode>,
    /// What the required level lacks, exactly.
    pub lacks: Option<(&'static str, i64)>,
    /// The code need not lead: what holds the room comes after what is missing.
    pub anywhere: bool,
    pub verdict: Verdict,
}

impl Expected {
    fn new(code: ReasonCode, words: &[&str]) -> Self {
        Self {
            code,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            remedy: None,
            lacks: None,
            anywhere: false,
            verdict: Verdict::DoesNotFit,
        }
    }

    fn remedy(mut self, code: RemedyCode) -> Self {
        self.remedy = Some(code);
        self
    }

    /// What is wrong with the explanation.
    pub fn miss(&self, explanation: &Explanation) -> Option<String> {
        let mut with_code = explanation.reasons.iter().filter(|reason| reason.code == self.code);
        let leads = explanation
            .reasons
            .first()
            .is_some_and(|reason| reason.code == self.code);
        if explanation.verdict != self.verdict {
            return Some(format!("the verdict is {:?}", explanation.verdict));
        }
        let named = leads || (self.anywhere && with_code.next().is_some());
        if !named {
            return Some(format!("{} does not lead", self.code.as_str()));
        }
        let said = explanation.to_string();
        if let Some(word) = self.words.iter().find(|word| !said.contains(word.as_str())) {
            return Some(format!("{word:?} is not mentioned"));
        }
        if let Some(code) = self.remedy
            && !explanation.remedies.iter().any(|remedy| remedy.code == code)
        {
            return Some(format!("{code:?} is not offered"));
        }
        if let Some((resource, amount)) = self.lacks {
            let level = explanation
                .levels
                .iter()
                .find(|level| level.required || level.key.is_empty());
            let lacks = level.and_then(|level| level.lacks.get(resource));
            if lacks != Some(&amount) {
                return Some(format!("lacks {lacks:?} of {resource} instead of {amount}"));
            }
        }
        None
    }
}

macro_rules! causes {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Cause { $($name),* }
        pub const CAUSES: &[Cause] = &[$(Cause::$name),*];
    };
}

causes! {
    ShortOfGpus, ShortOfMemory, ShortOfPods, ClusterFull, Scattered, Taint, Cordon, NotReady, Selector, Affinity, TwoRules,
    NarrowForGang, NarrowForReplica, NarrowForGroup, PortTaken, PortOfItsOwn, AntiAffinity, AntiAffinityOfOthers, Dependency,
    Gates, Outranked, LowerPriority, UnknownLevel, UnknownTopology, MissingResource, TooLarge, Unsupported, PinnedFull,
    PinnedGone, Held, Spread, Together, Budget, VolumeElsewhere, VolumesFull, SharedVolume,
}

fn port(demands: &mut PodDemands) {
    demands.host_ports.push(HostPort {
        protocol: "TCP".into(),
        address: String::new(),
        port: 8000,
    });
}

fn shy(demands: &mut PodDemands) {
    demands.labels.insert("app".into(), "shy".into());
    demands.keep_apart.push(KeepApart {
        topology_key: HOSTNAME.into(),
        namespaces: Default::default(),
        selector: Vec::new(),
    });
}

fn domain(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

impl Cause {
    /// Makes the gang not fit, and says how that should be explained.
    pub fn inject(self, here: &mut Situation, random: &mut Random) -> Expected {
        let first = here.nodes[0].name.clone();
        match self {
            Self::ShortOfGpus | Self::ShortOfMemory | Self::ShortOfPods | Self::ClusterFull | Self::Scattered => {
                self.inject_load(here, random)
            }
            Self::Taint => {
                here.change_nodes(|node| node.taints.insert(0, taint("reserved")));
                Expected::new(ReasonCode::UntoleratedTaint, &["reserved=yes:NoSchedule"]).remedy(RemedyCode::Taint)
            }
            Self::Cordon => {
                here.clean_nodes();
                here.change_nodes(|node| node.unschedulable = true);
                Expected::new(ReasonCode::NodeUnschedulable, &["uncordon", &first]).remedy(RemedyCode::Uncordon)
            }
            Self::NotReady => {
                here.clean_nodes();
                here.change_nodes(|node| node.not_ready = true);
                Expected::new(ReasonCode::NodeNotReady, &["not ready", &first]).remedy(RemedyCode::RepairNodes)
            }
            Self::Selector => {
                here.change_demands(|demands| {
                    demands.node.selector.insert("pool".into(), "gold".into());
                });
                Expected::new(ReasonCode::NodeSelectorMismatch, &["pool=gold"]).remedy(RemedyCode::NodeSelector)
            }
            Self::Affinity => {
                here.change_demands(|demands| {
                    let expression = Expression {
                        key: "pool".into(),
                        operator: Operator::In,
                        values: vec!["gold".into()],
                    };
                    let term = NodeTerm {
                        expressions: vec![expression],
                        ..NodeTerm::default()
                    };
                    demands.node.required.push(NodeSelector { terms: vec![term] });
                });
                Expected::new(ReasonCode::NodeAffinityMismatch, &["pool In gold"]).remedy(RemedyCode::NodeAffinity)
            }
            Self::VolumeElsewhere => {
                here.change_demands(|demands| {
                    demands.node.volumes.push(VolumeReach {
                        what: "volume claim \"weights\" (volume \"pv-7\")".into(),
                        nodes: NodeSelector::default(),
                    });
                });
                let count = format!("out of reach of {} nodes", here.nodes.len());
                here.clean_nodes();
                Expected::new(ReasonCode::VolumeOutOfReach, &["\"weights\" (volume \"pv-7\")", &count])
                    .remedy(RemedyCode::Volumes)
            }
            Self::VolumesFull => {
                here.clean_nodes();
                let resource = attach_limit("disk.example.com");
                here.change_nodes(|node| {
                    node.allocatable.insert(resource.clone(), 1);
                });
                here.change_demands(|demands| {
                    let volumes = ["a".to_owned(), "b".to_owned()];
                    demands.attached.insert(resource.clone(), volumes.into());
                });
                Expected::new(ReasonCode::AttachLimit, &["volumes of disk.example.com"]).remedy(RemedyCode::Volumes)
            }
            Self::SharedVolume => {
                // The gang needs two nodes, and the volume can be used on one.
                here.change_demands(|demands| {
                    demands.claims.insert("n/weights".into());
                });
                let claim = UnboundClaim {
                    what: "volume claim \"weights\"".into(),
                    sources: vec![VolumeSource::Provisioned {
                        keys: vec![HOST.into()],
                        nodes: Vec::new(),
                    }],
                };
                here.gang.claims.insert("n/weights".into(), Arc::new(claim));
                Expected::new(ReasonCode::VolumeOutOfReach, &["volume claim \"weights\""]).remedy(RemedyCode::Volumes)
            }
            Self::TwoRules => {
                here.clean_nodes();
                let half = here.nodes.len() / 2;
                let mut at = 0;
                here.change_nodes(|node| {
                    node.unschedulable = at < half;
                    if at >= half {
                        node.taints.push(taint("reserved"));
                    }
                    at += 1;
                });
                here.gang.pack = Pack::none();
                let shape = here.state.shape(&demands(8));
                here.only(shape, here.nodes.len() as u32);
                let counts = [
                    format!("{half} by NodeUnschedulable"),
                    format!("{} by UntoleratedTaint", here.nodes.len() - half),
                ];
                Expected::new(ReasonCode::NoEligibleNodes, &[&counts[0], &counts[1]])
            }
            Self::NarrowForGang | Self::NarrowForReplica | Self::NarrowForGroup => self.inject_packing(here),
            Self::PortTaken | Self::PortOfItsOwn | Self::AntiAffinity | Self::AntiAffinityOfOthers => {
                self.inject_conflict(here)
            }
            Self::Dependency => {
                here.gang.depends_on.push("models/serving-0".into());
                let mut expected = Expected::new(ReasonCode::WaitingForGang, &["models/serving-0"]);
                expected.verdict = Verdict::Waiting;
                expected
            }
            Self::Gates => {
                here.gang.groups[0].pending.pop();
                let floor = here.gang.groups[0].floor;
                let counts = format!("worker: {} of {floor} pods", floor - 1);
                let mut expected = Expected::new(ReasonCode::WaitingForPods, &[&counts]);
                expected.verdict = Verdict::Waiting;
                expected
            }
            Self::Outranked => {
                here.clean_nodes();
                here.fill(0, 10, "");
                let mut expected = Expected::new(ReasonCode::Outranked, &["filler-", "priority 10"]);
                expected.anywhere = true;
                expected
            }
            Self::LowerPriority => {
                here.clean_nodes();
                here.fill(0, 1, "");
                Expected::new(ReasonCode::InsufficientResources, &["evict", "filler-"]).remedy(RemedyCode::Preempt)
            }
            Self::UnknownLevel => {
                here.gang.pack = Pack::required("pod-of-racks");
                Expected::new(
                    ReasonCode::UnknownTopology,
                    &["pod-of-racks", "fabric", "block, rack, host"],
                )
            }
            Self::UnknownTopology => {
                here.gang.topology = "missing".into();
                Expected::new(ReasonCode::UnknownTopology, &["missing"])
            }
            Self::MissingResource => {
                here.change_demands(|demands| {
                    demands.requests.insert("vendor.example/fpga".into(), 2);
                });
                let words = ["2 of vendor.example/fpga", "which no node has"];
                Expected::new(ReasonCode::PodExceedsEveryNode, &words)
            }
            Self::TooLarge => {
                here.change_demands(|demands| {
                    demands.requests.insert("nvidia.com/gpu".into(), 17);
                });
                Expected::new(ReasonCode::PodExceedsEveryNode, &["17 of nvidia.com/gpu", "has 8"])
            }
            Self::Unsupported => {
                here.change_demands(|demands| {
                    demands.unsupported.push(Unsupported::UnallocatedClaim("gpu".into()));
                });
                Expected::new(ReasonCode::Unsupported, &["resource claim \"gpu\" is not allocated"])
            }
            Self::PinnedFull => {
                here.clean_nodes();
                here.fill(0, 10, "b0-r0-");
                here.gang.pack = Pack::none();
                here.gang.placement_group = Some(PlacementGroup {
                    pack: Pack::required(RACK),
                    pinned: Some(domain(&["b0", "r0"])),
                    ..PlacementGroup::default()
                });
                Expected::new(ReasonCode::PinnedDomainFull, &["b0/r0"]).remedy(RemedyCode::Unpin)
            }
            Self::PinnedGone => {
                here.gang.placement_group = Some(PlacementGroup {
                    pack: Pack::required(RACK),
                    pinned: Some(domain(&["b0", "r9"])),
                    ..PlacementGroup::default()
                });
                Expected::new(ReasonCode::PinnedDomainGone, &["b0/r9"])
            }
            Self::Held => {
                here.options.held = vec![domain(&["b0"]), domain(&["b1"])];
                Expected::new(ReasonCode::DomainExcluded, &["b0, b1 held"]).remedy(RemedyCode::ReleaseDomains)
            }
            Self::Spread => {
                here.gang.spread = Some(Spread {
                    key: BLOCK.into(),
                    taken: [(domain(&["b0"]), 1), (domain(&["b1"]), 2)].into(),
                    hard: true,
                });
                Expected::new(ReasonCode::DomainExcluded, &["other replicas", "b0, b1"])
                    .remedy(RemedyCode::ReleaseDomains)
            }
            Self::Together => {
                // One rack has all its hosts, the others one less than a group needs: every group has a place, and it is
                // the same for both.
                here.clean_nodes();
                let shape = here.state.shape(&demands(8));
                let full = [here.hosts - 2, here.hosts - 1].map(|host| format!("-h{host}"));
                for node in here.nodes.clone() {
                    let last = full.iter().any(|host| node.name.ends_with(host));
                    if !node.name.starts_with("b0-r1-") && last {
                        here.run(&format!("filler-{}", node.name), &node.name, shape, 10);
                    }
                }
                let pods = here.hosts as u32 - 1;
                let groups = ["prefill", "decode"].map(|name| group(name, shape, pods, pods, Pack::required(RACK)));
                here.gang = gang("serving", Pack::none(), groups.into());
                here.gang.priority = 10;
                Expected::new(ReasonCode::DoesNotFitTogether, &["not all of them"]).remedy(RemedyCode::RelaxPacking)
            }
            Self::Budget => {
                here.options.budget = 5;
                let mut expected = Expected::new(ReasonCode::BudgetExhausted, &["steps"]);
                expected.verdict = Verdict::Unknown;
                expected
            }
        }
    }

    fn inject_load(self, here: &mut Situation, random: &mut Random) -> Expected {
        here.clean_nodes();
        match self {
            Self::ShortOfGpus => {
                // Every rack lacks the same few GPUs.
                let short = 1 + random.below(4) as i64;
                let (one, free) = (here.state.shape(&demands(1)), here.hosts as i64 * 8 - 6);
                let used = here.state.shape(&demands(6));
                for rack in 0..here.racks * 2 {
                    let name = format!("b{}-r{}-h0", rack / here.racks, rack % here.racks);
                    if here.state.node_id(&name).is_some() {
                        here.run(&format!("old-{rack}"), &name, used, 10);
                    }
                }
                here.gang.pack = Pack::required(RACK);
                here.only(one, (free + short) as u32);
                let lacking = format!("short {short} of nvidia.com/gpu");
                let mut expected = Expected::new(ReasonCode::InsufficientResources, &["b0/r0", &lacking]);
                expected.lacks = Some(("nvidia.com/gpu", short));
                expected.remedy(RemedyCode::AddNodes)
            }
            Self::ShortOfMemory => {
                let mut greedy = demands(1);
                greedy.requests.insert("memory".into(), 1 << 40);
                let shape = here.state.shape(&greedy);
                here.gang.pack = Pack::none();
                here.only(shape, here.nodes.len() as u32 + 2);
                let mut expected = Expected::new(ReasonCode::InsufficientResources, &["of memory"]);
                expected.lacks = Some(("memory", 2 << 40));
                expected.remedy(RemedyCode::AddNodes)
            }
            Self::ShortOfPods => {
                let mut tiny = demands(0);
                tiny.requests.insert("cpu".into(), 1);
                let tiny = here.state.shape(&tiny);
                for node in here.nodes.clone() {
                    for pod in 0..109 {
                        let name = format!("tiny-{}-{pod}", node.name);
                        here.state.add_pod(&name, &node.name, tiny).unwrap();
                    }
                }
                here.gang.pack = Pack::none();
                here.only(tiny, here.nodes.len() as u32 + 3);
                let mut expected = Expected::new(ReasonCode::InsufficientResources, &["short 3 of pods"]);
                expected.lacks = Some(("pods", 3));
                expected.remedy(RemedyCode::AddNodes)
            }
            Self::ClusterFull => {
                let floor = here.gang.groups[0].floor;
                let keep = random.below(u64::from(floor)) as usize;
                here.fill(keep, 10, "");
                Expected::new(ReasonCode::InsufficientResources, &["nvidia.com/gpu"]).remedy(RemedyCode::AddNodes)
            }
            _ => {
                // Half of every node is in use, and a pod needs a whole one.
                let half = here.state.shape(&demands(4));
                for node in here.nodes.clone() {
                    here.run(&format!("half-{}", node.name), &node.name, half, 10);
                }
                let eight = here.state.shape(&demands(8));
                here.only(eight, 1);
                let free = if here.gang.pack.required.as_deref() == Some(RACK) {
                    here.hosts * 4
                } else {
                    0
                };
                let free = if free > 0 {
                    format!("has {free} of nvidia.com/gpu free")
                } else {
                    "of nvidia.com/gpu free".into()
                };
                Expected::new(ReasonCode::Scattered, &[&free, "needs 8 on one node"])
            }
        }
    }

    fn inject_packing(self, here: &mut Situation) -> Expected {
        here.clean_nodes();
        let eight = here.state.shape(&demands(8));
        here.only(eight, here.hosts as u32 + 1);
        here.gang.pack = Pack::none();
        let level = match self {
            Self::NarrowForGang => {
                here.gang.pack = Pack::required(RACK);
                RACK
            }
            Self::NarrowForReplica => {
                here.gang.configs.push(GroupConfig {
                    name: "replica-0".into(),
                    groups: vec![0],
                    pack: Pack::required(RACK),
                });
                RACK
            }
            _ => {
                here.only(eight, 2);
                here.gang.groups[0].pack = Pack::required(HOST);
                HOST
            }
        };
        let narrow = format!("no {level} is large enough");
        Expected::new(ReasonCode::PackingTooNarrow, &[&narrow, "it then fits in one"]).remedy(RemedyCode::RelaxPacking)
    }

    fn inject_conflict(self, here: &mut Situation) -> Expected {
        here.clean_nodes();
        here.gang.pack = Pack::none();
        let mut picky = demands(1);
        let word = match self {
            Self::PortTaken | Self::PortOfItsOwn => {
                port(&mut picky);
                "TCP 8000"
            }
            _ => {
                shy(&mut picky);
                "anti-affinity"
            }
        };
        let taken = matches!(self, Self::PortTaken | Self::AntiAffinityOfOthers);
        let shape = if self == Self::AntiAffinityOfOthers {
            // The newcomer is plain; those who run want nobody beside them.
            let mut plain = demands(1);
            plain.labels.insert("app".into(), "shy".into());
            here.state.shape(&plain)
        } else {
            here.state.shape(&picky)
        };
        if taken {
            let mut other = picky.clone();
            other.requests.insert("nvidia.com/gpu".into(), 2);
            if self == Self::AntiAffinityOfOthers {
                other.keep_apart[0].selector.push(Expression {
                    key: "app".into(),
                    operator: Operator::In,
                    values: vec!["shy".into()],
                });
            }
            let other = here.state.shape(&other);
            for node in here.nodes.clone() {
                here.run(&format!("picky-{}", node.name), &node.name, other, 10);
            }
        }
        here.only(shape, if taken { 2 } else { here.nodes.len() as u32 + 1 });
        Expected::new(ReasonCode::NodeConflict, &[word]).remedy(RemedyCode::ShareNodes)
    }
}
