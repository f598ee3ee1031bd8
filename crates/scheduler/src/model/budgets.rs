//! PodDisruptionBudgets: which pods they protect, and how many of those may go.
//!
//! Owns the meaning of their selectors (none selects nothing, an empty one everything in the namespace) and what they allow
//! now, as the disruption controller says it. Never counts pods itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_placement::predicates::Expression;
use coppice_runtime::cache::{Meta, ObjectKey, Version};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::demands::expressions;
use super::{Changes, Model, PodRecord};

/// A pod lists no more budgets than this: the API server evicts no pod that has more than one.
const MOST: usize = 2;

/// A PodDisruptionBudget, as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRecord {
    /// Identity and version.
    pub meta: Meta,
    /// Which pods it protects; none without.
    selector: Option<Vec<Expression>>,
    /// How many of them may go now.
    pub allowed: u32,
}

impl BudgetRecord {
    /// Reads a budget; nothing when it was never stored.
    #[must_use]
    pub fn of(budget: &PodDisruptionBudget) -> Option<Self> {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let status = budget.status.as_ref();
        // What its status says of an older specification is not what it allows now.
        let current = status.filter(|status| status.observed_generation >= budget.metadata.generation);
        let allowed = current.and_then(|status| status.disruptions_allowed).unwrap_or(0);
        Some(Self {
            meta: Meta::of(budget)?,
            selector: selector.map(expressions),
            allowed: u32::try_from(allowed).unwrap_or(0),
        })
    }

    fn protects(&self, pod: &PodRecord) -> bool {
        self.meta.key.namespace == pod.meta.key.namespace
            && self.selector.as_ref().is_some_and(|selector| {
                let mut expressions = selector.iter();
                expressions.all(|expression| expression.matches_value(pod.label(&expression.key).map(|value| &**value)))
            })
    }
}

impl Model {
    /// Adds or replaces a budget.
    pub fn put_budget(&mut self, record: Arc<BudgetRecord>) {
        let key = record.meta.key.clone();
        let known = self.budgets.get(&key);
        if known.is_none_or(|known| known.selector != record.selector) {
            self.changes = Changes::All;
        }
        if known.is_none_or(|known| known.allowed < record.allowed) {
            // Somebody may be evicted now who could not before.
            self.room += 1;
        }
        self.budgets.insert(key, record);
    }

    /// Removes a budget.
    pub fn remove_budget(&mut self, key: &ObjectKey) {
        if self.budgets.remove(key).is_some() {
            self.changes = Changes::All;
            self.room += 1;
        }
    }

    /// What every budget allows, by its name in the placement engine.
    #[must_use]
    pub fn disruptions(&self) -> BTreeMap<Arc<str>, u32> {
        let budgets = self.budgets.values();
        budgets.map(|budget| (name(&budget.meta.key), budget.allowed)).collect()
    }

    /// The version of a budget, by its name in the placement engine.
    pub(crate) fn budget_version(&self, budget: &str) -> Option<Version> {
        let (namespace, name) = budget.split_once('/')?;
        let found = self.budgets.get(&ObjectKey::new(namespace, name))?;
        Some(found.meta.version)
    }

    /// The names of the budgets that protect a pod.
    #[must_use]
    pub fn budgets_of(&self, pod: &PodRecord) -> Vec<Arc<str>> {
        let namespace = &pod.meta.key.namespace;
        let first = ObjectKey::new(namespace.clone(), "");
        let here = self.budgets.range(first..).map(|(_, budget)| budget);
        let here = here.take_while(|budget| budget.meta.key.namespace == *namespace);
        let found = here.filter(|budget| budget.protects(pod)).take(MOST);
        found.map(|budget| name(&budget.meta.key)).collect()
    }
}

fn name(key: &ObjectKey) -> Arc<str> {
    key.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::PodSketch;
    use serde_json::json;

    #[test]
    fn a_budget_protects_what_it_selects_and_allows_what_its_status_says() {
        let budget = |spec: serde_json::Value, status: serde_json::Value| {
            let object = json!({"metadata": {"name": "b", "namespace": "n", "uid": "b", "resourceVersion": "1", "generation": 2},
                "spec": spec, "status": status});
            BudgetRecord::of(&serde_json::from_value(object).unwrap()).unwrap()
        };
        let status = |generation: u32| json!({"disruptionsAllowed": 3, "observedGeneration": generation, "currentHealthy": 3, "desiredHealthy": 0, "expectedPods": 3});
        let pod = PodSketch::new("a", "g", "c").record();
        let mine = budget(json!({"selector": {"matchLabels": {"app": "a"}}}), status(2));
        assert!(mine.protects(&pod));
        assert_eq!(mine.allowed, 3);
        assert_eq!(
            budget(json!({}), status(1)).allowed,
            0,
            "the status is older than the budget"
        );
        assert!(
            !budget(json!({}), status(2)).protects(&pod),
            "no selector selects nothing"
        );
        assert!(
            budget(json!({"selector": {}}), status(2)).protects(&pod),
            "an empty one everything"
        );
        let others = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}});
        assert!(!budget(others, status(2)).protects(&pod));
    }
}
