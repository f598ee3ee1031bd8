//! The components together, on the embedded API server, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod claims;
mod daemon_sets;
mod faults;
mod nodes;
mod objects;
mod pods;
mod scheduling;
mod story;
mod support;
