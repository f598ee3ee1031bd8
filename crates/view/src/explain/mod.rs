//! Where the pods of a gang are, or why they are not placed and what would help.
//!
//! Asks the scheduler's own model and engine about objects that were read before.

/// Ends with an answer that the question cannot be answered as it was asked.
macro_rules! refuse {
    ($($words:tt)*) => { return Err($crate::explain::question(format!($($words)*))) };
}

mod report;
mod target;
pub mod text;
mod what_if;

use coppice_scheduler::model::{ObjectError, Objects};
use serde_json::Value;

pub use report::{GangReport, HeldPod, PlacedPod, Report, State, explain, explain_assuming};
pub use target::{Kind, Target};

/// The objects that an explanation is made from.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub objects: Objects,
    /// PodCliqueSets: only their names matter here.
    pub sets: Vec<Value>,
    /// Where it came from, for messages.
    pub source: String,
}

impl Snapshot {
    /// Adds an object; kinds that do not matter here are left out.
    pub fn add(&mut self, mut object: Value) {
        // Objects written by hand have no identity yet.
        let name = object["metadata"]["name"].clone();
        for (field, value) in [("uid", name), ("resourceVersion", Value::from("1"))] {
            if object["metadata"].is_object() && object["metadata"][field].is_null() {
                object["metadata"][field] = value;
            }
        }
        let list = match object["kind"].as_str().unwrap_or_default() {
            "Node" => &mut self.objects.nodes,
            "Pod" => &mut self.objects.pods,
            "PodGang" => &mut self.objects.gangs,
            "ClusterTopologyBinding" => &mut self.objects.topologies,
            "PodDisruptionBudget" => &mut self.objects.disruption_budgets,
            "PersistentVolumeClaim" => &mut self.objects.claims,
            "PersistentVolume" => &mut self.objects.volumes,
            "StorageClass" => &mut self.objects.storage_classes,
            "CSIDriver" => &mut self.objects.storage_drivers,
            "CSINode" => &mut self.objects.node_drivers,
            "CSIStorageCapacity" => &mut self.objects.storage_capacities,
            "PodCliqueSet" => &mut self.sets,
            _ => return,
        };
        list.push(object);
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// It names something that does not exist, or cannot be read.
    #[error("{0}")]
    Question(String),
    /// An object of the snapshot does not have the shape of its kind.
    #[error("{place} has an object that cannot be read")]
    Objects {
        place: String,
        #[source]
        error: ObjectError,
    },
}

type Result<T> = std::result::Result<T, ExplainError>;

fn question(words: String) -> ExplainError {
    ExplainError::Question(words)
}
