//! What one replica of a set consists of: scaling groups, cliques, gangs, in which numbers and in which gang.
//!
//! The layout is a function of the template, of the live sizes and of the PodGangMap, and of nothing else. Live sizes win
//! over the template, because an edit of the template must not undo scaling. The map says who is in which gang; it is
//! brought up to the live sizes here, and written before anything that follows from it.
//!
//! What is laid out is what exists and a bounded number of further copies, never what a number in a field asks for: the
//! next layout goes on from there. A size beyond the bounds of the API is held at what exists.

mod startup;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use coppice_api::sizes::{MOST_COPIES, MOST_PODS, MOST_PODS_IN_GANG, MOST_PREDECESSORS};

use crate::facts::SetFacts;
use crate::gang_map::{self, GangMap, Generation, GroupUnits, StoredGangs, Units};

/// The sizes of existing objects, by object name; what is missing takes its size from the template.
#[derive(Clone, Debug, Default)]
pub struct LiveSizes {
    /// `spec.replicas` of PodCliques.
    pub cliques: BTreeMap<String, u32>,
    /// `spec.replicas` of PodCliqueScalingGroups.
    pub groups: BTreeMap<String, u32>,
    /// Copies of PodCliqueScalingGroups up to the last that has a PodClique.
    pub copies: BTreeMap<String, u32>,
}

/// Copies that one layout adds to those that exist.
const MOST_NEW_COPIES: u32 = 256;

/// One replica of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaLayout {
    /// The index of the replica.
    pub index: u32,
    /// Its scaling groups, in the order of the template.
    pub groups: Vec<GroupLayout>,
    /// Its cliques: the standalone ones, then those of each copy of each group.
    pub cliques: Vec<CliqueLayout>,
    /// Its gangs: the anchor first.
    pub gangs: Vec<GangLayout>,
    /// Who belongs to which gang, as it should be stored.
    pub map: GangMap,
    /// Sizes beyond the bounds, in words; what they concern is held at what exists.
    pub excesses: Vec<String>,
}

/// A scaling group of a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupLayout {
    /// The position in the template.
    pub position: usize,
    /// The object's name.
    pub name: String,
    /// The copies asked for.
    pub wanted: u32,
    /// The copies that are laid out: those that exist, and the next ones.
    pub copies: u32,
    /// How many copies are placed with the rest of the replica once all are laid out.
    pub base_copies: u32,
    /// The copies that are laid out and belong to the anchor gang.
    pub anchored: Vec<u32>,
    /// The position of its first clique in [`ReplicaLayout::cliques`].
    pub first: usize,
    /// Cliques of one copy.
    pub width: usize,
}

impl GroupLayout {
    /// The positions of the cliques of a copy that is laid out.
    pub fn members(&self, copy: u32) -> Range<usize> {
        let first = self.first + self.width * copy as usize;
        first..first + self.width
    }
}

/// Where a clique stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its own.
    Standalone,
    /// In a copy of a scaling group.
    Member {
        /// The position of the group in the template.
        group: usize,
        /// The copy.
        copy: u32,
    },
}

/// A clique of a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct CliqueLayout {
    /// The position in the template.
    pub position: usize,
    /// The object's name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Its pods.
    pub replicas: u32,
    /// How many of them must be there: the template's minimum, or all when it was scaled below that.
    pub min_available: u32,
    /// The position of its gang in [`ReplicaLayout::gangs`].
    pub gang: usize,
    /// The cliques it waits for.
    pub parents: Arc<[Parent]>,
    /// Whether its size, or that of its gang, is beyond the bounds: it gets no further pods.
    pub held: bool,
}

/// A clique that another waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The object's name.
    pub clique: String,
    /// How many of its pods must be ready.
    pub minimum: u32,
}

/// A gang of a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct GangLayout {
    /// The object's name.
    pub name: String,
    /// Positions of its cliques in [`ReplicaLayout::cliques`].
    pub cliques: Vec<usize>,
    /// The group and copy it is made of; none for the anchor gang.
    pub scaled: Option<(usize, u32)>,
    /// The position of its entry in the map; none for an anchor gang without pods, which does not exist.
    pub entry: Option<usize>,
    /// Whether all its cliques are laid out. Until then it is not written, and its pods are not created.
    pub complete: bool,
}

