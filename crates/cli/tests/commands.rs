//! The program as people meet it: what each command prints, and what it says when it cannot do what it was asked.
//!
//! Transcripts are files in `commands/`; COPPICE_BLESS=1 writes them anew, for review.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod terminal;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet, PodGang};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use terminal::{Transcript, Up, all_ready, client, example, root};

/// Port 1 of this host has no server.
const UNREACHABLE: &str = "apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {}}]
";

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";

#[test]
fn manifests_that_cannot_be_read_are_named_with_line_and_field() {
    let mut transcript = Transcript::new();
    transcript.write("llm.yaml", &example());
    transcript.write(
        "syntax.yaml",
        "kind: PodCliqueSet\nspec:\n  replicas: 1\n   template: {}\n",
    );
    transcript.write("shape.yaml", &example().replacen("replicas: 2", "replicas: two", 1));
    transcript.write("kind.yaml", DEPLOYMENT);
    transcript.write("empty.yaml", "");
    std::fs::create_dir(transcript.directory.path().join("empty")).unwrap();
    for file in ["missing.yaml", "syntax.yaml", "kind.yaml", "empty.yaml", "empty"] {
        transcript.refused(&format!("lint -f {file}"));
        transcript.refused(&format!("plan -f {file}"));
    }
    transcript.refused("plan -f shape.yaml");
    transcript.refused("plan -f llm.yaml --against missing.yaml");
    for file in ["missing.yaml", "syntax.yaml", "kind.yaml"] {
        transcript.refused(&format!("explain llm --snapshot {file}"));
    }
    // What admission would refuse is a finding and no error.
    assert_eq!(transcript.run("lint -f shape.yaml"), 1);
    transcript.check("manifests.txt");
}

#[test]
fn manifests_are_judged() {
    let mut transcript = Transcript::new();
    transcript.write(
        "topology.yaml",
        &std::fs::read_to_string(root().join("examples/topology.yaml")).unwrap(),
    );
    transcript.write("llm.yaml", &example());
    transcript.write("new.yaml", &example().replace("serve/router:1.0", "serve/router:1.1"));
    transcript.write("bad.yaml", &example().replacen("minAvailable: 1", "minAvailable: 3", 1));
    assert_eq!(transcript.run("lint -f topology.yaml llm.yaml"), 0);
    assert_eq!(transcript.run("lint -f topology.yaml bad.yaml"), 1);
    assert_eq!(transcript.run("lint -f topology.yaml bad.yaml -o yaml"), 1);
    transcript.write(
        "misspelt.yaml",
        &example()
            .replacen("image:", "imge:", 1)
            .replacen("cliqueStartupType:", "startupType:", 1),
    );
    assert_eq!(transcript.run("lint -f topology.yaml misspelt.yaml"), 1);
    assert_eq!(
        transcript.run("plan -f topology.yaml new.yaml --against llm.yaml --no-rehearsal"),
        0
    );
    assert_eq!(transcript.run("plan -f topology.yaml bad.yaml --against llm.yaml"), 1);
    transcript.check("verdicts.txt");
}

#[test]
fn clusters_that_cannot_be_reached_are_named_with_a_next_step() {
    let mut transcript = Transcript::new();
    transcript.write("llm.yaml", &example());
    transcript.write("unreachable", UNREACHABLE);
    transcript.write("syntax", "clusters: [\n");
    transcript.write("empty", "apiVersion: v1\nkind: Config\n");
    let commands = [
        "get",
        "get llm",
        "status llm",
        "events llm",
        "topology",
        "plan -f llm.yaml",
        "explain llm",
    ];
    for command in commands {
        transcript.refused(&format!("{command} --kubeconfig unreachable"));
    }
    // A doctor reports; that there is nobody is a finding.
    assert_eq!(transcript.run("doctor --kubeconfig unreachable"), 1);
    assert_eq!(transcript.run("doctor --kubeconfig unreachable -o json"), 1);
    for kubeconfig in ["missing", "syntax", "empty", "unreachable --context other"] {
        transcript.refused(&format!("get --kubeconfig {kubeconfig}"));
    }
    for command in commands.into_iter().chain(["doctor", "crds install"]) {
        transcript.refused(command);
    }
    transcript.check("unreachable.txt");
}

