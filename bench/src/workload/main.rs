//! Measures the operator under whole workloads, beside a floor: a client that only creates the same objects. On a real
//! kube-apiserver with etcd and on the embedded server, with the same simulated nodes. See `bench/README.md` for what the
//! figures mean.
//!
//! Nothing here asserts a figure: a measurement that is bad is still a measurement. A milestone that is not reached ends
//! the run.

mod bystander;
mod content;
mod floor;
mod life;
mod measured;
mod observe;
mod operator;
mod plane;
mod plot;
mod report;
mod requests;
mod run;
mod shapes;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use coppice_bench::process;

use operator::Choice;
use report::Report;

/// Milestones, processor time, memory and API requests of the operator under whole workloads, beside a floor client.
///
/// The real programs come from the directory in KUBEBUILDER_ASSETS (`make control-plane` prints one). Our operator is the
/// `coppice` binary beside this one (cargo build --profile bench --bin coppice). Another operator that serves the same
/// API is measured in its place with --operator-command and --manifests.
#[derive(Parser)]
#[command(name = "workload")]
pub(crate) struct Arguments {
    /// The control plane
    #[arg(long, value_enum, default_value_t = Planes::Both)]
    plane: Planes,
    /// What to run, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Name::Moe, Name::Groups, Name::Scaling, Name::Churn, Name::Large])]
    workloads: Vec<Name>,
    /// Rounds of the workloads that have a floor; the table shows medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Pods of the workloads moe, groups and scaling
    #[arg(long, default_value_t = 1_000)]
    pods: u32,
    /// Pods of the workload large
    #[arg(long, default_value_t = 10_000)]
    large_pods: u32,
    /// Run the workload large on the real control plane too
    #[arg(long)]
    large: bool,
    /// Rounds of the workload churn
    #[arg(long, default_value_t = 5)]
    churn_rounds: usize,
    /// Simulated nodes, of 110 pods each
    #[arg(long, default_value_t = 100)]
    nodes: u32,
    /// Requests in flight of the floor client; the default is the operator's limit of writes in flight
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Let etcd acknowledge writes before they are on the disk (its default is to flush first)
    #[arg(long)]
    no_flush: bool,
    /// Seconds after which a milestone counts as never reached
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// The `coppice` binary, when it is not beside this one
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Measure another operator: a shell command that runs it in the foreground; it finds the cluster by KUBECONFIG
    #[arg(long, value_name = "COMMAND", requires = "manifests")]
    operator_command: Option<String>,
    /// A directory of YAML files that are applied before the other operator is started: its definitions and whatever else
    /// it needs
    #[arg(long, value_name = "DIR", requires = "operator_command")]
    manifests: Option<PathBuf>,
    /// Seconds that the other operator is given to get ready
    #[arg(long, default_value_t = 15)]
    settle: u64,
    /// Where the results are written as JSON
    #[arg(long, default_value = "bench/results/workload.json")]
    output: PathBuf,
    /// Where the plot is written as SVG; beside the results when not given
    #[arg(long)]
    plot: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Planes {
    Real,
    Embedded,
    Both,
}

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Replicas of one clique of two pods
    Moe,
    /// Replicas of ten pods in five cliques, four of them in a scaling group
    Groups,
    /// Half of the moe workload to all of it, back to half, to none
    Scaling,
    /// A tenth of the moe workload: pods killed, replicas halved and doubled, again and again
    Churn,
    /// The groups workload with ten thousand pods
    Large,
}

#[derive(Subcommand)]
enum Command {
    /// The embedded server as a process of its own: prints a kubeconfig and ends with its standard input
    #[command(hide = true)]
    Serve,
    /// The floor client as a process of its own
    #[command(hide = true)]
    Floor(floor::Task),
    /// A client that shares the API server with a load, as a process of its own
    #[command(hide = true)]
    Bystander(bystander::Task),
}

fn main() -> anyhow::Result<()> {
    let mut arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.command.take() {
        Some(Command::Serve) => return coppice_bench::child::serve(),
        Some(Command::Floor(task)) => return runtime.block_on(floor::run(task)),
        Some(Command::Bystander(task)) => return runtime.block_on(bystander::run(task)),
        None => {}
    }
    let choice = choice(&arguments)?;
    let mut report = Report {
        machine: process::machine()?,
        unix_time: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        operator: match &choice {
            Choice::Ours(_) => concat!("coppice ", env!("CARGO_PKG_VERSION")).to_owned(),
            Choice::Other { command, .. } => command.clone(),
        },
        concurrency: arguments.concurrency,
        nodes: arguments.nodes,
        etcd_flushes_to_disk: !arguments.no_flush,
        workloads: Vec::new(),
    };
    let ended = runtime.block_on(run::all(&arguments, &choice, &mut report));
    // What was measured before a failure is not lost.
    write_results(&arguments, &report)?;
    ended
}

fn choice(arguments: &Arguments) -> anyhow::Result<Choice> {
    if let (Some(command), Some(manifests)) = (&arguments.operator_command, &arguments.manifests) {
        return Ok(Choice::Other {
            command: command.clone(),
            manifests: manifests.clone(),
            settle: Duration::from_secs(arguments.settle),
        });
    }
    let beside = std::env::current_exe()?.with_file_name("coppice");
    let program = arguments.operator.clone().unwrap_or(beside);
    anyhow::ensure!(
        program.exists(),
        "no operator at {}: build it with cargo build --profile bench --bin coppice, or name it with --operator",
        program.display()
    );
    Ok(Choice::Ours(program))
}

fn write_results(arguments: &Arguments, report: &Report) -> anyhow::Result<()> {
    let mut json = serde_json::to_string(report)?;
    json.push('\n');
    let beside = arguments.output.with_extension("svg");
    let plot = arguments.plot.as_ref().unwrap_or(&beside);
    for (file, text) in [(&arguments.output, json), (plot, plot::svg(report))] {
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    write!(std::io::stdout(), "{}", report.table())?;
    Ok(())
}

/// Progress goes to standard error, the results to standard output.
pub(crate) fn progress(text: &str) {
    // A closed standard error is no reason to stop measuring.
    let _ = writeln!(std::io::stderr(), "{text}");
}