impl ReplicaLayout {
    /// Lays out one replica.
    pub fn new(
        facts: &SetFacts<'_>,
        index: u32,
        live: &LiveSizes,
        stored: &StoredGangs<'_>,
        generation: Generation<'_>,
    ) -> Self {
        let name = facts.replica(index);
        let mut layout = Self {
            index,
            groups: Vec::new(),
            cliques: Vec::new(),
            gangs: Vec::new(),
            map: GangMap::default(),
            excesses: Vec::new(),
        };
        layout.lay_out_groups(facts, live);
        layout.map = gang_map::desired(name, &units(facts, &layout, live), stored, generation);
        let anchor = layout.map.anchor();
        for (group, entries) in layout.groups.iter_mut().zip(&layout.map.copies) {
            let copies = (0..).zip(entries).filter(|(_, entry)| Some(**entry) == anchor);
            group.anchored = copies.map(|(copy, _)| copy).collect();
        }
        let mut shared = startup::Shared::default();

        layout.gangs.push(GangLayout {
            name: name.anchor_gang_name(layout.map.anchor_epoch),
            cliques: Vec::new(),
            scaled: None,
            entry: anchor,
            complete: layout.groups.iter().all(|group| group.copies >= group.base_copies),
        });
        for (position, clique) in facts.cliques.iter().enumerate() {
            if clique.group.is_none() {
                let object = name.clique_name(&clique.template.name);
                let parents = shared.parents(facts, index, position, Place::Standalone, &layout.groups);
                layout.add_clique(facts, live, position, object, Place::Standalone, 0, parents);
            }
        }
        for group in 0..layout.groups.len() {
            layout.groups[group].first = layout.cliques.len();
            for copy in 0..layout.groups[group].copies {
                layout.add_copy(facts, live, group, copy, &mut shared);
            }
        }
        layout.hold_large_gangs();
        layout
    }

    fn lay_out_groups(&mut self, facts: &SetFacts<'_>, live: &LiveSizes) {
        let name = facts.replica(self.index);
        for (position, group) in facts.groups.iter().enumerate() {
            let object = name.scaling_group(&group.config.name).to_string();
            let wanted = live.groups.get(&object).copied().unwrap_or(group.replicas);
            let existing = live.copies.get(&object).copied().unwrap_or(0);
            let bound = u32::try_from(MOST_COPIES).unwrap_or(u32::MAX);
            let allowed = if wanted > bound {
                self.excesses.push(format!(
                    "PodCliqueScalingGroup {object} asks for {wanted} replicas, at most {bound} are possible"
                ));
                existing.min(bound)
            } else {
                wanted
            };
            self.groups.push(GroupLayout {
                position,
                name: object,
                wanted,
                copies: allowed.min(existing.saturating_add(MOST_NEW_COPIES)),
                base_copies: allowed.min(group.min_available),
                anchored: Vec::new(),
                first: 0,
                width: group.cliques.len(),
            });
        }
        let predecessors = startup::predecessors(facts, &self.groups);
        if predecessors > MOST_PREDECESSORS {
            self.excesses.push(format!(
                "the base gang has {predecessors} start-up dependencies, at most {MOST_PREDECESSORS} are possible"
            ));
            for group in &mut self.groups {
                let existing = live.copies.get(&group.name).copied().unwrap_or(0);
                group.copies = group.copies.min(existing);
                group.base_copies = group.base_copies.min(existing);
            }
        }
    }

