//! The launcher and the runner's reports, on a real control plane: what a failing start, a panicking test and a failing
//! scenario look like. Needs `KUBEBUILDER_ASSETS`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use coppice_harness::control_plane::{Assets, ControlPlane, Options};
use coppice_harness::scenario::environment::{AnyCluster, Environment, RealEnvironment};
use coppice_harness::scenario::parse;
use coppice_harness::scenario::run::{Failure, run};

/// The processes whose command line names the directory.
fn processes(directory: &Path) -> Vec<String> {
    let name = directory.display().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|command| command.contains(&name))
        .collect()
}

#[tokio::test]
async fn a_start_that_fails_shows_the_end_of_the_programs_log() {
    let options = Options {
        api_server_flags: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let message = ControlPlane::start(&options).await.err().unwrap().to_string();
    assert!(
        message.starts_with("kube-apiserver ended before it was ready"),
        "{message}"
    );
    assert!(message.contains("unknown flag: --no-such-flag"), "{message}");
}

#[tokio::test]
async fn a_panic_ends_every_program_and_removes_the_data() {
    let options = Options {
        controller_manager: true,
        scheduler: true,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(&options)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let directory = control_plane.data_directory().to_owned();
    assert!(processes(&directory).len() >= 4, "{:?}", processes(&directory));
    let panicked = std::thread::spawn(move || {
        let _control_plane = control_plane;
        std::panic::resume_unwind(Box::new("as a failed assertion would"));
    });
    panicked.join().unwrap_err();
    assert_eq!(processes(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

async fn fail(environment: &dyn Environment, text: &str) -> Failure {
    let text = format!("name: failing\ndescription: Fails on purpose.\n{text}");
    let scenario = parse::parse(&text, Path::new("failing.yaml")).unwrap_or_else(|error| panic!("{error}"));
    *run(&scenario, environment, &|_| {}).await.unwrap_err()
}

#[tokio::test]
async fn failures_say_what_was_expected_what_is_there_and_what_happened() {
    let audit = tempfile::tempdir().unwrap();
    let policy = audit.path().join("policy.yaml");
    std::fs::write(
        &policy,
        r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}"#,
    )
    .unwrap();
    let log = audit.path().join("audit.log");
    let api_server_flags = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let options = Options {
        api_server_flags,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(&options)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let environment = RealEnvironment::new(&control_plane, None, None, false);

    // An expectation that does not come true.
    let failure = fail(
        &environment,
        "steps:
  - name: one map
    create: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {app: web}}, data: {colour: green}}]
    within: 2s
    expect:
      - {kind: ConfigMap, selector: app=web, fields: {data.colour: brown}}
",
    )
    .await;
    let text = failure.to_string();
    assert_eq!(failure.line, 4);
    assert!(
        text.starts_with("failing.yaml:4: step failed: one map\nnot within 2s:\nexpected (line 8): "),
        "{text}"
    );
    assert!(
        text.contains("ConfigMap settings: data.colour\n    - expected \"brown\"\n    + actual   \"green\""),
        "{text}"
    );
    assert!(text.contains("added     ConfigMap settings"), "{text}");

    // Something that must never happen.
    let failure = fail(
        &environment,
        "never:
  - {name: a map goes, deleted: {kind: ConfigMap, name: settings}}
steps:
  - create: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}]
  - delete: {kind: ConfigMap, name: settings}
",
    )
    .await;
    let text = failure.to_string();
    assert_eq!(failure.line, 7, "{text}");
    assert!(
        text.contains("never (line 4): a map goes\n  but ConfigMap settings was deleted"),
        "{text}"
    );

    // A refusal that is not the expected one, and one that does not come.
    let failure = fail(
        &environment,
        "steps:
  - create: [{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_A_Name}}]
    fails: {code: 409}
",
    )
    .await;
    assert!(
        failure.problem.contains("- expected 409\n    + actual   422"),
        "{failure}"
    );
    let failure = fail(
        &environment,
        "steps:
  - create: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}]
    fails: {code: 422}
