//! How long one decision takes, against the number of nodes and of pods, and how much memory it needs.
//!
//! Clusters are blocks of ten racks of twenty hosts with eight GPUs, up to twenty pods bound on every host, and a random part
//! of the GPUs taken. The gang has 256 pods: 28 replicas of nine eight-GPU pods, each replica in one rack, the whole in as few
//! blocks as possible, and four routers. The hopeless gangs have 256 pods too: replicas that are larger than any rack, a whole
//! that is larger than any block, and racks that would do if they were empty. One row asks for more replicas than the cluster
//! has room for; that gang is many times larger and is printed for information, not compared. The adversarial row is made to
//! exhaust its budget.
//!
//! For preemption every pod is a gang of one, the most units there can be, and no rack is idle; the index of running gangs is
//! kept between questions as a scheduler would, and its own cost is printed.
//!
//! Times are those of the thread on a processor, so that a busy machine does not count against a decision.
//!
//! The last lines compare the largest cluster with what the project promises and draw the cost as a curve.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may stop"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use coppice_placement::preempt::{Incumbents, Running, RunningGroup, RunningPod, Verdict, preempt_among};
use coppice_placement::topology::DomainId;
use coppice_placement::{ClusterState, Gang, GroupConfig, Options, Outcome, Pack, plan};
use rustix::time::{ClockId, clock_gettime};
use support::Random;
use support::cluster::{BLOCK, RACK, cluster, demands, gang, group};

/// How long this thread has been on a processor.
fn spent() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

const ROUNDS: usize = 200;

