//! What-if questions: each changes one thing and asks the planner again.
//!
//! A remedy is listed only if the planner found a placement of all floors with it. Where a rule rules nodes out, the change is
//! first made for all of them and then only for the nodes that the placement uses, so that the answer names them.

use std::collections::{BTreeMap, BTreeSet};

use crate::gang::Gang;
use crate::plan::survey::{Level, Survey};
use crate::plan::{Options, Plan, plan};
use crate::predicates::{Node, RuledOut};
use crate::preempt::{self, Running};
use crate::reasons::{Reason, ReasonCode};
use crate::state::ClusterState;
use crate::topology::DomainId;

use super::change::{Change, Part, named};
use super::words::{self, few};
use super::{LIST_LIMIT, Remedy};

/// A remedy that works, and what it says about the cause.
pub(super) struct Trial {
    pub(super) remedy: Remedy,
    pub(super) cause: Option<Reason>,
}

/// More new nodes than this are not suggested.
const NEW_NODES: usize = 256;

/// The situation to change.
pub(super) struct Scene<'a> {
    /// Scratch space; may be left with more shapes than before.
    pub(super) state: &'a mut ClusterState,
    pub(super) gang: &'a Gang,
    pub(super) running: &'a [Running],
    pub(super) options: &'a Options,
    pub(super) survey: &'a Survey,
}

