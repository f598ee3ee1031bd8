//! Small random clusters and gangs as plain numbers, and their translation to the engine's types.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary uses a part"
)]

pub mod cluster;
pub mod crowded;
pub mod medium;
pub mod reference;
pub mod simple;
pub mod storage;

use coppice_placement::plan::Plan;
use coppice_placement::predicates::{Effect, Node, Taint};
use coppice_placement::shape::{HOSTNAME, KeepApart, PodDemands};
use coppice_placement::{ClusterState, Gang, Group, GroupConfig, Pack, PlacementGroup};

/// xorshift64*: small, seeded, the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// Depths as in the engine: 1 is the broadest level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    pub required: Option<usize>,
    pub preferred: Option<usize>,
}

#[derive(Debug, Clone)]
pub struct Host {
    pub gpu: i64,
    pub cpu: i64,
    pub path: Vec<Option<u64>>,
    pub tainted: bool,
}

#[derive(Debug, Clone)]
pub struct Part {
    pub gpu: i64,
    pub cpu: i64,
    pub exclusive: bool,
    pub floor: u32,
    pub extras: u32,
    pub config: Option<usize>,
    pub wish: Wish,
}

#[derive(Debug, Clone)]
pub struct Instance {
    pub levels: usize,
    pub hosts: Vec<Host>,
    pub parts: Vec<Part>,
    pub configs: Vec<Wish>,
    pub gang: Wish,
    pub outer: Wish,
    pub storage: storage::Storage,
}

fn wish(random: &mut Random, levels: usize, chances: u64) -> Wish {
    let mut level = |chances| {
        let depth = random.below(levels.max(1) as u64) as usize + 1;
        (levels > 0 && random.one_in(chances)).then_some(depth)
    };
    Wish {
        required: level(chances),
        preferred: level(chances),
    }
}

/// A random instance with at most this many nodes and pods.
pub fn instance(random: &mut Random, most_hosts: u64, most_pods: u32) -> Instance {
    let levels = random.below(4) as usize;
    let hosts = 1 + random.below(most_hosts) as usize;
    let gappy = random.one_in(6);
    let two = random.one_in(2);
    // Clusters of equal nodes have domains that mirror each other.
    let uniform = random.one_in(3).then(|| 1 + random.below(8) as i64);
    let hosts = (0..hosts)
        .map(|_| Host {
            gpu: uniform.unwrap_or_else(|| random.below(9) as i64),
            cpu: match (two, uniform) {
                (false, _) => 99,
                (true, Some(gpu)) => gpu,
                (true, None) => random.below(9) as i64,
            },
            path: (0..levels)
                .map(|_| (!(gappy && random.one_in(5))).then(|| random.below(2)))
                .collect(),
            tainted: random.one_in(12),
        })
        .collect();
    let configs: Vec<Wish> = (0..random.below(3)).map(|_| wish(random, levels, 2)).collect();
    let mut left = 1 + random.below(u64::from(most_pods)) as u32;
    let mut parts: Vec<Part> = Vec::new();
    for _ in 0..=random.below(4) {
        let floor = (random.below(4) as u32).min(left);
        left -= floor;
        let extras = if random.one_in(3) {
            (random.below(3) as u32).min(left)
        } else {
            0
        };
        left -= extras;
        let config = (!configs.is_empty() && random.one_in(2)).then(|| random.below(configs.len() as u64) as usize);
        // Replicas of scaling groups are alike: repeat what is there half of the time.
        let twin = if random.one_in(2) { parts.last().cloned() } else { None };
        parts.push(match twin {
            Some(twin) => Part {
                floor,
                extras,
                config,
                ..twin
            },
            None => Part {
                gpu: [1, 1, 2, 2, 3, 4, 8][random.below(7) as usize],
                cpu: if two { random.below(5) as i64 } else { 0 },
                exclusive: random.one_in(10),
                floor,
                extras,
                config,
                wish: wish(random, levels, 3),
            },
        });
    }
    Instance {
        levels,
        hosts,
        parts,
        configs,
        gang: wish(random, levels, 3),
        outer: wish(random, levels, 8),
        storage: storage::Storage::default(),
    }
}

