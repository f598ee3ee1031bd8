//! The components together, on the embedded API server, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod nodes;
mod objects;
mod pods;
mod story;
mod support;