#[test]
fn wrong_command_lines_are_explained() {
    let mut transcript = Transcript::new();
    for line in [
        "got",
        "get --watch",
        "status",
        "lint",
        "status llm --wait --timeout soon",
        "demo --nodes 3",
        "up --profile big",
    ] {
        transcript.refused(line);
    }
    transcript.check("usage.txt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_does_not_fit_is_explained_from_the_cluster() {
    let transcript = Transcript::new();
    let _up = Up::start(&transcript);
    let (client, _) = client(&transcript.directory.path().join("cluster")).await;
    // Twenty pods that take a node each, and eighteen nodes.
    let set = "
metadata: {name: large}
spec:
  replicas: 1
  template:
    cliques:
    - name: worker
      spec:
        roleName: worker
        replicas: 20
        minAvailable: 20
        podSpec:
          schedulerName: coppice
          containers: [{name: main, image: registry.example/main, resources: {limits: {nvidia.com/gpu: 4}}}]
";
    let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), "default");
    let set = serde_saphyr::from_str(set).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let refused = |gang: Option<&PodGang>| {
        let conditions = gang
            .and_then(|gang| gang.status.as_ref())
            .map(|status| &status.conditions);
        let mut placed = conditions.into_iter().flatten().filter(|found| found.type_ == "Placed");
        placed.any(|found| found.status == "False" && found.reason == "InsufficientResources")
    };
    let gangs: Api<PodGang> = Api::namespaced(client, "default");
    kube::runtime::wait::await_condition(gangs, "large-0-100001", refused)
        .await
        .unwrap();
    let output = transcript.output("explain podgang/large-0-100001 --kubeconfig cluster");
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "default/large-0-100001 is pending",
        "20 of 20 pods",
        "InsufficientResources",
        "18 of 20",
        "add 2 nodes like",
    ] {
        assert!(text.contains(words), "{words:?} is missing in:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_a_cluster() {
    let mut transcript = Transcript::new();
    let _up = Up::start(&transcript);
    let (client, address) = client(&transcript.directory.path().join("cluster")).await;
    transcript.masks.push((address, "https://ADDRESS"));

    // Before there is anything.
    for line in [
        "get llm",
        "status llm",
        "events llm",
        "topology racks",
        "explain pcs/llm",
        "explain deployment/web",
    ] {
        transcript.refused(&format!("{line} --kubeconfig cluster"));
    }
    transcript.run("get --kubeconfig cluster");
    transcript.run("events --kubeconfig cluster -n elsewhere");

    let topologies: Api<ClusterTopologyBinding> = Api::all(client.clone());
    let text = std::fs::read_to_string(root().join("examples/topology.yaml")).unwrap();
    let topology = serde_saphyr::from_str(&text).unwrap();
    topologies.create(&PostParams::default(), &topology).await.unwrap();
    let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), "default");
    sets.create(&PostParams::default(), &serde_saphyr::from_str(&example()).unwrap())
        .await
        .unwrap();
    let waited = transcript.output("status llm --wait --timeout 2m --kubeconfig cluster");
    assert_eq!(
        waited.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&waited.stderr)
    );

    // The minimum of everything: a router, and one copy of prefill and of decode.
    let line = String::from_utf8(waited.stdout).unwrap();
    let ready = line
        .split(", ")
        .find_map(|part| part.trim().strip_suffix("/14 pods ready"));
    assert!(ready.unwrap().parse::<u32>().unwrap() >= 9, "{line}");
    all_ready(Api::namespaced(client.clone(), "default"), 14).await;

    for line in ["status llm", "get", "topology", "doctor"] {
        assert_eq!(transcript.run(&format!("{line} --kubeconfig cluster")), 0, "{line}");
    }
    // A set that no node can hold is not ready, and is waited for in vain.
    let greedy = example().replace("name: llm", "name: greedy");
    let greedy = greedy.replace("nvidia.com/gpu: \"4\"", "nvidia.com/gpu: \"64\"");
    let greedy = serde_saphyr::from_str(&greedy).unwrap();
    sets.create(&PostParams::default(), &greedy).await.unwrap();
    for (line, code) in [("status greedy", 3), ("status greedy --wait --timeout 100ms", 5)] {
        let output = transcript.output(&format!("{line} --kubeconfig cluster"));
        let line = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert!(
            line.starts_with("default/greedy: Progressing, 0/1 replicas available"),
            "{line}"
        );
    }
    sets.delete("greedy", &DeleteParams::default()).await.unwrap();
    let gone = |object: Option<&PodCliqueSet>| object.is_none();
    kube::runtime::wait::await_condition(sets.clone(), "greedy", gone)
        .await
        .unwrap();

    for line in [
        "get nobody",
        "events nobody",
        "topology racks",
        "status llm -n elsewhere",
    ] {
        transcript.refused(&format!("{line} --kubeconfig cluster"));
    }
    // A kind that the cluster does not serve.
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let name = "clustertopologybindings.grove.io";
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    kube::runtime::wait::await_condition(
        definitions.clone(),
        name,
        |object: Option<&CustomResourceDefinition>| object.is_none(),
    )
    .await
    .unwrap();
    transcript.refused("topology --kubeconfig cluster");
    assert_eq!(transcript.run("doctor --kubeconfig cluster"), 1);
    transcript.check("cluster.txt");

    // Every document says which schema it has.
    for (line, kind) in [
        ("get llm", "SetView"),
        ("get", "SetViewList"),
        ("status llm", "SetView"),
        ("events llm", "EventsView"),
        ("doctor", "DoctorView"),
    ] {
        for form in ["json", "yaml"] {
            let output = transcript.output(&format!("{line} --kubeconfig cluster -o {form}"));
            let document: serde_json::Value = serde_saphyr::from_slice(&output.stdout).unwrap();
            assert_eq!(document["apiVersion"], "view.coppice.dev/v1alpha1", "{line}");
            assert_eq!(document["kind"], kind, "{line}");
        }
    }
}

