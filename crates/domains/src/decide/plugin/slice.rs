//! The ResourceSlice of a node: what it should say, and what to do about those that exist.
//!
//! One slice is kept, whatever its name: that of NVIDIA's plugin is taken over with the claims that were allocated from it.

use serde_json::{Value, json};

use crate::api::names;

/// Names of objects are not longer.
const LONGEST_NAME: usize = 253;

/// A slice of this driver on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundSlice {
    /// Its name.
    pub name: String,
    /// Generation of its pool.
    pub generation: i64,
    /// How many slices its pool is said to have.
    pub slice_count: i64,
    /// Its devices.
    pub devices: Value,
}

/// What to do about slices.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceStep {
    /// Create this one.
    Create(Value),
    /// Merge this into the slice of that name.
    Patch(String, Value),
    /// Delete the slice of that name.
    Delete(String),
    /// Nothing.
    Rest,
}

/// The next thing to do, so that one slice publishes these devices. `node_uid` makes it end with the node.
pub fn next_step(node: &str, node_uid: &str, devices: &[Value], found: &[FoundSlice]) -> SliceStep {
    let mut found: Vec<&FoundSlice> = found.iter().collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let Some((kept, others)) = found.split_first() else {
        return SliceStep::Create(slice(node, node_uid, devices));
    };
    if let Some(other) = others.first() {
        return SliceStep::Delete(other.name.clone());
    }
    let wanted = Value::Array(devices.to_vec());
    if kept.devices == wanted && kept.slice_count == 1 {
        return SliceStep::Rest;
    }
    let pool = json!({"name": node, "generation": kept.generation.saturating_add(1), "resourceSliceCount": 1});
    SliceStep::Patch(kept.name.clone(), json!({"spec": {"pool": pool, "devices": wanted}}))
}

fn slice(node: &str, node_uid: &str, devices: &[Value]) -> Value {
    let mut name = format!("{node}-{}", names::DRIVER);
    if name.len() > LONGEST_NAME {
        name = format!("{}-{}", crate::api::dns::hash(node), names::DRIVER);
    }
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": name,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": true},
            ],
        },
        "spec": {
            "driver": names::DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::devices::published;
    use super::*;

    fn found(name: &str, devices: &[Value]) -> FoundSlice {
        FoundSlice {
            name: name.into(),
            generation: 4,
            slice_count: 1,
            devices: devices.to_vec().into(),
        }
    }

    #[test]
    fn one_slice_publishes_what_the_node_has() {
        let devices = published("u.1", false);
        let SliceStep::Create(slice) = next_step("node-a", "n", &devices, &[]) else {
            panic!()
        };
        assert_eq!(slice["metadata"]["name"], "node-a-compute-domain.nvidia.com");
        assert_eq!(slice["spec"]["pool"]["name"], "node-a");
        let same = found("theirs", &devices);
        assert_eq!(next_step("node-a", "n", &devices, &[same]), SliceStep::Rest);
    }

    #[test]
    fn the_slice_of_another_plugin_is_taken_over_and_a_second_one_goes() {
        let old = found("node-a-compute-domain.nvidia.com-x7", &[json!({"name": "channel-0"})]);
        let devices = published("u.1", false);
        let SliceStep::Patch(name, patch) = next_step("node-a", "n", &devices, std::slice::from_ref(&old)) else {
            panic!()
        };
        assert_eq!(name, old.name);
        assert_eq!(patch["spec"]["pool"]["generation"], 5);
        let two = [old, found("a", &devices)];
        let step = next_step("node-a", "n", &devices, &two);
        assert_eq!(step, SliceStep::Delete("node-a-compute-domain.nvidia.com-x7".into()));
    }

    #[test]
    fn a_long_node_name_still_gives_a_name() {
        let node = "n".repeat(250);
        let SliceStep::Create(slice) = next_step(&node, "n", &[], &[]) else {
            panic!()
        };
        assert!(slice["metadata"]["name"].as_str().unwrap().len() <= LONGEST_NAME);
    }
}
