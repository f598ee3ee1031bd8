//! Measures the embedded control plane beside a real kube-apiserver and etcd, in one run, with one client, over loopback
//! TLS. See `bench/README.md` for what the figures mean.
//!
//! Nothing here asserts a figure: a measurement that is bad is still a measurement. A request that fails ends the run.

mod alone;
mod client;
mod events;
mod fan_out;
mod load;
mod objects;
mod records;
mod report;
mod server;

use std::collections::BTreeSet;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Parser, Subcommand};
use coppice_bench::process;

use load::Sizes;
use report::{Pair, RealServer, Report};
use server::Server;

// The same as in the `coppice` program, whose server this measures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Throughput, memory and start-up time of the embedded control plane, beside a real kube-apiserver with etcd.
///
/// The real programs come from the directory in KUBEBUILDER_ASSETS (`make control-plane` prints one). Both servers run at the
/// same time but are loaded in turns, round by round, by the same client.
#[derive(Parser)]
#[command(name = "control-plane")]
struct Arguments {
    /// Rounds on each server; the table shows medians
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Pods that are created and patched in each round
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// Connections that send creates and patches
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Open watches that each receive every event
    #[arg(long, default_value_t = 1000)]
    watchers: usize,
    /// Events per round for the watches (at most --pods)
    #[arg(long, default_value_t = 200)]
    events: usize,
    /// How many events may be ahead of the slowest watch
    ///
    /// Each server is measured with all of these numbers, from the least, up to the first at which it ends a watch.
    #[arg(long, value_delimiter = ',', default_value = "10,15,20,30")]
    ahead: Vec<NonZeroUsize>,
    /// Pods that the embedded server holds when its memory is read; 0 leaves this part out
    #[arg(long, default_value_t = 100_000)]
    held_pods: usize,
    /// Nodes that it holds then
    #[arg(long, default_value_t = 5_000)]
    held_nodes: usize,
    /// How often the start of the embedded server is timed
    #[arg(long, default_value_t = 20)]
    starts: usize,
    /// Let etcd acknowledge writes before they are on the disk (its default is to flush first)
    #[arg(long)]
    no_flush: bool,
    /// Measure the embedded server alone
    #[arg(long)]
    embedded_only: bool,
    /// Where the results are written as JSON
    #[arg(long, default_value = "bench/results/control-plane.json")]
    output: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// The embedded server as a process of its own: prints a kubeconfig and ends with its standard input
    #[command(hide = true)]
    Serve,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(Command::Serve) = arguments.command {
        return coppice_bench::child::serve();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(&arguments))?;
    let mut json = serde_json::to_string_pretty(&report)?;
    json.push('\n');
    if let Some(directory) = arguments.output.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(&arguments.output, json).with_context(|| arguments.output.display().to_string())?;
    write!(std::io::stdout(), "{}", report.table())?;
    Ok(())
}

async fn measure(arguments: &Arguments) -> anyhow::Result<Report> {
    let sizes = Sizes {
        pods: arguments.pods,
        connections: arguments.connections,
        watchers: arguments.watchers,
        events: arguments.events.min(arguments.pods),
        ahead: arguments
            .ahead
            .iter()
            .map(|number| number.get())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    };
    progress("start to ready");
    let starts = alone::starts(arguments.starts).await?;
    let (rounds, real) = rounds(arguments, &sizes).await?;
    let memory = if arguments.held_pods == 0 {
        None
    } else {
        progress("memory");
        Some(alone::memory(arguments.held_pods, arguments.held_nodes, arguments.connections).await?)
    };
    Ok(Report {
        machine: process::machine()?,
        unix_time: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        real,
        sizes,
        summary: report::summarise(&rounds),
        rounds,
        memory,
        start_milliseconds: starts.iter().map(|time| time.as_secs_f64() * 1e3).collect(),
    })
}

async fn rounds(arguments: &Arguments, sizes: &Sizes) -> anyhow::Result<(Vec<Pair>, Option<RealServer>)> {
    let embedded = Server::embedded()?;
    let real = if arguments.embedded_only {
        None
    } else {
        progress("starting the real control plane");
        Some(Server::real(!arguments.no_flush)?)
    };
    let mut rounds = Vec::with_capacity(arguments.rounds);
    for number in 1..=arguments.rounds {
        progress(&format!("round {number} of {}", arguments.rounds));
        rounds.push(Pair {
            embedded: load::round(&embedded, sizes, number).await.context("embedded")?,
            real: match &real {
                Some((server, _)) => Some(load::round(server, sizes, number).await.context("real")?),
                None => None,
            },
        });
    }
    Ok((rounds, real.map(|(_, about)| about)))
}

/// Progress goes to standard error, the results to standard output.
fn progress(text: &str) {
    // A closed standard error is no reason to stop measuring.
    let _ = writeln!(std::io::stderr(), "{text}");
}
