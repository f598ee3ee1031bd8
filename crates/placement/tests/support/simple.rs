//! Two simpler planners, modelled on what others do: whatever they place, ours has to place.

use std::collections::BTreeSet;

use super::{Instance, Wish, reference};

struct Room<'a> {
    instance: &'a Instance,
    gpu: Vec<i64>,
    cpu: Vec<i64>,
    alone: Vec<bool>,
}

impl<'a> Room<'a> {
    fn new(instance: &'a Instance) -> Self {
        Self {
            instance,
            gpu: instance.hosts.iter().map(|host| host.gpu).collect(),
            cpu: instance.hosts.iter().map(|host| host.cpu).collect(),
            alone: vec![false; instance.hosts.len()],
        }
    }

    fn take(&mut self, part: usize, host: usize) -> bool {
        let wants = &self.instance.parts[part];
        let fits = !self.instance.hosts[host].tainted
            && self.gpu[host] >= wants.gpu
            && self.cpu[host] >= wants.cpu
            && !(wants.exclusive && self.alone[host]);
        if fits {
            self.gpu[host] -= wants.gpu;
            self.cpu[host] -= wants.cpu;
            self.alone[host] |= wants.exclusive;
        }
        fits
    }

    /// First fit of all floor pods of a group.
    fn fill(&mut self, part: usize, hosts: &[usize]) -> Option<Vec<usize>> {
        let floor = self.instance.parts[part].floor;
        (0..floor)
            .map(|_| hosts.iter().copied().find(|host| self.take(part, *host)))
            .collect()
    }
}

/// The domains of a required level among some hosts, tightest first; all of them if nothing is required.
fn domains(instance: &Instance, room: &Room<'_>, hosts: &[usize], wish: Wish) -> Vec<Vec<usize>> {
    let Some(depth) = wish.required else {
        return vec![hosts.to_vec()];
    };
    let named = |host: &&usize| instance.hosts[**host].path[depth - 1].is_some();
    let paths: BTreeSet<_> = hosts
        .iter()
        .filter(named)
        .map(|host| instance.hosts[*host].path[..depth].to_vec())
        .collect();
    let inside = |path: &Vec<Option<u64>>| {
        let same = |host: &usize| instance.hosts[*host].path[..depth] == path[..];
        hosts.iter().copied().filter(same).collect::<Vec<usize>>()
    };
    let mut domains: Vec<Vec<usize>> = paths.iter().map(inside).collect();
    domains.sort_by_key(|hosts| hosts.iter().map(|host| room.gpu[*host]).sum::<i64>());
    domains
}

/// Tightest domain first, group after group, each in the first domain that takes it; siblings are never tried again.
pub fn greedy(instance: &Instance) -> bool {
    let all: Vec<usize> = (0..instance.hosts.len()).collect();
    let start = Room::new(instance);
    let outer = domains(instance, &start, &all, instance.outer);
    let wholes = outer
        .iter()
        .flat_map(|hosts| domains(instance, &start, hosts, instance.gang));
    wholes.into_iter().any(|whole| {
        let mut room = Room::new(instance);
        let mut floors = vec![Vec::new(); instance.parts.len()];
        let configs = instance.configs.iter().enumerate().map(|(at, wish)| (Some(at), *wish));
        for (config, wish) in configs.chain([(None, Wish::default())]) {
            let members: Vec<usize> = (0..instance.parts.len())
                .filter(|part| instance.parts[*part].config == config)
                .collect();
            let placed = domains(instance, &room, &whole, wish).into_iter().any(|hosts| {
                let (gpu, cpu, alone) = (room.gpu.clone(), room.cpu.clone(), room.alone.clone());
                let done = members.iter().all(|part| {
                    let own = domains(instance, &room, &hosts, instance.parts[*part].wish);
                    own.into_iter().any(|hosts| {
                        let (gpu, cpu, alone) = (room.gpu.clone(), room.cpu.clone(), room.alone.clone());
                        match room.fill(*part, &hosts) {
                            Some(hosts) => {
                                floors[*part] = hosts;
                                true
                            }
                            None => {
                                (room.gpu, room.cpu, room.alone) = (gpu, cpu, alone);
                                false
                            }
                        }
                    })
                });
                if !done {
                    (room.gpu, room.cpu, room.alone) = (gpu, cpu, alone);
                }
                done
            });
            if !placed && members.iter().any(|part| instance.parts[*part].floor > 0) {
                return false;
            }
        }
        sound(instance, &floors)
    })
}

/// One candidate set of hosts per domain of the gang, pods one by one onto the emptiest host, checked at the end.
pub fn pod_by_pod(instance: &Instance) -> bool {
    let all: Vec<usize> = (0..instance.hosts.len()).collect();
    let start = Room::new(instance);
    let wholes = domains(instance, &start, &all, instance.gang);
    wholes.into_iter().any(|mut hosts| {
        let mut room = Room::new(instance);
        let mut floors = vec![Vec::new(); instance.parts.len()];
        for (part, placed) in floors.iter_mut().enumerate() {
            for _ in 0..instance.parts[part].floor {
                hosts.sort_by_key(|host| (-room.gpu[*host], *host));
                let Some(host) = hosts.iter().copied().find(|host| room.take(part, *host)) else {
                    return false;
                };
                placed.push(host);
            }
        }
        sound(instance, &floors)
    })
}

fn sound(instance: &Instance, floors: &[Vec<usize>]) -> bool {
    let none = vec![Vec::new(); floors.len()];
    reference::check(instance, floors, &none).is_ok()
}