pub fn key(depth: usize) -> String {
    format!("level-{depth}")
}

fn pack(wish: Wish) -> Pack {
    Pack {
        required: wish.required.map(key),
        preferred: wish.preferred.map(key),
    }
}

impl Instance {
    pub fn node(&self, at: usize) -> Node {
        let host = &self.hosts[at];
        let labels = host
            .path
            .iter()
            .enumerate()
            .filter_map(|(level, value)| value.map(|v| (key(level + 1), v.to_string())));
        let mut node = Node {
            name: format!("node-{at}"),
            labels: labels.collect(),
            taints: if host.tainted {
                vec![Taint {
                    key: "broken".into(),
                    value: String::new(),
                    effect: Effect::NoSchedule,
                }]
            } else {
                Vec::new()
            },
            allocatable: [("nvidia.com/gpu", host.gpu), ("cpu", host.cpu), ("pods", 50)]
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
            ..Node::default()
        };
        self.storage.dress_node(at, &mut node);
        node
    }

    pub fn state(&self) -> ClusterState {
        let keys = (1..=self.levels).map(key).collect();
        let mut state = ClusterState::new(&[("fabric".to_owned(), keys)]);
        state.put_nodes((0..self.hosts.len()).map(|at| self.node(at)));
        state
    }

    pub fn demands(&self, at: usize, state: &ClusterState) -> PodDemands {
        let part = &self.parts[at];
        let mut demands = PodDemands {
            namespace: "default".into(),
            requests: [("nvidia.com/gpu".to_owned(), part.gpu), ("cpu".to_owned(), part.cpu)].into(),
            ..PodDemands::default()
        };
        if part.exclusive {
            // Told apart from plain pods by a label, so that it shuns only its own kind.
            demands.labels.insert("alone".into(), "yes".into());
            demands.keep_apart.push(KeepApart {
                topology_key: HOSTNAME.into(),
                namespaces: Default::default(),
                selector: vec![coppice_placement::predicates::Expression {
                    key: "alone".into(),
                    operator: coppice_placement::predicates::Operator::Exists,
                    values: Vec::new(),
                }],
            });
        }
        self.storage.dress_pod(at, state, &mut demands);
        demands
    }

    pub fn gang(&self, state: &mut ClusterState) -> Gang {
        let groups = (0..self.parts.len())
            .map(|at| {
                let part = &self.parts[at];
                let demands = self.demands(at, state);
                Group {
                    name: format!("group-{at}"),
                    shape: state.shape(&demands),
                    floor: part.floor,
                    pending: (0..part.floor + part.extras)
                        .map(|pod| format!("group-{at}-{pod}"))
                        .collect(),
                    bound: Vec::new(),
                    pack: pack(part.wish),
                }
            })
            .collect();
        let configs = self.configs.iter().enumerate().map(|(at, wish)| GroupConfig {
            name: format!("config-{at}"),
            groups: (0..self.parts.len())
                .filter(|part| self.parts[*part].config == Some(at))
                .collect(),
            pack: pack(*wish),
        });
        let mut gang = Gang {
            name: "gang".into(),
            topology: "fabric".into(),
            pack: pack(self.gang),
            configs: configs.collect(),
            groups,
            placement_group: Some(PlacementGroup {
                pack: pack(self.outer),
                ..PlacementGroup::default()
            }),
            ..Gang::default()
        };
        self.storage.dress_gang(&mut gang);
        gang
    }

    /// The placement of a plan as host indices: per group, floors and extras.
    pub fn hosts_of(&self, plan: &Plan) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let mut floors = vec![Vec::new(); self.parts.len()];
        let mut extras = vec![Vec::new(); self.parts.len()];
        for binding in &plan.bindings {
            let host = binding.node.strip_prefix("node-").unwrap().parse().unwrap();
            let list = if binding.extra { &mut extras } else { &mut floors };
            list[binding.group].push(host);
        }
        (floors, extras)
    }
}
