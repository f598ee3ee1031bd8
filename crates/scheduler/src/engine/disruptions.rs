//! What disruption budgets still allow.
//!
//! Owns the evictions that the status of a budget does not show yet: those under way, and those that ended since the budget
//! was last seen to change. They count against it, so that one budget is not used twice. Never counts pods that others
//! evict: the API server has the last word on each eviction of a protected pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_runtime::cache::{Meta, ObjectKey, Version};

use super::Engine;
use crate::model::GangId;

/// Evictions of protected pods for one gang.
#[derive(Debug)]
pub(super) struct Spent {
    gang: GangId,
    budget: Arc<str>,
    version: Option<Version>,
    pods: u32,
}

impl Engine {
    /// Forgets evictions that the status of their budget shows by now.
    pub(super) fn settle_disruptions(&mut self) {
        let (model, busy, before) = (&self.model, &self.busy, self.spent.len());
        self.spent
            .retain(|spent| busy.contains_key(&spent.gang) || model.budget_version(&spent.budget) == spent.version);
        if self.spent.len() < before {
            self.model.note_room();
        }
    }

    /// How many pods may be evicted now, by budget.
    pub(super) fn disruptions(&self) -> BTreeMap<Arc<str>, u32> {
        let mut allowed = self.model.disruptions();
        for spent in &self.spent {
            if let Some(allowed) = allowed.get_mut(&spent.budget) {
                *allowed = allowed.saturating_sub(spent.pods);
            }
        }
        allowed
    }

    /// Counts victims against their budgets. Returns those that have one.
    pub(super) fn count_disruptions(
        &mut self,
        gang: &GangId,
        victims: &BTreeMap<String, Vec<Meta>>,
    ) -> BTreeSet<ObjectKey> {
        let mut protected = BTreeSet::new();
        let mut counts: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for pod in victims.values().flatten() {
            let Some(record) = self.model.pod(&pod.key) else {
                continue;
            };
            for budget in self.model.budgets_of(record) {
                *counts.entry(budget).or_default() += 1;
                protected.insert(pod.key.clone());
            }
        }
        for (budget, pods) in counts {
            self.spent.push(Spent {
                gang: gang.clone(),
                version: self.model.budget_version(&budget),
                budget,
                pods,
            });
        }
        protected
    }
}
