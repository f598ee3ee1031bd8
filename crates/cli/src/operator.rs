//! `coppice operator`: the operator on a real cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use coppice_core::backends::VOLCANO_SCHEDULER;
use coppice_core::settings::Settings;
use coppice_core::topology::KAI_SCHEDULER;
use coppice_operator::certificates::keeper;
use coppice_operator::certificates::service_names;
use coppice_operator::configuration::{CertProvisionMode, Configuration, Listener, WhenAllLost};
use coppice_operator::webhooks::service::{Certificates, Service};
use coppice_operator::webhooks::{Admission, Endpoint, Guard, Policy, server};
use coppice_operator::world::World;
use coppice_operator::{Operator as Running, Options};
use coppice_runtime::cache::Cache;
use coppice_runtime::clock::SystemClock;
use coppice_runtime::events;
use coppice_runtime::layers::{self, Limits};
use coppice_runtime::lease;
use coppice_runtime::metrics::Metrics;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use tracing::warn;

use crate::client::Cluster;
use crate::logging;
use crate::process::{Process, ended, identity};

/// The exit code of a configuration that cannot be used.
const BAD_CONFIGURATION: u8 = 2;
/// The exit code when NVLink domains are asked for on a cluster without them.
const NO_COMPUTE_DOMAINS: u8 = 7;
/// The exit code when gangs cannot be mapped: the Go operator's for a migration that cannot begin.
const NO_GANG_MAPS: u8 = 8;
/// The name of the webhooks' service, as the chart has it. Other names are read from the webhook configurations.
const SERVICE: &str = "grove-operator";
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Run the operator on the cluster of the current kubeconfig, or in a pod
///
/// The CRDs must be there: coppice crds install. With a configuration file it serves probes, metrics and webhooks as the
/// file says; without one it only works. Stops cleanly on Ctrl-C or SIGTERM.
///
/// Exit codes: 2 a configuration that cannot be used; 7 NVLink domains are asked for and the cluster has no ComputeDomains; 8 the
/// cluster has PodCliqueSets of an older version and no PodGangMaps.
#[derive(Args)]
pub(crate) struct Operator {
    #[command(flatten)]
    cluster: Cluster,
    /// The configuration: an OperatorConfiguration of operator.config.grove.io/v1alpha1
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration as it takes effect, with all defaults, and end
    #[arg(long)]
    print_config: bool,
    /// The scheduler of cliques that name none; one of the configured profiles
    #[arg(long, value_name = "NAME")]
    default_scheduler: Option<String>,
    /// The image of the container that waits for other cliques
    #[arg(long, default_value = "coppice", env = "COPPICE_WAITER_IMAGE", value_name = "IMAGE")]
    waiter_image: String,
    /// Hand packing constraints to the scheduler
    #[arg(long)]
    topology_aware_scheduling: bool,
    /// Elect one of several operators by a lease in this namespace; without it, this must be the only one
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// A further address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
}