    fn add_copy(
        &mut self,
        facts: &SetFacts<'_>,
        live: &LiveSizes,
        group: usize,
        copy: u32,
        shared: &mut startup::Shared,
    ) {
        let config = &facts.groups[group];
        let scaling_group = facts.replica(self.index).scaling_group(&config.config.name);
        let entry = self.map.copies[group][copy as usize];
        let of_entry = &self.map.entries[entry];
        let gang = if of_entry.is_anchor() {
            0
        } else {
            self.gangs.push(GangLayout {
                name: scaling_group.copy_gang_name(of_entry.epoch, copy),
                cliques: Vec::new(),
                scaled: Some((group, copy)),
                entry: Some(entry),
                complete: true,
            });
            self.gangs.len() - 1
        };
        for &position in &config.cliques {
            let object = scaling_group.clique_name(copy, &facts.cliques[position].template.name);
            let place = Place::Member { group, copy };
            let parents = shared.parents(facts, self.index, position, place, &self.groups);
            self.add_clique(facts, live, position, object, place, gang, parents);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call site shape for standalone cliques and members"
    )]
    fn add_clique(
        &mut self,
        facts: &SetFacts<'_>,
        live: &LiveSizes,
        position: usize,
        name: String,
        place: Place,
        gang: usize,
        parents: Arc<[Parent]>,
    ) {
        let clique = &facts.cliques[position];
        let replicas = live.cliques.get(&name).copied().unwrap_or(clique.replicas);
        let held = i64::from(replicas) > i64::from(MOST_PODS);
        if held {
            self.excesses.push(format!(
                "PodClique {name} asks for {replicas} pods, at most {MOST_PODS} are possible"
            ));
        }
        self.gangs[gang].cliques.push(self.cliques.len());
        self.cliques.push(CliqueLayout {
            position,
            name,
            place,
            replicas,
            min_available: clique.min_available.min(replicas),
            gang,
            parents,
            held,
        });
    }

    /// A gang that could not be stored is not begun, and one that exists does not grow.
    fn hold_large_gangs(&mut self) {
        for gang in &self.gangs {
            let sizes = gang
                .cliques
                .iter()
                .map(|&clique| u64::from(self.cliques[clique].replicas));
            let pods = sizes.fold(0, u64::saturating_add);
            if pods <= MOST_PODS_IN_GANG {
                continue;
            }
            if !gang.cliques.iter().any(|&clique| self.cliques[clique].held) {
                self.excesses.push(format!(
                    "PodGang {} would have {pods} pods, at most {MOST_PODS_IN_GANG} are possible",
                    gang.name
                ));
            }
            for &clique in &gang.cliques {
                self.cliques[clique].held = true;
            }
        }
    }

    /// The gang of a clique.
    pub fn gang_of(&self, clique: &CliqueLayout) -> &GangLayout {
        &self.gangs[clique.gang]
    }

    /// The gangs that exist or are to be made.
    pub fn live_gangs(&self) -> impl Iterator<Item = &GangLayout> {
        self.gangs.iter().filter(|gang| gang.entry.is_some())
    }

    /// The gangs whose pods are placed before those of a gang.
    pub fn dependencies<'a>(&'a self, gang: &'a GangLayout) -> impl Iterator<Item = &'a GangLayout> {
        let epochs = gang.entry.map(|entry| self.map.entries[entry].depends_on.as_slice());
        let wanted = move |entry: usize| epochs.is_some_and(|epochs| epochs.contains(&self.map.entries[entry].epoch));
        self.live_gangs().filter(move |other| other.entry.is_some_and(wanted))
    }
}

/// The sizes of a replica, as its map has to cover them.
fn units<'a>(facts: &SetFacts<'a>, layout: &ReplicaLayout, live: &LiveSizes) -> Units<'a> {
    let name = facts.replica(layout.index);
    let standalone = facts.cliques.iter().filter(|clique| clique.group.is_none());
    Units {
        standalone: standalone
            .map(|clique| {
                let size = live.cliques.get(&name.clique_name(&clique.template.name));
                (clique.template.name.as_str(), size.copied().unwrap_or(clique.replicas))
            })
            .collect(),
        groups: facts
            .groups
            .iter()
            .zip(&layout.groups)
            .map(|(group, of_layout)| GroupUnits {
                name: &group.config.name,
                copies: of_layout.copies,
                min_available: group.min_available,
                of_template: group.replicas,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
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
}
