//! A real control plane for tests: etcd and kube-apiserver, and on request kube-controller-manager and kube-scheduler,
//! on free loopback ports, with certificates and data of their own in a temporary directory. Everything ends and is
//! removed when the [`ControlPlane`] is dropped, also while a panic unwinds; should the test process be killed, a guard
//! process does it (see `guard`). Programs come from the directory named by `KUBEBUILDER_ASSETS` and nowhere else.
//!
//! etcd listens without encryption on loopback and, unless asked to, does not flush to disk: this is for tests only.

mod assets;
mod certificates;
mod companion;
mod flags;
mod guard;
mod program;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Uri};
use kube::{Client, Config};

pub use assets::{ASSETS_VARIABLE, Assets, Versions};
pub use companion::Companion;

use crate::client::{self, ClientError};
use certificates::Certificates;
use guard::Guard;
use program::Program;

/// Why a control plane did not start or could not be steered.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// The environment names no directory of programs.
    #[error(
        "KUBEBUILDER_ASSETS is not set: set it to a directory with etcd and kube-apiserver, \
         for example to what hack/build-control-plane.sh prints (`make e2e` does that)"
    )]
    NoAssets,
    /// The directory lacks a program.
    #[error(
        "no program '{program}' in {}: build it with hack/build-control-plane.sh, or point KUBEBUILDER_ASSETS at a \
         directory that has it",
        .directory.display()
    )]
    MissingProgram {
        /// What is missing.
        program: &'static str,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// A program could not be started at all.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The path of the program.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A program ended before it was ready.
    #[error("{program} ended before it was ready ({status}); the end of its log:\n{log}")]
    Exited {
        /// The program's name.
        program: &'static str,
        /// Its exit status.
        status: String,
        /// The last lines it wrote.
        log: String,
    },
    /// A program runs but does not become ready.
    #[error("{program} was not ready within {limit:?} (last answer: {reason}); the end of its log:\n{log}")]
    NotReady {
        /// The program's name.
        program: &'static str,
        /// How long it was given.
        limit: Duration,
        /// What the last probe said.
        reason: String,
        /// The last lines it wrote.
        log: String,
    },
    /// A file of the control plane could not be written or read.
    #[error("{}: {source}", .path.display())]
    Files {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Certificates could not be made.
    #[error("certificates: {0}")]
    Certificates(rcgen::Error),
    /// A client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No free port, or none that stayed free.
    #[error("no free loopback port: {0}")]
    Port(std::io::Error),
    /// The API server is to be killed but does not run, or the other way round.
    #[error("the API server is already {0}")]
    Already(&'static str),
}

/// What a control plane consists of. The default is etcd and kube-apiserver alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Options {
    /// Run kube-controller-manager: namespaces are emptied, garbage is collected, service accounts appear.
    pub controller_manager: bool,
    /// Run kube-scheduler.
    pub scheduler: bool,
    /// Let etcd flush every write to disk before it acknowledges it, as it does by default; for measurements.
    pub flush_to_disk: bool,
    /// Further flags for kube-apiserver, such as `--audit-log-path=...`; a repeated flag replaces the launcher's.
    pub api_server_flags: Vec<String>,
    /// Further flags for kube-controller-manager.
    pub controller_manager_flags: Vec<String>,
    /// Further flags for kube-scheduler.
    pub scheduler_flags: Vec<String>,
}

/// A running control plane. See the module documentation.
pub struct ControlPlane {
    // Order matters: fields drop from the top, so clients of the API server end before it, and etcd after it.
    _followers: Vec<Program>,
    api_server: Mutex<Option<Program>>,
    etcd: Program,
    api_server_path: PathBuf,
    api_server_arguments: Vec<String>,
    guard: Guard,
    directory: tempfile::TempDir,
    kubeconfig: PathBuf,
    client: Client,
    versions: Versions,
    options: Options,
}

impl ControlPlane {
    /// Starts a control plane from the programs in `KUBEBUILDER_ASSETS` and waits until every program is ready.
    pub async fn start(options: &Options) -> Result<Self, ControlPlaneError> {
        Self::start_from(&Assets::from_environment()?, options).await
    }

    /// Starts a control plane from the given programs. A port that somebody else took between choosing and binding it
    /// makes the start fail and is tried again with other ports.
    pub async fn start_from(assets: &Assets, options: &Options) -> Result<Self, ControlPlaneError> {
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match Self::start_once(assets, options).await {
                Err(ControlPlaneError::Exited { log, .. })
                    if attempts > 0 && log.contains("address already in use") => {}
                result => return result,
            }
        }
    }

    async fn start_once(assets: &Assets, options: &Options) -> Result<Self, ControlPlaneError> {
        let versions = assets.versions()?;
        let directory = tempfile::Builder::new()
            .prefix("coppice-control-plane-")
            .tempdir()
            .map_err(|source| ControlPlaneError::Files {
                path: std::env::temp_dir(),
                source,
            })?;
        let data = directory.path();
        let guard = Guard::start(data)?;
        let certificates = Certificates::generate(data)?;
        let ports = free_ports::<5>()?;
        let [etcd_port, peer_port, api_port, manager_port, scheduler_port] = ports;

        let etcd_arguments = flags::etcd(data, etcd_port, peer_port, options);
        let mut etcd = Program::spawn("etcd", &assets.program("etcd")?, &etcd_arguments, &[], data, &guard)?;
        let etcd_client = probe_client(&format!("http://127.0.0.1:{etcd_port}"))?;
        etcd.wait_ready(|| probe(&etcd_client, "/health")).await?;

        let api_server_path = assets.program("kube-apiserver")?;
        let api_server_arguments = flags::api_server(data, &certificates, etcd_port, api_port, options);
        let mut api_server = Program::spawn(
            "kube-apiserver",
            &api_server_path,
            &api_server_arguments,
            &[],
            data,
            &guard,
        )?;
        let kubeconfig_path = data.join("kubeconfig");
        std::fs::write(&kubeconfig_path, kubeconfig(&certificates, api_port).to_string()).map_err(|source| {
            ControlPlaneError::Files {
                path: kubeconfig_path.clone(),
                source,
            }
        })?;
        let kubeconfig = kubeconfig_path;
        let client = client::from_kubeconfig_file(&kubeconfig).await?;
        api_server.wait_ready(|| probe(&client, "/readyz")).await?;

        let mut followers = Vec::new();
        let wanted = [
            (options.controller_manager, "kube-controller-manager", manager_port),
            (options.scheduler, "kube-scheduler", scheduler_port),
        ];
        for (_, name, port) in wanted.into_iter().filter(|(wanted, _, _)| *wanted) {
            let arguments = match name {
                "kube-scheduler" => flags::scheduler(data, &kubeconfig, port, options),
                _ => flags::controller_manager(data, &certificates, &kubeconfig, port, options),
            };
            let mut program = Program::spawn(name, &assets.program(name)?, &arguments, &[], data, &guard)?;
            let follower_client = probe_client(&format!("https://127.0.0.1:{port}"))?;
            program.wait_ready(|| probe(&follower_client, "/healthz")).await?;
            followers.push(program);
        }

        Ok(Self {
            _followers: followers,
            api_server: Mutex::new(Some(api_server)),
            etcd,
            api_server_path,
            api_server_arguments,
            guard,
            kubeconfig,
            client,
            versions,
            options: options.clone(),
            directory,
        })
    }

    /// A client with full rights and without the client library's default retries.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A kubeconfig file with full rights; it exists as long as the control plane.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The directory of data and logs.
    pub fn data_directory(&self) -> &Path {
        self.directory.path()
    }

    /// What the programs say about their versions.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// What it was started with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The process ids of etcd and of the API server (while it runs), for measurements.
    pub fn processes(&self) -> Vec<u32> {
        let api_server = self.api_server().as_ref().map(Program::id);
        std::iter::once(self.etcd.id()).chain(api_server).collect()
    }

    /// Starts a further program, such as the operator under test, with `KUBECONFIG` set to this control plane. Its log is
    /// kept beside the others, and it ends with the value returned.
    pub fn start_companion(
        &self,
        name: &'static str,
        program: &Path,
        arguments: &[String],
    ) -> Result<Companion, ControlPlaneError> {
        Companion::start(
            name,
            program,
            arguments,
            &self.kubeconfig,
            self.directory.path(),
            &self.guard,
        )
    }

    /// Kills the API server as a crash would: no farewell to its clients. Its data and port stay.
    pub fn kill_api_server(&self) -> Result<(), ControlPlaneError> {
        let mut program = self.api_server().take().ok_or(ControlPlaneError::Already("down"))?;
        program.kill();
        Ok(())
    }

    /// Starts the API server again on the same port and data and waits until it is ready.
    pub async fn restart_api_server(&self) -> Result<(), ControlPlaneError> {
        if self.api_server().is_some() {
            return Err(ControlPlaneError::Already("running"));
        }
        let data = self.directory.path();
        let arguments = &self.api_server_arguments;
        let mut program = Program::spawn(
            "kube-apiserver",
            &self.api_server_path,
            arguments,
            &[],
            data,
            &self.guard,
        )?;
        program.wait_ready(|| probe(&self.client, "/readyz")).await?;
        *self.api_server() = Some(program);
        Ok(())
    }

    fn api_server(&self) -> MutexGuard<'_, Option<Program>> {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ports that were free a moment ago, all different because they are held until the last one is found.
fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT], ControlPlaneError> {
    let mut ports = [0; COUNT];
    let mut listeners = Vec::with_capacity(COUNT);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ControlPlaneError::Port)?;
        *port = listener.local_addr().map_err(ControlPlaneError::Port)?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// A client that only asks for health: the programs beside the API server serve with certificates of their own making.
fn probe_client(url: &str) -> Result<Client, ControlPlaneError> {
    let uri = Uri::try_from(url).expect("a loopback address with a port is a valid address");
    let mut config = Config::new(uri);
    config.accept_invalid_certs = true;
    Ok(client::from_config(config)?)
}

async fn probe(client: &Client, path: &'static str) -> Result<(), String> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client
        .request_text(request)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

/// A kubeconfig with full rights, as JSON: JSON is YAML, so every reader of kubeconfigs takes it.
fn kubeconfig(certificates: &Certificates, port: u16) -> serde_json::Value {
    use base64::Engine as _;
    let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": encode(&certificates.authority_pem),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": encode(&certificates.admin_certificate_pem),
            "client-key-data": encode(&certificates.admin_key_pem),
        }}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    })
}
