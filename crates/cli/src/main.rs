//! The `coppice` binary: one program with subcommands for people, for clusters and for laptops.

#[macro_use]
mod output;

mod client;
mod compute_domain_controller;
mod compute_domain_daemon;
mod compute_domain_kubelet_plugin;
mod crds;
mod dashboard;
mod demo;
mod doctor;
mod domains;
mod embedded;
mod events;
mod explain;
mod gather;
mod get;
#[cfg(test)]
#[path = "../../view/src/golden.rs"]
mod golden;
mod initc;
mod lint;
mod locate;
mod logging;
mod manifests;
mod operator;
mod plan;
mod process;
mod reference;
mod rollout;
mod scheduler;
mod screen;
mod status;
mod topology;
mod up;
mod version;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};
use coppice_operator::configuration::LogFormat;
use coppice_view as view;

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

const EXIT_CODES: &str = "\
Exit codes:
  0    done, and nothing is wrong
  1    an error, or what was looked at is wrong (doctor, lint, plan)
  2    a command line or configuration that cannot be used
  141  the reader of the output has gone
Some commands have more: see their --help.";

/// Gangs of pods for multi-node AI inference on Kubernetes.
///
/// Coppice runs PodCliqueSets: whole serving systems whose pods are placed together, started in order, scaled as units
/// and updated without restarting a model by accident.
#[derive(Parser)]
#[command(name = "coppice", version, propagate_version = true, max_term_width = 100, after_help = FIRST_STEPS)]
#[command(after_long_help = format!("{FIRST_STEPS}\n\n{EXIT_CODES}"))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// In the order in which people meet them: try, look, before a change, run. What help says of a command is the
/// documentation of its arguments: a comment here would hide it.
#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Up(up::Up),
    Get(get::Get),
    Status(status::Status),
    Explain(explain::Explain),
    Events(events::Events),
    Topology(topology::Topology),
    Dashboard(dashboard::Dashboard),
    Doctor(doctor::Doctor),
    Lint(lint::Lint),
    Plan(plan::Plan),
    Rollout(rollout::Rollout),
    Crds(crds::Crds),
    Operator(operator::Operator),
    Scheduler(scheduler::Scheduler),
    Initc(initc::Initc),
    ComputeDomainController(compute_domain_controller::ComputeDomainController),
    ComputeDomainDaemon(compute_domain_daemon::ComputeDomainDaemon),
    ComputeDomainKubeletPlugin(compute_domain_kubelet_plugin::ComputeDomainKubeletPlugin),
    Version(version::Version),
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

/// Names by which NVIDIA's images and manifests call programs that are commands here.
const PROGRAMS: [&str; 3] = [
    "compute-domain-controller",
    "compute-domain-daemon",
    "compute-domain-kubelet-plugin",
];

/// The arguments with the command that the program was called by, where it was called by the name of one.
fn with_command(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.into_iter().collect();
    let called = all
        .first()
        .map(|program| Path::new(program).file_name().unwrap_or_default());
    if let Some(name) = PROGRAMS.into_iter().find(|name| called == Some(OsStr::new(name))) {
        all.insert(1, name.into());
    }
    all
}

/// Options that kubectl takes before the verb, too.
const BEFORE_THE_VERB: [&str; 4] = ["-n", "--namespace", "--kubeconfig", "--context"];

/// The arguments with what came before the verb behind it, where the verb takes it or refuses it by its name.
fn verb_first(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut rest = arguments.into_iter();
    let mut all: Vec<OsString> = rest.next().into_iter().collect();
    let mut moved = Vec::new();
    let verb = loop {
        let Some(argument) = rest.next() else { break None };
        let text = argument.to_string_lossy();
        let (name, value) = text
            .split_once('=')
            .map_or((&*text, None), |(name, value)| (name, Some(value)));
        if !BEFORE_THE_VERB.contains(&name) {
            break Some(argument);
        }
        let whole = value.is_some();
        moved.push(argument);
        if !whole {
            moved.extend(rest.next());
        }
    };
    all.extend(verb);
    all.extend(moved);
    all.extend(rest);
    all
}

