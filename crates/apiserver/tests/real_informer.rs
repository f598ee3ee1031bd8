//! The informers of client-go keep in step with the server through everything that `in_step` does to them.
//!
//! The program is the one named by COPPICE_INFORMER, else `hack/build-informer.sh` builds it. Where Go is absent,
//! COPPICE_INFORMER=kube-rs says so, and kube-rs's watchers take its place; `make e2e` sets it and tells.

mod in_step;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use in_step::stage::Stage;
use in_step::watcher::Watchers;
use in_step::{Habits, Objects, Observer, Record, Seen, keeps_in_step, survives_short_watches};

/// The word for "without Go" in COPPICE_INFORMER.
const WITHOUT_GO: &str = "kube-rs";

/// The running program.
struct Informer {
    _child: Child,
    _directory: TempDir,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

async fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("COPPICE_INFORMER") {
        return named.into();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/build-informer.sh");
    let output = Command::new(&script).output().await.expect("the script can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{said}Set COPPICE_INFORMER to a built program, or to {WITHOUT_GO} to use its watchers instead."
    );
    String::from_utf8_lossy(&output.stdout).trim().into()
}

impl Informer {
    async fn start(stage: &Stage, habits: Habits) -> Self {
        let directory = TempDir::new().expect("a directory");
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, stage.kubeconfig()).expect("a kubeconfig");
        let mut command = Command::new(program().await);
        command
            .arg("-kubeconfig")
            .arg(kubeconfig)
            .args(["-custom", "example.com/v1/widgets"])
            .args(habits.watch_seconds.map(|seconds| format!("-watch-seconds={seconds}")))
            .env("KUBE_FEATURE_WatchListClient", habits.streaming.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the informer starts");
        let commands = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self {
            _child: child,
            _directory: directory,
            commands,
            answers,
        }
    }

    async fn ask<A: DeserializeOwned>(&mut self, command: Value) -> A {
        let line = format!("{command}\n");
        self.commands
            .write_all(line.as_bytes())
            .await
            .expect("the informer reads");
        let answer = self.answers.next_line().await.expect("the informer writes");
        let answer = answer.expect("the informer ended; what it wrote to standard error says why");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{command}: {answer}: {error}"))
    }
}

impl Observer for Informer {
    async fn await_objects(&mut self, resource: &str, objects: &Objects) -> Seen {
        self.ask(json!({"do": "await", "resource": resource, "objects": objects}))
            .await
    }

    async fn await_bookmark(&mut self, resource: &str, version: u64) {
        let _: Value = self
            .ask(json!({"do": "await-bookmark", "resource": resource, "version": version}))
            .await;
    }

    async fn report(&mut self) -> BTreeMap<String, Record> {
        self.ask(json!({"do": "report"})).await
    }
}

fn without_go() -> bool {
    std::env::var_os("COPPICE_INFORMER").is_some_and(|named| named == WITHOUT_GO)
}

async fn all_phases(habits: Habits) {
    if without_go() {
        keeps_in_step(habits, Watchers::start).await;
    } else {
        keeps_in_step(habits, Informer::start).await;
    }
}

#[tokio::test]
async fn streaming_informers_keep_in_step() {
    let habits = Habits {
        streaming: true,
        watch_seconds: None,
    };
    all_phases(habits).await;
}

#[tokio::test]
async fn listing_informers_keep_in_step() {
    let habits = Habits {
        streaming: false,
        watch_seconds: None,
    };
    all_phases(habits).await;
}

#[tokio::test]
async fn informers_survive_short_watches() {
    let habits = Habits {
        streaming: true,
        watch_seconds: Some(2),
    };
    if without_go() {
        survives_short_watches(habits, Watchers::start).await;
    } else {
        survives_short_watches(habits, Informer::start).await;
    }
}
