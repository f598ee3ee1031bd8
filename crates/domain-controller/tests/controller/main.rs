//! The controller on an embedded API server with simulated daemons, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod formation;
mod kill;
mod many;
mod stage;
mod trouble;