/// The whole story in a pipe. It takes as long as a lost node takes to be given up.
#[test]
fn the_demo_tells_its_story_in_plain_lines_and_ends() {
    let transcript = Transcript::new();
    let output = transcript
        .command("demo --exit")
        .env("TMPDIR", transcript.directory.path())
        .output()
        .unwrap();
    let story = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{story}{errors}");
    let mut rest = story.as_str();
    for part in [
        "1. An embedded Kubernetes",
        "2. A serving system is applied",
        "llm-0-router: 2/2 ready",
        "set default/llm: Ready",
        "3. A node is lost",
        "1 terminating",
        "complete again",
        "13 of 14 pods were never touched",
        "4. A rolling update",
        "8 pods were replaced, 6 of 14 were never restarted",
        "never fewer than 1 of 2 copies of prefill ready",
        "Done in",
    ] {
        let (_, after) = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part:?} does not come after what is before it:\n{story}"));
        rest = after;
    }
    assert!(!story.contains('\x1b'), "escape codes in a pipe");
    let wide: Vec<&str> = story.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(wide.is_empty(), "lines that wrap at 100 columns: {wide:#?}");
    let left = std::fs::read_dir(transcript.directory.path()).unwrap().count();
    assert_eq!(left, 0, "files are left behind");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let transcript = Transcript::new();
    for line in ["crds", "completion bash", "crds -o json"] {
        let mut child = transcript
            .command(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The output is larger than a pipe holds, so the program is still writing.
        let mut output = BufReader::with_capacity(1, child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        drop(output);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{line}");
        assert!(
            matches!(ended.status.code(), Some(0 | 141)),
            "{line}: {:?}",
            ended.status
        );
    }
}

#[test]
fn the_program_is_a_plugin_of_kubectl() {
    let transcript = Transcript::new();
    let plugin = transcript.directory.path().join("kubectl-grove");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_coppice"), &plugin).unwrap();
    let said = |arguments: &[&str]| {
        let output = Command::new(&plugin).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--version"]).starts_with("kubectl grove "));
    assert!(said(&["version"]).contains("grove.io/v1alpha1"));
    assert!(said(&["version", "-o", "json"]).contains("\"kind\": \"VersionView\""));
    assert!(said(&["get", "--help"]).contains("Usage: kubectl grove get"));
    assert!(said(&["got"]).contains("Usage: kubectl grove <COMMAND>"));
    assert!(said(&["completion", "bash"]).contains("kubectl-grove"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_on_definitions_of_an_older_version_says_what_to_install() {
    let transcript = Transcript::new();
    let _up = Up::start(&transcript);
    let (client, _) = client(&transcript.directory.path().join("cluster")).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let name = "podgangmaps.grove.io";
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    let gone = |object: Option<&CustomResourceDefinition>| object.is_none();
    kube::runtime::wait::await_condition(definitions, name, gone)
        .await
        .unwrap();
    let output = transcript.output("operator --kubeconfig cluster");
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(8), "{words}");
    assert!(
        words.contains("no podgangmaps") && words.contains("next: coppice crds install"),
        "{words}"
    );
}
