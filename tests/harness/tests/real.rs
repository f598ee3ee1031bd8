//! Every scenario of `tests/scenarios` that is meant for it, on a real kube-apiserver and etcd, one test each. Scenarios
//! with the same needs share a control plane, one after the other; those that kill the API server get one of their own.
//! The operator runs in this process.
//! Needs `KUBEBUILDER_ASSETS`; without it this fails and says what to do.

#![allow(clippy::print_stdout, reason = "the log of a test run names versions and steps")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coppice_harness::control_plane::{Assets, ControlPlane, Options};
use coppice_harness::scenario::environment::RealEnvironment;
use coppice_harness::scenario::model::{Place, Scenario};
use coppice_harness::scenario::operator::{InProcessOperator, OperatorUnderTest};
use coppice_harness::scenario::parse;
use coppice_harness::scenario::run::{Progress, run};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

/// Control planes by what they consist of; started when first needed, ended together.
struct Pool {
    runtime: Runtime,
    shared: Mutex<BTreeMap<Options, Arc<ControlPlane>>>,
}

impl Pool {
    fn run(&self, scenario: &Scenario) -> Result<(), Failed> {
        let options = options(scenario);
        // Held throughout: simulated nodes belong to the whole control plane, so scenarios take turns.
        let mut shared = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.runtime.block_on(async {
            let alone = scenario.disturbs_api_server();
            let control_plane = match shared.get(&options).filter(|_| !alone) {
                Some(control_plane) => Arc::clone(control_plane),
                None => Arc::new(ControlPlane::start(&options).await?),
            };
            if !alone {
                shared.insert(options.clone(), Arc::clone(&control_plane));
            }
            // The operator comes and goes with each scenario that wants it; its kinds stay.
            let operator = match scenario.operator() {
                Some(needs) => Some(InProcessOperator::start(control_plane.client(), needs).await?),
                None => None,
            };
            let under_test = operator.as_ref().map(|operator| operator as &dyn OperatorUnderTest);
            let environment = RealEnvironment::new(&control_plane, under_test, alone);
            let result = run(scenario, &environment, &|progress| show(&progress)).await;
            if let Some(operator) = &operator {
                operator.stop().await;
            }
            result.map_err(|failure| Failed::from(failure.to_string()))
        })
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

fn show(progress: &Progress<'_>) {
    match progress {
        Progress::Started(scenario, namespace) => println!("  {} in {namespace}", scenario.name),
        Progress::StepPassed(step, time) => println!("    {} ({})", step.name, seconds(*time)),
        Progress::StepFailed(step) => println!("    {} FAILED", step.name),
        Progress::StepStarted(_) => {}
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Scenarios take turns anyway; one thread keeps their lines together.
    arguments.test_threads = Some(1);
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
        shared: Mutex::new(BTreeMap::new()),
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
