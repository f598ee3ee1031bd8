//! The rows of a clique: who has which index, and where the daemon of each node is.
//!
//! A row lives through [`Phase`]s: *Reserved* when the node is labelled, *Present* when its daemon has an address,
//! *Ready* when the daemon is, *Retained* when the pod is gone and the node still belongs to the domain, and released
//! when a live read has confirmed that the node has left. The controller is the only regular writer; rows that daemons
//! wrote are adopted as they are. What never happens: an index moves, an index is given to two rows, or a row is removed
//! because something is missing from a cache.

mod commit;
mod facts;
mod grouping;
mod index;
mod owner;
mod phase;
mod plan;

pub use commit::{Action, CliqueWriter, Outcome, Timing};
pub use facts::{Check, CheckResult, CliqueFacts, NodeMembership, PodFacts};
pub use grouping::{DomainFacts, NodeFacts, group};
pub use index::Indices;
pub use owner::{Owner, owner};
pub use phase::Phase;
pub use plan::{Refusal, RowsPlan, Urgency, plan_rows};
