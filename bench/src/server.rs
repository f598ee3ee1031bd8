//! The servers under measurement, each in processes of its own: the embedded one as a child that runs this very program,
//! the real one through the test harness's launcher. Both end with this process.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use coppice_apiserver::{ApiServer, Certificates, Tls};
use serde::Deserialize;

use crate::client::Endpoint;
use crate::report::RealServer;

/// What ends the kubeconfig that the child prints.
const END: &str = "---";

/// A running server.
pub(crate) struct Server {
    /// How to reach it.
    pub(crate) endpoint: Endpoint,
    /// The processes whose CPU time is the server's.
    pub(crate) processes: Vec<u32>,
    _running: Running,
}

/// What the launcher of the real control plane prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Launched {
    kubeconfig: PathBuf,
    processes: Vec<u32>,
    kube_apiserver: String,
    etcd: String,
    start_milliseconds: f64,
}

/// A child; dropping it closes its standard input, upon which it ends.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Running {
    fn start(command: &mut Command) -> anyhow::Result<(Self, Lines<BufReader<ChildStdout>>)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
        let output = child.stdout.take().context("standard output was asked for as a pipe")?;
        let input = child.stdin.take();
        Ok((Self { child, input }, BufReader::new(output).lines()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        // Nothing can be done about a child that cannot be waited for.
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the embedded server. Returns once it listens.
    pub(crate) fn embedded() -> anyhow::Result<Self> {
        let (running, lines) = Running::start(Command::new(std::env::current_exe()?).arg("serve"))?;
        let mut kubeconfig = String::new();
        for line in lines {
            let line = line?;
            if line == END {
                break;
            }
            kubeconfig.push_str(&line);
            kubeconfig.push('\n');
        }
        Ok(Self {
            endpoint: Endpoint::from_kubeconfig(&kubeconfig).context("the embedded server did not start")?,
            processes: vec![running.child.id()],
            _running: running,
        })
    }

    /// Starts a real kube-apiserver and etcd through the test harness. Returns once they are ready. The harness is built
    /// without optimisation: it only starts the programs.
    pub(crate) fn real(flush_to_disk: bool) -> anyhow::Result<(Self, RealServer)> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["run", "--quiet", "--locked", "-p", "coppice-harness"]);
        command.args(["--bin", "real-control-plane", "--"]);
        command.args(flush_to_disk.then_some("--flush"));
        let (running, mut lines) = Running::start(&mut command)?;
        let line = lines.next().context("the real control plane did not start")??;
        let launched: Launched = serde_json::from_str(&line)?;
        let kubeconfig = std::fs::read_to_string(&launched.kubeconfig)?;
        let server = Self {
            endpoint: Endpoint::from_kubeconfig(&kubeconfig)?,
            processes: launched.processes,
            _running: running,
        };
        let about = RealServer {
            kube_apiserver: launched.kube_apiserver,
            etcd: launched.etcd,
            etcd_flushes_to_disk: flush_to_disk,
            start_milliseconds: launched.start_milliseconds,
        };
        Ok((server, about))
    }
}

/// The child's side: serves with default settings, prints a kubeconfig, and ends when standard input does.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let serving = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let certificates = Certificates::generate(&[listener.local_addr()?.ip()])?;
        let serving = ApiServer::builder()
            .build()
            .serve(listener, Tls::On(Arc::new(certificates)))?;
        anyhow::Ok(serving)
    })?;
    let mut output = std::io::stdout();
    writeln!(output, "{}{END}", serving.kubeconfig())?;
    output.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
