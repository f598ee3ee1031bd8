//! Revisions of a set: what its templates were, kept as `ControllerRevision`s.
//!
//! Owns the content, the names and the bounded history of revisions, so that pods can be rendered from the revision
//! they belong to and an update can be shown and undone. Assumes that the caller lists the set's revisions and carries
//! out the steps. Never reads or writes a cluster, and never plans the deletion of a revision in use.

mod content;
mod history;
mod name;

pub use content::{CliqueTemplate, RevisionContent, RevisionError};
pub use history::{DEFAULT_HISTORY_LIMIT, DesiredRevision, HistoryPlan, HistoryStep, plan_history};
pub use name::{HASH_LABEL, revision_name};
