//! What simulated nodes look like.
//!
//! Owns the node profiles and builds `Node` objects from them: the same profile and number always give the same
//! objects. Names are `node-00000` and so on; addresses follow from the number. It never talks to an API server.

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The label of nodes whose kubelet is simulated.
pub const SIMULATED_NODE_LABEL: &str = "simulation.coppice.dev/node";
/// The label of the NVLink domain a node belongs to.
pub const NVLINK_DOMAIN_LABEL: &str = "nvidia.com/gpu.clique";
/// The label of the zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The label of the network block.
pub const BLOCK_LABEL: &str = "topology.kubernetes.io/block";
/// The label of the rack.
pub const RACK_LABEL: &str = "topology.kubernetes.io/rack";
/// The label of the host.
pub const HOST_LABEL: &str = "kubernetes.io/hostname";

const PODS_PER_NODE: u32 = 110;

/// A kind of machine and how machines are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum NodeProfile {
    /// 8 CPUs and 32 GiB, no accelerator; 16 nodes a rack.
    #[default]
    Small,
    /// 8 H100 GPUs a node, one NVLink domain per node; 4 nodes a rack.
    H100,
    /// 4 GB200 GPUs a node, 18 nodes a rack, one NVLink domain per rack.
    Gb200Nvl72,
}

/// A profile name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown node profile {name:?}; use one of {}", NodeProfile::names().join(", "))]
pub struct UnknownProfile {
    name: String,
}

/// How many of the smaller unit make the next larger one.
struct Arrangement {
    nodes_per_rack: u32,
    racks_per_block: u32,
    blocks_per_zone: u32,
}

impl NodeProfile {
    /// Every profile.
    pub const ALL: [NodeProfile; 3] = [NodeProfile::Small, NodeProfile::H100, NodeProfile::Gb200Nvl72];

    /// The name a user types.
    pub fn name(self) -> &'static str {
        match self {
            NodeProfile::Small => "small",
            NodeProfile::H100 => "h100",
            NodeProfile::Gb200Nvl72 => "gb200-nvl72",
        }
    }

    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|profile| profile.name()).collect()
    }

    fn arrangement(self) -> Arrangement {
        match self {
            NodeProfile::Small => Arrangement {
                nodes_per_rack: 16,
                racks_per_block: 4,
                blocks_per_zone: 4,
            },
            NodeProfile::H100 => Arrangement {
                nodes_per_rack: 4,
                racks_per_block: 8,
                blocks_per_zone: 8,
            },
            NodeProfile::Gb200Nvl72 => Arrangement {
                nodes_per_rack: 18,
                racks_per_block: 8,
                blocks_per_zone: 4,
            },
        }
    }

    fn resources(self) -> Vec<(&'static str, String)> {
        let mut resources = vec![("pods", PODS_PER_NODE.to_string())];
        match self {
            NodeProfile::Small => resources.extend([
                ("cpu", "8".to_owned()),
                ("memory", "32Gi".to_owned()),
                ("ephemeral-storage", "100Gi".to_owned()),
            ]),
            NodeProfile::H100 => resources.extend([
                ("cpu", "192".to_owned()),
                ("memory", "2Ti".to_owned()),
                ("ephemeral-storage", "4Ti".to_owned()),
                ("nvidia.com/gpu", "8".to_owned()),
            ]),
            NodeProfile::Gb200Nvl72 => resources.extend([
                ("cpu", "144".to_owned()),
                ("memory", "960Gi".to_owned()),
                ("ephemeral-storage", "4Ti".to_owned()),
                ("nvidia.com/gpu", "4".to_owned()),
            ]),
        }
        resources
    }

    fn accelerator_labels(self, rack: &str, host: &str) -> Vec<(&'static str, String)> {
        match self {
            NodeProfile::Small => Vec::new(),
            NodeProfile::H100 => vec![
                ("nvidia.com/gpu.present", "true".to_owned()),
                ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3".to_owned()),
                ("nvidia.com/gpu.count", "8".to_owned()),
                (NVLINK_DOMAIN_LABEL, host.to_owned()),
            ],
            NodeProfile::Gb200Nvl72 => vec![
                ("nvidia.com/gpu.present", "true".to_owned()),
                ("nvidia.com/gpu.product", "NVIDIA-GB200".to_owned()),
                ("nvidia.com/gpu.count", "4".to_owned()),
                (NVLINK_DOMAIN_LABEL, format!("{rack}.0")),
            ],
        }
    }

    fn architecture(self) -> &'static str {
        match self {
            NodeProfile::Small | NodeProfile::H100 => "amd64",
            NodeProfile::Gb200Nvl72 => "arm64",
        }
    }

    /// Builds the first `count` nodes.
    pub fn nodes(self, count: u32) -> Vec<Node> {
        (0..count).map(|index| self.node(index)).collect()
    }

    /// Builds node number `index`.
    pub fn node(self, index: u32) -> Node {
        let name = node_name(index);
        let arrangement = self.arrangement();
        let rack_index = index / arrangement.nodes_per_rack;
        let block_index = rack_index / arrangement.racks_per_block;
        let zone_index = block_index / arrangement.blocks_per_zone;
        let rack = format!("rack-{rack_index}");
        let mut labels: BTreeMap<String, String> = [
            (SIMULATED_NODE_LABEL, "true".to_owned()),
            ("kubernetes.io/os", "linux".to_owned()),
            ("kubernetes.io/arch", self.architecture().to_owned()),
            ("node.kubernetes.io/instance-type", self.name().to_owned()),
            (HOST_LABEL, name.clone()),
            (RACK_LABEL, rack.clone()),
            (BLOCK_LABEL, format!("block-{block_index}")),
            (ZONE_LABEL, format!("zone-{zone_index}")),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        labels.extend(
            self.accelerator_labels(&rack, &name)
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value)),
        );
        let resources: BTreeMap<String, Quantity> = self
            .resources()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Quantity(value)))
            .collect();
        Node {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: None,
            status: Some(NodeStatus {
                addresses: Some(vec![
                    NodeAddress {
                        type_: "InternalIP".to_owned(),
                        address: host_address(index).to_string(),
                    },
                    NodeAddress {
                        type_: "Hostname".to_owned(),
                        address: name,
                    },
                ]),
                allocatable: Some(resources.clone()),
                capacity: Some(resources),
                node_info: Some(self.system_info(index)),
                ..NodeStatus::default()
            }),
        }
    }

    fn system_info(self, index: u32) -> NodeSystemInfo {
        NodeSystemInfo {
            architecture: self.architecture().to_owned(),
            boot_id: format!("simulated-boot-{index}"),
            container_runtime_version: "simulated://1".to_owned(),
            kernel_version: "simulated".to_owned(),
            kube_proxy_version: String::new(),
            kubelet_version: concat!("v", env!("CARGO_PKG_VERSION"), "-simulated").to_owned(),
            machine_id: format!("simulated-machine-{index}"),
            operating_system: "linux".to_owned(),
            os_image: "simulated".to_owned(),
            system_uuid: format!("simulated-system-{index}"),
            swap: None,
            ..NodeSystemInfo::default()
        }
    }
}

