//! Coherent updates: the planner, driven through worked examples and random histories.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod driver;
mod examples;
mod model;
