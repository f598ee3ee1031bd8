//! The program at a terminal: its transcripts, and an embedded cluster in another process.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "tests fail by panicking, and each uses a part"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, ResourceExt as _};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Commands that were run in a directory, and what they said.
pub(crate) struct Transcript {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) text: String,
    /// What differs from run to run, and what stands for it.
    pub(crate) masks: Vec<(String, &'static str)>,
}

impl Transcript {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let masks = vec![(format!("{}/", directory.path().display()), "")];
        Self {
            directory,
            text: String::new(),
            masks,
        }
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.directory.path().join(file), text).unwrap();
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coppice"));
        command
            .args(line.split_whitespace())
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("RUST_LOG");
        command
    }

    pub(crate) fn output(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a command and notes the exit code and both outputs.
    pub(crate) fn run(&mut self, line: &str) -> i32 {
        let output = self.output(line);
        let code = output.status.code().unwrap();
        let _ = writeln!(self.text, "$ coppice {line}");
        for (mark, bytes) in [("", &output.stdout), ("! ", &output.stderr)] {
            let mut words = String::from_utf8(bytes.clone()).unwrap();
            for (text, stand_in) in &self.masks {
                words = words.replace(text, stand_in);
            }
            for line in words.lines() {
                let _ = writeln!(self.text, "{mark}{line}");
            }
        }
        let _ = writeln!(self.text, "[exit {code}]\n");
        code
    }

    /// Runs a command that must fail, with a word on standard error and nothing on standard output.
    pub(crate) fn refused(&mut self, line: &str) {
        let output = self.output(line);
        assert!(output.stdout.is_empty(), "{line} prints to standard output");
        assert!(output.stderr.starts_with(b"error: "), "{line} says nothing");
        assert_ne!(self.run(line), 0, "{line}");
    }

    pub(crate) fn check(&self, file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands").join(file);
        if std::env::var_os("COPPICE_BLESS").is_some() {
            std::fs::write(&path, &self.text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(self.text, expected, "{file} differs; COPPICE_BLESS=1 rewrites it");
    }
}

pub(crate) fn example() -> String {
    std::fs::read_to_string(root().join("examples/disaggregated.yaml")).unwrap()
}

/// An embedded cluster in another process, as people start one.
pub(crate) struct Up {
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Up {
    pub(crate) fn start(transcript: &Transcript) -> Self {
        let mut child = transcript
            .command("up --nodes 18 --kubeconfig cluster")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("KUBECONFIG") {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended before it was up");
        }
        Self { child, _stdout: stdout }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn client(kubeconfig: &Path) -> (Client, String) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let address = config.cluster_url.to_string();
    (
        Client::try_from(config).unwrap(),
        address.trim_end_matches('/').to_owned(),
    )
}

/// Waits until so many pods are ready: a set is so when it has its minimum.
pub(crate) async fn all_ready(pods: Api<Pod>, count: usize) {
    let mut ready = BTreeSet::new();
    let applied = watcher(pods, watcher::Config::default()).applied_objects();
    let mut applied = std::pin::pin!(applied);
    while ready.len() < count {
        let pod = applied.try_next().await.unwrap().unwrap();
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut conditions = conditions.filter(|condition| condition.type_ == "Ready");
        if conditions.any(|condition| condition.status == "True") {
            ready.insert(pod.name_any());
        }
    }
}
