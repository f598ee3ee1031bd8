//! Changes of a map: units taken out and put in, new entries, and nothing left over that is empty.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::Epoch;

use super::census::Unit;
use super::types::{ComponentKind, Entry, Map, Revision, Role, Share, Units};

/// Units of one component that are to be put somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// How many.
    pub(super) count: u32,
    /// Their indices, for copies.
    pub(super) copies: BTreeSet<u32>,
}

impl Taken {
    /// Adds a unit.
    pub(super) fn push(&mut self, unit: &Unit) {
        self.count += 1;
        self.copies.extend(unit.copy);
    }

    /// As units of a component.
    pub(super) fn units(&self, kind: ComponentKind) -> Units {
        match kind {
            ComponentKind::Standalone => Units::Pods(self.count),
            ComponentKind::Group => Units::Copies(self.copies.clone()),
        }
    }
}

impl Map {
    /// A map without entries.
    pub(super) fn empty(next_epoch: Epoch) -> Self {
        Self {
            entries: Vec::new(),
            next_epoch,
        }
    }

    /// The entry with an epoch.
    pub(super) fn entry(&self, epoch: Epoch) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.epoch == epoch)
    }

    /// Takes a unit out of its entry.
    pub(super) fn take(&mut self, component: usize, unit: &Unit) {
        let entry = self.entries.iter_mut().find(|entry| entry.epoch == unit.epoch);
        let Some(share) = entry.and_then(|entry| entry.shares.get_mut(&component)) else {
            return;
        };
        match (&mut share.units, unit.copy) {
            (Units::Copies(copies), Some(copy)) => drop(copies.remove(&copy)),
            (Units::Pods(pods), None) => *pods = pods.saturating_sub(1),
            _ => {}
        }
    }

    /// Puts units into an entry that exists; one that has the component already has it at the same revision.
    pub(super) fn put(&mut self, epoch: Epoch, component: usize, revision: &Revision, units: &Units) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.epoch == epoch) else {
            return;
        };
        let empty = match units {
            Units::Pods(_) => Units::Pods(0),
            Units::Copies(_) => Units::Copies(BTreeSet::new()),
        };
        let share = entry.shares.entry(component).or_insert_with(|| Share {
            revision: revision.clone(),
            units: empty,
        });
        match (&mut share.units, units) {
            (Units::Pods(before), Units::Pods(more)) => *before = before.saturating_add(*more),
            (Units::Copies(before), Units::Copies(more)) => before.extend(more),
            _ => {}
        }
    }

    /// Adds an entry with an epoch of its own.
    pub(super) fn add_entry(&mut self, role: Role, depends_on: Vec<Epoch>) -> Epoch {
        let epoch = self.next_epoch;
        self.next_epoch = epoch.next();
        self.entries.push(Entry {
            epoch,
            role,
            shares: BTreeMap::new(),
            depends_on,
        });
        epoch
    }

    /// Removes what is empty. A gang never waits for one that does not exist: that would be for ever.
    pub(super) fn tidy(mut self) -> Self {
        for entry in &mut self.entries {
            entry.shares.retain(|_, share| share.units.count() > 0);
        }
        self.entries.retain(|entry| !entry.shares.is_empty());
        let stays: Vec<Vec<Epoch>> = self
            .entries
            .iter()
            .map(|entry| {
                let epochs = entry.depends_on.iter().copied();
                epochs.filter(|epoch| self.may_wait(entry, *epoch)).collect()
            })
            .collect();
        for (entry, depends_on) in self.entries.iter_mut().zip(stays) {
            entry.depends_on = depends_on;
        }
        self
    }

    /// Whether an entry may wait for an epoch: it exists, and has no other template of the same component (which only
    /// another strategy leaves behind).
    fn may_wait(&self, entry: &Entry, epoch: Epoch) -> bool {
        let other = self.entry(epoch);
        other.is_some_and(|other| {
            let mut shares = entry.shares.iter();
            shares.all(|(component, share)| {
                let theirs = other.shares.get(component);
                theirs.is_none_or(|theirs| theirs.revision == share.revision)
            })
        })
    }

    /// The newest anchor.
    pub(super) fn newest_anchor(&self) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.role == Role::Anchor)
    }

    /// The newest anchor that has a component at a revision.
    pub(super) fn anchor_with(&self, component: usize, revision: &Revision) -> Option<&Entry> {
        let has = |entry: &&Entry| {
            let share = entry.shares.get(&component);
            entry.role == Role::Anchor && share.is_some_and(|share| share.revision == *revision)
        };
        self.entries.iter().rev().find(has)
    }

    /// The smallest indices of a component from `first` on that no entry has.
    pub(super) fn free_copies(&self, component: usize, first: u32, count: u32) -> BTreeSet<u32> {
        let used: BTreeSet<u32> = self
            .entries
            .iter()
            .filter_map(|entry| entry.shares.get(&component))
            .flat_map(|share| match &share.units {
                Units::Copies(copies) => copies.iter().copied().collect(),
                Units::Pods(_) => Vec::new(),
            })
            .collect();
        (first..)
            .filter(|copy| !used.contains(copy))
            .take(count as usize)
            .collect()
    }

    /// The entry for further copies of a component at a revision: one with that role and those dependencies that may
    /// take them by `accepts`, or a new one.
    pub(super) fn entry_for_copies(
        &mut self,
        roles: &[Role],
        depends_on: &[Epoch],
        accepts: impl Fn(&Entry) -> bool,
    ) -> Epoch {
        let found = self
            .entries
            .iter()
            .rev()
            .find(|entry| roles.contains(&entry.role) && entry.depends_on == depends_on && accepts(entry))
            .map(|entry| entry.epoch);
        found.unwrap_or_else(|| self.add_entry(roles[0], depends_on.to_vec()))
    }
}
