//! Histories: gangs come, lose pods, come back and go, as a scheduler would drive the planner. At every step no gang is
//! partly placed, no node is overcommitted, every required packing holds across all gangs of a placement group, and no
//! dependent is placed before its base.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use coppice_placement::resources::Column;
use coppice_placement::topology::DomainPath;
use coppice_placement::{ClusterState, Gang, GroupConfig, Options, Outcome, Pack, PlacementGroup, plan};
use support::Random;
use support::cluster::{BLOCK, HOST, RACK, cluster, demands, gang, group};

/// One replica of a set: a base gang and a scaled gang that share a block.
struct Replica {
    pack: Option<DomainPath>,
    gangs: Vec<Gang>,
}

struct World {
    state: ClusterState,
    replicas: Vec<Replica>,
    scheduled: BTreeSet<String>,
    placed: usize,
    repaired: usize,
}

fn wish(random: &mut Random, key: &str) -> Pack {
    match random.below(4) {
        0 => Pack::required(key),
        1 => Pack::preferred(key),
        _ => Pack::none(),
    }
}

fn replica(state: &mut ClusterState, random: &mut Random, number: usize) -> Replica {
    let outer = PlacementGroup {
        pack: if random.one_in(3) {
            Pack::none()
        } else {
            Pack::required(BLOCK)
        },
        ..PlacementGroup::default()
    };
    let mut gangs = Vec::new();
    for part in ["base", "scaled"] {
        let mut wanted = gang(&format!("{part}-{number}"), wish(random, BLOCK), Vec::new());
        for at in 0..1 + random.below(3) as usize {
            let large = state.shape(&demands([2, 4, 8][random.below(3) as usize]));
            let small = state.shape(&demands(1));
            let floor = 1 + random.below(3) as u32;
            let extras = random.below(3) as u32;
            let name = format!("{part}-{number}-{at}");
            wanted.groups.push(group(
                &format!("{name}-worker"),
                large,
                floor,
                floor + extras,
                wish(random, RACK),
            ));
            let host = if random.one_in(4) {
                Pack::required(HOST)
            } else {
                Pack::none()
            };
            wanted.groups.push(group(&format!("{name}-leader"), small, 1, 1, host));
            wanted.configs.push(GroupConfig {
                name: name.clone(),
                groups: vec![at * 2, at * 2 + 1],
                pack: wish(random, RACK),
            });
        }
        wanted.placement_group = Some(outer.clone());
        if part == "scaled" {
            wanted.depends_on.push(format!("base-{number}"));
        }
        gangs.push(wanted);
    }
    Replica { pack: None, gangs }
}

impl World {
    fn schedule(&mut self, replica: usize, at: usize) {
        let Replica { pack, gangs } = &mut self.replicas[replica];
        let gang = &mut gangs[at];
        let running = gang.groups.iter().any(|group| !group.bound.is_empty());
        gang.placement_group.as_mut().unwrap().pinned.clone_from(pack);
        let options = Options {
            scheduled: self.scheduled.clone(),
            budget: 60_000,
            improvement: 5_000,
            ..Options::default()
        };
        let Outcome::Placed(plan) = plan(&mut self.state, gang, &options) else {
            return;
        };
        assert!(
            gang.depends_on.iter().all(|base| self.scheduled.contains(base)),
            "{} came too early",
            gang.name
        );
        if let Some(chosen) = &plan.placement_group {
            assert!(
                pack.is_none() || pack.as_ref() == Some(chosen),
                "{} left its placement group",
                gang.name
            );
            *pack = Some(chosen.clone());
        }
        for binding in &plan.bindings {
            let group = &mut gang.groups[binding.group];
            self.state.add_pod(&binding.pod, &binding.node, group.shape).unwrap();
            group.pending.retain(|pod| *pod != binding.pod);
            group.bound.push(binding.node.clone());
        }
        self.scheduled.insert(gang.name.clone());
        self.placed += 1;
        self.repaired += usize::from(running && !plan.bindings.is_empty());
    }

    /// A pod dies and is recreated under the same name.
    fn lose_pod(&mut self, random: &mut Random) {
        let pods: Vec<String> = self.state.pods().map(|(name, _)| name.to_owned()).collect();
        if pods.is_empty() {
            return;
        }
        let pod = &pods[random.below(pods.len() as u64) as usize];
        let resident = self.state.remove_pod(pod).unwrap();
        let node = self.state.node(resident.node).name.clone();
        let groups = self
            .replicas
            .iter_mut()
            .flat_map(|replica| &mut replica.gangs)
            .flat_map(|gang| &mut gang.groups);
        let group = groups
            .into_iter()
            .find(|group| pod.starts_with(&format!("{}-", group.name)))
            .unwrap();
        let at = group.bound.iter().position(|bound| *bound == node).unwrap();
        group.bound.remove(at);
        group.pending.push(pod.clone());
    }

    fn remove_gang(&mut self, replica: usize) {
        let replica = &mut self.replicas[replica];
        for gang in &mut replica.gangs {
            self.scheduled.remove(&gang.name);
            for group in &mut gang.groups {
                let gone: Vec<String> = self
                    .state
                    .pods()
                    .map(|(name, _)| name.to_owned())
                    .filter(|name| name.starts_with(&format!("{}-", group.name)))
                    .collect();
                for pod in gone {
                    self.state.remove_pod(&pod);
                    group.pending.push(pod);
                }
                group.bound.clear();
            }
        }
        replica.pack = None;
    }