/// What the main thread has, where most commands run: an embedded cluster that starts on another thread, for the plan of a
/// dashboard, needs more than the usual two megabytes without optimisation.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => {
            errln!("error: cannot start threads: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    let matches = command(&program).get_matches_from(verb_first(with_command(std::env::args_os())));
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // People at a terminal want to hear of trouble only; whoever runs a part of a cluster wants to follow it. The operator
    // has a configuration that says what to log.
    match arguments.command {
        Command::Operator(_) => {}
        Command::Scheduler(_)
        | Command::Initc(_)
        | Command::ComputeDomainController(_)
        | Command::ComputeDomainKubeletPlugin(_) => {
            logging::start("info", LogFormat::Text);
        }
        Command::ComputeDomainDaemon(ref daemon) => logging::start(daemon.log_level(), LogFormat::Text),
        // What the client library has to say, the error at the end says better.
        _ => logging::start("error,kube_client=off", LogFormat::Text),
    }
    let result = match arguments.command {
        Command::Demo(demo) => demo.run().await,
        Command::Up(up) => up.run().await,
        Command::Get(get) => get.run().await,
        Command::Status(status) => status.run().await,
        Command::Plan(plan) => plan.run().await,
        Command::Rollout(rollout) => rollout.run().await,
        Command::Topology(topology) => topology.run().await,
        Command::Dashboard(dashboard) => dashboard.run().await,
        Command::Events(events) => events.run().await,
        Command::Doctor(doctor) => doctor.run().await,
        Command::Crds(crds) => crds.run().await,
        Command::Lint(lint) => lint.run(),
        Command::Explain(explain) => explain.run().await,
        Command::Operator(operator) => operator.run().await,
        Command::Scheduler(scheduler) => scheduler.run().await,
        Command::Initc(initc) => initc.run().await,
        Command::ComputeDomainController(controller) => controller.run().await,
        Command::ComputeDomainDaemon(daemon) => daemon.run().await,
        Command::ComputeDomainKubeletPlugin(plugin) => plugin.run().await,
        Command::Version(version) => version.run(),
        Command::Completion { shell } => {
            let name = Path::new(&program)
                .file_stem()
                .and_then(OsStr::to_str)
                .filter(|name| *name == PLUGIN);
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), name.unwrap_or("coppice"), &mut script);
            out!("{}", String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        if output::is_reader_gone(&error) {
            return ExitCode::from(output::READER_GONE);
        }
        errln!("error: {error:#}");
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
    fn help_says_all_that_is_written_for_it() {
        let mut command = Arguments::command();
        let mut long = |name: &str| {
            let found = command.find_subcommand_mut(name).expect("a command");
            found.render_long_help().to_string()
        };
        assert!(long("status").contains("4 degraded; 5 not ready within --timeout"));
        assert!(long("doctor").contains("Exits with 1 when a check fails"));
        assert!(long("explain").contains("kubectl get nodes,pods,podgangs"));
        assert!(long("crds").contains("coppice crds | kubectl apply"));
        let names: Vec<String> = Arguments::command()
            .get_subcommands()
            .filter(|command| command.get_about().is_none())
            .map(|command| command.get_name().to_owned())
            .collect();
        assert!(names.is_empty(), "without a line of help: {names:?}");
        assert!(
            Arguments::command()
                .render_long_help()
                .to_string()
                .contains("Exit codes:")
        );
    }

    #[test]
    fn options_may_come_before_the_verb() {
        let sorted = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            let words: Vec<String> = verb_first(words)
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect();
            words.join(" ")
        };
        assert_eq!(sorted("coppice -n ns get llm -o json"), "coppice get -n ns llm -o json");
        assert_eq!(
            sorted("coppice --kubeconfig=f --context c get"),
            "coppice get --kubeconfig=f --context c"
        );
        assert_eq!(sorted("coppice get -n ns"), "coppice get -n ns");
        assert_eq!(sorted("coppice --help"), "coppice --help");
        assert_eq!(sorted("coppice -n ns"), "coppice -n ns");
    }

    #[test]
    fn called_by_the_name_of_a_program_it_is_that_program() {
        let parsed = |line: &str| {
            let words = with_command(line.split(' ').map(OsString::from));
            Arguments::try_parse_from(words).map(|arguments| arguments.command)
        };
        let daemon = parsed("/usr/bin/compute-domain-daemon -v 4 check").expect("as the DaemonSet calls it");
        assert!(matches!(daemon, Command::ComputeDomainDaemon(_)));
        let controller = parsed("compute-domain-controller --daemon-image i").expect("as the chart calls it");
        assert!(matches!(controller, Command::ComputeDomainController(_)));
        assert!(
            parsed("coppice compute-domain-controller").is_err(),
            "daemons need an image"
        );
        assert!(parsed("coppice compute-domain-controller --daemon-image i --max-nodes-per-imex-domain 0").is_err());
    }

    #[test]
    fn as_a_plugin_it_goes_by_the_name_that_people_type() {
        let help = |program: &str| command(OsStr::new(program)).render_help().to_string();
        assert!(help("/usr/local/bin/kubectl-grove").contains("Usage: kubectl grove <COMMAND>"));
        assert!(help("coppice").contains("Usage: coppice <COMMAND>"));
    }
}
