//! `coppice compute-domain-controller`: forms ComputeDomains on a real cluster.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_domain_controller::{DomainController, Options};
use coppice_domains::api::limits;
use coppice_domains::decide::gates::Gates;
use coppice_domains::decide::render::RenderSettings;
use coppice_runtime::layers;
use coppice_runtime::lease;
use coppice_runtime::metrics::Metrics;
use kube::Client;

use crate::client::Cluster;
use crate::process::{Process, ended, identity};

/// The lease that controllers are elected by.
const LEASE: &str = "compute-domain-controller";
/// The exit code of a command line that cannot be used.
const UNUSABLE: u8 = 2;

/// Run the controller of ComputeDomains on the cluster of the current kubeconfig, or in a pod
///
/// For each ComputeDomain it keeps a DaemonSet and two ResourceClaimTemplates, gives every node of a domain its index in
/// one batched write, and reports in the domain's conditions and events what it waits for. Stops cleanly on Ctrl-C or
/// SIGTERM.
#[derive(Args)]
pub(crate) struct ComputeDomainController {
    #[command(flatten)]
    cluster: Cluster,
    /// The namespace of the driver: DaemonSets and ComputeDomainCliques are created here
    #[arg(
        long,
        env = "NAMESPACE",
        default_value = "nvidia-dra-driver-gpu",
        value_name = "NAMESPACE"
    )]
    driver_namespace: String,
    /// Namespaces of earlier installations, whose DaemonSets stay managed
    #[arg(
        long,
        env = "ADDITIONAL_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAMESPACES"
    )]
    additional_namespaces: Vec<String>,
    /// The image of the daemons; it has the program compute-domain-daemon and a C library for nvidia-imex
    #[arg(long, env = "IMAGE_NAME", value_name = "IMAGE")]
    daemon_image: String,
    /// Names of the secrets to pull that image with
    #[arg(long, env = "IMAGE_PULL_SECRETS", value_delimiter = ',', value_name = "NAMES")]
    image_pull_secrets: Vec<String>,
    /// The priority class of the daemons; empty for none
    #[arg(long, default_value = "system-node-critical", value_name = "NAME")]
    daemon_priority_class: String,
    /// How many nodes of one NVLink clique a domain may have
    #[arg(long, env = "MAX_NODES_PER_IMEX_DOMAIN", default_value_t = limits::DEFAULT_MAX_NODES, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MAX_NODES)))]
    max_nodes_per_imex_domain: u32,
    /// Feature gates, as NAME=true,NAME=false
    #[arg(long, env = "FEATURE_GATES", default_value = "", value_name = "GATES")]
    feature_gates: String,
    /// Leave nvidia-imex to a service of the host; needs the feature gate HostManagedIMEXDaemon
    #[arg(long)]
    host_managed: bool,
    /// Verbosity of the daemons' logs
    #[arg(long, env = "LOG_VERBOSITY_CD_DAEMON", default_value_t = 4, value_name = "NUMBER")]
    daemon_log_verbosity: u32,
    /// Elect one of several by a lease in this namespace; without it, this must be the only one
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// The address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
}

impl ComputeDomainController {
    fn settings(&self) -> RenderSettings {
        let given = |names: &[String]| names.iter().filter(|name| !name.is_empty()).cloned().collect();
        RenderSettings {
            namespace: self.driver_namespace.clone(),
            image: self.daemon_image.clone(),
            image_pull_secrets: given(&self.image_pull_secrets),
            log_verbosity: self.daemon_log_verbosity,
            max_nodes: self.max_nodes_per_imex_domain,
            gates: Gates::from_environment(&self.feature_gates),
            priority_class: self.daemon_priority_class.clone(),
            host_managed: self.host_managed,
            ..RenderSettings::default()
        }
    }

    pub(crate) async fn run(self) -> Result<ExitCode> {
        let settings = self.settings();
        if let Err(problem) = settings.gates.validate(settings.host_managed, false) {
            errln!("error: {problem}");
            return Ok(ExitCode::from(UNUSABLE));
        }
        let process = Process::new(Metrics::default());
        let options = layers::Options {
            metrics: process.metrics.clone(),
            ..layers::Options::default()
        };
        let client = self.cluster.client(&options).await?;
        self.work(client, process, ended()).await
    }

    /// Runs in a process until `asked` ends.
    pub(crate) async fn work(
        self,
        client: Client,
        mut process: Process,
        asked: impl Future<Output = ()>,
    ) -> Result<ExitCode> {
        let settings = self.settings();
        let working = process.health.condition("working");
        if let Some(address) = self.serve {
            process.serve(address).await?;
        }
        if let Some(namespace) = &self.leader_election_namespace {
            let options = lease::Options {
                metrics: process.metrics.clone(),
                ..lease::Options::new(namespace, LEASE, &identity())
            };
            process.elect(&client, options)?;
        }
        let options = Options {
            settings,
            additional_namespaces: self.additional_namespaces,
            leadership: process.leadership.clone(),
            metrics: process.metrics.clone(),
            supervisor: process.supervisor.clone(),
            ..Options::default()
        };
        let start = async {
            let running = DomainController::start(client, options).await;
            working.set_ready();
            running
        };
        let outcome = process.run(start, DomainController::stop, asked).await;
        process.close().await;
        outcome
    }
}
