//! What the proofs of the operator share: an embedded control plane in virtual time ([`stage`]), a log of every write
//! with the history of pods that follows from it ([`audit`]), the state of a cluster without what differs from run to
//! run ([`state`]), a workload with its life from creation to deletion
//! ([`story`]), objects as the Go operator leaves them ([`legacy`]) and
//! expects them ([`alpha13`]), and a workload whose writes are counted ([`counted`]).
//!
//! Everything here observes; nothing knows how the operator decides.

pub mod alpha13;
pub mod audit;
pub mod counted;
pub mod legacy;
pub mod stage;
pub mod state;
pub mod story;
