//! A bystander: another client of the same API server, which creates one ConfigMap after the other and notes how long each
//! takes. It shows how much a load crowds others out. A process of its own, so that it does not wait for this one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::measured::{median, rounded};
use crate::plane;

const USER_AGENT: &str = "coppice-bench-bystander";
/// Creates before the load begins.
const IDLE: usize = 100;
/// How long it rests after each create: it is a user, not a load.
const REST: Duration = Duration::from_millis(10);

/// The arguments of the child process.
#[derive(Args, Debug)]
pub(crate) struct Task {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long)]
    namespace: String,
}

/// How long the bystander's creates took, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Bystanding {
    /// The median before the load.
    pub(crate) idle: f64,
    /// The median until the last pod was created.
    pub(crate) loaded: f64,
    /// Nine of ten were quicker.
    pub(crate) loaded_p90: f64,
    /// How many creates that were.
    pub(crate) creates: usize,
}

/// A create: when it was sent (since 1970), and how long it took.
type Sample = (Duration, Duration);

/// A running bystander.
pub(crate) struct Bystander {
    child: Child,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
    idle: Vec<Sample>,
}

impl Bystander {
    /// Starts it in a namespace of its own; returns when it has seen the server without the load.
    pub(crate) async fn start(kubeconfig: &Path, namespace: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bystander")
            .args(["--namespace", namespace])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("standard output was asked for as a pipe")?;
        let mut bystander = Self {
            child,
            output: BufReader::new(output).lines(),
            idle: Vec::new(),
        };
        // The first ones open the connection and warm the server.
        for _ in 0..IDLE / 5 {
            bystander.next().await?;
        }
        for _ in 0..IDLE {
            let sample = bystander.next().await?;
            bystander.idle.push(sample);
        }
        Ok(bystander)
    }

    async fn next(&mut self) -> anyhow::Result<Sample> {
        let line = self
            .output
            .next_line()
            .await?
            .context("the bystander ended (see above)")?;
        let (sent, took) = line.split_once(' ').context("a line of the bystander")?;
        Ok((
            Duration::from_micros(sent.parse()?),
            Duration::from_micros(took.parse()?),
        ))
    }

    /// Ends it; what it saw between the two moments counts.
    pub(crate) async fn end(mut self, from: SystemTime, until: f64) -> anyhow::Result<Bystanding> {
        self.child.start_kill()?;
        let from = from.duration_since(UNIX_EPOCH)?;
        let until = from + Duration::from_secs_f64(until);
        let mut loaded = Vec::new();
        while let Ok(sample) = self.next().await {
            if (from..until).contains(&sample.0) {
                loaded.push(sample);
            }
        }
        let milliseconds = |samples: &[Sample]| -> Vec<f64> {
            let took = samples.iter().map(|(_, took)| took.as_secs_f64() * 1e3);
            took.collect()
        };
        let mut times = milliseconds(&loaded);
        times.sort_by(f64::total_cmp);
        let p90 = times.len().checked_sub(1).map(|last| times[last * 9 / 10]);
        Ok(Bystanding {
            idle: rounded(median(milliseconds(&self.idle)).unwrap_or_default()),
            loaded: rounded(median(times).unwrap_or_default()),
            loaded_p90: rounded(p90.unwrap_or_default()),
            creates: loaded.len(),
        })
    }
}

/// The child's side: until it is killed.
pub(crate) async fn run(task: Task) -> anyhow::Result<()> {
    let client = plane::client(&task.kubeconfig, USER_AGENT).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &task.namespace);
    for number in 0_u64.. {
        let map = serde_json::from_value(json!({
            "metadata": {"name": format!("map-{}-{number}", std::process::id())}, "data": {"key": "value"}}))?;
        let (sent, began) = (SystemTime::now().duration_since(UNIX_EPOCH)?, Instant::now());
        maps.create(&PostParams::default(), &map).await?;
        let mut output = std::io::stdout();
        writeln!(output, "{} {}", sent.as_micros(), began.elapsed().as_micros())?;
        output.flush()?;
        tokio::time::sleep(REST).await;
    }
    Ok(())
}
