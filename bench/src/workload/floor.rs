//! The floor: a client that only creates given objects, with a given number of requests in flight, and knows nothing of
//! what they mean. A process of its own, so that its processor time and memory are its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use clap::Args;
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::content::resource;
use crate::plane;
use crate::requests::FLOOR;

/// The arguments of the child process.
#[derive(Args, Debug)]
pub(crate) struct Task {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long)]
    bodies: PathBuf,
    #[arg(long)]
    concurrency: usize,
}

/// A floor client that waits for the word.
pub(crate) struct Floor {
    _child: Child,
    input: ChildStdin,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
    /// Its process.
    pub(crate) process: u32,
}

impl Floor {
    /// Starts it. Returns when it could begin.
    pub(crate) async fn start(
        kubeconfig: &Path,
        directory: &Path,
        bodies: &[Value],
        concurrency: usize,
    ) -> anyhow::Result<Self> {
        let file = directory.join("bodies.json");
        std::fs::write(&file, serde_json::to_vec(bodies)?)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("floor")
            .args(["--concurrency", &concurrency.to_string()])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--bodies")
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let process = child.id().context("the floor client ended at once")?;
        let input = child.stdin.take().context("standard input was asked for as a pipe")?;
        let output = child.stdout.take().context("standard output was asked for as a pipe")?;
        let mut floor = Self {
            _child: child,
            input,
            output: BufReader::new(output).lines(),
            process,
        };
        floor.expect("ready").await?;
        Ok(floor)
    }

    /// Lets it begin.
    pub(crate) async fn go(&mut self) -> anyhow::Result<()> {
        self.input.write_all(b"go\n").await?;
        Ok(self.input.flush().await?)
    }

    /// Waits until it has created everything. It lives on until dropped.
    pub(crate) async fn done(&mut self) -> anyhow::Result<()> {
        self.expect("done").await
    }

    async fn expect(&mut self, word: &str) -> anyhow::Result<()> {
        let line = self.output.next_line().await?;
        anyhow::ensure!(line.as_deref() == Some(word), "the floor client failed (see above)");
        Ok(())
    }
}

/// The child's side.
pub(crate) async fn run(task: Task) -> anyhow::Result<()> {
    let bodies: Vec<Value> = serde_json::from_slice(&std::fs::read(&task.bodies)?)?;
    let client = plane::client(&task.kubeconfig, FLOOR).await?;
    let objects: Vec<(Api<DynamicObject>, DynamicObject)> = bodies
        .into_iter()
        .map(|body| {
            let object: DynamicObject = serde_json::from_value(body)?;
            let types = object.types.as_ref().context("a body without a kind")?;
            let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
            let resource = resource(group, version, &types.kind);
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let api = Api::namespaced_with(client.clone(), namespace, &resource);
            anyhow::Ok((api, object))
        })
        .collect::<Result<_, _>>()?;
    say("ready")?;
    // Nothing else happens meanwhile.
    std::io::stdin().read_line(&mut String::new())?;
    stream::iter(objects)
        .map(|(api, object)| async move {
            let name = object.metadata.name.clone().unwrap_or_default();
            api.create(&PostParams::default(), &object)
                .await
                .map(drop)
                .with_context(|| format!("creating {name}"))
        })
        .buffer_unordered(task.concurrency.max(1))
        .try_collect::<Vec<()>>()
        .await?;
    say("done")?;
    // Its end would take its figures with it.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn say(word: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{word}")?;
    Ok(output.flush()?)
}
