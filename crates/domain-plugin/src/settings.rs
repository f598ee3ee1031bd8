//! What the plugin is configured with, and where its files are.

use std::path::PathBuf;
use std::time::Duration;

use coppice_domains::api::names;
use coppice_domains::decide::gates::Gates;
use coppice_domains::decide::plugin::prepare::DEADLINE;

/// The settings of the plugin.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node.
    pub node: String,
    /// The namespace of the driver.
    pub namespace: String,
    /// Feature gates.
    pub gates: Gates,
    /// Whether the host runs `nvidia-imex`.
    pub host_managed: bool,
    /// The command socket of the host's `nvidia-imex`, below the driver root.
    pub host_socket: String,
    /// Where the root of the GPU driver is seen from here.
    pub driver_root: PathBuf,
    /// Where it is on the host.
    pub host_driver_root: PathBuf,
    /// The kubelet's directory of plugin sockets: the same path here and on the host.
    pub plugins: PathBuf,
    /// The kubelet's directory of registration sockets.
    pub registry: PathBuf,
    /// The directory of CDI documents.
    pub cdi: PathBuf,
    /// Where the kernel's files are.
    pub proc: PathBuf,
    /// Whether to label the node with its clique.
    pub clique_label: bool,
    /// How long one request may take.
    pub deadline: Duration,
    /// How often hardware is read again, and what requests have left behind is removed.
    pub refresh: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node: String::new(),
            namespace: "nvidia-dra-driver-gpu".into(),
            gates: Gates::default(),
            host_managed: false,
            host_socket: "/etc/nvidia-imex/imex_ctrl.sock".into(),
            driver_root: "/".into(),
            host_driver_root: "/".into(),
            plugins: "/var/lib/kubelet/plugins".into(),
            registry: "/var/lib/kubelet/plugins_registry".into(),
            cdi: "/var/run/cdi".into(),
            proc: "/proc".into(),
            clique_label: false,
            deadline: DEADLINE.unsigned_abs(),
            refresh: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// The directory of this driver.
    pub fn plugin_directory(&self) -> PathBuf {
        self.plugins.join(names::DRIVER)
    }

    /// The socket of the DRA service.
    pub fn dra_socket(&self) -> PathBuf {
        self.plugin_directory().join("dra.sock")
    }

    /// The socket of the registration service.
    pub fn registration_socket(&self) -> PathBuf {
        self.registry.join(format!("{}-reg.sock", names::DRIVER))
    }
}
