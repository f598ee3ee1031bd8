//! `scenario`: runs scenario files on the cluster of a kubeconfig. Standard output carries one line per step; what went
//! wrong goes to standard error. Exit code 0 when everything passed, 1 when a scenario failed, 2 when a file is wrong.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coppice_harness::scenario::environment::AnyCluster;
use coppice_harness::scenario::model::Scenario;
use coppice_harness::scenario::parse;
use coppice_harness::scenario::run::{Progress, run};

/// Run scenarios on a cluster.
///
/// A scenario is a YAML file that says what is applied, done and expected; tests/scenarios/README.md describes the
/// format. Each one runs in a fresh namespace that is removed at the end. Simulated nodes that a scenario asks for are
/// added to the cluster and removed again: do not point this at a cluster that serves anybody.
#[derive(Parser)]
#[command(
    name = "scenario",
    after_help = "Examples:\n  scenario --list tests/scenarios/*.yaml\n  \
                  scenario --kubeconfig /path/to/kubeconfig tests/scenarios/node-loss.yaml\n\n\
                  Exit codes: 0 all passed, 1 a scenario failed, 2 a file is wrong or the cluster cannot be reached."
)]
struct Arguments {
    /// The cluster to run on; by default what KUBECONFIG or the user's own kubeconfig names.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Check the files and print their names, steps and descriptions; run nothing.
    #[arg(long)]
    list: bool,

    /// Scenario files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Where output goes and whether somebody looks at it.
#[derive(Clone, Copy)]
struct Screen {
    marks: bool,
}

#[allow(clippy::print_stdout, reason = "printing is what this program is for")]
impl Screen {
    fn list(scenario: &Scenario) {
        println!(
            "{}  ({} steps)\n    {}",
            scenario.name,
            scenario.steps.len(),
            scenario.description
        );
    }

    fn show(self, progress: &Progress<'_>) {
        let (passed, failed) = if self.marks { ("✓ ", "✗ ") } else { ("", "FAILED ") };
        match progress {
            Progress::Started(scenario, namespace) => println!("{} (namespace {namespace})", scenario.name),
            Progress::StepStarted(_) => {}
            Progress::StepPassed(step, time) => println!("  {passed}{} ({:.2} s)", step.name, time.as_secs_f64()),
            Progress::StepFailed(step) => println!("  {failed}{}", step.name),
        }
    }

    fn summary(passed: usize, total: usize) {
        println!("{passed} of {total} scenarios passed");
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (mut scenarios, mut mistakes) = (Vec::new(), 0);
    for file in &arguments.files {
        match parse::load(file) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => {
                eprintln!("{error}");
                mistakes += 1;
            }
        }
    }
    if mistakes > 0 {
        return ExitCode::from(2);
    }
    if arguments.list {
        scenarios.iter().for_each(Screen::list);
        return ExitCode::SUCCESS;
    }
    let environment = match AnyCluster::connect(arguments.kubeconfig.as_deref()).await {
        Ok(environment) => environment,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let screen = Screen {
        marks: std::io::stdout().is_terminal(),
    };
    let mut passed = 0;
    for scenario in &scenarios {
        match run(scenario, &environment, &|progress| screen.show(&progress)).await {
            Ok(()) => passed += 1,
            Err(failure) => eprintln!("{failure}"),
        }
    }
    Screen::summary(passed, scenarios.len());
    if passed == scenarios.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
