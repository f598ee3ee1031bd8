//! An embedded cluster: API server, simulated nodes and controllers, CRDs, operator with its webhooks, and gang scheduler in
//! this process. All of it is essential: when a task ends, so does the program.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use coppice_api::admission::Schedulers;
use coppice_apiserver::{ApiServer, Certificates, Serving, Tls};
use coppice_cluster::behaviour::PodBehaviour;
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Options as ClusterOptions, SimulatedCluster};
use coppice_core::settings::Settings;
use coppice_crds::{InstallOptions, install};
use coppice_domain_controller::DomainController;
use coppice_operator::webhooks::in_process::{self, Slot};
use coppice_operator::webhooks::{Admission, Policy};
use coppice_operator::world::World;
use coppice_operator::{Operator, Options as OperatorOptions};
use coppice_runtime::cache::Cache;
use coppice_runtime::supervise::{Group, Supervisor, TaskEnded};
use coppice_scheduler::{DEFAULT_NAME, Options as SchedulerOptions, Scheduler};
use futures::FutureExt as _;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::domains;

/// The schedulers that sets may name; the first is for those that name none.
const SCHEDULERS: [&str; 2] = [DEFAULT_NAME, "default-scheduler"];

/// What an embedded cluster is like.
pub(crate) struct EmbeddedOptions {
    pub(crate) profile: NodeProfile,
    pub(crate) nodes: u32,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) behaviour: PodBehaviour,
}

/// A running embedded cluster.
pub(crate) struct Embedded {
    /// A client inside the process.
    pub(crate) client: Client,
    pub(crate) cluster: SimulatedCluster,
    operator: Operator,
    scheduler: Scheduler,
    domains: DomainController,
    serving: Option<Serving>,
    supervisor: Supervisor,
    group: Group,
}

/// How long the watchers of the cluster's parts have to end; they do nothing but wait.
const GRACE: Duration = Duration::from_secs(1);

impl Embedded {
    /// Starts everything, and returns when it is ready for use.
    pub(crate) async fn start(options: EmbeddedOptions) -> Result<Self> {
        let supervisor = Supervisor::default();
        let group = supervisor.group("cluster");
        let slot = Slot::default();
        let handlers = slot.handlers();
        let builder = handlers.fold(ApiServer::builder(), |builder, (webhook, handler)| {
            builder.admission_handler(webhook, handler)
        });
        let server = builder.build();
        let client = Client::new(server.service(), "default");
        let serving = match options.listen {
            Some(address) => {
                let listener = TcpListener::bind(address)
                    .await
                    .with_context(|| format!("cannot listen on {address}; choose another address with --listen"))?;
                let certificates = Certificates::generate(&[]).context("cannot make certificates")?;
                let serving = server.serve(listener, Tls::On(Arc::new(certificates)))?;
                group.spawn(
                    "API server",
                    ended_or_stopped(serving.closed(), group.stopping()).map(drop),
                );
                if let Some(file) = &options.kubeconfig {
                    write_private(file, &serving.kubeconfig())?;
                }
                Some(serving)
            }
            None => None,
        };
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .context("installing the CRDs")?;
        domains::install(&client).await.context("installing ComputeDomains")?;
        let fabric = domains::Fabric::start(&client, &group);
        // A lost node is noticed within seconds: nobody waits a minute for that on a laptop.
        let nodes = ClusterOptions::default()
            .nodes(options.profile, options.nodes)
            .behaviour(options.behaviour)
            .heartbeats(Some(Duration::from_secs(2)))
            .node_grace(Duration::from_secs(5))
            .agent(Arc::new(fabric))
            .supervisor(supervisor.clone());
        let cluster = SimulatedCluster::start(client.clone(), nodes)
            .await
            .context("starting the simulated nodes")?;
        let settings = Settings {
            topology_aware: true,
            auto_mnnvl: true,
            default_scheduler: DEFAULT_NAME.to_owned(),
            ..Settings::default()
        };
        let policy = Policy {
            schedulers: Schedulers::named(SCHEDULERS),
            topology_aware_scheduling: settings.topology_aware,
            auto_mnnvl: settings.auto_mnnvl,
            ..Policy::default()
        };
        let domains = domains::start_controller(client.clone(), &supervisor).await;
        let options = OperatorOptions {
            settings,
            supervisor: supervisor.clone(),
            ..OperatorOptions::default()
        };
        let world = World::new(Cache::new(options.metrics.clone()));
        let operator = Operator::start_on(world.clone(), client.clone(), options).await;
        slot.bind(Admission::new(policy, world, client.clone()));
        in_process::install(&client)
            .await
            .context("installing the webhook configurations")?;
        let options = SchedulerOptions {
            supervisor: supervisor.clone(),
            ..SchedulerOptions::default()
        };
        let scheduler = Scheduler::start(client.clone(), options).await;
        Ok(Self {
            client,
            cluster,
            operator,
            scheduler,
            domains,
            serving,
            supervisor,
            group,
        })
    }

    /// The address for clients outside this process.
    pub(crate) fn url(&self) -> Option<String> {
        self.serving.as_ref().map(Serving::url)
    }

    /// Waits until a task ends that the cluster cannot do without.
    pub(crate) async fn failed(&self) -> TaskEnded {
        self.supervisor.failed().await
    }

    /// Who is informed when a task ends that should not.
    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    #[cfg(test)]
    pub(crate) fn interrupt(&self, task: &str, how: coppice_runtime::supervise::Interruption) -> bool {
        self.supervisor.interrupt(task, how)
    }

    /// Stops everything, clients of the API server first.
    pub(crate) async fn stop(self) {
        self.scheduler.stop().await;
        self.operator.stop().await;
        self.domains.stop().await;
        self.group.stop(GRACE).await;
        self.cluster.stop().await;
        if let Some(serving) = self.serving {
            serving.stop().await;
        }
    }
}

/// What a future returns, unless the group stops before it.
fn ended_or_stopped<T>(
    future: impl Future<Output = T> + Send + 'static,
    stopping: CancellationToken,
) -> impl Future<Output = Option<T>> + Send + 'static {
    stopping.run_until_cancelled_owned(future)
}

/// Writes a file that only its owner may read: it holds a key. A file that is there keeps neither its rights nor, where
/// it is a link, its place: another one takes its name.
fn write_private(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let context = || format!("cannot write the kubeconfig {}", file.display());
    let mut name = file.file_name().with_context(context)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = file.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        options.open(&temporary)?.write_all(text.as_bytes())?;
        std::fs::rename(&temporary, file)
    };
    write()
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
        .with_context(context)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn admission_knows_the_scheduler_of_cliques_that_name_none() {
        // Otherwise it warns of a scheduler without gangs that no pod is given to.
        assert_eq!(Schedulers::named(SCHEDULERS).default_profile, DEFAULT_NAME);
    }

    #[test]
    fn a_kubeconfig_is_private_whatever_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("coppice.kubeconfig");
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        write_private(&file, "first").unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&file, "second").unwrap();
        assert_eq!(mode(), 0o600);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
