//! Runs the real binary as `coppice initc` and reads what it says.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The files and arguments of one waiting container.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// What the kubelet would mount for a pod of this namespace and gang, and a kubeconfig.
    pub(crate) fn new(namespace: &str, gang: &str, kubeconfig: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("namespace", namespace),
            ("podgangname", gang),
            ("kubeconfig", kubeconfig),
        ] {
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        Self { directory }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts it with the arguments of the container.
    pub(crate) fn start(&self, arguments: &[String]) -> Waiting {
        let mut child = Command::new(env!("CARGO_BIN_EXE_coppice"))
            .arg("initc")
            .args(arguments)
            .arg("--pod-info")
            .arg(self.path())
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Waiting { child, lines }
    }
}

/// A running `coppice initc`.
pub(crate) struct Waiting {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Waiting {
    /// Waits for a line with this text; returns the lines before it.
    pub(crate) async fn says(&mut self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        let reading = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.contains(text) {
                    return true;
                }
                before.push(line);
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, reading).await.unwrap_or(false);
        assert!(found, "never said {text:?}, but:\n{}", before.join("\n"));
        before
    }

    /// Waits for its end; returns the code and the lines not read yet.
    pub(crate) async fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = Vec::new();
        let reading = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                rest.push(line);
            }
            self.child.wait().await.unwrap().code()
        };
        let code = tokio::time::timeout(PATIENCE, reading).await;
        (code.unwrap_or_else(|_| panic!("it does not end")), rest)
    }

    pub(crate) async fn terminate(&self) {
        let id = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
        assert!(sent.success());
    }
}

/// Makes a pod ready, as its kubelet would.
pub(crate) async fn make_ready(pods: &Api<Pod>, name: &str) {
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let parameters = PatchParams::default();
    pods.patch_status(name, &parameters, &Patch::Merge(ready))
        .await
        .unwrap();
}
