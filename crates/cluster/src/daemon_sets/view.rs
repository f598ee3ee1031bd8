//! The controller's view of a DaemonSet.
//!
//! Owns the projection, including what of the pod template decides where pods may run.

use super::template;
use crate::default_scheduler::pod::NodeSelector;
use crate::tolerations::Toleration;
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// All DaemonSets.
pub(crate) type DaemonSets = Kind<Reduced<DaemonSetObject, DaemonSet>>;

/// The wire form: what is decoded of a `DaemonSet`.
#[derive(Deserialize)]
pub(crate) struct DaemonSetObject {
    metadata: Metadata,
    spec: SpecObject,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecObject {
    template: Value,
    #[serde(default)]
    update_strategy: StrategyObject,
    #[serde(default)]
    min_ready_seconds: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StrategyObject {
    #[serde(rename = "type")]
    kind: String,
    rolling_update: RollingUpdateObject,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdateObject {
    max_unavailable: Value,
}

/// The part of the pod template that says where pods may run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Placement {
    pub(crate) node_name: Option<String>,
    pub(crate) node_selector: BTreeMap<String, String>,
    affinity: Affinity,
    pub(crate) tolerations: Vec<Toleration>,
    host_network: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

impl Placement {
    /// The nodes that the template asks for.
    pub(crate) fn required(&self) -> Option<&NodeSelector> {
        let affinity = &self.affinity.node_affinity;
        affinity.required_during_scheduling_ignored_during_execution.as_ref()
    }
}

/// How pods of an older template are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// When they are deleted by someone else.
    OnDelete,
    /// By the controller, while at most so many are unavailable: a number or a share of the nodes in percent.
    RollingUpdate { max_unavailable: Bound },
}

/// A number, or a share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Count(usize),
    Percent(usize),
}

impl Bound {
    fn read(value: &Value) -> Self {
        let percent = || value.as_str()?.strip_suffix('%')?.parse().ok();
        match (value.as_u64(), percent()) {
            (Some(count), _) => Self::Count(usize::try_from(count).unwrap_or(usize::MAX)),
            (None, Some(percent)) => Self::Percent(percent),
            (None, None) => Self::Count(1),
        }
    }

    /// The number of `total`, rounded up; at least one, or no update would ever end.
    pub(crate) fn of(self, total: usize) -> usize {
        let count = match self {
            Self::Count(count) => count,
            Self::Percent(percent) => total.saturating_mul(percent).div_ceil(100),
        };
        count.max(1)
    }
}

/// The counts of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) current_number_scheduled: usize,
    pub(crate) number_misscheduled: usize,
    pub(crate) desired_number_scheduled: usize,
    pub(crate) number_ready: usize,
    pub(crate) observed_generation: i64,
    pub(crate) updated_number_scheduled: usize,
    pub(crate) number_available: usize,
    pub(crate) number_unavailable: usize,
}

/// A DaemonSet.
#[derive(Clone, Debug)]
pub(crate) struct DaemonSet {
    pub(crate) meta: Meta,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) template: Value,
    /// A hash of the template, which its pods are labelled with.
    pub(crate) revision: String,
    pub(crate) placement: Placement,
    pub(crate) strategy: Strategy,
    pub(crate) min_ready: Duration,
    pub(crate) status: Status,
}

impl DaemonSet {
    pub(crate) fn from_object(meta: &Meta, object: DaemonSetObject, _names: &Interner) -> Self {
        let DaemonSetObject { metadata, spec, status } = object;
        let mut placement: Placement = serde_json::from_value(spec.template["spec"].clone()).unwrap_or_default();
        placement
            .tolerations
            .extend(template::tolerations(placement.host_network));
        let strategy = if spec.update_strategy.kind == "OnDelete" {
            Strategy::OnDelete
        } else {
            let max_unavailable = Bound::read(&spec.update_strategy.rolling_update.max_unavailable);
            Strategy::RollingUpdate { max_unavailable }
        };
        Self {
            meta: meta.clone(),
            generation: metadata.generation,
            deleting: metadata.is_deleting(),
            revision: template::revision(&spec.template),
            template: spec.template,
            placement,
            strategy,
            min_ready: Duration::from_secs(spec.min_ready_seconds.into()),
            status,
        }
    }
}
