//! The custom resources, field by field as they stand on the wire.
//!
//! Three rules hold for every type here. JSON names and defaults are those of the API (`grove.io/v1alpha1`,
//! `scheduler.grove.io/v1alpha1`). Fields that this version does not know are kept in `unknown` and written back, so a
//! read-modify-write never loses what a newer client stored. Decoding is lenient where admission can say it better: an
//! unknown enum value decodes as `Other` and is refused by validation, with its field path.

mod cluster_topology_binding;
mod common;
pub(crate) mod parts;
mod pod_clique;
mod pod_clique_scaling_group;
mod pod_clique_set;
mod pod_clique_set_status;
mod pod_gang;
mod pod_gang_map;
mod pod_spec;
mod string_enum;

pub use cluster_topology_binding::*;
pub use common::*;
pub use pod_clique::*;
pub use pod_clique_scaling_group::*;
pub use pod_clique_set::*;
pub use pod_clique_set_status::*;
pub use pod_gang::*;
pub use pod_gang_map::*;
pub use pod_spec::*;

/// Fields of an object that this version of the API does not know, kept for writing back.
pub type UnknownFields = std::collections::BTreeMap<String, serde_json::Value>;