fn loaded(blocks: usize, per_host: usize, random: &mut Random) -> ClusterState {
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
                for pod in 0..per_host {
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

/// No host is idle any more: whoever has all his GPUs gets a pod that takes some.
fn crowd(state: &mut ClusterState, random: &mut Random) {
    let eight = state.shape(&demands(8));
    let gpus: Vec<_> = (1..=8).map(|count| state.shape(&demands(count))).collect();
    let nodes = state.view(0).nodes_in(DomainId::ROOT).to_vec();
    for node in nodes {
        if state.room(node, eight) > 0 {
            let name = state.node(node).name.clone();
            let shape = gpus[random.below(8) as usize];
            state.add_pod(&format!("{name}-guest"), &name, shape).unwrap();
        }
    }
}

fn alone(at: usize, name: &str) -> Running {
    Running {
        name: name.to_owned(),
        priority: (at % 3) as i32,
        base: None,
        sequence: at as u64,
        protected: false,
        groups: vec![RunningGroup {
            floor: 1,
            pods: vec![RunningPod {
                name: name.to_owned(),
                budgets: Vec::new(),
            }],
        }],
    }
}

/// Room for a gang of high priority, every pod in the cluster being a gang of one with low priority.
fn evictions(state: &mut ClusterState, incumbents: &Incumbents, wanted: &Gang, rounds: usize) -> Measured {
    let mut urgent = wanted.clone();
    urgent.priority = 10;
    let mut measured = Measured::default();
    let options = Options {
        budget: 20_000_000,
        ..Options::default()
    };
    for _ in 0..rounds {
        let start = spent();
        let verdict = preempt_among(state, &urgent, incumbents, &options);
        measured.times.push(spent() - start);
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

fn preemption(blocks: usize, state: &mut ClusterState, random: &mut Random) {
    let nodes = blocks * 200;
    crowd(state, random);
    let pods: Vec<String> = state.pods().map(|(name, _)| name.to_owned()).collect();
    let running: Vec<Running> = pods.iter().enumerate().map(|(at, name)| alone(at, name)).collect();
    let start = spent();
    let mut incumbents = Incumbents::new(state, &running);
    let built = spent() - start;
    let start = spent();
    let changes = running.len().min(2_000);
    for gang in running.iter().take(changes) {
        incumbents.put(state, gang.clone());
    }
    let changed = (spent() - start) / changes as u32;
    let eight = state.shape(&demands(8));
    let hosts = |pack: Pack, count: u32| gang("urgent", pack, vec![group("worker", eight, count, count, Pack::none())]);
    let whole = replicas(state, (blocks * 10).min(28), 8, Pack::none());
    for (what, wanted, rounds) in [
        ("a whole rack by preemption", hosts(Pack::required(RACK), 20), 20),
        ("16 hosts anywhere by preemption", hosts(Pack::none(), 16), 20),
        ("256 pods by preemption", whole, 5),
        ("hopeless: rack too small", hosts(Pack::required(RACK), 21), 20),
    ] {
        let measured = evictions(state, &incumbents, &wanted, rounds);
        print(nodes, pods.len(), what, &measured, state.bytes());
    }
    println!(
        "{nodes:>6} {:>8}          index of running gangs: built in {:.1} ms, {:.1} us per change",
        pods.len(),
        built.as_secs_f64() * 1e3,
        changed.as_secs_f64() * 1e6
    );
}

#[derive(Default)]
struct Measured {
    times: Vec<Duration>,
    outcomes: [usize; 3],
    steps: u64,
}

/// Pods that come and go between decisions.
fn moving(state: &ClusterState, gang: &Gang) -> Vec<String> {
    let eight = gang.groups[0].shape;
    let others = state.pods().filter(|(_, pod)| pod.shape != eight);
    others.map(|(name, _)| name.to_owned()).collect()
}

fn once(state: &mut ClusterState, gang: &Gang, moving: &[String], random: &mut Random, measured: &mut Measured) {
    // Churn, so that no two decisions see the same cluster.
    for _ in 0..20 {
        let name = &moving[random.below(moving.len() as u64) as usize];
        let pod = state.pod(name).unwrap();
        let node = state.node(pod.node).name.clone();
        state.remove_pod(name);
        state.add_pod(name, &node, pod.shape).unwrap();
    }
    let start = spent();
    let outcome = plan(state, gang, &Options::default());
    measured.times.push(spent() - start);
    match outcome {
        Outcome::Placed(plan) => {
            measured.outcomes[0] += 1;
            measured.steps = measured.steps.max(plan.steps);
        }
        Outcome::Infeasible(_) => measured.outcomes[1] += 1,
        _ => measured.outcomes[2] += 1,
    }
}

fn measure(state: &mut ClusterState, gang: &Gang, random: &mut Random, rounds: usize) -> Measured {
    let mut measured = Measured::default();
    let moving = moving(state, gang);
    for _ in 0..rounds {
        once(state, gang, &moving, random, &mut measured);
    }
    measured.times.sort_unstable();
    measured
}

impl Measured {
    fn at(&self, percent: usize) -> f64 {
        self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1e3
    }
}

fn print(nodes: usize, pods: usize, what: &str, measured: &Measured, bytes: usize) {
    let [placed, refused, unknown] = measured.outcomes;
    println!(
        "{nodes:>6} {pods:>8} {:>7.1}  {what:<32} {:>8.3} {:>8.3} {:>8.3}  {placed:>4}/{refused}/{unknown} {:>9}",
        bytes as f64 / 1e6,
        measured.at(50),
        measured.at(99),
        measured.at(100),
        measured.steps
    );
}

/// The most memory the process ever had, in MiB, as the kernel counts it; none where it does not say.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Gangs whose parts fit alone but not together.
fn hard(blocks: usize, state: &mut ClusterState, random: &mut Random) {
    let (nodes, pods) = (blocks * 200, state.pods().count());
    let mut idle = cluster(blocks, 10, 20, 8);
    let wanted = entangled(&mut idle);
    let bytes = idle.bytes();
    let eight = wanted.groups[0].shape;
    idle.add_pod("churning", "b0-r0-h0", eight).unwrap();
    let small = idle.shape(&demands(0));
    idle.add_pod("moving", "b0-r0-h1", small).unwrap();
    let measured = measure(&mut idle, &wanted, random, ROUNDS);
    print(nodes, 2, "idle, entangled racks", &measured, bytes);
    let wanted = adversarial(state, random);
    let measured = measure(state, &wanted, random, ROUNDS / 10);
    print(nodes, pods, "loaded, adversarial sizes", &measured, state.bytes());
}

/// Every host that is idle takes a pod, in all racks but a few: racks are large enough, but not free enough.
fn half_taken(state: &mut ClusterState) {
    let (eight, one) = (state.shape(&demands(8)), state.shape(&demands(1)));
    let nodes = state.view(0).nodes_in(DomainId::ROOT).to_vec();
    for (at, node) in nodes.into_iter().enumerate() {
        if at % 20 < 8 && state.room(node, eight) > 0 {
            let name = state.node(node).name.clone();
            state.add_pod(&format!("{name}-taker"), &name, one).unwrap();
        }
    }
}

/// One point of a curve: nodes, pods, p99 of a decision, p99 of the slowest refusal of a gang of the same size, in
/// milliseconds.
#[derive(Clone, Copy)]
struct Point {
    nodes: usize,
    pods: usize,
    placed: Option<f64>,
    refused: f64,
}

/// The p99 of placing 256 pods and of refusing 256 pods, in turns, so that whatever else the machine does hits both. Nothing
/// is said of placing where there is no room.
fn side_by_side(state: &mut ClusterState, taken: &mut ClusterState, random: &mut Random) -> (Option<f64>, f64) {
    let fitting = replicas(state, 28, 8, Pack::none());
    let too_wide = replicas(state, 12, 20, Pack::none());
    let too_many = replicas(state, 28, 8, Pack::required(BLOCK));
    let not_free = replicas(taken, 18, 13, Pack::none());
    let moving = (moving(state, &fitting), moving(taken, &not_free));
    let (mut placed, mut refused) = (Measured::default(), Measured::default());
    for _ in 0..ROUNDS * 3 {
        once(state, &fitting, &moving.0, random, &mut placed);
        once(state, &too_wide, &moving.0, random, &mut refused);
        once(state, &too_many, &moving.0, random, &mut refused);
        once(taken, &not_free, &moving.1, random, &mut refused);
    }
    placed.times.sort_unstable();
    refused.times.sort_unstable();
    assert_eq!(refused.outcomes[1], refused.times.len(), "a hopeless gang is refused");
    let fits = placed.outcomes[0] == placed.times.len();
    (fits.then(|| placed.at(99)), refused.at(99))
}

fn decisions(blocks: usize, per_host: usize) -> (ClusterState, Random, Point) {
    let mut random = Random::new(blocks as u64);
    let mut state = loaded(blocks, per_host, &mut random);
    let bytes = state.bytes();
    let (nodes, pods) = (blocks * 200, state.pods().count());
    let shapes: [(&str, usize, u32, Pack); 5] = [
        ("256 pods, rack per replica", 28, 8, Pack::none()),
        ("same, preferably one block", 28, 8, Pack::preferred(BLOCK)),
        ("hopeless 256: rack too small", 12, 20, Pack::none()),
        ("hopeless 256: block too small", 28, 8, Pack::required(BLOCK)),
        ("larger: cluster too small", blocks * 20 + 1, 8, Pack::none()),
    ];
    let mut point = Point {
        nodes,
        pods,
        placed: None,
        refused: 0.0,
    };
    for (what, count, workers, whole) in shapes {
        let wanted = replicas(&mut state, count, workers, whole);
        let measured = measure(&mut state, &wanted, &mut random, ROUNDS);
        print(nodes, pods, what, &measured, bytes);
    }
    let mut taken = state.clone();
    half_taken(&mut taken);
    let wanted = replicas(&mut taken, 18, 13, Pack::none());
    let measured = measure(&mut taken, &wanted, &mut random, ROUNDS);
    print(nodes, pods, "hopeless 256: racks half taken", &measured, bytes);
    (point.placed, point.refused) = side_by_side(&mut state, &mut taken, &mut random);
    (state, random, point)
}

fn curve(title: &str, points: &[Point], along: impl Fn(&Point) -> usize) {
    println!("\n{title} (p99 in ms; # placed, - refused)");
    let most = points
        .iter()
        .map(|point| point.refused.max(point.placed.unwrap_or(0.0)))
        .fold(0.0, f64::max);
    for point in points {
        for (mark, value) in [("#", point.placed), ("-", Some(point.refused))] {
            let Some(value) = value else { continue };
            let width = (value / most * 50.0).round() as usize;
            println!("{:>8} {value:>8.3}  {}", along(point), mark.repeat(width.max(1)));
        }
    }
}

fn main() {
    println!(
        " nodes     pods      MB  gang                               p50 ms   p99 ms   max ms  placed/refused/unknown  steps"
    );
    let mut by_nodes = Vec::new();
    let mut memory = None;
    for blocks in [1, 5, 25, 50] {
        let (mut state, mut random, point) = decisions(blocks, 20);
        by_nodes.push(point);
        hard(blocks, &mut state, &mut random);
        preemption(blocks, &mut state, &mut random);
        if blocks == 25 {
            memory = peak_memory();
        }
    }
    let mut by_pods: Vec<Point> = [2, 5, 10].map(|per_host| decisions(25, per_host).2).into();
    by_pods.extend(by_nodes.get(2).copied());
    curve("cost against nodes, twenty pods on each", &by_nodes, |point| {
        point.nodes
    });
    curve("cost against pods on 5,000 nodes", &by_pods, |point| point.pods);
    let Some(point) = by_nodes.get(2) else { return };
    println!(
        "\n{} nodes, {} GPUs, {} bound pods:",
        point.nodes,
        point.nodes * 8,
        point.pods
    );
    let line = |what: &str, value: f64, limit: f64, unit: &str| {
        let verdict = if value <= limit { "met" } else { "NOT MET" };
        println!("  {what:<44} {value:>9.3} {unit:<3} limit {limit:>8.3}  {verdict}");
    };
    let placed = point.placed.expect("256 pods fit 5,000 nodes");
    line("p99 of a 256-pod gang, rack packing", placed, 20.0, "ms");
    line(
        "p99 of refusing a hopeless one of 256 pods",
        point.refused,
        placed,
        "ms",
    );
    // Taken right after this cluster, with the index of running gangs and the clusters before it.
    if let Some(memory) = memory {
        line("most memory of the process so far", memory, 1024.0, "MiB");
    }
}