impl fmt::Display for NodeProfile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for NodeProfile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| UnknownProfile { name: name.to_owned() })
    }
}

/// The name of node number `index`; names sort as their numbers do.
pub fn node_name(index: u32) -> String {
    format!("node-{index:05}")
}

/// The address of node number `index`, inside 172.16.0.0/12.
fn host_address(index: u32) -> Ipv4Addr {
    const FIRST: u32 = (172 << 24) | (16 << 16) | 1;
    const SIZE: u32 = 1 << 20;
    Ipv4Addr::from(FIRST + index % (SIZE - 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn label(node: &Node, key: &str) -> String {
        node.metadata.labels.as_ref().unwrap()[key].clone()
    }

    #[test]
    fn names_parse_back_and_a_wrong_one_lists_the_right_ones() {
        for profile in NodeProfile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
        }
        let error = "big".parse::<NodeProfile>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown node profile \"big\"; use one of small, h100, gb200-nvl72"
        );
    }

    #[test]
    fn a_rack_of_gb200_is_eighteen_nodes_with_four_gpus_and_one_nvlink_domain() {
        let nodes = NodeProfile::Gb200Nvl72.nodes(36);
        let first: BTreeSet<_> = nodes[..18].iter().map(|node| label(node, RACK_LABEL)).collect();
        assert_eq!(first, BTreeSet::from(["rack-0".to_owned()]));
        assert_eq!(label(&nodes[18], RACK_LABEL), "rack-1");
        let domains: BTreeSet<_> = nodes.iter().map(|node| label(node, NVLINK_DOMAIN_LABEL)).collect();
        assert_eq!(domains.len(), 2);
        let capacity = nodes[0].status.as_ref().unwrap().capacity.as_ref().unwrap();
        assert_eq!(capacity["nvidia.com/gpu"].0, "4");
    }

    #[test]
    fn an_h100_node_is_its_own_nvlink_domain() {
        let nodes = NodeProfile::H100.nodes(2);
        assert_ne!(
            label(&nodes[0], NVLINK_DOMAIN_LABEL),
            label(&nodes[1], NVLINK_DOMAIN_LABEL)
        );
        assert_eq!(
            nodes[0].status.as_ref().unwrap().allocatable.as_ref().unwrap()["nvidia.com/gpu"].0,
            "8"
        );
    }

    #[test]
    fn levels_nest_for_every_profile() {
        for profile in NodeProfile::ALL {
            let nodes = profile.nodes(2_000);
            for (inner, outer) in [
                (HOST_LABEL, RACK_LABEL),
                (RACK_LABEL, BLOCK_LABEL),
                (BLOCK_LABEL, ZONE_LABEL),
            ] {
                let mut parent = BTreeMap::new();
                for node in &nodes {
                    let known = parent.entry(label(node, inner)).or_insert_with(|| label(node, outer));
                    assert_eq!(*known, label(node, outer), "{profile}: {inner} spans two of {outer}");
                }
            }
        }
    }

    #[test]
    fn names_and_addresses_are_unique_and_building_is_repeatable() {
        let nodes = NodeProfile::Small.nodes(5_000);
        let names: BTreeSet<_> = nodes.iter().map(|node| node.metadata.name.clone()).collect();
        let addresses: BTreeSet<_> = (0..5_000).map(host_address).collect();
        assert_eq!((names.len(), addresses.len()), (5_000, 5_000));
        assert_eq!(nodes[4_321], NodeProfile::Small.node(4_321));
        assert_eq!(host_address(0).to_string(), "172.16.0.1");
    }
}
