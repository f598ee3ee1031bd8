//! Every scenario of `tests/scenarios` that is meant for it, on the embedded control plane, one test each. Each gets a
//! control plane of its own, so they run side by side.

#![allow(
    clippy::print_stdout,
    reason = "the log of a test run names the steps of a failed scenario"
)]

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coppice_harness::scenario::embedded::EmbeddedEnvironment;
use coppice_harness::scenario::model::{Place, Scenario};
use coppice_harness::scenario::parse;
use coppice_harness::scenario::run::{Progress, run};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Builder;

fn run_embedded(scenario: &Scenario) -> Result<(), Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Shown at once and whole, because scenarios run side by side.
    let lines = Mutex::new(String::new());
    let note = |progress: Progress<'_>| {
        let line = match progress {
            Progress::StepPassed(step, time) => format!("    {} ({})\n", step.name, seconds(time)),
            Progress::StepFailed(step) => format!("    {} FAILED\n", step.name),
            Progress::Started(..) | Progress::StepStarted(_) => return,
        };
        lines.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line);
    };
    let result = runtime.block_on(async {
        let environment = EmbeddedEnvironment::start(scenario).await?;
        let result = run(scenario, &environment, &note).await;
        environment.stop().await;
        result.map_err(|failure| Failed::from(failure.to_string()))
    });
    let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("  {}\n{}", scenario.name, lines.trim_end());
    result
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Scenarios wait most of the time; more of them at once than cores cost nothing.
    arguments.test_threads.get_or_insert(8);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let scenarios = parse::load_directory(&directory).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(101);
    });
    let trials = scenarios
        .into_iter()
        .filter(|scenario| scenario.runs_on.contains(&Place::Embedded))
        .map(|scenario| Trial::test(scenario.name.clone(), move || run_embedded(&scenario)))
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
