//! Starting and stopping the plugin, in order.
//!
//! The lock first, then hardware, store and the own Node; only then the sockets, so that the kubelet never calls a plugin
//! that cannot answer. On the way out the sockets close first. The ResourceSlice and labels of domains stay: pods run on.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coppice_domains::api::names;
use coppice_domains::decide::plugin::fabric::{FabricError, supports_names};
use coppice_runtime::cache::{Cache, Kind, Typed, reflect};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::lease::Leadership;
use coppice_runtime::supervise::{Group, Supervisor};
use coppice_runtime::write::{self, Writer};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::core::ApiResource;
use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};
use tracing::{info, warn};

use crate::files::{Lock, LockError};
use crate::grpc::{Dra, Registration, V1, V1Beta1};
use crate::hardware::{HardwareError, Probe, boot_id};
use crate::plugin::Plugin;
use crate::reads::Reads;
use crate::settings::Settings;
use crate::store::{Store, StoreError};
use crate::{libraries, publish, socket, upkeep, wire};

/// The lock that NVIDIA's plugin takes for each request: with it held, that plugin prepares nothing beside ours.
const LOCK: &str = "pu.lock";
const GRACE: Duration = Duration::from_secs(10);
/// How long the Node may take to appear.
const NODE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the plugin cannot run.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// Another process serves this node.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The hardware cannot be read.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// The fabric is not usable.
    #[error("{0}; turn the feature gate CrashOnNVLinkFabricErrors off to run without NVLink on such nodes")]
    Fabric(#[from] FabricError),
    /// The driver is too old.
    #[error(
        "GPU driver {0} is too old for names of IMEX daemons: 570.158.01 or later is needed, or the feature gates \
         IMEXDaemonsWithDNSNames and ComputeDomainCliques turned off"
    )]
    DriverTooOld(String),
    /// The state of the node cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file or socket cannot be created.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The Node cannot be read.
    #[error("Node {0} was not found within a minute; is NODE_NAME its name, and may the plugin read it?")]
    NoNode(String),
}

/// A running plugin.
pub struct Running {
    plugin: Arc<Plugin>,
    /// Sockets and everything else: stopped in this order.
    groups: [Group; 2],
    _lock: Lock,
}

/// Starts the plugin. Its tasks are essential ones of `supervisor`.
///
/// # Errors
/// When this node cannot be served; the text says what to do.
pub async fn start(
    client: Client,
    settings: Settings,
    probe: Arc<dyn Probe>,
    clock: SharedClock,
    supervisor: &Supervisor,
) -> Result<Running, PluginError> {
    let directory = settings.plugin_directory();
    let file_error = |path: PathBuf| move |source| PluginError::File { path, source };
    std::fs::create_dir_all(&directory).map_err(file_error(directory.clone()))?;
    let lock = Lock::take(&directory.join(LOCK))?;
    let hardware = probe.read().await?;
    if !settings.host_managed && settings.gates.dns_names && !supports_names(&hardware.driver_version) {
        return Err(PluginError::DriverTooOld(hardware.driver_version));
    }
    let store = Store::open(&directory, &settings.cdi, &boot_id(&settings.proc)?)?;
    let found = libraries::write(&settings).map_err(file_error(settings.cdi.clone()))?;
    if !settings.host_managed && !found.programs.iter().any(|program| program.ends_with("/nvidia-imex")) {
        warn!(root = %settings.driver_root.display(), "there is no nvidia-imex below the driver root: daemons need it");
    }
    let cache = Cache::default();
    let nodes: Kind<Typed<Node>> = cache.kind(ApiResource::erase::<Node>(&()), Typed::default());
    let (changes, _) = watch::channel(0);
    let ring = changes.clone();
    nodes.on_change(move |_| ring.send_modify(|count| *count += 1));
    let options = write::Options {
        manager: "compute-domain-kubelet-plugin".to_owned(),
        ..write::Options::default()
    };
    let plugin = Arc::new(Plugin {
        reads: Reads {
            client: client.clone(),
            namespace: settings.namespace.clone(),
        },
        writer: Writer::new(client.clone(), Leadership::always(), options),
        client: client.clone(),
        nodes: nodes.clone(),
        hardware: RwLock::new(hardware),
        store: Mutex::new(store),
        changes,
        clock,
        settings,
    });
    let clique = plugin.clique_id()?;
    let settings = &plugin.settings;
    let work = supervisor.group("compute-domain-kubelet-plugin");
    let only_ours = reflect::Options {
        field_selector: Some(format!("metadata.name={}", settings.node)),
        ..reflect::Options::default()
    };
    let watching = reflect::reflect(client, nodes.clone(), only_ours, work.stopping());
    work.spawn("watch of the node", watching);
    let mut seen = plugin.changes.subscribe();
    let key = coppice_runtime::cache::ObjectKey::new("", settings.node.as_str());
    let appeared = async {
        while nodes.latest(&key).is_none() {
            // The sender lives in the plugin.
            let _ = seen.changed().await;
        }
    };
    if tokio::time::timeout(NODE_TIMEOUT, appeared).await.is_err() {
        work.stop(GRACE).await;
        return Err(PluginError::NoNode(settings.node.clone()));
    }
    work.spawn("ResourceSlice", publish::run(plugin.clone(), work.stopping()));
    work.spawn("upkeep", upkeep::run(plugin.clone(), probe, work.stopping()));
    let sockets = supervisor.group("compute-domain-kubelet-plugin sockets");
    let path = settings.dra_socket();
    let listener = socket::bind(&path).map_err(file_error(path.clone()))?;
    let services = socket::with(Dra::<V1>::new(plugin.clone())).add_service(Dra::<V1Beta1>::new(plugin.clone()));
    sockets.spawn_fallible("DRA", socket::serve(listener, services, sockets.stopping()));
    let registration = Registration {
        info: wire::PluginInfo {
            r#type: wire::PLUGIN_TYPE.to_owned(),
            name: names::DRIVER.to_owned(),
            endpoint: path.display().to_string(),
            supported_versions: wire::SUPPORTED_VERSIONS.map(str::to_owned).to_vec(),
        },
    };
    // Last: the kubelet calls as soon as this one appears.
    let path = settings.registration_socket();
    let listener = socket::bind(&path).map_err(file_error(path))?;
    let serving = socket::serve(listener, socket::with(registration), sockets.stopping());
    sockets.spawn_fallible("registration", serving);
    info!(node = settings.node, clique, "serves the kubelet");
    Ok(Running {
        plugin,
        groups: [sockets, work],
        _lock: lock,
    })
}

impl Running {
    /// Stops it. Requests that are under way are given up; the kubelet repeats them.
    pub async fn stop(self) {
        let [sockets, work] = self.groups;
        let settings = &self.plugin.settings;
        // First the file, so that the kubelet does not call a socket that nobody serves.
        let _ = crate::files::remove(&settings.registration_socket());
        sockets.stop(GRACE).await;
        if settings.clique_label
            && let Err(problem) = upkeep::set_clique_label(&self.plugin, None).await
        {
            warn!(problem, "the label of the clique stays on the node");
        }
        work.stop(GRACE).await;
    }
}
