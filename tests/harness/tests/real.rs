//! Every scenario of `tests/scenarios` that is meant for it, on a real kube-apiserver and etcd, one test each. A few
//! control planes run side by side; scenarios with the same needs share one, one after the other, and those that kill the
//! API server get one of their own. Operator and gang scheduler run in this process.
//! Needs `KUBEBUILDER_ASSETS`; without it this fails and says what to do.

#![allow(clippy::print_stdout, reason = "the log of a test run names versions and steps")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coppice_harness::control_plane::{Assets, ControlPlane, Options};
use coppice_harness::scenario::environment::RealEnvironment;
use coppice_harness::scenario::model::{Place, Scenario};
use coppice_harness::scenario::operator::{InProcessOperator, OperatorUnderTest, Reach};
use coppice_harness::scenario::parse;
use coppice_harness::scenario::run::{Progress, run};
use coppice_harness::scenario::scheduler::InProcessScheduler;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

/// How many scenarios run at a time. They wait most of the time; each has a control plane, whose nodes are its own.
const SIDE_BY_SIDE: usize = 4;

/// Control planes by what they consist of; started when none is free, ended together.
struct Pool {
    runtime: Runtime,
    free: Mutex<BTreeMap<Options, Vec<ControlPlane>>>,
}

impl Pool {
    fn run(&self, scenario: &Scenario) -> Result<(), Failed> {
        let options = options(scenario);
        let alone = scenario.disturbs_api_server();
        // Webhooks stay configured when their operator has gone, so nobody else can use that control plane.
        let asks = scenario.operator().is_some_and(|needs| needs.webhooks);
        let shared = !alone && !asks;
        let reach = if asks { Reach::Loopback } else { Reach::Nowhere };
        let free = if !shared {
            None
        } else {
            self.free().get_mut(&options).and_then(Vec::pop)
        };
        // Shown at once and whole, because scenarios run side by side.
        let lines = Mutex::new(String::new());
        let note = |progress: Progress<'_>| {
            lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(&line(&progress));
        };
        let result = self.runtime.block_on(async {
            let control_plane = match free {
                Some(control_plane) => control_plane,
                None => ControlPlane::start(&options).await?,
            };
            // The operator comes and goes with each scenario that wants it; its kinds stay.
            let operator = match scenario.operator() {
                Some(needs) => Some(InProcessOperator::start(control_plane.client(), needs, reach).await?),
                None => None,
            };
            let under_test = operator.as_ref().map(|operator| operator as &dyn OperatorUnderTest);
            let scheduler = match scenario.uses_gang_scheduler() {
                true => Some(InProcessScheduler::start(control_plane.client()).await?),
                false => None,
            };
            let environment = RealEnvironment::new(&control_plane, under_test, scheduler.as_ref(), alone);
            let result = run(scenario, &environment, &note).await;
            if let Some(scheduler) = &scheduler {
                scheduler.stop().await;
            }
            if let Some(operator) = &operator {
                operator.stop().await;
            }
            if shared {
                self.free().entry(options.clone()).or_default().push(control_plane);
            }
            result.map_err(|failure| Failed::from(failure.to_string()))
        });
        print!("{}", lines.into_inner().unwrap_or_else(PoisonError::into_inner));
        result
    }

    fn free(&self) -> MutexGuard<'_, BTreeMap<Options, Vec<ControlPlane>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the scenario's control plane consists of. Nodes that fall silent are given up within seconds, except where the
/// API server is away for a while and every node is silent.
fn options(scenario: &Scenario) -> Options {
    let quick = [
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=10s",
        "--node-eviction-rate=10",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ];
    let flags = quick
        .iter()
        .filter(|_| !scenario.disturbs_api_server())
        .map(|flag| (*flag).to_owned());
    Options {
        controller_manager: scenario.cluster.controller_manager,
        scheduler: scenario.cluster.scheduler,
        controller_manager_flags: flags.collect(),
        ..Options::default()
    }
}

fn line(progress: &Progress<'_>) -> String {
    match progress {
        Progress::Started(scenario, namespace) => format!("  {} in {namespace}\n", scenario.name),
        Progress::StepPassed(step, time) => format!("    {} ({})\n", step.name, seconds(*time)),
        Progress::StepFailed(step) => format!("    {} FAILED\n", step.name),
        Progress::StepStarted(_) => String::new(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(SIDE_BY_SIDE);
    let assets = Assets::from_environment().unwrap_or_else(|error| stop(&error.to_string()));
    let versions = assets.versions().unwrap_or_else(|error| stop(&error.to_string()));
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let scenarios = parse::load_directory(&directory).unwrap_or_else(|error| stop(&error.to_string()));
    let scenarios: Vec<Scenario> = scenarios
        .into_iter()
        .filter(|scenario| scenario.runs_on.contains(&Place::Real))
        .collect();
    println!(
        "real control plane: kube-apiserver {}, etcd {}; {} scenarios",
        versions.kube_apiserver,
        versions.etcd,
        scenarios.len()
    );

    let runtime = Runtime::new().expect("threads and timers are available");
    let pool = Arc::new(Pool {
        runtime,
        free: Mutex::new(BTreeMap::new()),
    });
    let trials = scenarios
        .into_iter()
        .map(|scenario| {
            let pool = Arc::clone(&pool);
            Trial::test(scenario.name.clone(), move || pool.run(&scenario))
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Leaving through `exit` drops nothing, and the control planes have to end.
    drop(pool);
    conclusion.exit();
}

fn stop(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(101);
}
