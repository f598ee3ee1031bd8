//! What one replica of a set consists of: scaling groups, cliques, gangs, in which numbers and in which gang.
//!
//! The layout is a function of the template, of the live sizes and of the PodGangMap, and of nothing else. Live sizes win
//! over the template, because an edit of the template must not undo scaling. The map says who is in which gang. Either it
//! is brought up to the live sizes here, and written before anything that follows from it; or it is laid out as it is
//! stored, because the planner of coherent updates changes it, with any number of anchors and temporary gangs.
//!
//! What is laid out is what exists and a bounded number of further copies, never what a number in a field asks for: the
//! next layout goes on from there. A size beyond the bounds of the API is held at what exists.

mod startup;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
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
    /// How many copies there should be after the next step: those that exist, and the next ones.
    pub aim: u32,
    /// The copies that are laid out, in ascending order.
    pub copies: Vec<u32>,
    /// Those of them that are temporary.
    pub temporary: BTreeSet<u32>,
    /// How many copies are placed with the rest of the replica once all are laid out.
    pub base_copies: u32,
    /// The position of its first clique in [`ReplicaLayout::cliques`].
    pub first: usize,
    /// Cliques of one copy.
    pub width: usize,
}

impl GroupLayout {
    /// The positions of the cliques of a copy; none of one that is not laid out.
    pub fn members(&self, copy: u32) -> Range<usize> {
        match self.copies.binary_search(&copy) {
            Ok(position) => {
                let first = self.first + self.width * position;
                first..first + self.width
            }
            Err(_) => 0..0,
        }
    }

    /// The copies that are laid out and not temporary.
    pub fn permanent(&self) -> impl Iterator<Item = u32> {
        self.copies
            .iter()
            .copied()
            .filter(|copy| !self.temporary.contains(copy))
    }

    /// How many copies are laid out, without temporary ones.
    pub fn count(&self) -> u32 {
        u32::try_from(self.copies.len() - self.temporary.len()).unwrap_or(u32::MAX)
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
    /// Its pods by gang: at least one, in ascending order of epochs. Those of a clique in a scaling group are all in one.
    pub shares: Vec<Share>,
    /// Whether its size, or that of its gang, is beyond the bounds: it gets no further pods.
    pub held: bool,
}

/// The pods of a clique in one gang.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The position of the gang in [`ReplicaLayout::gangs`].
    pub gang: usize,
    /// How many there should be.
    pub pods: u32,
    /// The cliques that they wait for.
    pub parents: Arc<[Parent]>,
}

impl CliqueLayout {
    /// Its pods in all gangs, temporary ones included.
    pub fn pods(&self) -> u32 {
        self.shares.iter().map(|share| share.pods).fold(0, u32::saturating_add)
    }

    /// Its share in the newest of its gangs.
    pub fn newest(&self) -> &Share {
        &self.shares[self.shares.len() - 1]
    }

