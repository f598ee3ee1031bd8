//! Every task of every program is essential: when it ends or panics, the program ends with an error, its liveness probe
//! fails and its lease is released.

use std::collections::BTreeSet;
use std::pin::pin;

use clap::Parser as _;
use coppice_apiserver::ApiServer;
use coppice_cluster::behaviour::PodBehaviour;
use coppice_cluster::profile::NodeProfile;
use coppice_crds::{InstallOptions, install};
use coppice_operator::configuration::Configuration;
use coppice_runtime::supervise::Interruption;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::*;
use crate::embedded::{Embedded, EmbeddedOptions};
use crate::{Arguments, Command};

const FAULTS: [Interruption; 2] = [Interruption::Return, Interruption::Panic];

#[test]
fn two_processes_of_one_host_have_different_identities() {
    let (one, two) = (identity(), identity());
    assert_ne!(one, two);
    let (host, random) = one.rsplit_once('_').unwrap();
    assert!(two.starts_with(host) && random.len() == 16, "{one} {two}");
}

async fn cluster() -> Client {
    let client = Client::new(ApiServer::builder().build().service(), "default");
    install(client.clone(), &InstallOptions::default(), |_| {})
        .await
        .unwrap();
    client
}

/// Runs a program until the last of its tasks has begun, and returns the names of all of them; then interrupts the one of
/// that number, if any, and returns how the program ended.
async fn interrupted(
    supervisor: &Supervisor,
    last: &str,
    fault: Option<(usize, Interruption)>,
    run: impl Future<Output = Result<ExitCode>>,
) -> (Vec<String>, Option<Result<ExitCode>>) {
    let mut run = pin!(run);
    let tasks = tokio::select! {
        biased;
        outcome = run.as_mut() => panic!("it ended by itself: {outcome:?}"),
        tasks = async {
            loop {
                let tasks = supervisor.tasks();
                if tasks.iter().any(|task| task == last) {
                    return tasks;
                }
                tokio::task::yield_now().await;
            }
        } => tasks,
    };
    let Some((number, how)) = fault else {
        return (tasks, None);
    };
    assert!(supervisor.interrupt(&tasks[number], how), "{} runs", tasks[number]);
    let outcome = run.await;
    (tasks, Some(outcome))
}

/// What is left of a name when the port of a listener is taken off.
fn without_port(name: &str) -> String {
    name.rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(name, |(name, _)| name)
        .to_owned()
}

/// Each process has a namespace of its own, and its lease there.
async fn new_namespace(client: &Client, number: usize) -> String {
    let name = format!("run-{number}");
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    name
}

async fn holder(client: &Client, namespace: &str) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let found = leases.list(&ListParams::default()).await.unwrap();
    found.items.into_iter().next()?.spec?.holder_identity
}

/// Interrupts every task of a program in every way, each time in a new process.
async fn every_task_is_essential<R>(client: &Client, last: &str, expected: &[&str], run: impl Fn(Process, String) -> R)
where
    R: Future<Output = Result<ExitCode>>,
{
    let process = Process::new(Metrics::default());
    let supervisor = process.supervisor.clone();
    let (tasks, _) = interrupted(&supervisor, last, None, run(process, new_namespace(client, 0).await)).await;
    let names: BTreeSet<String> = tasks.iter().map(|task| without_port(task)).collect();
    let expected: BTreeSet<String> = expected.iter().map(|task| (*task).to_owned()).collect();
    assert_eq!(names, expected, "every task of the program is supervised");
    let faults = FAULTS
        .iter()
        .flat_map(|how| (0..tasks.len()).map(|number| (number, *how)));
    for (count, (number, how)) in faults.enumerate() {
        let process = Process::new(Metrics::default());
        let (supervisor, health) = (process.supervisor.clone(), process.health.clone());
        let namespace = new_namespace(client, count + 1).await;
        let fault = Some((number, how));
        let (tasks, outcome) = interrupted(&supervisor, last, fault, run(process, namespace.clone())).await;
        let name = &tasks[number];
        let error = outcome.unwrap().unwrap_err().to_string();
        assert!(error.contains(&format!("{name:?}")), "{name} {how:?}: {error}");
        assert_eq!(health.liveness(), Err(error), "{name} {how:?}");
        // An election that panicked cannot release its lease: that one expires.
        if !name.starts_with("lease: ") {
            assert_eq!(holder(client, &namespace).await.as_deref(), Some(""), "{name} {how:?}");
        }
    }
}