impl Operator {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (configuration, warnings) = match self.configuration() {
            Ok(read) => read,
            Err(error) => {
                errln!("{error:#}");
                return Ok(ExitCode::from(BAD_CONFIGURATION));
            }
        };
        if self.print_config {
            warnings.iter().for_each(|warning| errln!("{warning}"));
            out!("{}", serde_saphyr::to_string(&configuration)?);
            return Ok(ExitCode::SUCCESS);
        }
        logging::start(configuration.log_level.filter(), configuration.log_format);
        warnings.iter().for_each(|problem| warn!(problem, "the configuration"));
        let metrics = Metrics::default();
        let client = self.client(&configuration, &metrics).await?;
        if configuration.network.auto_mnnvl_enabled && !serves_compute_domains(&client).await? {
            errln!(
                "network.autoMNNVLEnabled: the cluster serves no computedomains of resource.nvidia.com/v1beta1; install \
                 the DRA driver for NVIDIA GPUs, or turn it off"
            );
            return Ok(ExitCode::from(NO_COMPUTE_DOMAINS));
        }
        if lacks_gang_maps(&client).await? {
            errln!(
                "the cluster serves podcliquesets but no podgangmaps of grove.io/v1alpha1, which helm upgrade does not install; \
                 next: coppice crds install"
            );
            return Ok(ExitCode::from(NO_GANG_MAPS));
        }
        self.work(configuration, client, Process::new(metrics), ended()).await
    }

    /// Runs in a process until `asked` ends.
    pub(crate) async fn work(
        &self,
        configuration: Configuration,
        client: kube::Client,
        mut process: Process,
        asked: impl Future<Output = ()>,
    ) -> Result<ExitCode> {
        self.serve(&configuration, &process).await?;
        let world = World::new(Cache::new(process.metrics.clone()));
        let synced = process.health.condition("cache");
        let cache = world.cache.clone();
        let stopping = process.servers.stopping();
        // It ends when the cache is there: not an essential task.
        tokio::spawn(stopping.run_until_cancelled_owned(async move {
            cache.wait_synced().await;
            synced.set_ready();
        }));
        let webhooks = match self.config {
            Some(_) => Some(webhooks(&configuration, &client, &world, &process).await?),
            None => None,
        };
        if let Some(options) = election(&configuration, &process.metrics) {
            process.elect(&client, options)?;
        }
        let options = Options {
            settings: Settings {
                default_scheduler: configuration.scheduler.default_profile_name.clone(),
                waiter_image: self.waiter_image.clone(),
                topology_aware: configuration.topology_aware_scheduling.enabled,
                auto_mnnvl: configuration.network.auto_mnnvl_enabled,
                cluster_domain: configuration.network.cluster_domain.clone(),
                terminate_when_all_lost: configuration.gang_termination.when_all_lost == WhenAllLost::Terminate,
                ended_pods: configuration.ended_pods(),
                kai: configuration.schedulers().profiles.contains_key(KAI_SCHEDULER),
                volcano: configuration.schedulers().profiles.contains_key(VOLCANO_SCHEDULER),
                native_gangs: configuration.native_gangs(),
            },
            workers: configuration.workers(),
            leadership: process.leadership.clone(),
            metrics: process.metrics.clone(),
            supervisor: process.supervisor.clone(),
            ..Options::default()
        };
        let start = Running::start_on(world, client, options);
        let stop = async |running: Running| {
            running.stop().await;
        };
        let outcome = process.run(start, stop, asked).await;
        if let Some(webhooks) = webhooks {
            webhooks.stop().await;
        }
        process.close().await;
        outcome
    }

    /// The configuration of the file and the flags, and what is worth a word about it.
    fn configuration(&self) -> Result<(Configuration, Vec<String>)> {
        let (mut configuration, mut warnings) = (Configuration::default(), Vec::new());
        if let Some(file) = &self.config {
            let place = file.display();
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {place}"))?;
            match Configuration::read(&text) {
                Ok(read) => {
                    configuration = read.configuration;
                    warnings = read
                        .warnings
                        .iter()
                        .map(|warning| format!("{place}: {warning}"))
                        .collect();
                }
                Err(invalid) => {
                    let lines: Vec<String> = invalid.0.iter().map(|problem| format!("{place}: {problem}")).collect();
                    bail!("{}", lines.join("\n"));
                }
            }
        } else {
            configuration.log_format = coppice_operator::configuration::LogFormat::Text;
        }
        if let Some(name) = &self.default_scheduler {
            let profiles = &mut configuration.scheduler.profiles;
            if !profiles.iter().any(|profile| profile.name == *name) {
                profiles.push(coppice_operator::configuration::Profile {
                    name: name.clone(),
                    config: coppice_operator::configuration::ProfileConfig::default(),
                });
            }
            configuration.scheduler.default_profile_name = name.clone();
        }
        configuration.topology_aware_scheduling.enabled |= self.topology_aware_scheduling;
        if let Some(namespace) = &self.leader_election_namespace {
            configuration.leader_election.enabled = true;
            configuration.leader_election.resource_namespace = namespace.clone();
        }
        Ok((configuration, warnings))
    }

    async fn client(&self, configuration: &Configuration, metrics: &Metrics) -> Result<kube::Client> {
        let connection = &configuration.runtime_client_connection;
        // Without a file there is no limit but that of requests in flight.
        let limited = self.config.is_some() && connection.qps > 0.0;
        let limits = Limits {
            rate: limited.then_some((connection.qps, connection.burst)),
            ..Limits::default()
        };
        let options = layers::Options {
            limits,
            metrics: metrics.clone(),
            ..layers::Options::default()
        };
        self.cluster.client(&options).await
    }

    /// Starts the servers of probes and metrics.
    async fn serve(&self, configuration: &Configuration, process: &Process) -> Result<()> {
        let mut addresses: Vec<SocketAddr> = self.serve.into_iter().collect();
        if self.config.is_some() {
            let servers = &configuration.server;
            let probes = servers.health_probes.enable.then_some(&servers.health_probes.listener);
            for listener in probes.into_iter().chain([&servers.metrics]) {
                let address = address(listener).await?;
                if address.port() == 0 || !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        for address in addresses {
            process.serve(address).await?;
        }
        Ok(())
    }
}

/// Starts the webhooks and what keeps their certificates.
async fn webhooks(
    configuration: &Configuration,
    client: &kube::Client,
    world: &World,
    process: &Process,
) -> Result<Service> {
    let metrics = &process.metrics;
    let guard = match configuration.authorizer.enabled {
        true => Some(guard(configuration, client).await?),
        false => None,
    };
    let policy = Policy {
        schedulers: configuration.schedulers(),
        topology_aware_scheduling: configuration.topology_aware_scheduling.enabled,
        auto_mnnvl: configuration.network.auto_mnnvl_enabled,
        guard,
    };
    let admission = Admission::new(policy, world.clone(), client.clone());
    let settings = &configuration.server.webhooks;
    let certificates = match settings.cert_provision_mode {
        CertProvisionMode::Manual => Certificates::Files(settings.server_cert_dir.clone().into()),
        CertProvisionMode::Auto => {
            let namespace = own_namespace();
            let (recorder, sink) = events::recorder("coppice-operator", Arc::new(SystemClock), metrics);
            let sink = sink.run(client.clone(), process.servers.stopping());
            process.servers.spawn("events about the webhook certificate", sink);
            let domain = &configuration.network.cluster_domain;
            let endpoints = Endpoint::ALL
                .into_iter()
                .filter(|endpoint| admission.answers(*endpoint));
            Certificates::Kept(Box::new(keeper::Options {
                names: service_names(SERVICE, &namespace, domain),
                endpoints: endpoints.collect(),
                recorder: Some(recorder),
                metrics: metrics.clone(),
                ..keeper::Options::new(&namespace, &settings.secret_name)
            }))
        }
    };
    let address = address(&settings.listener).await?;
    let server = server::Server::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} for webhooks"))?;
    let ready = process.health.condition("webhooks");
    ready.set_unready("there is no certificate yet");
    let service = Service::start_in(&process.supervisor, client, server, admission, certificates, metrics)?;
    let served = service.served().clone();
    // It ends when there is a certificate: not an essential task.
    tokio::spawn(process.servers.stopping().run_until_cancelled_owned(async move {
        served.wait_loaded().await;
        ready.set_ready();
    }));
    Ok(service)
}

