//! The `coppice` binary: one program with subcommands for people, for clusters and for laptops.
#![allow(clippy::print_stdout, reason = "printing is what a command line is for")]

mod client;
mod crds;
mod demo;
mod doctor;
mod embedded;
mod events;
mod explain;
mod gather;
mod get;
#[cfg(test)]
mod golden;
mod initc;
mod lint;
mod locate;
mod logging;
mod manifests;
mod operator;
mod output;
mod plan;
mod process;
mod reference;
mod scheduler;
mod screen;
mod status;
mod topology;
mod up;
mod view;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};
use coppice_operator::configuration::LogFormat;

// The embedded API server makes and drops trees and buffers all the time: with this allocator requests take about a quarter less
// processor time than with that of the system's C library (`bench/README.md` measures it with this one).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FIRST_STEPS: &str = "\
First steps:
  coppice demo                  see it work, in half a minute and without a cluster
  coppice up                    a cluster of simulated GPU nodes for kubectl
  coppice doctor                what an installation on a real cluster lacks
  coppice explain pcs/NAME      why a set is not running

Commands that show something take -o json and -o yaml.";

/// Gangs of pods for multi-node AI inference on Kubernetes.
///
/// Coppice runs PodCliqueSets: whole serving systems whose pods are placed together, started in order, scaled as units
/// and updated without restarting a model by accident.
#[derive(Parser)]
#[command(name = "coppice", version, propagate_version = true, max_term_width = 100, after_help = FIRST_STEPS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// In the order in which people meet them: try, look, before a change, run.
#[derive(Subcommand)]
enum Command {
    /// A guided tour on an embedded cluster: no cluster, no Docker, no Go
    Demo(demo::Demo),
    /// Start an embedded cluster with simulated nodes, operator and scheduler
    Up(up::Up),
    /// Show a set as a tree of replicas, groups, cliques and pods; or all sets
    Get(get::Get),
    /// Say whether a set is ready, in one line and by the exit code
    Status(status::Status),
    /// Say where the pods of a gang are, or why they are not placed and what helps
    Explain(explain::Explain),
    /// Show what happened to a set and everything it owns, warnings first
    Events(events::Events),
    /// Show nodes by topology: GPUs, what is free, and which gangs run where
    Topology(topology::Topology),
    /// Check an installation, and say what to do about what is wrong with it
    Doctor(doctor::Doctor),
    /// Check manifests as admission would, without a cluster
    Lint(lint::Lint),
    /// Show what applying manifests would change, which pods it replaces, and how
    Plan(plan::Plan),
    /// Print or install the CustomResourceDefinitions
    Crds(crds::Crds),
    /// Run the operator on the cluster of the current kubeconfig, or in a pod
    Operator(operator::Operator),
    /// Run the gang scheduler on the cluster of the current kubeconfig, or in a pod
    Scheduler(scheduler::Scheduler),
    /// Wait, inside a pod, until the cliques that it starts after are ready
    Initc(initc::Initc),
    /// Print the completion script of a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The name of the program as a plugin of kubectl, which runs it for `kubectl grove`.
const PLUGIN: &str = "kubectl-grove";

/// The command line, under the name that the program was called by.
fn command(program: &OsStr) -> clap::Command {
    let command = Arguments::command();
    let called = Path::new(program).file_stem().unwrap_or_default();
    if called == PLUGIN {
        // The name is what usage and errors begin with.
        return command.name("kubectl grove").bin_name("kubectl grove");
    }
    command
}

#[tokio::main]
async fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    let matches = command(&program).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // People at a terminal want to hear of trouble only; whoever runs a part of a cluster wants to follow it. The operator
    // has a configuration that says what to log.
    match arguments.command {
        Command::Operator(_) => {}
        Command::Scheduler(_) | Command::Initc(_) => logging::start("info", LogFormat::Text),
        // What the client library has to say, the error at the end says better.
        _ => logging::start("error,kube_client=off", LogFormat::Text),
    }
    let result = match arguments.command {
        Command::Demo(demo) => demo.run().await,
        Command::Up(up) => up.run().await,
        Command::Get(get) => get.run().await,
        Command::Status(status) => status.run().await,
        Command::Plan(plan) => plan.run().await,
        Command::Topology(topology) => topology.run().await,
        Command::Events(events) => events.run().await,
        Command::Doctor(doctor) => doctor.run().await,
        Command::Crds(crds) => crds.run().await,
        Command::Lint(lint) => lint.run(),
        Command::Explain(explain) => explain.run().await,
        Command::Operator(operator) => operator.run().await,
        Command::Scheduler(scheduler) => scheduler.run().await,
        Command::Initc(initc) => initc.run().await,
        Command::Completion { shell } => {
            let name = Path::new(&program)
                .file_stem()
                .and_then(OsStr::to_str)
                .filter(|name| *name == PLUGIN);
            clap_complete::generate(
                shell,
                &mut Arguments::command(),
                name.unwrap_or("coppice"),
                &mut std::io::stdout(),
            );
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn as_a_plugin_it_goes_by_the_name_that_people_type() {
        let help = |program: &str| command(OsStr::new(program)).render_help().to_string();
        assert!(help("/usr/local/bin/kubectl-grove").contains("Usage: kubectl grove <COMMAND>"));
        assert!(help("coppice").contains("Usage: coppice <COMMAND>"));
    }
}