",
    )
    .await;
    assert!(
        failure.problem.contains("accepted what it should have refused"),
        "{failure}"
    );

    // An object that is not there, a kind that nobody knows, a need that is not met.
    let failure = fail(
        &environment,
        "steps:\n  - {scale: {kind: Deployment, name: web, replicas: 1}, within: 1s}\n",
    )
    .await;
    assert!(
        failure
            .problem
            .contains("there are 0 Deployment web, at least 1 needed"),
        "{failure}"
    );
    let failure = fail(
        &environment,
        "steps:\n  - {delete: {kind: Gadget, name: web}, within: 1s}\n",
    )
    .await;
    assert!(failure.problem.contains("does not know the kind Gadget"), "{failure}");
    let failure = fail(&environment, "cluster: {operator: true}\nsteps:\n  - wait:\n").await;
    assert!(failure.problem.contains("does not offer the operator"), "{failure}");

    // The same through a kubeconfig alone, where nothing can be restarted.
    let cluster = AnyCluster::connect(Some(control_plane.kubeconfig())).await.unwrap();
    let failure = fail(&cluster, "steps:\n  - killApiServer:\n").await;
    assert!(
        failure
            .problem
            .contains("does not offer killing and restarting the API server"),
        "{failure}"
    );

    let written = std::fs::read_to_string(&log).unwrap();
    assert!(
        written.contains("\"resource\":\"configmaps\""),
        "flags for the API server are passed on"
    );
}

/// A stand-in for an operator: each life of it leaves one object behind and then does nothing.
const OPERATOR: &str = r#""$0" create --namespace default --filename - <<END
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "life-", "labels": {"app": "operator"}}}
END
exec sleep 600"#;

#[tokio::test]
async fn the_operator_can_be_restarted_by_a_scenario() {
    let assets = Assets::from_environment().unwrap_or_else(|error| panic!("{error}"));
    let kubectl = assets
        .program("kubectl")
        .unwrap_or_else(|error| panic!("{error}"))
        .display()
        .to_string();
    let control_plane = ControlPlane::start(&Options::default())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let arguments = ["-c".to_owned(), OPERATOR.to_owned(), kubectl];
    let operator = control_plane
        .start_companion("operator", Path::new("/bin/sh"), &arguments)
        .unwrap();
    let environment = RealEnvironment::new(&control_plane, Some(&operator), None, false);
    let text = "name: restart
description: The operator lives twice.
cluster: {operator: true}
steps:
  - name: first life
    expect: [{kind: ConfigMap, namespace: default, selector: app=operator, count: 1}]
  - restartOperator:
    expect: [{kind: ConfigMap, namespace: default, selector: app=operator, count: 2}]
";
    let scenario = parse::parse(text, Path::new("restart.yaml")).unwrap_or_else(|error| panic!("{error}"));
    let result = run(&scenario, &environment, &|_| {}).await;
    result.unwrap_or_else(|failure| panic!("{failure}\n{}", operator.log_tail()));
}

#[tokio::test]
async fn the_program_runs_scenarios_on_any_kubeconfig() {
    let options = Options {
        controller_manager: true,
        scheduler: true,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(&options)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let failing = control_plane.data_directory().join("failing.yaml");
    let text = "name: failing\ndescription: Fails.\nsteps:\n  - {name: hopeless, expect: [{kind: Pod}], within: 1s}\n";
    std::fs::write(&failing, text).unwrap();
    let passing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/pod-behaviour.yaml");
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_scenario"))
        .arg("--kubeconfig")
        .arg(control_plane.kubeconfig())
        .args([&passing, &failing])
        .output()
        .await
        .unwrap();
    let (shown, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(1), "{shown}{errors}");
    assert!(shown.contains("\n  the first becomes ready ("), "{shown}{errors}");
    assert!(
        shown.contains("\n  FAILED hopeless\n") && shown.ends_with("1 of 2 scenarios passed\n"),
        "{shown}"
    );
    assert!(errors.contains("failing.yaml:4: step failed: hopeless"), "{errors}");
}
