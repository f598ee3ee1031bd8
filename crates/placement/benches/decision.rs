//! How long one decision takes, against the number of nodes.
//!
//! Clusters are blocks of ten racks of twenty hosts with eight GPUs, twenty pods bound on every host, and a random part of
//! the GPUs taken. The gang has 256 pods: 28 replicas of nine eight-GPU pods, each replica in one rack, the whole in as few
//! blocks as possible, and four routers. The hopeless gangs ask for the same with too many replicas, with too many pods per
//! rack, and with parts that fit alone but not together. The adversarial row is made to exhaust its budget. Preemption is
//! measured three times only: it clears a whole rack of gangs of one, the most units there can be.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may stop"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use coppice_placement::preempt::{Running, RunningGroup, RunningPod, Verdict, preempt};
use coppice_placement::{ClusterState, Gang, GroupConfig, Options, Outcome, Pack, plan};
use support::Random;
use support::cluster::{BLOCK, RACK, cluster, demands, gang, group};

const ROUNDS: usize = 200;

fn loaded(blocks: usize, random: &mut Random) -> ClusterState {
    let mut state = cluster(blocks, 10, 20, 8);
    let mut small = demands(0);
    small.requests.insert("cpu".into(), 500);
    let small = state.shape(&small);
    let gpus: Vec<_> = (1..=8).map(|count| state.shape(&demands(count))).collect();
    for block in 0..blocks {
        for rack in 0..10 {
            // Some racks are busy, some are idle.
            let busy = random.below(10);
            for host in 0..20 {
                let node = format!("b{block}-r{rack}-h{host}");
                for pod in 0..20 {
                    let shape = if pod == 0 && random.below(20) < busy {
                        gpus[random.below(8) as usize]
                    } else {
                        small
                    };
                    state.add_pod(&format!("{node}-{pod}"), &node, shape).unwrap();
                }
            }
        }
    }
    state
}

fn replicas(state: &mut ClusterState, count: usize, workers: u32, whole: Pack) -> Gang {
    let eight = state.shape(&demands(8));
    let one = state.shape(&demands(1));
    let mut wanted = gang("serving", whole, Vec::new());
    for replica in 0..count {
        let at = wanted.groups.len();
        wanted
            .groups
            .push(group(&format!("leader-{replica}"), eight, 1, 1, Pack::none()));
        wanted.groups.push(group(
            &format!("worker-{replica}"),
            eight,
            workers,
            workers,
            Pack::none(),
        ));
        wanted.configs.push(GroupConfig {
            name: format!("replica-{replica}"),
            groups: vec![at, at + 1],
            pack: Pack::required(RACK),
        });
    }
    wanted.groups.push(group("router", one, 4, 4, Pack::none()));
    wanted
}

/// Six large and nine small replicas in one block: each kind fits, and so do their sums, but not their racks.
fn entangled(state: &mut ClusterState) -> Gang {
    let mut wanted = replicas(state, 15, 8, Pack::required(BLOCK));
    for replica in 0..6 {
        let at = replica * 2 + 1;
        let shape = wanted.groups[at].shape;
        wanted.groups[at] = group(&format!("worker-{replica}"), shape, 15, 15, Pack::none());
    }
    wanted
}

/// Groups of many sizes in two resources, together as much as a block has: hardly packable, and hard to rule out.
fn adversarial(state: &mut ClusterState, random: &mut Random) -> Gang {
    let groups = (0..40).map(|at| {
        let mut odd = demands(3 + random.below(4) as i64);
        odd.requests.insert("cpu".into(), 30_000 + random.below(40_000) as i64);
        let shape = state.shape(&odd);
        group(&format!("odd-{at}"), shape, 7, 7, Pack::required(RACK))
    });
    let groups = groups.collect();
    gang("adversarial", Pack::required(BLOCK), groups)
}

/// A whole rack for a gang of high priority, every pod in the cluster being a gang of one with low priority.
fn evictions(state: &mut ClusterState) -> Measured {
    let eight = state.shape(&demands(8));
    let mut wanted = gang(
        "urgent",
        Pack::required(RACK),
        vec![group("worker", eight, 20, 20, Pack::none())],
    );
    wanted.priority = 10;
    let running: Vec<Running> = state
        .pods()
        .enumerate()
        .map(|(at, (name, _))| Running {
            name: name.to_owned(),
            priority: (at % 3) as i32,
            base: None,
            sequence: at as u64,
            protected: false,
            groups: vec![RunningGroup {
                floor: 1,
                pods: vec![RunningPod {
                    name: name.to_owned(),
                    guarded: false,
                }],
            }],
        })
        .collect();
    let mut measured = Measured::default();
    let options = Options {
        budget: 20_000_000,
        ..Options::default()
    };
    for _ in 0..3 {
        let start = Instant::now();
        let verdict = preempt(state, &wanted, &running, &options);
        measured.times.push(start.elapsed());
        let at = match verdict {
            Verdict::Possible(_) => 0,
            Verdict::Impossible => 1,
            Verdict::BudgetExhausted => 2,
        };
        measured.outcomes[at] += 1;
    }
    measured.times.sort_unstable();
    measured
}

