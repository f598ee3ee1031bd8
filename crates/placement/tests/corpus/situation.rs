//! A cluster and a gang that fits, and ways to change them.

use coppice_placement::explain::{Change, Part};
use coppice_placement::predicates::{Effect, Node, Taint};
use coppice_placement::preempt::{Running, RunningGroup, RunningPod};
use coppice_placement::shape::{PodDemands, ShapeId};
use coppice_placement::{ClusterState, Gang, Options, Pack, plan};

use crate::support::Random;
use crate::support::cluster::{BLOCK, RACK, cluster, demands, gang, group, node};

pub struct Situation {
    pub state: ClusterState,
    pub nodes: Vec<Node>,
    pub racks: usize,
    pub hosts: usize,
    pub gang: Gang,
    pub running: Vec<Running>,
    pub options: Options,
}

pub fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        value: "yes".into(),
        effect: Effect::NoSchedule,
    }
}

/// A cluster with some noise (a few bad nodes) and a gang of two roles that fits.
pub fn healthy(random: &mut Random) -> Option<Situation> {
    let (blocks, racks, hosts) = (
        1 + random.below(2) as usize,
        2 + random.below(2) as usize,
        3 + random.below(3) as usize,
    );
    let mut state = cluster(blocks, racks, hosts, 8);
    let mut nodes = Vec::new();
    for block in 0..blocks {
        for rack in 0..racks {
            for host in 0..hosts {
                let mut node = node(block, rack, host, 8);
                node.unschedulable = random.one_in(15);
                node.not_ready = random.one_in(15);
                if random.one_in(15) {
                    node.taints.push(taint("noise"));
                }
                nodes.push(node);
            }
        }
    }
    state.put_nodes(nodes.clone());
    let (large, small) = (state.shape(&demands(8)), state.shape(&demands(1)));
    let floor = 1 + random.below(hosts as u64 - 1) as u32;
    let pack = [
        Pack::none(),
        Pack::required(RACK),
        Pack::required(BLOCK),
        Pack::preferred(RACK),
    ];
    let groups = vec![
        group("worker", large, floor, floor, Pack::none()),
        group("leader", small, 1, 1, Pack::none()),
    ];
    let mut wanted = gang("serving", pack[random.below(4) as usize].clone(), groups);
    wanted.priority = 10;
    plan(&mut state, &wanted, &Options::default()).plan()?;
    Some(Situation {
        state,
        nodes,
        racks,
        hosts,
        gang: wanted,
        running: Vec::new(),
        options: Options::default(),
    })
}

impl Situation {
    pub fn fits(&self) -> bool {
        plan(&mut self.state.clone(), &self.gang, &self.options)
            .plan()
            .is_some()
    }

    /// A part of the situation, to be changed without harm to it.
    pub fn copy(&self) -> Self {
        Self {
            state: self.state.clone(),
            nodes: self.nodes.clone(),
            gang: self.gang.clone(),
            running: self.running.clone(),
            options: self.options.clone(),
            ..*self
        }
    }

    /// Whether every node takes pods: noise would blur what is to be counted.
    pub fn clean_nodes(&mut self) {
        self.change_nodes(|node| {
            (node.unschedulable, node.not_ready) = (false, false);
            node.taints.clear();
        });
    }

    pub fn change_nodes(&mut self, change: impl FnMut(&mut Node)) {
        self.nodes.iter_mut().for_each(change);
        self.state.put_nodes(self.nodes.clone());
    }

    pub fn change_demands(&mut self, change: impl Fn(&mut PodDemands)) {
        for group in &mut self.gang.groups {
            let mut demands = PodDemands::clone(&self.state.shape_of(group.shape).demands);
            change(&mut demands);
            group.shape = self.state.shape(&demands);
        }
    }

    /// One group only, of this many pods.
    pub fn only(&mut self, shape: ShapeId, floor: u32) {
        self.gang.groups = vec![group("worker", shape, floor, floor, Pack::none())];
        self.gang.configs.clear();
    }

    pub fn run(&mut self, pod: &str, node: &str, shape: ShapeId, priority: i32) {
        self.state.add_pod(pod, node, shape).unwrap();
        self.running.push(Running {
            name: pod.to_owned(),
            priority,
            base: None,
            sequence: 0,
            protected: false,
            groups: vec![RunningGroup {
                floor: 1,
                pods: vec![RunningPod {
                    name: pod.to_owned(),
                    budgets: Vec::new(),
                }],
            }],
        });
    }

    /// Fills all GPUs of nodes with this prefix; the first `keep` are left.
    pub fn fill(&mut self, keep: usize, priority: i32, prefix: &str) {
        let shape = self.state.shape(&demands(8));
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for name in names.iter().filter(|name| name.starts_with(prefix)).skip(keep) {
            self.run(&format!("filler-{name}"), name, shape, priority);
        }
    }

    /// Does what a remedy says, by other means than the engine's own.
    pub fn carry_out(&mut self, change: &Change) {
        match change {
            Change::Tolerate { key, .. } => self.change_nodes(|node| node.taints.retain(|taint| taint.key != *key)),
            Change::Uncordon { nodes } => self.change_nodes(|node| node.unschedulable &= !nodes.contains(&node.name)),
            Change::RepairNodes { nodes } => self.change_nodes(|node| node.not_ready &= !nodes.contains(&node.name)),
            Change::DropNodeSelector { key } => self.change_demands(|demands| {
                demands.node.selector.remove(key);
            }),
            Change::DropNodeAffinity => self.change_demands(|demands| demands.node.required = Vec::new()),
            Change::ReleaseDomains => self.options.held = Vec::new(),
            Change::ShareDomains => self.gang.spread = None,
            Change::DropHostPorts => self.change_demands(|demands| demands.host_ports = Vec::new()),
            Change::DropAntiAffinity => self.change_demands(|demands| {
                demands.keep_apart = Vec::new();
                demands.labels = Default::default();
            }),
            Change::DropVolumes => {
                self.gang.claims.clear();
                self.change_demands(|demands| {
                    demands.node.volumes = Vec::new();
                    demands.attached = Default::default();
                });
            }
            Change::Unpin => self.gang.placement_group.as_mut().unwrap().pinned = None,
            Change::PreferPacking { part, key } => self.prefer(part, key),
            Change::Evict { pods, .. } => {
                for pod in pods {
                    assert!(self.state.remove_pod(pod).is_some(), "{pod} does not run");
                }
            }
            Change::AddNodes { count, like } => {
                let mut place = like.split('-').map(|part| part[1..].parse::<usize>().unwrap());
                let (block, rack) = (place.next().unwrap(), place.next().unwrap());
                self.nodes
                    .extend((0..*count).map(|host| node(block, rack, 1_000 + host, 8)));
                self.state.put_nodes(self.nodes.clone());
            }
        }
    }

    fn prefer(&mut self, part: &Part, key: &str) {
        let soft = |pack: &mut Pack| *pack = Pack::preferred(key);
        match part {
            Part::PlacementGroup => {
                let group = self.gang.placement_group.as_mut().unwrap();
                soft(&mut group.pack);
                group.pinned = None;
            }
            Part::Gang => soft(&mut self.gang.pack),
            Part::Replicas => self.gang.configs.iter_mut().for_each(|config| soft(&mut config.pack)),
            Part::Group(name) => {
                let named = self.gang.groups.iter_mut().find(|group| group.name == *name);
                soft(&mut named.unwrap().pack);
            }
        }
    }
}