    /// Its share in a gang.
    pub fn share_in(&self, gang: usize) -> Option<&Share> {
        self.shares.iter().find(|share| share.gang == gang)
    }
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
    /// The group and copy it is made of; none for an anchor or a temporary gang.
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
        let mut layout = Self::sized(facts, index, live);
        let map = gang_map::desired(facts.replica(index), &units(facts, &layout, live), stored, generation);
        let complete = layout.groups.iter().all(|group| group.aim >= group.base_copies);
        layout.follow(facts, live, map, complete);
        layout
    }

    /// Lays out one replica by a map as it is: sizes follow when the map has followed them.
    pub fn of_map(facts: &SetFacts<'_>, index: u32, live: &LiveSizes, map: GangMap) -> Self {
        let mut layout = Self::sized(facts, index, live);
        layout.follow(facts, live, map, true);
        layout
    }

    /// The sizes of a replica, before it is known who belongs to which gang.
    pub fn sized(facts: &SetFacts<'_>, index: u32, live: &LiveSizes) -> Self {
        let mut layout = Self {
            index,
            groups: Vec::new(),
            cliques: Vec::new(),
            gangs: Vec::new(),
            map: GangMap::default(),
            excesses: Vec::new(),
        };
        layout.lay_out_groups(facts, live);
        layout
    }

    /// Lays out gangs and cliques as a map has them.
    fn follow(&mut self, facts: &SetFacts<'_>, live: &LiveSizes, map: GangMap, complete: bool) {
        let name = facts.replica(self.index);
        for (group, copies) in self.groups.iter_mut().zip(&map.copies) {
            group.copies = copies.keys().copied().collect();
            let temporary = copies.iter().filter(|(_, entry)| map.entries[**entry].is_bridge());
            group.temporary = temporary.map(|(copy, _)| *copy).collect();
        }
        self.map = map;
        let main = self.map.anchor();
        self.gangs.push(GangLayout {
            name: name.anchor_gang_name(self.map.anchor_epoch),
            cliques: Vec::new(),
            scaled: None,
            entry: main,
            complete,
        });
        for (position, entry) in self.map.entries.iter().enumerate() {
            if entry.is_one_gang() && Some(position) != main {
                self.gangs.push(GangLayout {
                    name: name.anchor_gang_name(entry.epoch),
                    cliques: Vec::new(),
                    scaled: None,
                    entry: Some(position),
                    complete: true,
                });
            }
        }
        let mut shared = startup::Shared::default();
        for (position, clique) in facts.cliques.iter().enumerate() {
            if clique.group.is_none() {
                let object = name.clique_name(&clique.template.name);
                let shares = self.standalone_shares(facts, position, &mut shared);
                self.add_clique(facts, live, position, object, Place::Standalone, shares);
            }
        }
        for group in 0..self.groups.len() {
            self.groups[group].first = self.cliques.len();
            for copy in self.groups[group].copies.clone() {
                self.add_copy(facts, live, group, copy, &mut shared);
            }
        }
        self.hold_large_gangs();
    }

    /// The shares of a standalone clique: one in each gang that has pods of it, or an empty one in the anchor.
    fn standalone_shares(&self, facts: &SetFacts<'_>, position: usize, shared: &mut startup::Shared) -> Vec<Share> {
        let clique = &facts.cliques[position].template.name;
        let pods = |gang: &GangLayout| gang.entry.map_or(0, |entry| self.map.entries[entry].pods(clique));
        let mut gangs: Vec<(usize, u32)> = self.gangs.iter().map(pods).enumerate().collect();
        gangs.retain(|(_, pods)| *pods > 0);
        if gangs.is_empty() {
            gangs.push((0, 0));
        }
        gangs.sort_by_key(|(gang, _)| self.gangs[*gang].entry);
        let share = |(gang, pods): (usize, u32)| Share {
            gang,
            pods,
            parents: shared.parents(facts, self, position, gang),
        };
        gangs.into_iter().map(share).collect()
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
                aim: allowed.min(existing.saturating_add(MOST_NEW_COPIES)),
                copies: Vec::new(),
                temporary: BTreeSet::new(),
                base_copies: allowed.min(group.min_available),
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
                group.aim = group.aim.min(existing);
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
        let entry = self.map.copies[group][&copy];
        let of_entry = &self.map.entries[entry];
        let gang = if of_entry.is_one_gang() {
            let mut gangs = self.gangs.iter();
            gangs.position(|gang| gang.entry == Some(entry)).unwrap_or(0)
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
            let share = Share {
                gang,
                pods: 0,
                parents: shared.parents(facts, self, position, gang),
            };
            self.add_clique(
                facts,
                live,
                position,
                object,
                Place::Member { group, copy },
                vec![share],
            );
        }
    }

    fn add_clique(
        &mut self,
        facts: &SetFacts<'_>,
        live: &LiveSizes,
        position: usize,
        name: String,
        place: Place,
        mut shares: Vec<Share>,
    ) {
        let clique = &facts.cliques[position];
        let replicas = live.cliques.get(&name).copied().unwrap_or(clique.replicas);
        let held = i64::from(replicas) > i64::from(MOST_PODS);
        if held {
            self.excesses.push(format!(
                "PodClique {name} asks for {replicas} pods, at most {MOST_PODS} are possible"
            ));
        }
        for share in &mut shares {
            if place != Place::Standalone {
                share.pods = replicas;
            }
            self.gangs[share.gang].cliques.push(self.cliques.len());
        }
        self.cliques.push(CliqueLayout {
            position,
            name,
            place,
            replicas,
            min_available: clique.min_available.min(replicas),
            shares,
            held,
        });
    }

    /// A gang that could not be stored is not begun, and one that exists does not grow.
    fn hold_large_gangs(&mut self) {
        for (position, gang) in self.gangs.iter().enumerate() {
            let sizes = gang.cliques.iter().map(|&clique| {
                let share = self.cliques[clique].share_in(position);
                u64::from(share.map_or(0, |share| share.pods))
            });
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

    /// The newest gang of a clique; the only one of a clique in a scaling group.
    pub fn gang_of(&self, clique: &CliqueLayout) -> &GangLayout {
        &self.gangs[clique.newest().gang]
    }

    /// The pods that a clique must have in a gang: its minimum, as far as it has pods there.
    pub fn minimum_in(&self, gang: usize, clique: usize) -> u32 {
        let clique = &self.cliques[clique];
        clique
            .share_in(gang)
            .map_or(0, |share| clique.min_available.min(share.pods))
    }

    /// The copies of a group that are in a gang.
    pub fn copies_in(&self, gang: &GangLayout, group: usize) -> Vec<u32> {
        match gang.scaled {
            Some((of_group, copy)) if of_group == group => vec![copy],
            Some(_) => Vec::new(),
            None => {
                let all = self.map.copies.get(group).into_iter().flatten();
                all.filter(|(_, entry)| Some(**entry) == gang.entry)
                    .map(|(copy, _)| *copy)
                    .collect()
            }
        }
    }

    /// The gangs that exist or are to be made, with their positions.
    pub fn live_gangs(&self) -> impl Iterator<Item = (usize, &GangLayout)> {
        self.gangs.iter().enumerate().filter(|(_, gang)| gang.entry.is_some())
    }

    /// The gangs whose pods are placed before those of a gang.
    pub fn dependencies<'a>(&'a self, gang: &'a GangLayout) -> impl Iterator<Item = &'a GangLayout> {
        let epochs = gang.entry.map(|entry| self.map.entries[entry].depends_on.as_slice());
        let wanted = move |entry: usize| epochs.is_some_and(|epochs| epochs.contains(&self.map.entries[entry].epoch));
        let all = self
            .live_gangs()
            .filter(move |(_, other)| other.entry.is_some_and(wanted));
        all.map(|(_, other)| other)
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
                copies: of_layout.aim,
                min_available: group.min_available,
                of_template: group.replicas,
            })
            .collect(),
    }
}
