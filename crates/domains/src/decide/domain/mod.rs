//! The life of a domain's objects: what is created, kept current, and removed in which order.
//!
//! Plans are lists of commands that may be carried out again: creates are under fixed names, deletions name a UID, patches
//! name the value they replace. Nodes are changed by patch, never by replacing the whole object.

mod command;
mod deletion;
mod leftovers;
mod live;
mod node_label;

pub use command::{Command, Existing, ObjectKind};
pub use deletion::{DeletionFacts, plan_deletion};
pub use leftovers::{Candidate, candidates, confirmed};
pub use live::{LiveFacts, LivePlan, plan_live};
pub use node_label::{LabelDecision, add_label, removal_patch, remove_label};
