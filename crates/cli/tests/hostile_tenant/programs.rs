//! The programs under attack, and what is demanded of them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use coppice_apiserver::{ApiServer, Serving, Tls};
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Options, SimulatedCluster};
use coppice_crds::{InstallOptions, install};
use kube::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// What each program may have resident at most, at any time.
const LARGEST_MEMORY: u64 = 256 << 20;
/// Only to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Programs {
    pub(crate) client: Client,
    /// Where the operator's webhooks are served.
    pub(crate) webhooks: SocketAddr,
    running: Vec<Program>,
    nodes: SimulatedCluster,
    serving: Serving,
    _directory: tempfile::TempDir,
}

struct Program {
    name: &'static str,
    child: Child,
    probes: SocketAddr,
}

impl Programs {
    pub(crate) async fn start() -> Self {
        let server = ApiServer::builder().build();
        let client = Client::new(server.service(), "default");
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = server.serve(listener, Tls::Off).unwrap();
        let nodes = Options::default().nodes(NodeProfile::Small, 4);
        let nodes = SimulatedCluster::start(client.clone(), nodes).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join("kubeconfig"), serving.kubeconfig()).unwrap();
        let (webhooks, operator, scheduler) = (free_address(), free_address(), free_address());
        let text = format!(
            "apiVersion: operator.config.grove.io/v1alpha1\n\
             kind: OperatorConfiguration\n\
             scheduler: {{defaultProfileName: coppice, profiles: [{{name: coppice}}]}}\n\
             server:\n\
             \x20 webhooks: {{bindAddress: 127.0.0.1, port: {}, certProvisionMode: auto}}\n\
             \x20 healthProbes: {{enable: true, bindAddress: 127.0.0.1, port: {}}}\n\
             \x20 metrics: {{bindAddress: 127.0.0.1, port: 0}}\n",
            webhooks.port(),
            operator.port()
        );
        std::fs::write(path.join("config.yaml"), text).unwrap();
        let config = path.join("config.yaml");
        let running = vec![
            Program::start("operator", path, &["--config", config.to_str().unwrap()], operator),
            Program::start("scheduler", path, &["--serve", &scheduler.to_string()], scheduler),
        ];
        Self {
            client,
            webhooks,
            running,
            nodes,
            serving,
            _directory: directory,
        }
    }

    /// Both run, say that they do, and never had more memory than they may.
    pub(crate) async fn are_unharmed(&self) {
        for program in &self.running {
            let id = program
                .child
                .id()
                .unwrap_or_else(|| panic!("the {} ended", program.name));
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
            let peak = peak_memory(&status).unwrap_or_else(|| panic!("the {} ended:\n{status}", program.name));
            eprintln!("{}: {} MiB resident at the most", program.name, peak >> 20);
            assert!(
                peak <= LARGEST_MEMORY,
                "the {} had {} MiB resident, more than {}",
                program.name,
                peak >> 20,
                LARGEST_MEMORY >> 20
            );
            assert!(
                probe(program.probes).await.contains(" 200 "),
                "the {} is alive",
                program.name
            );
        }
    }

    /// A client with an address of its own is served, whatever others hold open.
    pub(crate) async fn still_answer(&self, server: SocketAddr) {
        let hello = async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
            let mut stream = socket.connect(server).await?;
            // Not a TLS record: a server that reads it answers with an alert or closes.
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            std::io::Result::Ok(())
        };
        let answered = tokio::time::timeout(PATIENCE, hello).await;
        assert!(answered.is_ok(), "the webhook server no longer accepts connections");
    }

    pub(crate) async fn stop(mut self) {
        for program in &mut self.running {
            let id = program.child.id().unwrap().to_string();
            assert!(
                Command::new("kill")
                    .args(["-TERM", &id])
                    .status()
                    .await
                    .unwrap()
                    .success()
            );
            let ended = tokio::time::timeout(PATIENCE, program.child.wait())
                .await
                .unwrap()
                .unwrap();
            assert!(ended.success(), "the {} ended with {ended}", program.name);
        }
        self.nodes.stop().await;
        self.serving.stop().await;
    }
}

impl Program {
    fn start(name: &'static str, directory: &Path, arguments: &[&str], probes: SocketAddr) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_coppice"))
            .arg(name)
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .args(arguments)
            .env("RUST_LOG", "error")
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { name, child, probes }
    }
}

/// The peak of the resident memory, from `/proc/PID/status`.
fn peak_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

async fn probe(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// An address that nothing listens on at the moment.
fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
