//! `coppice explain` on a snapshot: its outputs as they are printed, and what it says when it cannot answer.
//!
//! Expected outputs are files in `explain/`; COPPICE_WRITE_GOLDEN=1 writes them anew, for review.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain")
}

/// Exit status, standard output and standard error, free of where this checkout lies.
fn run(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_coppice"))
        .arg("explain")
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG")
        .output()
        .expect("the binary runs");
    let clean = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text");
        text.replace(&format!("{}/", folder().display()), "")
    };
    (output.status.success(), clean(output.stdout), clean(output.stderr))
}

fn on_snapshot(arguments: &[&str]) -> (bool, String, String) {
    let file = folder().join("snapshot.yaml");
    let file = file.to_str().expect("a path in UTF-8");
    run(&[arguments, &["-n", "models", "--snapshot", file]].concat())
}

fn golden(name: &str, arguments: &[&str]) {
    let (success, text, error) = on_snapshot(arguments);
    assert!(success, "{arguments:?}: {error}");
    let file = folder().join(name);
    if std::env::var_os("COPPICE_WRITE_GOLDEN").is_some() {
        std::fs::write(&file, &text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{arguments:?} differs from {name}");
}

fn refused(arguments: &[&str], words: &[&str]) {
    let (success, text, error) = on_snapshot(arguments);
    assert!(!success, "{arguments:?}: {text}");
    for word in words {
        assert!(error.contains(word), "{arguments:?}: {word:?} is missing in {error}");
    }
}

#[test]
fn outputs_are_as_written() {
    golden("pending.txt", &["podgang/serving-0"]);
    golden("pending.json", &["podgang", "serving-0", "-o", "json"]);
    golden("pending.yaml", &["pg/serving-0", "-o", "yaml"]);
    golden("placed.txt", &["podgang/router-0"]);
    golden("held.txt", &["pod/serving-0-decode-1-worker-0"]);
    golden("set.txt", &["pcs/serving"]);
    golden("set-without-gangs.txt", &["empty"]);
    golden("fits.txt", &["urgent-0"]);
    golden("unknown-level.txt", &["strange-0"]);
    golden("foreign.txt", &["pod/lone"]);
}

#[test]
fn assumed_changes_are_answered() {
    golden(
        "what-if-prefer.txt",
        &["serving-0", "--what-if", "prefer=example.com/rack"],
    );
    golden("what-if-uncordon.txt", &["serving-0", "--what-if", "uncordon=r1-h2"]);
    golden("what-if-evict.txt", &["urgent-0", "--what-if", "evict=models/router-0"]);
    golden(
        "what-if-add-nodes.json",
        &["serving-0", "--what-if", "add-nodes=1:r0-h1", "-o", "json"],
    );
}

#[test]
fn remedies_work_when_they_are_assumed() {
    let verdict = |changes: &[&str]| {
        let assumed: Vec<&str> = changes.iter().flat_map(|change| ["--what-if", change]).collect();
        let (_, text, error) = on_snapshot(&[&["serving-0", "-o", "json"], &assumed[..]].concat());
        let answer: serde_json::Value = serde_json::from_str(&text).expect(&error);
        let verdict = answer["gangs"][0]["explanation"]["verdict"].as_str();
        verdict.expect("a verdict").to_owned()
    };
    assert_eq!(verdict(&[]), "DoesNotFit");
    assert_eq!(verdict(&["uncordon=r1-h2"]), "Fits");
    assert_eq!(verdict(&["prefer=example.com/rack"]), "Fits");
    // One more node in the other rack leaves it one short.
    assert_eq!(verdict(&["add-nodes=1:r0-h1"]), "DoesNotFit");
    assert_eq!(verdict(&["add-nodes=1:r0-h1", "evict=models/router-0"]), "Fits");
}

#[test]
fn what_cannot_be_answered_says_what_to_do() {
    refused(
        &["podgang/servng-0"],
        &[
            "no PodGang \"servng-0\" in namespace \"models\"",
            "similar: podgang/serving-0",
        ],
    );
    refused(&["pcs/chat"], &["similar: podcliqueset/chat (-n other)"]);
    refused(&["zzzzzz"], &["give its namespace with -n"]);
    refused(&["deployment/x"], &["name a podgang, a pcs or a pod"]);
    for (change, word) in [
        ("uncordon=nowhere", "no node \"nowhere\""),
        ("prefer=zone", "requires one \"zone\""),
        ("evict=models/nobody", "no running gang"),
        ("add-nodes=x", "is not COUNT:NODE"),
        ("tolerate=x", "has no effect"),
        ("magic", "cannot assume"),
    ] {
        refused(&["serving-0", "--what-if", change], &[word]);
    }
}

#[test]
fn clusters_and_files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("kubeconfig");
    // Port 1 of this host has no server.
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
                clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\nusers: [{name: u, user: {}}]\n";
    std::fs::write(&file, text).expect("the file can be written");
    let (success, _, error) = run(&["x", "--kubeconfig", file.to_str().expect("UTF-8")]);
    assert!(
        !success && error.contains("cannot be reached") && error.contains("--snapshot"),
        "{error}"
    );
    let empty = folder.path().join("empty.yaml");
    std::fs::write(&empty, "kind: List\nitems: []\n").expect("the file can be written");
    let (success, _, error) = run(&["x", "--snapshot", empty.to_str().expect("UTF-8")]);
    assert!(!success && error.contains("kubectl get nodes,pods,podgangs"), "{error}");
    let (success, _, error) = run(&["x", "--snapshot", "/does/not/exist"]);
    assert!(!success && error.contains("cannot read /does/not/exist"), "{error}");
}
