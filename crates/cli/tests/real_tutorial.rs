//! The commands of docs/tutorial.md, run in order as they stand, with the real kubectl.
//!
//! Blocks marked `sh-background` run for as long as the test does, and the rest begins when they have said that they are
//! ready. Blocks marked `sh` must succeed; variables they export hold for the blocks after them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and tells what it saw"
)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use coppice_harness::control_plane::Assets;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(300);
/// What `coppice up` prints when kubectl can be used.
const READY: &str = "KUBECONFIG";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The blocks of a page, in order: language and text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

fn bash(text: &str, directory: &Path) -> Command {
    let own = Path::new(env!("CARGO_BIN_EXE_coppice")).parent().unwrap().to_owned();
    let kubectl = Assets::from_environment().unwrap().program("kubectl").unwrap();
    let search = [own.as_path(), kubectl.parent().unwrap()];
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        search
            .into_iter()
            .map(Path::to_owned)
            .chain(std::env::split_paths(&inherited)),
    );
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", text])
        .current_dir(directory)
        .env("PATH", path.unwrap())
        .kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_works_as_it_stands() {
    let page = std::fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() > 5, "the page has {} blocks", blocks.len());
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("examples"), directory.path().join("examples")).unwrap();

    let mut background = Vec::new();
    let mut exports = String::new();
    for (language, text) in blocks {
        match language.as_str() {
            "sh-background" => {
                // exec: the program itself ends with the test, not a shell around it.
                let mut child = bash(&format!("exec {text}"), directory.path())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
                let ready = async {
                    while let Some(line) = lines.next_line().await.unwrap() {
                        if line.contains(READY) {
                            return true;
                        }
                    }
                    false
                };
                assert!(
                    tokio::time::timeout(PATIENCE, ready).await.unwrap_or(false),
                    "not ready:\n{text}"
                );
                background.push((child, lines));
            }
            "sh" => {
                let output = bash(&format!("{exports}{text}"), directory.path()).output();
                let output = tokio::time::timeout(PATIENCE, output)
                    .await
                    .expect("the block ends")
                    .unwrap();
                println!("$ {text}{}", String::from_utf8_lossy(&output.stdout));
                assert!(
                    output.status.success(),
                    "{text}\n{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                exports.extend(
                    text.lines()
                        .filter(|line| line.starts_with("export "))
                        .map(|line| format!("{line}\n")),
                );
            }
            other => panic!("a block of {other:?} in the tutorial"),
        }
    }
}
