//! The reference: every placement of every pod, pod by pod, by the definition and nothing else.

use super::{Instance, Wish};

/// Lower is better: levels lost by rank (placement group, gang, configs, groups), then extras without a place.
pub type Score = ([u32; 4], u32);

/// Members of a scope, its rank and its wish.
struct Scope {
    rank: usize,
    wish: Wish,
    members: Vec<usize>,
}

fn scopes(instance: &Instance) -> Vec<Scope> {
    let all: Vec<usize> = (0..instance.parts.len()).collect();
    let mut scopes = vec![
        Scope {
            rank: 0,
            wish: instance.outer,
            members: all.clone(),
        },
        Scope {
            rank: 1,
            wish: instance.gang,
            members: all.clone(),
        },
    ];
    for (at, wish) in instance.configs.iter().enumerate() {
        let members = all
            .iter()
            .copied()
            .filter(|part| instance.parts[*part].config == Some(at))
            .collect();
        scopes.push(Scope {
            rank: 2,
            wish: *wish,
            members,
        });
    }
    for part in all {
        scopes.push(Scope {
            rank: 3,
            wish: instance.parts[part].wish,
            members: vec![part],
        });
    }
    scopes
}

/// What identifies the domain of a host at a depth; nothing if it lacks the label.
fn domain(instance: &Instance, host: usize, depth: usize) -> Option<Vec<Option<u64>>> {
    let path = &instance.hosts[host].path[..depth];
    match path.last() {
        None => Some(Vec::new()),
        Some(None) => None,
        Some(Some(_)) => Some(path.to_vec()),
    }
}

fn required_holds(instance: &Instance, scopes: &[Scope], placed: &[Vec<usize>], extras: &[Vec<usize>]) -> bool {
    let packed = scopes.iter().all(|scope| {
        let Some(depth) = scope.wish.required else { return true };
        let mut hosts = scope
            .members
            .iter()
            .flat_map(|part| placed[*part].iter().chain(&extras[*part]));
        let Some(first) = hosts.next() else { return true };
        let Some(wanted) = domain(instance, *first, depth) else {
            return false;
        };
        hosts.all(|host| domain(instance, *host, depth).as_ref() == Some(&wanted))
    });
    packed && instance.storage.holds(placed, extras)
}

/// Levels lost by the floors, by rank.
pub fn distances(instance: &Instance, floors: &[Vec<usize>]) -> [u32; 4] {
    let mut lost = [0; 4];
    for scope in scopes(instance) {
        let Some(preferred) = scope.wish.preferred else {
            continue;
        };
        if scope.wish.required.is_some_and(|required| preferred <= required) {
            continue;
        }
        let hosts: Vec<usize> = scope
            .members
            .iter()
            .flat_map(|part| floors[*part].iter().copied())
            .collect();
        if hosts.is_empty() {
            continue;
        }
        let shared = (0..=preferred).rev().find(|depth| {
            let first = domain(instance, hosts[0], *depth);
            first.is_some() && hosts.iter().all(|host| domain(instance, *host, *depth) == first)
        });
        lost[scope.rank] += (preferred - shared.unwrap_or(0)) as u32;
    }
    lost
}

struct Search<'a> {
    instance: &'a Instance,
    scopes: Vec<Scope>,
    gpu: Vec<i64>,
    cpu: Vec<i64>,
    alone: Vec<bool>,
    floors: Vec<Vec<usize>>,
    extras: Vec<Vec<usize>>,
    best: Option<Score>,
    wanted: u32,
}

/// The best score of any placement of all floors; nothing if there is none.
pub fn best(instance: &Instance) -> Option<Score> {
    let parts = instance.parts.len();
    let mut search = Search {
        instance,
        scopes: scopes(instance),
        gpu: instance.hosts.iter().map(|host| host.gpu).collect(),
        cpu: instance.hosts.iter().map(|host| host.cpu).collect(),
        alone: vec![false; instance.hosts.len()],
        floors: vec![Vec::new(); parts],
        extras: vec![Vec::new(); parts],
        best: None,
        wanted: instance.parts.iter().map(|part| part.extras).sum(),
    };
    search.place_floors(0);
    search.best
}