    /// The domains of some nodes at a level.
    fn domains<'a>(&self, nodes: impl Iterator<Item = &'a String>, key: &str) -> BTreeSet<String> {
        let view = self.state.view(self.state.view_named("fabric").unwrap());
        let depth = view.depth_of(key).unwrap();
        nodes
            .map(|node| view.describe(view.domain_of(self.state.node_id(node).unwrap(), depth).unwrap()))
            .collect()
    }

    fn check(&self, lossy: &BTreeSet<String>) {
        for column in [
            Column::CPU,
            Column::PODS,
            self.state.columns().get("nvidia.com/gpu").unwrap(),
        ] {
            let view = self.state.view(0);
            for node in view.nodes_in(coppice_placement::topology::DomainId::ROOT) {
                assert!(self.state.free_on(*node, column) >= 0, "overcommitted");
            }
        }
        let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
        for replica in &self.replicas {
            for gang in &replica.gangs {
                let total: usize = gang.groups.iter().map(|group| group.bound.len()).sum();
                bound.insert(&gang.name, total);
                let complete = gang
                    .groups
                    .iter()
                    .all(|group| group.bound.len() >= group.floor as usize);
                assert!(
                    total == 0 || complete || lossy.contains(&gang.name),
                    "{} is half placed",
                    gang.name
                );
                let nodes = |groups: &[usize]| groups.iter().flat_map(|at| &gang.groups[*at].bound).collect::<Vec<_>>();
                let all: Vec<usize> = (0..gang.groups.len()).collect();
                let mut packs = vec![(&gang.pack, nodes(&all))];
                packs.extend(gang.configs.iter().map(|config| (&config.pack, nodes(&config.groups))));
                packs.extend(all.iter().map(|at| (&gang.groups[*at].pack, nodes(&[*at]))));
                for (pack, nodes) in packs {
                    if let Some(key) = &pack.required {
                        assert!(self.domains(nodes.into_iter(), key).len() <= 1, "{}: {key}", gang.name);
                    }
                }
            }
            let outer = replica.gangs[0].placement_group.as_ref().unwrap();
            if let Some(key) = &outer.pack.required {
                let nodes = replica
                    .gangs
                    .iter()
                    .flat_map(|gang| &gang.groups)
                    .flat_map(|group| &group.bound);
                assert!(self.domains(nodes, key).len() <= 1, "a placement group in two domains");
            }
        }
    }
}

#[test]
fn invariants_hold_through_random_histories() {
    let (mut placed, mut repaired) = (0, 0);
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut state = cluster(2, 3, 4, 8);
        let replicas = (0..5).map(|number| replica(&mut state, &mut random, number)).collect();
        let mut world = World {
            state,
            replicas,
            scheduled: BTreeSet::new(),
            placed: 0,
            repaired: 0,
        };
        // Gangs that lost a pod to the outside may be below their floor until they are repaired.
        let mut lossy: BTreeSet<String> = BTreeSet::new();
        for _ in 0..60 {
            let at = random.below(5) as usize;
            match random.below(8) {
                0 => {
                    world.remove_gang(at);
                    lossy.retain(|name| world.replicas[at].gangs.iter().all(|gang| gang.name != *name));
                }
                1 | 2 => {
                    world.lose_pod(&mut random);
                    let gangs = world.replicas.iter().flat_map(|replica| &replica.gangs);
                    let hurt = gangs
                        .filter(|gang| !gang.is_scheduled() && gang.groups.iter().any(|group| !group.bound.is_empty()));
                    lossy.extend(hurt.map(|gang| gang.name.clone()));
                }
                _ => {
                    let which = random.below(2) as usize;
                    world.schedule(at, which);
                    let gang = &world.replicas[at].gangs[which];
                    if gang.is_scheduled() {
                        lossy.remove(&gang.name);
                    }
                }
            }
            world.check(&lossy);
            assert!(world.state == world.state.recomputed(), "seed {seed}");
        }
        placed += world.placed;
        repaired += world.repaired;
    }
    assert!(
        placed > 1_000 && repaired > 100,
        "{placed} {repaired}: the histories are too tame"
    );
}

/// The scheduler dies after any number of bindings of a plan; the next one sees some pods bound and asks again.
#[test]
fn a_restart_at_any_binding_resumes_the_plan() {
    let mut cut = 0;
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let mut state = cluster(2, 3, 4, 8);
        let replica = replica(&mut state, &mut random, 0);
        let wanted = replica.gangs[0].clone();
        let Outcome::Placed(first) = plan(&mut state, &wanted, &Options::default()) else {
            continue;
        };
        for bound in 0..first.bindings.len() {
            let mut world = World {
                state: state.clone(),
                replicas: vec![Replica {
                    pack: None,
                    gangs: vec![wanted.clone(), replica.gangs[1].clone()],
                }],
                scheduled: BTreeSet::new(),
                placed: 0,
                repaired: 0,
            };
            let gang = &mut world.replicas[0].gangs[0];
            for binding in first.bindings.iter().take(bound) {
                let group = &mut gang.groups[binding.group];
                world.state.add_pod(&binding.pod, &binding.node, group.shape).unwrap();
                group.pending.retain(|pod| *pod != binding.pod);
                group.bound.push(binding.node.clone());
            }
            world.schedule(0, 0);
            assert!(
                world.replicas[0].gangs[0].is_scheduled(),
                "seed {seed}: stuck after {bound} bindings"
            );
            world.check(&BTreeSet::new());
            cut += 1;
        }
    }
    assert!(cut > 200, "{cut}: hardly anything was cut off");
}
