//! Every name, label, annotation, gate, environment variable and finalizer of the API.
//!
//! This module owns the spelling. The rest of the workspace takes names from here, both to build and to read them, so
//! that one object has one name everywhere. Builders are exact: they never truncate, and [`limits`] says beforehand
//! (at admission) whether what they build is short enough. Reading is by reconstruction: a name is accepted as that of
//! a replica, group or clique only when the owner is known (from a label or an owner reference) and building the name
//! again gives the same text. Nothing here ever guesses by prefix or suffix, because `worker` is a suffix of
//! `gpu-worker` and `a` a prefix of `a-b`.

pub mod annotations;
pub mod conditions;
pub mod environment;
pub mod epochs;
pub mod finalizers;
pub mod label_sets;
pub mod labels;
pub mod limits;
pub mod object_names;
pub mod parsing;
pub mod pod_names;
pub mod selectors;

pub use epochs::Epoch;
pub use object_names::{ReplicaName, ScalingGroupName};
pub use parsing::CliqueIdentity;