#[tokio::test]
async fn every_task_of_the_compute_domain_controller_is_essential() {
    let client = cluster().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in coppice_domains::api::crd::all() {
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let run = |process: Process, namespace: String| {
        let election = format!("--leader-election-namespace={namespace}");
        let arguments = [
            "coppice",
            "compute-domain-controller",
            "--daemon-image=i",
            "--serve=127.0.0.1:0",
            &election,
        ];
        let Command::ComputeDomainController(controller) = Arguments::parse_from(arguments).command else {
            unreachable!("the controller was asked for")
        };
        controller.work(client.clone(), process, std::future::pending())
    };
    let expected = [
        "compute-domain-controller: events",
        "compute-domain-controller: queue",
        "compute-domain-controller: watch of computedomaincliques in nvidia-dra-driver-gpu",
        "compute-domain-controller: watch of computedomains",
        "compute-domain-controller: watch of daemonsets in nvidia-dra-driver-gpu",
        "compute-domain-controller: watch of nodes",
        "compute-domain-controller: watch of pods in nvidia-dra-driver-gpu",
        "compute-domain-controller: watch of resourceclaimtemplates",
        "compute-domain-controller: watch of resourceslices",
        "lease: election",
        "servers: probes and metrics on 127.0.0.1",
    ];
    every_task_is_essential(&client, "compute-domain-controller: queue", &expected, run).await;
}

#[tokio::test]
async fn every_task_of_the_operator_is_essential() {
    let client = cluster().await;
    let Command::Operator(operator) = Arguments::parse_from(["coppice", "operator", "--config", "given"]).command
    else {
        unreachable!("the operator was asked for")
    };
    let run = |process: Process, namespace: String| {
        let text = format!(
            "apiVersion: operator.config.grove.io/v1alpha1\n\
             kind: OperatorConfiguration\n\
             leaderElection: {{enabled: true, resourceNamespace: {namespace}, resourceName: operator}}\n\
             server:\n\
             \x20 webhooks: {{bindAddress: 127.0.0.1, port: 0, certProvisionMode: auto}}\n\
             \x20 healthProbes: {{enable: true, bindAddress: 127.0.0.1, port: 0}}\n\
             \x20 metrics: {{bindAddress: 127.0.0.1, port: 0}}\n"
        );
        let configuration = Configuration::read(&text).unwrap().configuration;
        let (operator, client) = (&operator, client.clone());
        async move {
            operator
                .work(configuration, client, process, std::future::pending())
                .await
        }
    };
    let expected = [
        "lease: election",
        "operator: events",
        "operator: queue",
        "operator: watch of clustertopologybindings",
        "operator: watch of controllerrevisions",
        "operator: watch of horizontalpodautoscalers",
        "operator: watch of podcliques",
        "operator: watch of podcliquescalinggroups",
        "operator: watch of podcliquesets",
        "operator: watch of podgangmaps",
        "operator: watch of podgangs",
        "operator: watch of pods",
        "operator: watch of resourceclaims",
        "operator: watch of resourceclaimtemplates",
        "operator: watch of rolebindings",
        "operator: watch of roles",
        "operator: watch of services",
        "servers: events about the webhook certificate",
        "servers: probes and metrics on 127.0.0.1",
        "webhooks: server",
        "webhooks: webhook certificate",
    ];
    every_task_is_essential(&client, "operator: queue", &expected, run).await;
}

#[tokio::test]
async fn every_task_of_the_scheduler_is_essential() {
    let client = cluster().await;
    let run = |process: Process, namespace: String| {
        let line = ["coppice", "scheduler", "--serve", "127.0.0.1:0"];
        let election = ["--leader-election-namespace", &namespace];
        let Command::Scheduler(scheduler) = Arguments::parse_from(line.into_iter().chain(election)).command else {
            unreachable!("the scheduler was asked for")
        };
        scheduler.work(client.clone(), process, std::future::pending())
    };
    let expected = [
        "lease: election",
        "scheduler: decisions",
        "scheduler: events",
        "scheduler: watch of clustertopologybindings",
        "scheduler: watch of csidrivers",
        "scheduler: watch of csinodes",
        "scheduler: watch of csistoragecapacities",
        "scheduler: watch of nodes",
        "scheduler: watch of persistentvolumeclaims",
        "scheduler: watch of persistentvolumes",
        "scheduler: watch of poddisruptionbudgets",
        "scheduler: watch of podgangs",
        "scheduler: watch of pods",
        "scheduler: watch of storageclasses",
        "servers: probes and metrics on 127.0.0.1",
    ];
    every_task_is_essential(&client, "scheduler: decisions", &expected, run).await;
}

/// What `coppice up` and `coppice demo` run.
#[tokio::test]
async fn every_part_of_an_embedded_cluster_is_essential() {
    let parts = [
        "cluster: API server",
        "simulated cluster: kubelets",
        "operator: queue",
        "operator: watch of pods",
        "scheduler: decisions",
        "scheduler: watch of nodes",
    ];
    for (part, how) in parts.iter().flat_map(|part| FAULTS.map(|how| (*part, how))) {
        let embedded = Embedded::start(EmbeddedOptions {
            profile: NodeProfile::Small,
            nodes: 1,
            listen: Some(([127, 0, 0, 1], 0).into()),
            kubeconfig: None,
            behaviour: PodBehaviour::default(),
        })
        .await
        .unwrap();
        assert!(embedded.interrupt(part, how), "{part} runs");
        assert_eq!(embedded.failed().await.name, part, "{how:?}");
        embedded.stop().await;
    }
}
