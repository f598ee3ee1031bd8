//! What applying a manifest would do: what changes in meaning, which pods that replaces, and how an update would go.
//!
//! Owns the comparison and the shape of the answer. Never rehearses an update: who can run an operator does that, and adds it.

pub mod changes;
pub mod text;

use coppice_api::admission::{Context, default_pod_clique_set, validate_pod_clique_set};
use coppice_api::types::{PodCliqueSet, UpdateStrategyType};
use serde::Serialize;

use crate::API_VERSION;
use changes::{CliqueChange, FieldLine, Sizes};

/// What would happen to one set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// `create`, `update`, `none` or `refused`.
    pub action: Action,
    pub replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub on_delete: bool,
    pub cliques: Vec<CliqueChange>,
    pub settings: Vec<FieldLine>,
    /// Pods that are replaced in all.
    pub replaced_pods: i64,
    /// Pods that there are in all.
    pub pods: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<Rehearsal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    Create,
    Update,
    None,
    Refused,
}

/// Several plans.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanList {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub items: Vec<PlanView>,
}

/// How an update of one replica goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    pub steps: Vec<Step>,
    pub floors: Vec<Floor>,
}

/// Pods that are taken away together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The clique, or the group whose copy is replaced.
    pub of: String,
    /// The pod index, or the copy.
    pub index: u32,
    pub group: bool,
    pub pods: u32,
}

/// How few were ready on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Floor {
    pub of: String,
    pub group: bool,
    pub lowest: usize,
    pub desired: usize,
    pub min_available: i32,
}

/// What admission says of the wanted set, and what changes in meaning. Both sets get their defaults.
pub fn assess(
    current: Option<&mut PodCliqueSet>,
    wanted: &mut PodCliqueSet,
    sizes: &Sizes,
    context: &Context,
) -> PlanView {
    let current = current.map(|current| {
        default_pod_clique_set(current, None);
        &*current
    });
    default_pod_clique_set(wanted, current);
    let outcome = validate_pod_clique_set(wanted, current, context);
    let mut view = changes::compare(current, wanted, sizes);
    view.errors = outcome.errors.iter().map(ToString::to_string).collect();
    view.warnings = outcome.warnings;
    if !view.errors.is_empty() {
        view.action = Action::Refused;
    }
    view
}

fn is_on_delete(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy == UpdateStrategyType::OnDelete)
}
