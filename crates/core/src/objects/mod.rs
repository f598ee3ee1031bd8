//! The objects of a set, written down as they are to be created.
//!
//! Each function takes facts and a layout and returns one object. None reads the cluster; whether the object
//! exists already, and in which order things happen, is decided elsewhere.

mod access;
mod autoscaler;
mod claims;
mod clique;
mod environment;
mod gang;
mod gang_map;
mod pod;
mod scaling_group;
mod service;
mod waiter;

pub use access::{reader_role, reader_role_binding};
pub use autoscaler::autoscalers;
pub use claims::{
    Claim, WantedClaim, claim_content, claims_of_pod, resource_claim, template_object, template_objects, wanted_claims,
};
pub use clique::{CliqueTemplate, TemplateSource, clique_template, pod_clique, pod_index_offset};
pub use gang::pod_gang;
pub use gang_map::gang_map;
pub use pod::{PodIdentity, UpdateStamp, pod};
pub use scaling_group::scaling_group;
pub use service::headless_service;

#[cfg(test)]
pub(crate) mod testing {
    use coppice_api::types::PodCliqueSet;
    use serde_json::Value;

    /// A set from YAML, with apiVersion and kind left out.
    pub(crate) fn set(yaml: &str) -> PodCliqueSet {
        let mut value: Value = serde_saphyr::from_str(yaml).expect("valid YAML");
        value["apiVersion"] = "grove.io/v1alpha1".into();
        value["kind"] = "PodCliqueSet".into();
        serde_json::from_value(value).expect("a set")
    }
}
