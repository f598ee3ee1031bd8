//! Servers in processes of their own, so that their CPU time and memory are theirs alone: any program that prints what its
//! user needs and ends with its standard input; and the embedded API server, as a child that runs the very program that
//! starts it.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use coppice_apiserver::{ApiServer, Certificates, Tls};

/// The argument upon which a benchmark is the embedded API server.
pub const SERVE: &str = "serve";

/// What ends the kubeconfig that the embedded API server prints.
const END: &str = "---";

/// A child; dropping it closes its standard input, upon which it ends.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Running {
    /// Starts a program. Returns what it prints, line by line.
    pub fn start(command: &mut Command) -> anyhow::Result<(Self, Lines<BufReader<ChildStdout>>)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
        let output = child.stdout.take().context("standard output was asked for as a pipe")?;
        let input = child.stdin.take();
        Ok((Self { child, input }, BufReader::new(output).lines()))
    }

    /// Starts the embedded API server with default settings. Returns its kubeconfig once it listens.
    pub fn embedded() -> anyhow::Result<(Self, String)> {
        let (running, lines) = Self::start(Command::new(std::env::current_exe()?).arg(SERVE))?;
        let mut kubeconfig = String::new();
        for line in lines {
            let line = line?;
            if line == END {
                return Ok((running, kubeconfig));
            }
            kubeconfig.push_str(&line);
            kubeconfig.push('\n');
        }
        anyhow::bail!("the embedded server did not start")
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        // Nothing can be done about a child that cannot be waited for.
        let _ = self.child.wait();
    }
}

/// The child's side: serves with default settings, prints a kubeconfig, and ends when standard input does.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let serving = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let certificates = Certificates::generate(&[listener.local_addr()?.ip()])?;
        let server = ApiServer::builder().build();
        anyhow::Ok(server.serve(listener, Tls::On(Arc::new(certificates)))?)
    })?;
    let mut output = std::io::stdout();
    writeln!(output, "{}{END}", serving.kubeconfig())?;
    output.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
