//! The operator under measurement, as a process of its own: ours, or another one that was given as a command. It is told
//! where the control plane is through `KUBECONFIG`.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use coppice_crds::{InstallOptions, install, install_definitions};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::plane::Plane;
use crate::requests::{Requests, Who};

const READINESS_LIMIT: Duration = Duration::from_secs(60);

/// Which operator.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Ours: the path of the `coppice` binary.
    Ours(PathBuf),
    /// Another one.
    Other {
        /// A command for the shell.
        command: String,
        /// A directory of manifests that are applied before it is started.
        manifests: PathBuf,
        /// How long it is given to get ready.
        settle: Duration,
    },
}

/// A running operator; killed when dropped.
pub(crate) struct Operator {
    child: Child,
    log: PathBuf,
    metrics: Option<SocketAddr>,
    /// Its process.
    pub(crate) process: u32,
}

impl Choice {
    /// Installs what the operator needs.
    pub(crate) async fn install(&self, client: &Client) -> anyhow::Result<()> {
        match self {
            Self::Ours(_) => {
                install(client.clone(), &InstallOptions::default(), |_| {}).await?;
                Ok(())
            }
            Self::Other { manifests, .. } => apply_all(client, manifests).await,
        }
    }

    /// Starts it and waits until it works.
    pub(crate) async fn start(&self, plane: &Plane) -> anyhow::Result<Operator> {
        let log = plane.directory.path().join("operator.log");
        let (mut command, metrics) = match self {
            Self::Ours(program) => {
                let address = free_address()?;
                let mut command = Command::new(program);
                command.args(["operator", "--serve", &address.to_string()]);
                (command, Some(address))
            }
            Self::Other { command: line, .. } => {
                let mut command = Command::new("sh");
                // Replaces the shell, so that the process that is measured is the operator.
                command.args(["-c", &format!("exec {line}")]);
                (command, None)
            }
        };
        let open = || File::options().create(true).append(true).open(&log);
        let child = command
            .env("KUBECONFIG", &plane.kubeconfig)
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("the operator cannot be started: {command:?}"))?;
        let process = child.id().context("the operator ended at once")?;
        let mut operator = Operator {
            child,
            log,
            metrics,
            process,
        };
        match self {
            Self::Ours(_) => operator.wait_ready().await?,
            Self::Other { settle, .. } => tokio::time::sleep(*settle).await,
        }
        operator.check()?;
        Ok(operator)
    }
}

impl Operator {
    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + READINESS_LIMIT;
        while !matches!(self.ask("/readyz").await, Ok((200, _))) {
            self.check()?;
            anyhow::ensure!(
                tokio::time::Instant::now() < deadline,
                "the operator is not ready; {}",
                self.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Fails when it has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            anyhow::bail!("the operator ended ({status}); {}", self.log_tail());
        }
        Ok(())
    }

    /// What it asked of the API server so far, since `mark` in the audit log where there is one.
    pub(crate) async fn requests(&self, audit: Option<&str>) -> anyhow::Result<Option<Requests>> {
        match (audit, self.metrics) {
            (Some(log), _) => Ok(Some(Requests::of_audit(log, Who::Operator))),
            (None, Some(_)) => Ok(Some(Requests::of_metrics(&self.ask("/metrics").await?.1))),
            (None, None) => Ok(None),
        }
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.check()?;
        Ok(self.child.kill().await?)
    }

    async fn ask(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let address = self.metrics.context("only our own operator is asked")?;
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let (_, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        Ok((code.context("no HTTP status")?, body.to_owned()))
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!(
            "the end of its log:\n{}",
            lines[lines.len().saturating_sub(20)..].join("\n")
        )
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Applies all documents of all YAML files of a directory, definitions first.
async fn apply_all(client: &Client, directory: &Path) -> anyhow::Result<()> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .with_context(|| directory.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml"));
    files.sort();
    anyhow::ensure!(!files.is_empty(), "no YAML files in {}", directory.display());
    let mut objects = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file)?;
        for document in serde_saphyr::from_multiple::<Value>(&text).with_context(|| file.display().to_string())? {
            if !document.is_null() {
                objects.push(document);
            }
        }
    }
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let (definitions, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(is_definition);
    install_definitions(client.clone(), &definitions, &InstallOptions::default(), |_| {}).await?;
    for object in others {
        apply(client, object).await?;
    }
    Ok(())
}

async fn apply(client: &Client, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = DynamicObject::deserialize(object).context("a manifest without metadata")?;
    let types = object
        .types
        .as_ref()
        .context("a manifest without apiVersion and kind")?;
    let name = object.metadata.name.clone().context("a manifest without a name")?;
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind)
        .await
        .with_context(|| format!("{} {name}", kind.kind))?;
    let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<DynamicObject> = match capabilities.scope {
        kube::discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
        kube::discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    api.patch(&name, &PatchParams::apply("workload").force(), &Patch::Apply(&object))
        .await
        .with_context(|| format!("applying {} {name}", kind.kind))?;
    Ok(())
}
