//! Random volumes for small instances: bound ones, claims with sources, and limits of attached volumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use coppice_placement::predicates::{Expression, Node, NodeSelector, NodeTerm, Operator, VolumeReach};
use coppice_placement::resources::attach_limit;
use coppice_placement::shape::PodDemands;
use coppice_placement::volume::{UnboundClaim, VolumeSource};
use coppice_placement::{ClusterState, Gang};

use super::{Instance, Random};

/// Where a volume can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host,
    Zone,
    Anywhere,
}

/// One way to serve a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A volume, by number, and the hosts that reach it.
    Volume(usize, Vec<usize>),
    /// One that is made, for one of these hosts.
    Made(Place, Vec<usize>),
}

/// What one part asks of storage.
#[derive(Debug, Clone, Default)]
pub struct Volumes {
    /// Hosts that reach its bound volume.
    pub bound: Option<Vec<usize>>,
    /// Claims by number.
    pub claims: BTreeSet<usize>,
    /// Volumes that count once on a host.
    pub shared: BTreeSet<u64>,
    /// Volumes that each pod has for itself.
    pub own: i64,
}

/// The storage of an instance.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    /// Zone by host.
    pub zones: Vec<Option<u64>>,
    /// How many volumes a host takes.
    pub limits: Vec<i64>,
    /// Ways by claim.
    pub claims: Vec<Vec<Way>>,
    /// What each part asks for.
    pub parts: Vec<Volumes>,
}

fn some_hosts(random: &mut Random, hosts: usize) -> Vec<usize> {
    (0..hosts).filter(|_| !random.one_in(3)).collect()
}

/// Gives an instance storage.
pub fn with_volumes(random: &mut Random, mut instance: Instance) -> Instance {
    let hosts = instance.hosts.len();
    let volumes: Vec<Vec<usize>> = (0..2).map(|_| some_hosts(random, hosts)).collect();
    let way = |random: &mut Random| {
        if random.one_in(2) {
            let at = random.below(2) as usize;
            Way::Volume(at, volumes[at].clone())
        } else {
            let place = [Place::Host, Place::Zone, Place::Anywhere][random.below(3) as usize];
            let hosts = if random.one_in(3) {
                some_hosts(random, hosts)
            } else {
                (0..hosts).collect()
            };
            Way::Made(place, hosts)
        }
    };
    let claims: Vec<Vec<Way>> = (0..random.below(4))
        .map(|_| {
            let ways = 1 + random.below(2);
            (0..ways).map(|_| way(random)).collect()
        })
        .collect();
    let parts = instance.parts.iter().map(|_| Volumes {
        bound: random.one_in(6).then(|| some_hosts(random, hosts)),
        claims: (0..claims.len()).filter(|_| random.one_in(3)).collect(),
        shared: (0..3).filter(|_| random.one_in(4)).collect(),
        own: i64::from(random.one_in(4)),
    });
    let parts: Vec<Volumes> = parts.collect();
    instance.storage = Storage {
        zones: (0..hosts)
            .map(|_| (!random.one_in(8)).then(|| random.below(2)))
            .collect(),
        limits: (0..hosts).map(|_| random.below(4) as i64).collect(),
        claims,
        parts,
    };
    instance
}

fn named(hosts: &[usize]) -> NodeSelector {
    let names = Expression {
        key: "metadata.name".into(),
        operator: Operator::In,
        values: hosts.iter().map(|host| format!("node-{host}")).collect(),
    };
    NodeSelector {
        terms: vec![NodeTerm {
            expressions: Vec::new(),
            fields: vec![names],
        }],
    }
}

const DRIVER: &str = "disk.example.com";

impl Storage {
    pub fn dress_node(&self, at: usize, node: &mut Node) {
        if let Some(zone) = self.zones.get(at).copied().flatten() {
            node.labels.insert("zone".into(), zone.to_string());
        }
        node.labels.insert("host".into(), at.to_string());
        if let Some(limit) = self.limits.get(at) {
            node.allocatable.insert(attach_limit(DRIVER), *limit);
        }
    }

