//! Scenarios as data: a YAML file says what is applied, done and expected, and runs on any control plane through an
//! [`environment::Environment`]. `tests/scenarios/README.md` is the reference of the format.
//!
//! The core is pure: a [`world::World`] of observed objects, [`expectation`]s and [`mod@never`]-statements over it, and a
//! [`timeline`]. Around it, a recorder watches the kinds a scenario speaks of and a runner carries out steps. Nothing
//! here polls: expectations are looked at when something changes, and time limits only bound the wait.

mod actions;
pub mod behaviour;
mod convert;
pub mod embedded;
pub mod environment;
pub mod expectation;
mod file;
mod kinds;
mod lookup;
pub mod matcher;
pub mod model;
mod names;
pub mod never;
mod nodes;
pub mod operator;
pub mod parse;
pub mod path;
mod placement;
mod recorder;
mod requests;
pub mod run;
pub mod scheduler;
pub mod selector;
pub mod target;
pub mod timeline;
pub mod world;
