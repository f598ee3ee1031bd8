//! How NVLink domains form on a real kube-apiserver: racks of 18 daemons that all start at once and need an index each.
//!
//! Three ways to hand indices out, in one run, in random order: our controller's group commit (the code that ships, linked in),
//! the optimistic protocol of NVIDIA's driver (every daemon inserts itself and tries again after a conflict), and
//! server-side apply (every daemon applies its row and moves when it sees its index twice). Every daemon has its own
//! connection and its own watch. A checker follows every revision: a way that stores an index twice, or moves one, has no
//! figures. Never asserts a time.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod checker;
mod daemons;
mod group_commit;
mod plane;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use rand::seq::SliceRandom as _;
use serde::Serialize;

use plane::Plane;

/// Daemons of a clique: the trays of a rack.
pub(crate) const NODES: usize = 18;

/// How NVLink domains form, three ways.
#[derive(Parser)]
struct Arguments {
    /// Rounds; figures are medians of them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Cliques that form at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 5, 20])]
    cliques: Vec<usize>,
    /// How long a round may take before it counts as failed.
    #[arg(long, default_value_t = 180)]
    patience: u64,
    /// Where the figures go.
    #[arg(long, default_value = "bench/results/formation.json")]
    output: PathBuf,
}

/// A way to hand out indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Way {
    /// One writer, batches.
    GroupCommit,
    /// Every daemon inserts itself.
    Optimistic,
    /// Every daemon applies its row.
    Apply,
}

const WAYS: [Way; 3] = [Way::GroupCommit, Way::Optimistic, Way::Apply];

/// What one round has measured.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Round {
    /// Milliseconds until the last daemon knew its index.
    pub(crate) indices: u64,
    /// Milliseconds until the last daemon knew all addresses of its clique.
    pub(crate) full_view: u64,
    /// Writes that were accepted.
    pub(crate) accepted: u64,
    /// Writes that were refused: conflicts, and objects that existed already.
    pub(crate) refused: u64,
    /// CPU time of kube-apiserver and etcd, in milliseconds.
    pub(crate) server_cpu: u64,
    /// What the checker found; such a round has no figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) violations: Vec<String>,
    /// Whether it ended in time.
    pub(crate) ended: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    way: Way,
    cliques: usize,
    median: Option<Round>,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    machine: String,
    kubernetes: String,
    nodes_per_clique: usize,
    optimised: bool,
    lines: Vec<Line>,
}

/// The round in the middle, by the time to the full view; none when one of them failed.
fn median(rounds: &[Round]) -> Option<Round> {
    let mut sorted: Vec<&Round> = rounds.iter().collect();
    if sorted.iter().any(|round| !round.ended || !round.violations.is_empty()) {
        return None;
    }
    sorted.sort_by_key(|round| round.full_view);
    sorted.get(sorted.len() / 2).map(|round| (*round).clone())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let plane = Plane::start().await?;
    let mut lines: Vec<Line> = Vec::new();
    for &cliques in &arguments.cliques {
        lines.extend(WAYS.map(|way| Line {
            way,
            cliques,
            median: None,
            rounds: Vec::new(),
        }));
    }
    let mut order: Vec<usize> = (0..arguments.rounds).flat_map(|_| 0..lines.len()).collect();
    order.shuffle(&mut rand::rng());
    // The first one warms the server up.
    plane
        .round(Way::Optimistic, 1, Duration::from_secs(arguments.patience))
        .await?;
    for line in order {
        let (way, cliques) = (lines[line].way, lines[line].cliques);
        let round = plane
            .round(way, cliques, Duration::from_secs(arguments.patience))
            .await?;
        println!("{way:?}, {cliques} cliques: {round:?}");
        lines[line].rounds.push(round);
    }
    println!(
        "\n{:12} {:>7} {:>12} {:>12} {:>9} {:>8} {:>12}",
        "way", "cliques", "indices ms", "view ms", "accepted", "refused", "server CPU ms"
    );
    for line in &mut lines {
        line.median = median(&line.rounds);
        let way = format!("{:?}", line.way);
        match &line.median {
            Some(round) => println!(
                "{way:12} {:>7} {:>12} {:>12} {:>9} {:>8} {:>12}",
                line.cliques, round.indices, round.full_view, round.accepted, round.refused, round.server_cpu
            ),
            None => println!("{way:12} {:>7}  no figures: see violations or ended", line.cliques),
        }
    }
    let report = Report {
        machine: coppice_bench::process::machine()?,
        kubernetes: plane.version(),
        nodes_per_clique: NODES,
        optimised: !cfg!(debug_assertions),
        lines,
    };
    let text = serde_json::to_string_pretty(&report)? + "\n";
    std::fs::write(&arguments.output, text).with_context(|| format!("{}", arguments.output.display()))
}
