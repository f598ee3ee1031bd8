//! The node label that makes a node a member of a domain.
//!
//! Set by the kubelet plugin when a workload's claim is prepared, removed when it is unprepared or the domain is deleted. A
//! node serves one domain at a time. Both changes are patches with a precondition.

use serde_json::{Value, json};

use crate::api::names;

/// What to do about the label of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelDecision {
    /// It is as it should be.
    Keep,
    /// Send this patch.
    Patch(Value),
    /// The node serves another domain.
    Taken {
        /// UID of that domain.
        by: String,
    },
}

/// Labels the node for a domain: a merge patch that fails when the node has changed since it was read.
pub fn add_label(current: Option<&str>, resource_version: &str, domain_uid: &str) -> LabelDecision {
    match current {
        Some(uid) if uid == domain_uid => LabelDecision::Keep,
        Some(uid) => LabelDecision::Taken { by: uid.to_owned() },
        None => LabelDecision::Patch(json!({"metadata": {
            "resourceVersion": resource_version,
            "labels": {names::DOMAIN_LABEL: domain_uid},
        }})),
    }
}

/// Removes the label of a domain: a JSON patch that fails when the node bears another one.
pub fn remove_label(current: Option<&str>, domain_uid: &str) -> LabelDecision {
    match current {
        Some(uid) if uid == domain_uid => LabelDecision::Patch(removal_patch(domain_uid)),
        _ => LabelDecision::Keep,
    }
}

/// The JSON patch that removes the label of a domain.
pub fn removal_patch(domain_uid: &str) -> Value {
    let path = format!("/metadata/labels/{}", names::DOMAIN_LABEL.replace('/', "~1"));
    json!([
        {"op": "test", "path": path, "value": domain_uid},
        {"op": "remove", "path": path},
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_another_domain_is_never_touched() {
        assert_eq!(add_label(Some("d"), "7", "d"), LabelDecision::Keep);
        assert_eq!(add_label(Some("e"), "7", "d"), LabelDecision::Taken { by: "e".into() });
        assert_eq!(remove_label(Some("e"), "d"), LabelDecision::Keep);
        assert_eq!(remove_label(None, "d"), LabelDecision::Keep);
        let LabelDecision::Patch(patch) = add_label(None, "7", "d") else {
            panic!()
        };
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let LabelDecision::Patch(patch) = remove_label(Some("d"), "d") else {
            panic!()
        };
        assert_eq!(patch[0]["path"], "/metadata/labels/resource.nvidia.com~1computeDomain");
    }
}
