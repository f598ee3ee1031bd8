//! Medium clusters: zones of blocks of racks, twenty to sixty nodes partly in use, and gangs of ten to forty pods in replicas
//! of leaders and workers, sized so that about half of them fit.

use super::{Host, Instance, Part, Random, Wish};

/// How much packing a gang asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wishes {
    /// Required levels only.
    Required,
    /// Required levels of parts, and one preferred level for the whole.
    OnePreferred,
    /// Anything anywhere.
    Many,
}

fn level(random: &mut Random, chances: u64, depths: &[usize]) -> Option<usize> {
    let depth = depths[random.below(depths.len() as u64) as usize];
    (!random.one_in(chances)).then_some(depth)
}

/// A medium instance without extras.
pub fn medium(random: &mut Random, wishes: Wishes) -> Instance {
    let (zones, blocks, racks) = (1 + random.below(2), 2 + random.below(2), 2 + random.below(2));
    let hosts = (20 / (zones * blocks * racks)).max(3) + random.below(2);
    let tight = random.one_in(3);
    let busy = random.below(4);
    let mut list = Vec::new();
    for zone in 0..zones {
        for block in 0..blocks {
            for rack in 0..racks {
                for _ in 0..hosts {
                    let free = if random.below(6) < busy {
                        random.below(8) as i64
                    } else {
                        8
                    };
                    list.push(Host {
                        gpu: free,
                        cpu: if tight { 4 + random.below(9) as i64 } else { 99 },
                        path: vec![Some(zone), Some(block), Some(rack)],
                        tainted: random.one_in(20),
                    });
                }
            }
        }
    }
    let many = wishes == Wishes::Many;
    let mut parts: Vec<Part> = Vec::new();
    let mut configs = Vec::new();
    let capacity = list.len() as u32;
    let wanted = (10 + random.below(31) as u32).min(capacity);
    let replica = Wish {
        required: level(random, 4, &[3, 3, 2]),
        preferred: if many { level(random, 2, &[3]) } else { None },
    };
    let (worker, workers) = ([8, 8, 4, 4, 3, 5][random.below(6) as usize], 2 + random.below(4) as u32);
    let leader = [1, 2, 8][random.below(3) as usize];
    let part = |gpu: i64, cpu: i64, floor: u32, config: Option<usize>, wish: Wish| Part {
        gpu,
        cpu: if tight { cpu } else { 0 },
        exclusive: false,
        floor,
        extras: 0,
        config,
        wish,
    };
    let mut placed = 0;
    while placed + workers < wanted {
        let config = Some(configs.len());
        configs.push(replica);
        parts.push(part(leader, 2, 1, config, Wish::default()));
        parts.push(part(worker, 3, workers, config, Wish::default()));
        placed += workers + 1;
    }
    for _ in 0..random.below(3) {
        let wish = Wish {
            required: level(random, 2, &[3, 2]),
            preferred: if many { level(random, 2, &[3]) } else { None },
        };
        let (gpu, cpu) = (1 + random.below(4) as i64, 1 + random.below(3) as i64);
        parts.push(part(gpu, cpu, 2 + random.below(4) as u32, None, wish));
    }
    Instance {
        storage: super::storage::Storage::default(),
        levels: 3,
        hosts: list,
        parts,
        configs,
        gang: Wish {
            required: level(random, 2, &[1, 2]),
            preferred: match wishes {
                Wishes::Required => None,
                Wishes::OnePreferred => Some(2 + random.below(2) as usize),
                Wishes::Many => level(random, 2, &[2, 3]),
            },
        },
        outer: Wish::default(),
    }
}