impl Scene<'_> {
    /// The placement of the floors after a change.
    pub(super) fn with(&mut self, change: &Change) -> Option<Plan> {
        let mut gang = self.gang.clone();
        let mut options = Options {
            extras: false,
            ..self.options.clone()
        };
        let outcome = if change.touches_cluster() {
            let mut state = self.state.clone();
            change.apply(&mut state, &mut gang, &mut options);
            plan(&mut state, &gang, &options)
        } else {
            change.apply(self.state, &mut gang, &mut options);
            plan(self.state, &gang, &options)
        };
        outcome.plan().cloned()
    }

    /// Asks all questions.
    pub(super) fn find(&mut self) -> Vec<Trial> {
        let mut found = Vec::new();
        self.rules(&mut found);
        self.conflicts(&mut found);
        self.volumes(&mut found);
        self.packing(&mut found);
        self.evictions(&mut found);
        self.nodes(&mut found);
        found
    }

    fn rules(&mut self, found: &mut Vec<Trial>) {
        let survey = self.survey;
        let mut counts: BTreeMap<&RuledOut, usize> = BTreeMap::new();
        for (reason, nodes) in survey.ruled_out.iter().flat_map(|(_, counts)| counts) {
            let count = counts.entry(reason).or_default();
            *count = (*count).max(*nodes);
        }
        for (reason, nodes) in counts.into_iter().take(LIST_LIMIT) {
            for (change, text, detail) in self.undo(reason, nodes) {
                let (code, _) = reason.told();
                let message = format!("{detail}; without that the gang fits");
                found.push(Trial {
                    remedy: Remedy::new(change, text),
                    cause: Some(Reason::new(code, message)),
                });
            }
        }
    }

    /// The changes that undo a rule and help, each with what to do and what is wrong.
    fn undo(&mut self, reason: &RuledOut, nodes: usize) -> Vec<(Change, String, String)> {
        let keep = |plan: &Plan, all: &[String]| -> Vec<String> {
            let used: BTreeSet<&String> = plan.bindings.iter().map(|binding| &binding.node).collect();
            all.iter().filter(|name| used.contains(name)).cloned().collect()
        };
        match reason {
            RuledOut::Taint(taint) => {
                let change = Change::Tolerate {
                    key: taint.key.clone(),
                    value: taint.value.clone(),
                    effect: taint.effect,
                };
                let Some(plan) = self.with(&change) else {
                    return Vec::new();
                };
                let tainted = named(self.state, |node| node.taints.contains(taint));
                let taint = taint.to_string();
                let text = format!(
                    "tolerate taint {taint}, or remove it from {}",
                    few(&keep(&plan, &tainted))
                );
                vec![(
                    change,
                    text,
                    format!("{nodes} nodes have taint {taint}, which is not tolerated"),
                )]
            }
            RuledOut::Unschedulable => {
                let all = named(self.state, |node| node.unschedulable);
                let Some(plan) = self.with(&Change::Uncordon { nodes: all.clone() }) else {
                    return Vec::new();
                };
                let detail = format!("{nodes} nodes are cordoned ({})", few(&all));
                let nodes = keep(&plan, &all);
                let text = format!("uncordon {}", few(&nodes));
                vec![(Change::Uncordon { nodes }, text, detail)]
            }
            RuledOut::NotReady => {
                let all = named(self.state, |node| node.not_ready);
                let Some(plan) = self.with(&Change::RepairNodes { nodes: all.clone() }) else {
                    return Vec::new();
                };
                let detail = format!("{nodes} nodes are not ready ({})", few(&all));
                let nodes = keep(&plan, &all);
                let text = format!("bring back {}", few(&nodes));
                vec![(Change::RepairNodes { nodes }, text, detail)]
            }
            RuledOut::NodeSelector(key) => {
                let change = Change::DropNodeSelector { key: key.clone() };
                if self.with(&change).is_none() {
                    return Vec::new();
                }
                let value = words::selected(self.state, self.gang, key);
                let having = named(self.state, |node| node.labels.get(key) == Some(&value)).len();
                let detail =
                    format!("the node selector {key}={value} rules out {nodes} nodes; {having} have that label");
                vec![(
                    change,
                    format!("drop or change {key}={value} in the node selector"),
                    detail,
                )]
            }
            RuledOut::NodeAffinity => {
                if self.with(&Change::DropNodeAffinity).is_none() {
                    return Vec::new();
                }
                let terms = words::affinity(self.state, self.gang);
                let detail = format!("the required node affinity ({terms}) rules out {nodes} nodes");
                let text = format!("change the required node affinity ({terms})");
                vec![(Change::DropNodeAffinity, text, detail)]
            }
            RuledOut::Excluded => self.exclusions(nodes),
            // All volumes are looked at together.
            RuledOut::Volume(_) | RuledOut::AttachLimit(_) => Vec::new(),
        }
    }

    fn exclusions(&mut self, nodes: usize) -> Vec<(Change, String, String)> {
        let mut found = Vec::new();
        let held: Vec<String> = self.options.held.iter().map(|path| words::path(path)).collect();
        if !held.is_empty() && self.with(&Change::ReleaseDomains).is_some() {
            let held = few(&held);
            let detail = format!("{nodes} nodes are excluded: {held} held for another gang");
            found.push((Change::ReleaseDomains, format!("release {held}"), detail));
        }
        let hard = self.gang.spread.as_ref().filter(|spread| spread.hard);
        if let Some(spread) = hard
            && self.with(&Change::ShareDomains).is_some()
        {
            let taken: Vec<String> = spread.taken.keys().map(|path| words::path(path)).collect();
            let (taken, key) = (few(&taken), &spread.key);
            let detail = format!("{nodes} nodes are excluded: other replicas of the set are in {taken}");
            found.push((
                Change::ShareDomains,
                format!("let replicas of the set share one {key}"),
                detail,
            ));
        }
        found
    }

    fn conflicts(&mut self, found: &mut Vec<Trial>) {
        let blocked: usize = self.survey.conflicts.iter().map(|(_, nodes)| *nodes).max().unwrap_or(0);
        let ports = words::ports(self.state, self.gang);
        if !ports.is_empty() && self.with(&Change::DropHostPorts).is_some() {
            let message = format!(
                "host port {} can be taken once per node ({blocked} nodes with room have it in use); without it the gang fits",
                few(&ports)
            );
            found.push(Trial {
                remedy: Remedy::new(Change::DropHostPorts, format!("use no host port {}", few(&ports))),
                cause: Some(Reason::new(ReasonCode::NodeConflict, message)),
            });
        }
        let mut apart = self.gang.clone();
        Change::DropAntiAffinity.apply(self.state, &mut apart, &mut self.options.clone());
        if apart != *self.gang && self.with(&Change::DropAntiAffinity).is_some() {
            let message = format!(
                "anti-affinity on the host name keeps pods apart ({blocked} nodes with room are blocked); without it the gang fits"
            );
            found.push(Trial {
                remedy: Remedy::new(
                    Change::DropAntiAffinity,
                    "drop the anti-affinity on the host name".into(),
                ),
                cause: Some(Reason::new(ReasonCode::NodeConflict, message)),
            });
        }
    }

    /// Volumes that are not where there is room, each named with the number of nodes that cannot use it.
    fn volumes(&mut self, found: &mut Vec<Trial>) {
        let mut plain = self.gang.clone();
        Change::DropVolumes.apply(self.state, &mut plain, &mut self.options.clone());
        if plain == *self.gang || self.with(&Change::DropVolumes).is_none() {
            return;
        }
        let mut causes: BTreeMap<Reason, String> = BTreeMap::new();
        for (reason, nodes) in self.survey.ruled_out.iter().flat_map(|(_, counts)| counts) {
            let (code, what) = reason.told();
            let message = match reason {
                RuledOut::Volume(_) => format!("{what} is out of reach of {nodes} nodes; without that the gang fits"),
                RuledOut::AttachLimit(_) => {
                    format!("{nodes} nodes cannot take more of {what}; without that the gang fits")
                }
                _ => continue,
            };
            causes.insert(Reason::new(code, message), what);
        }
        if causes.is_empty() {
            for claim in self.gang.claims.values() {
                let what = claim.what.clone();
                let message = format!(
                    "{what}: its pods have no one place with the volume in reach; if they had, the gang would fit"
                );
                causes.insert(Reason::new(ReasonCode::VolumeOutOfReach, message), what);
            }
        }
        for (cause, what) in causes.into_iter().take(LIST_LIMIT) {
            let text = format!("provide {what} where the gang has room");
            found.push(Trial {
                remedy: Remedy::new(Change::DropVolumes, text),
                cause: Some(cause),
            });
        }
    }

    fn packing(&mut self, found: &mut Vec<Trial>) {
        let group = self.gang.placement_group.as_ref();
        if group.is_some_and(|group| group.pinned.is_some()) && self.with(&Change::Unpin).is_some() {
            found.push(Trial {
                remedy: Remedy::new(
                    Change::Unpin,
                    "let the gang leave the domain of its placement group".into(),
                ),
                cause: None,
            });
        }
        for (part, key) in parts(self.gang).into_iter().take(LIST_LIMIT) {
            let what = words::part(&part);
            let change = Change::PreferPacking { part, key: key.clone() };
            if let Some(plan) = self.with(&change) {
                let level = words::level_reached(&plan, self.gang, &change);
                found.push(Trial {
                    remedy: Remedy::new(
                        change,
                        format!("only prefer {what} in one {key} instead of requiring it ({level})"),
                    ),
                    cause: None,
                });
            }
        }
    }

    fn evictions(&mut self, found: &mut Vec<Trial>) {
        let verdict = preempt::preempt(self.state, self.gang, self.running, self.options);
        let preempt::Verdict::Possible(answer) = verdict else {
            return;
        };
        if answer.victims.is_empty() {
            return;
        }
        let gangs: Vec<String> = answer.victims.iter().map(|victim| victim.gang.clone()).collect();
        let pods: Vec<String> = answer.victims.into_iter().flat_map(|victim| victim.pods).collect();
        let text = format!("evict {} pods of lower priority ({})", pods.len(), few(&gangs));
        found.push(Trial {
            remedy: Remedy::new(Change::Evict { gangs, pods }, text),
            cause: None,
        });
    }

    /// How many more nodes like those it has would the best domain need?
    fn nodes(&mut self, found: &mut Vec<Trial>) {
        let survey = self.survey;
        let Some(level) = shortest(survey) else { return };
        let Some(at) = self.state.view_named(&self.gang.topology) else {
            return;
        };
        let Some(template) = template(self.state, at, self.gang, level.domain) else {
            return;
        };
        let place = self.state.view(at).describe(level.domain);
        let like = template.name;
        let mut enough = |count: usize| {
            let like = like.clone();
            self.with(&Change::AddNodes { count, like }).is_some()
        };
        let mut high = 1;
        while high <= NEW_NODES && !enough(high) {
            high *= 2;
        }
        if high > NEW_NODES {
            return;
        }
        let mut low = high / 2 + 1;
        while low < high {
            let middle = low.midpoint(high);
            if enough(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let count = low.max(1);
        let text = format!("add {count} nodes like {like} to {place}");
        found.push(Trial {
            remedy: Remedy::new(Change::AddNodes { count, like }, text),
            cause: None,
        });
    }
}

/// The narrowest required level that is short of something, or the whole cluster.
pub(super) fn shortest(survey: &Survey) -> Option<&Level> {
    let short =
        |level: &&Level| level.slots.iter().any(|slots| slots.have < u64::from(slots.need)) || !level.lacks.is_empty();
    let narrow = survey.levels.iter().filter(|level| level.required).find(short);
    narrow.or_else(|| survey.levels.iter().find(|level| level.depth == 0))
}

/// Every required packing: of what, and the level.
fn parts(gang: &Gang) -> BTreeSet<(Part, String)> {
    let outer = gang
        .placement_group
        .iter()
        .map(|group| (Part::PlacementGroup, &group.pack));
    let configs = gang.configs.iter().map(|config| (Part::Replicas, &config.pack));
    let groups = gang
        .groups
        .iter()
        .map(|group| (Part::Group(group.name.clone()), &group.pack));
    let all = outer.chain([(Part::Gang, &gang.pack)]).chain(configs).chain(groups);
    all.filter_map(|(part, pack)| pack.required.clone().map(|key| (part, key)))
        .collect()
}

/// The roomiest node of the domain that could take pods of the gang.
fn template(state: &ClusterState, view: usize, gang: &Gang, domain: DomainId) -> Option<Node> {
    let demanding: Vec<_> = gang
        .groups
        .iter()
        .filter(|group| group.missing() > 0)
        .map(|group| group.shape)
        .collect();
    let nodes = state.view(view).nodes_in(domain).iter();
    let best = nodes.max_by_key(|id| {
        let node = state.node(**id);
        let slots = |shape: &crate::shape::ShapeId| {
            let asked = &state.shape_of(*shape).requests;
            asked
                .iter()
                .map(|(column, request)| state.allocatable_on(**id, *column) / request)
                .min()
                .unwrap_or(0)
        };
        let fit = demanding
            .iter()
            .filter(|shape| state.shape_of(**shape).demands.node.ruled_out(node).is_none());
        (
            fit.clone().count(),
            fit.map(slots).min().unwrap_or(0),
            std::cmp::Reverse(id.index()),
        )
    })?;
    Some(state.node(*best).clone())
}