impl Search<'_> {
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

    fn give(&mut self, part: usize, host: usize) {
        let wants = &self.instance.parts[part];
        self.gpu[host] += wants.gpu;
        self.cpu[host] += wants.cpu;
        if wants.exclusive {
            self.alone[host] = false;
        }
    }

    fn perfect(&self) -> bool {
        self.best == Some(([0; 4], 0))
    }

    fn place_floors(&mut self, part: usize) {
        if self.perfect() {
            return;
        }
        let Some(wants) = self.instance.parts.get(part) else {
            let lost = distances(self.instance, &self.floors);
            if self.best.is_none_or(|best| (lost, 0) < best) {
                self.place_extras(0, 0, lost);
            }
            return;
        };
        if self.floors[part].len() == wants.floor as usize {
            self.place_floors(part + 1);
            return;
        }
        // Pods of one group are alike: only non-decreasing hosts.
        let first = self.floors[part].last().copied().unwrap_or(0);
        for host in first..self.instance.hosts.len() {
            if self.take(part, host) {
                self.floors[part].push(host);
                if required_holds(self.instance, &self.scopes, &self.floors, &self.extras) {
                    self.place_floors(part);
                }
                self.floors[part].pop();
                self.give(part, host);
            }
        }
    }

    fn place_extras(&mut self, part: usize, placed: u32, lost: [u32; 4]) {
        let score = (lost, self.wanted - placed);
        if self.best.is_none_or(|best| score < best) {
            self.best = Some(score);
        }
        let Some(wants) = self.instance.parts.get(part) else {
            return;
        };
        let possible: u32 = self.instance.parts[part..].iter().map(|part| part.extras).sum();
        let possible = possible - self.extras[part].len() as u32;
        if self
            .best
            .is_some_and(|best| (lost, (self.wanted - placed).saturating_sub(possible)) >= best)
        {
            return;
        }
        if (self.extras[part].len() as u32) < wants.extras {
            let first = self.extras[part].last().copied().unwrap_or(0);
            for host in first..self.instance.hosts.len() {
                if self.take(part, host) {
                    self.extras[part].push(host);
                    if required_holds(self.instance, &self.scopes, &self.floors, &self.extras) {
                        self.place_extras(part, placed + 1, lost);
                    }
                    self.extras[part].pop();
                    self.give(part, host);
                }
            }
        }
        let held = std::mem::take(&mut self.extras[part]);
        self.extras[part].clone_from(&held);
        self.place_extras(part + 1, placed, lost);
    }
}

/// Whether a placement keeps every rule; what is wrong otherwise.
pub fn check(instance: &Instance, floors: &[Vec<usize>], extras: &[Vec<usize>]) -> Result<(), String> {
    let mut gpu: Vec<i64> = instance.hosts.iter().map(|host| host.gpu).collect();
    let mut cpu: Vec<i64> = instance.hosts.iter().map(|host| host.cpu).collect();
    let mut alone = vec![false; instance.hosts.len()];
    for (at, part) in instance.parts.iter().enumerate() {
        if floors[at].len() != part.floor as usize {
            return Err(format!("group {at}: {} of {} floor pods", floors[at].len(), part.floor));
        }
        if extras[at].len() > part.extras as usize {
            return Err(format!("group {at}: more extras than pods"));
        }
        for host in floors[at].iter().chain(&extras[at]) {
            gpu[*host] -= part.gpu;
            cpu[*host] -= part.cpu;
            if instance.hosts[*host].tainted {
                return Err(format!("group {at}: on tainted host {host}"));
            }
            if part.exclusive && std::mem::replace(&mut alone[*host], true) {
                return Err(format!("group {at}: shares host {host}"));
            }
        }
    }
    if gpu.iter().chain(&cpu).any(|free| *free < 0) {
        return Err("overcommitted".into());
    }
    if !required_holds(instance, &scopes(instance), floors, extras) {
        return Err("a required packing is broken, or a volume is out of reach".into());
    }
    Ok(())
}
