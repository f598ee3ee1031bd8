//! `coppice compute-domain-kubelet-plugin`: prepares the claims of ComputeDomains on one node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use coppice_domain_plugin::hardware::NodeProbe;
use coppice_domain_plugin::{Settings, start};
use coppice_domains::decide::gates::Gates;
use coppice_runtime::clock::SystemClock;
use coppice_runtime::layers;
use coppice_runtime::metrics::Metrics;

use crate::client::Cluster;
use crate::process::{Process, ended};

/// The exit code of a command line that cannot be used.
const UNUSABLE: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The daemons of a ComputeDomain run nvidia-imex
    #[value(name = "driverManaged")]
    Driver,
    /// A service of the host runs nvidia-imex
    #[value(name = "hostManaged")]
    Host,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Isolation {
    /// All workloads of a domain share channel 0
    Domain,
    /// Not supported
    Channel,
}

/// Serve the kubelet of this node: publish its ComputeDomain devices and prepare claims on them
///
/// Runs in a privileged pod on every node with GPUs. It publishes a ResourceSlice with the NVLink clique of the node, labels
/// the node for the domain whose workload lands on it, waits for that domain's daemon, and writes the CDI files with which
/// containers get their channels.
#[derive(Args)]
pub(crate) struct ComputeDomainKubeletPlugin {
    #[command(flatten)]
    cluster: Cluster,
    /// The name of this node
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: String,
    /// The namespace of the driver, which has the ComputeDomainCliques
    #[arg(
        long,
        env = "NAMESPACE",
        default_value = "nvidia-dra-driver-gpu",
        value_name = "NAMESPACE"
    )]
    driver_namespace: String,
    /// The directory of CDI files
    #[arg(long, env = "CDI_ROOT", default_value = "/var/run/cdi", value_name = "DIRECTORY")]
    cdi_root: PathBuf,
    /// The kubelet's directory of registration sockets
    #[arg(
        long,
        env = "KUBELET_REGISTRAR_DIRECTORY_PATH",
        default_value = "/var/lib/kubelet/plugins_registry",
        value_name = "DIRECTORY"
    )]
    kubelet_registrar_directory_path: PathBuf,
    /// The kubelet's directory of plugins; the same path in this container and on the host
    #[arg(
        long,
        env = "KUBELET_PLUGINS_DIRECTORY_PATH",
        default_value = "/var/lib/kubelet/plugins",
        value_name = "DIRECTORY"
    )]
    kubelet_plugins_directory_path: PathBuf,
    /// The root of the GPU driver on the host
    #[arg(long, env = "NVIDIA_DRIVER_ROOT", default_value = "/", value_name = "DIRECTORY")]
    nvidia_driver_root: PathBuf,
    /// The same root as this container sees it
    #[arg(
        long,
        env = "DRIVER_ROOT_CTR_PATH",
        default_value = "/driver-root",
        value_name = "DIRECTORY"
    )]
    container_driver_root: PathBuf,
    /// A file in place of /proc/devices, for nodes without GPUs
    #[arg(long, env = "ALT_PROC_DEVICES_PATH", value_name = "FILE")]
    alt_proc_devices_path: Option<PathBuf>,
    /// A file with the output of `nvidia-smi -q -x`, in place of running it, for nodes without GPUs
    #[arg(long, env = "ALT_NVIDIA_SMI_OUTPUT_PATH", value_name = "FILE")]
    alt_nvidia_smi_output_path: Option<PathBuf>,
    /// Feature gates, as NAME=true,NAME=false
    #[arg(long, env = "FEATURE_GATES", default_value = "", value_name = "GATES")]
    feature_gates: String,
    /// Who runs nvidia-imex; hostManaged needs the feature gate HostManagedIMEXDaemon
    #[arg(long, env = "IMEX_MODE", default_value = "driverManaged", value_name = "MODE")]
    imex_mode: Mode,
    /// How workloads are kept apart
    #[arg(long, env = "IMEX_ISOLATION", default_value = "domain", value_name = "ISOLATION")]
    imex_isolation: Isolation,
    /// The command socket of the host's nvidia-imex, below the driver root
    #[arg(
        long,
        env = "IMEX_HOST_SOCKET_PATH",
        default_value = "/etc/nvidia-imex/imex_ctrl.sock",
        value_name = "PATH"
    )]
    imex_host_socket_path: String,
    /// Label the node with its clique (nvidia.com/gpu.clique), where GPU feature discovery does not
    #[arg(long, env = "GPU_CLIQUE_LABEL_ENABLED", num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    gpu_clique_label_enabled: bool,
    /// The address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
}

impl ComputeDomainKubeletPlugin {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let gates = Gates::from_environment(&self.feature_gates);
        let host_managed = self.imex_mode == Mode::Host;
        if let Err(problem) = gates.validate(host_managed, self.imex_isolation == Isolation::Channel) {
            errln!("error: {problem}");
            return Ok(ExitCode::from(UNUSABLE));
        }
        let process = Process::new(Metrics::default());
        let working = process.health.condition("working");
        if let Some(address) = self.serve {
            process.serve(address).await?;
        }
        let options = layers::Options {
            metrics: process.metrics.clone(),
            ..layers::Options::default()
        };
        let client = self.cluster.client(&options).await?;
        let settings = Settings {
            node: self.node_name,
            namespace: self.driver_namespace,
            gates,
            host_managed,
            host_socket: self.imex_host_socket_path,
            driver_root: self.container_driver_root.clone(),
            host_driver_root: self.nvidia_driver_root,
            plugins: self.kubelet_plugins_directory_path,
            registry: self.kubelet_registrar_directory_path,
            cdi: self.cdi_root,
            clique_label: self.gpu_clique_label_enabled,
            ..Settings::default()
        };
        let probe = NodeProbe {
            driver_root: self.container_driver_root,
            smi_output: self.alt_nvidia_smi_output_path,
            proc_devices: self.alt_proc_devices_path,
            ..NodeProbe::default()
        };
        let running = start(
            client,
            settings,
            Arc::new(probe),
            Arc::new(SystemClock),
            &process.supervisor,
        )
        .await?;
        working.set_ready();
        let outcome = tokio::select! {
            biased;
            failed = process.supervisor.failed() => Err(failed.into()),
            () = ended() => Ok(ExitCode::SUCCESS),
        };
        running.stop().await;
        process.close().await;
        outcome
    }
}
