//! Regular clusters: blocks of racks of hosts with GPUs.

use coppice_placement::predicates::Node;
use coppice_placement::resources::Amounts;
use coppice_placement::shape::{PodDemands, ShapeId};
use coppice_placement::{ClusterState, Gang, Group, Pack, Plan};

pub const BLOCK: &str = "block";
pub const RACK: &str = "rack";
pub const HOST: &str = "host";

pub fn node(block: usize, rack: usize, host: usize, gpus: i64) -> Node {
    let name = format!("b{block}-r{rack}-h{host}");
    let labels = [
        (BLOCK, format!("b{block}")),
        (RACK, format!("r{rack}")),
        (HOST, name.clone()),
    ];
    Node {
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        name,
        allocatable: amounts(&[
            ("nvidia.com/gpu", gpus),
            ("cpu", 128_000),
            ("memory", 1 << 40),
            ("pods", 110),
        ]),
        ..Node::default()
    }
}

pub fn amounts(list: &[(&str, i64)]) -> Amounts {
    list.iter()
        .map(|(name, amount)| ((*name).to_owned(), *amount))
        .collect()
}

pub fn cluster(blocks: usize, racks: usize, hosts: usize, gpus: i64) -> ClusterState {
    let keys = [BLOCK, RACK, HOST].map(str::to_owned).to_vec();
    let mut state = ClusterState::new(&[("fabric".to_owned(), keys)]);
    let at = |block, rack| (0..hosts).map(move |host| node(block, rack, host, gpus));
    state.put_nodes((0..blocks).flat_map(|block| (0..racks).flat_map(move |rack| at(block, rack))));
    state
}

pub fn demands(gpus: i64) -> PodDemands {
    PodDemands {
        namespace: "default".into(),
        requests: amounts(&[("nvidia.com/gpu", gpus), ("cpu", 1000)]),
        ..PodDemands::default()
    }
}

pub fn group(name: &str, shape: ShapeId, floor: u32, pods: u32, pack: Pack) -> Group {
    Group {
        name: name.into(),
        shape,
        floor,
        pending: (0..pods).map(|pod| format!("{name}-{pod}")).collect(),
        bound: Vec::new(),
        pack,
    }
}

pub fn gang(name: &str, pack: Pack, groups: Vec<Group>) -> Gang {
    Gang {
        name: name.into(),
        topology: "fabric".into(),
        pack,
        groups,
        ..Gang::default()
    }
}

/// Binds a plan as the shell would.
pub fn bind(state: &mut ClusterState, gang: &Gang, plan: &Plan) {
    for binding in &plan.bindings {
        let shape = gang.groups[binding.group].shape;
        state
            .add_pod(&format!("{}/{}", gang.name, binding.pod), &binding.node, shape)
            .unwrap();
    }
}

/// The value of a label on every node the plan uses, without repetition.
pub fn used(state: &ClusterState, plan: &Plan, key: &str) -> Vec<String> {
    let nodes = plan
        .bindings
        .iter()
        .map(|binding| state.node(state.node_id(&binding.node).unwrap()));
    let mut values: Vec<String> = nodes.map(|node| node.labels[key].clone()).collect();
    values.sort();
    values.dedup();
    values
}