    pub fn dress_pod(&self, part: usize, state: &ClusterState, demands: &mut PodDemands) {
        let Some(volumes) = self.parts.get(part) else { return };
        demands
            .node
            .volumes
            .extend(volumes.bound.as_ref().map(|hosts| VolumeReach {
                what: "volume".into(),
                nodes: named(hosts),
            }));
        demands.claims = volumes.claims.iter().map(|claim| format!("claim-{claim}")).collect();
        // What no node limits is not limited.
        let resource = attach_limit(DRIVER);
        if state.columns().get(&resource).is_some() {
            let shared = volumes.shared.iter().map(u64::to_string).collect();
            demands.attached.insert(resource.clone(), shared);
            demands.requests.insert(resource, volumes.own);
        }
    }

    pub fn dress_gang(&self, gang: &mut Gang) {
        for (at, ways) in self.claims.iter().enumerate() {
            let sources = ways.iter().map(|way| match way {
                Way::Volume(name, hosts) => VolumeSource::Volume {
                    name: format!("volume-{name}"),
                    nodes: Some(named(hosts)),
                },
                Way::Made(place, hosts) => VolumeSource::Provisioned {
                    keys: match place {
                        Place::Host => vec!["host".into()],
                        Place::Zone => vec!["zone".into()],
                        Place::Anywhere => Vec::new(),
                    },
                    nodes: vec![named(hosts)],
                },
            });
            let claim = UnboundClaim {
                what: format!("claim {at}"),
                sources: sources.collect(),
            };
            gang.claims.insert(format!("claim-{at}"), Arc::new(claim));
        }
    }

    /// The hosts that each way reaches, with the volume that it takes: by the definition.
    fn reaches(&self, way: &Way) -> Vec<(Option<usize>, BTreeSet<usize>)> {
        match way {
            Way::Volume(name, hosts) => vec![(Some(*name), hosts.iter().copied().collect())],
            Way::Made(Place::Anywhere, hosts) => vec![(None, hosts.iter().copied().collect())],
            Way::Made(Place::Host, hosts) => hosts.iter().map(|host| (None, BTreeSet::from([*host]))).collect(),
            Way::Made(Place::Zone, hosts) => {
                let in_zone = |zone| {
                    hosts
                        .iter()
                        .copied()
                        .filter(move |host| self.zones[*host] == Some(zone))
                        .collect()
                };
                (0..2).map(|zone| (None, in_zone(zone))).collect()
            }
        }
    }

    /// Whether all claims can be served with the pods of each part on these hosts.
    pub fn holds(&self, placed: &[Vec<usize>], extras: &[Vec<usize>]) -> bool {
        if self.parts.is_empty() {
            return true;
        }
        let hosts_of = |part: usize| placed[part].iter().chain(&extras[part]).copied();
        for (part, volumes) in self.parts.iter().enumerate() {
            let reached = |host: usize| volumes.bound.as_ref().is_none_or(|hosts| hosts.contains(&host));
            if !hosts_of(part).all(reached) {
                return false;
            }
        }
        for (host, limit) in self.limits.iter().enumerate() {
            let (mut shared, mut own) = (BTreeSet::<u64>::new(), 0);
            for (part, volumes) in self.parts.iter().enumerate() {
                let pods = hosts_of(part).filter(|at| *at == host).count();
                if pods > 0 {
                    shared.extend(volumes.shared.iter().copied());
                    own += volumes.own * pods as i64;
                }
            }
            if self.limits.iter().any(|limit| *limit > 0) && own + shared.len() as i64 > *limit {
                return false;
            }
        }
        let users = |claim: usize| -> BTreeSet<usize> {
            let parts = (0..self.parts.len()).filter(|part| self.parts[*part].claims.contains(&claim));
            parts.flat_map(hosts_of).collect()
        };
        let used: Vec<BTreeSet<usize>> = (0..self.claims.len()).map(users).collect();
        self.serve(0, &used, &mut BTreeSet::new())
    }

    fn serve(&self, claim: usize, used: &[BTreeSet<usize>], taken: &mut BTreeSet<usize>) -> bool {
        let Some(ways) = self.claims.get(claim) else {
            return true;
        };
        if used[claim].is_empty() {
            return self.serve(claim + 1, used, taken);
        }
        ways.iter().flat_map(|way| self.reaches(way)).any(|(volume, hosts)| {
            if !used[claim].is_subset(&hosts) || volume.is_some_and(|volume| taken.contains(&volume)) {
                return false;
            }
            let mut taken = taken.clone();
            taken.extend(volume);
            self.serve(claim + 1, used, &mut taken)
        })
    }
}
