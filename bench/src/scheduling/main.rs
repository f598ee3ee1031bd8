//! How many pods per second the gang scheduler binds on an embedded control plane, beside a client that only posts the same
//! bindings.
//!
//! A round fills two fresh clusters alike (nodes, gangs with required rack packing, their pods) and measures one after the
//! other: the scheduler from its start, lists and plans included, until the last pod is seen bound; and a client that knows
//! every node beforehand and posts the same number of bindings with the same concurrency until the last pod is seen bound.
//! Everything runs in this process, as with `coppice up`. Never asserts a time.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod cluster;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use coppice_scheduler::{Options, Scheduler};
use serde::Serialize;

use cluster::{Cluster, Size};

/// Pods bound per second by the gang scheduler, beside the floor.
#[derive(Parser)]
struct Arguments {
    /// Rounds; figures are medians of them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Gangs.
    #[arg(long, default_value_t = 125)]
    gangs: usize,
    /// Pods of each gang.
    #[arg(long, default_value_t = 16)]
    pods_per_gang: usize,
    /// Where the figures go.
    #[arg(long, default_value = "bench/results/scheduling.json")]
    output: PathBuf,
}

/// One round, in pods bound per second.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Round {
    scheduler: f64,
    floor: f64,
    /// The scheduler's rate as a part of the floor's.
    ratio: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    nodes: u32,
    gangs: usize,
    pods: usize,
    concurrency: usize,
    optimised: bool,
    median: Round,
    rounds: Vec<Round>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.rounds > 0, "at least one round is needed");
    let size = Size {
        gangs: arguments.gangs,
        pods_per_gang: arguments.pods_per_gang,
    };
    let concurrency = Options::default().concurrent_writes;
    let mut rounds = Vec::new();
    println!("round  scheduler/s    floor/s  ratio");
    for number in 1..=arguments.rounds {
        let rate = |took: Duration| size.pods() as f64 / took.as_secs_f64();
        let scheduler = rate(scheduled(size).await?);
        let floor = rate(posted(size, concurrency).await?);
        let round = Round {
            scheduler,
            floor,
            ratio: scheduler / floor,
        };
        println!("{number:>5}  {scheduler:>11.0}  {floor:>9.0}  {:>5.2}", round.ratio);
        rounds.push(round);
    }
    let median = Round {
        scheduler: middle(&rounds, |round| round.scheduler),
        floor: middle(&rounds, |round| round.floor),
        ratio: middle(&rounds, |round| round.ratio),
    };
    println!(
        "median {:>11.0}  {:>9.0}  {:>5.2}   {} pods in {} gangs, rack packing, {} nodes, {concurrency} writes at once{}",
        median.scheduler,
        median.floor,
        median.ratio,
        size.pods(),
        size.gangs,
        size.nodes(),
        if cfg!(debug_assertions) { "; NOT OPTIMISED" } else { "" }
    );
    let report = Report {
        nodes: size.nodes(),
        gangs: size.gangs,
        pods: size.pods(),
        concurrency,
        optimised: !cfg!(debug_assertions),
        median,
        rounds,
    };
    if let Some(directory) = arguments.output.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(&arguments.output, text + "\n")
        .with_context(|| format!("{} cannot be written", arguments.output.display()))
}

/// How long the scheduler takes from its start until every pod is bound.
async fn scheduled(size: Size) -> anyhow::Result<Duration> {
    let cluster = Cluster::start(size).await?;
    let seen = cluster.watch().await?;
    let start = std::time::Instant::now();
    let scheduler = Scheduler::start(cluster.client(), Options::default()).await;
    seen.all_bound().await?;
    let took = start.elapsed();
    scheduler.stop().await;
    Ok(took)
}

/// How long it takes to post as many bindings, when nothing has to be decided.
async fn posted(size: Size, concurrency: usize) -> anyhow::Result<Duration> {
    let cluster = Cluster::start(size).await?;
    let seen = cluster.watch().await?;
    let start = std::time::Instant::now();
    cluster.bind_all(concurrency).await?;
    seen.all_bound().await?;
    Ok(start.elapsed())
}

fn middle(rounds: &[Round], part: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(part).collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
