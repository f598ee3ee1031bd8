//! The crate against the embedded API server, on one thread with paused time.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod controller;
mod reflect;
mod support;