#[derive(Default)]
struct Measured {
    times: Vec<Duration>,
    outcomes: [usize; 3],
    steps: u64,
}

fn measure(state: &mut ClusterState, gang: &Gang, random: &mut Random, rounds: usize) -> Measured {
    let mut measured = Measured {
        times: Vec::new(),
        outcomes: [0; 3],
        steps: 0,
    };
    let eight = gang.groups[0].shape;
    let names: Vec<String> = state
        .pods()
        .filter(|(_, pod)| pod.shape != eight)
        .map(|(name, _)| name.to_owned())
        .collect();
    for _ in 0..rounds {
        // Churn, so that no two decisions see the same cluster.
        for _ in 0..20 {
            let name = &names[random.below(names.len() as u64) as usize];
            let pod = state.pod(name).unwrap();
            let node = state.node(pod.node).name.clone();
            state.remove_pod(name);
            state.add_pod(name, &node, pod.shape).unwrap();
        }
        let start = Instant::now();
        let outcome = plan(state, gang, &Options::default());
        measured.times.push(start.elapsed());
        match outcome {
            Outcome::Placed(plan) => {
                measured.outcomes[0] += 1;
                measured.steps = measured.steps.max(plan.steps);
            }
            Outcome::Infeasible(_) => measured.outcomes[1] += 1,
            _ => measured.outcomes[2] += 1,
        }
    }
    measured.times.sort_unstable();
    measured
}

fn print(nodes: usize, pods: usize, what: &str, measured: &Measured, bytes: usize) {
    let at = |percent: usize| measured.times[(measured.times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let [placed, refused, unknown] = measured.outcomes;
    println!(
        "{nodes:>6} {pods:>8} {:>7.1}  {what:<28} {:>8.3} {:>8.3} {:>8.3}  {placed:>4}/{refused}/{unknown} {:>9}",
        bytes as f64 / 1e6,
        at(50),
        at(99),
        at(100),
        measured.steps
    );
}

fn main() {
    println!(
        " nodes     pods      MB  gang                           p50 ms   p99 ms   max ms  placed/refused/unknown  steps"
    );
    for blocks in [1, 5, 25, 50] {
        let mut random = Random::new(blocks as u64);
        let mut state = loaded(blocks, &mut random);
        let bytes = state.bytes();
        let (nodes, pods) = (blocks * 200, state.pods().count());
        let shapes: [(&str, usize, u32, Pack); 5] = [
            ("256 pods, rack per replica", 28, 8, Pack::none()),
            ("same, preferably one block", 28, 8, Pack::preferred(BLOCK)),
            ("hopeless: rack too small", 28, 20, Pack::none()),
            ("hopeless: one block too small", 28, 8, Pack::required(BLOCK)),
            ("hopeless: cluster too small", blocks * 20 + 1, 8, Pack::none()),
        ];
        for (what, count, workers, whole) in shapes {
            let wanted = replicas(&mut state, count, workers, whole);
            let measured = measure(&mut state, &wanted, &mut random, ROUNDS);
            print(nodes, pods, what, &measured, bytes);
        }
        let mut idle = cluster(blocks, 10, 20, 8);
        let wanted = entangled(&mut idle);
        let bytes = idle.bytes();
        let eight = wanted.groups[0].shape;
        idle.add_pod("churning", "b0-r0-h0", eight).unwrap();
        let small = idle.shape(&demands(0));
        idle.add_pod("moving", "b0-r0-h1", small).unwrap();
        let measured = measure(&mut idle, &wanted, &mut random, ROUNDS);
        print(nodes, 2, "idle, entangled racks", &measured, bytes);
        let wanted = adversarial(&mut state, &mut random);
        let bytes = state.bytes();
        let measured = measure(&mut state, &wanted, &mut random, ROUNDS / 10);
        print(nodes, pods, "loaded, adversarial sizes", &measured, bytes);
        let measured = evictions(&mut state);
        print(nodes, pods, "a rack by preemption", &measured, bytes);
    }
}