/// Who may change managed objects: we, by the name that the API server knows us by, and those in the configuration.
async fn guard(configuration: &Configuration, client: &kube::Client) -> Result<Guard> {
    let settings = &configuration.authorizer;
    let mut exempt = settings.exempt_service_account_user_names.clone();
    let given = &settings.reconciler_service_account_user_name;
    if !given.is_empty() {
        exempt.push(given.clone());
    }
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = review
        .map(|review| {
            review
                .status
                .and_then(|status| status.user_info)
                .and_then(|user| user.username)
        })
        .context("authorizer.enabled: cannot ask the API server who we are")?;
    Ok(Guard {
        operator: user.context("authorizer.enabled: the API server does not say who we are")?,
        exempt,
    })
}

/// How to stand for election; not at all when none.
fn election(configuration: &Configuration, metrics: &Metrics) -> Option<lease::Options> {
    let settings = &configuration.leader_election;
    if !settings.enabled {
        return None;
    }
    let namespace = match settings.resource_namespace.as_str() {
        "" => own_namespace(),
        given => given.to_owned(),
    };
    Some(lease::Options {
        lease_duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry_period: settings.retry_period,
        metrics: metrics.clone(),
        ..lease::Options::new(&namespace, &settings.resource_name, &identity())
    })
}

/// The namespace that the operator runs in.
fn own_namespace() -> String {
    let given = std::env::var("POD_NAMESPACE").ok();
    let mounted = || std::fs::read_to_string(NAMESPACE_FILE).ok();
    let found = given.or_else(mounted).map(|name| name.trim().to_owned());
    found
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "default".to_owned())
}

/// Where to listen. All addresses are those of IPv6 and IPv4 where the machine has both.
async fn address(listener: &Listener) -> Result<SocketAddr> {
    if !listener.bind_address.is_empty() {
        let address: IpAddr = listener
            .bind_address
            .parse()
            .context("a bind address that was checked")?;
        return Ok(SocketAddr::new(address, listener.port));
    }
    let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
    let has_both = tokio::net::TcpListener::bind(both).await.is_ok();
    let all = if has_both {
        both.ip()
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    Ok(SocketAddr::new(all, listener.port))
}

/// Whether the definitions are those of a version before gangs were mapped. Without any, the operator waits for them.
async fn lacks_gang_maps(client: &kube::Client) -> Result<bool> {
    match client.list_api_group_resources("grove.io/v1alpha1").await {
        Ok(list) => {
            let serves = |name: &str| list.resources.iter().any(|resource| resource.name == name);
            Ok(serves("podcliquesets") && !serves("podgangmaps"))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error).context("asking which kinds the cluster serves"),
    }
}

async fn serves_compute_domains(client: &kube::Client) -> Result<bool> {
    match client.list_api_group_resources("resource.nvidia.com/v1beta1").await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == "computedomains")),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error).context("asking which kinds the cluster serves"),
    }
}
