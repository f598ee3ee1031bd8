//! A real kubectl against the server over HTTPS. The program is the one named by KUBECTL, or the one in
//! KUBEBUILDER_ASSETS; without either the tests fail, they do not skip.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;

use coppice_apiserver::{ApiServer, Certificates, Serving, Tls};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;

const WORKLOAD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec: {containers: [{name: c, image: "nginx:1", resources: {limits: {cpu: 500m, memory: 1Gi}}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: "nginx:1"}]}}
"#;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.replicas}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: "self.replicas <= 5", message: too many}]
            properties: {replicas: {type: integer, description: How many there are.}}
          status: {type: object, properties: {replicas: {type: integer}}}
"#;

struct Bench {
    server: ApiServer,
    _serving: Serving,
    directory: TempDir,
    program: PathBuf,
}

fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("KUBECTL") {
        return named.into();
    }
    match std::env::var_os("KUBEBUILDER_ASSETS") {
        Some(directory) => PathBuf::from(directory).join("kubectl"),
        None => panic!("set KUBECTL to a kubectl, or KUBEBUILDER_ASSETS to a directory that has one"),
    }
}

impl Bench {
    async fn new() -> Self {
        let server = ApiServer::builder().seed(1).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let certificates = Certificates::generate(&[]).expect("certificates");
        let serving = server
            .serve(listener, Tls::On(Arc::new(certificates)))
            .expect("the server starts");
        let directory = TempDir::new().expect("a directory");
        std::fs::write(directory.path().join("kubeconfig"), serving.kubeconfig()).expect("a kubeconfig");
        Self {
            server,
            _serving: serving,
            directory,
            program: program(),
        }
    }

    fn client(&self) -> Client {
        Client::new(self.server.service(), "default")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("KUBECONFIG", self.directory.path().join("kubeconfig"))
            .env("HOME", self.directory.path())
            .env("KUBECTL_EXTERNAL_DIFF", "diff -u")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self.command(arguments).spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).await.expect("kubectl reads");
        drop(stdin);
        child.wait_with_output().await.expect("kubectl ends")
    }

    /// Runs kubectl, which must succeed; the output.
    async fn ok(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "kubectl {arguments:?}: {stdout}{stderr}");
        stdout
    }

    /// Runs kubectl, which must fail; what it complained about.
    async fn fails(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(
            !output.status.success(),
            "kubectl {arguments:?} succeeded: {stdout}{stderr}"
        );
        format!("{stdout}{stderr}")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn has(output: &str, parts: &[&str]) {
    for part in parts {
        assert!(output.contains(part), "{part:?} is not in:\n{output}");
    }
}

#[tokio::test]
async fn discovery_and_explanations() {
    let bench = Bench::new().await;
    has(&bench.ok(&["version"], "").await, &["Server Version: v1."]);
    has(
        &bench.ok(&["api-resources"], "").await,
        &["pods", "deployments", "leases", "coordination.k8s.io/v1"],
    );
    has(&bench.ok(&["api-versions"], "").await, &["apps/v1", "v1"]);
    has(
        &bench.ok(&["explain", "pod.spec.containers.image"], "").await,
        &["KIND:       Pod", "FIELD: image <string>"],
    );
    has(&bench.ok(&["get", "--raw", "/readyz"], "").await, &["ok"]);
    has(
        &bench.fails(&["get", "nothings"], "").await,
        &["the server doesn't have a resource type \"nothings\""],
    );
}

#[tokio::test]
async fn objects_are_applied_shown_and_changed() {
    let bench = Bench::new().await;
    has(
        &bench.ok(&["apply", "-f", "-"], WORKLOAD).await,
        &["pod/p created", "deployment.apps/d created"],
    );
    has(
        &bench.ok(&["apply", "-f", "-"], WORKLOAD).await,
        &["pod/p unchanged", "deployment.apps/d unchanged"],
    );
    assert_eq!(bench.ok(&["diff", "-f", "-"], WORKLOAD).await, "");
    let changed = WORKLOAD.replace("replicas: 2", "replicas: 3");
    has(
        &bench.fails(&["diff", "-f", "-"], &changed).await,
        &["-  replicas: 2", "+  replicas: 3"],
    );
    has(
        &bench.ok(&["apply", "-f", "-"], &changed).await,
        &["deployment.apps/d configured"],
    );
    has(
        &bench.ok(&["apply", "--server-side", "-f", "-"], &changed).await,
        &["deployment.apps/d serverside-applied"],
    );

    let table = bench.ok(&["get", "pods,deployments", "-o", "wide"], "").await;
    has(
        &table,
        &[
            "NAME    READY   STATUS    RESTARTS",
            "pod/p   0/1     Pending",
            "deployment.apps/d   0/3",
        ],
    );
    has(
        &bench.ok(&["get", "pod", "p", "-o", "yaml"], "").await,
        &["terminationGracePeriodSeconds: 30", "cpu: 500m"],
    );
    has(
        &bench.ok(&["get", "pods", "-o", "json"], "").await,
        &["\"kind\": \"List\""],
    );
    let columns = "custom-columns=N:.metadata.name,I:.spec.containers[0].image";
    has(&bench.ok(&["get", "pods", "-o", columns], "").await, &["nginx:1"]);
    has(
        &bench.ok(&["get", "pods", "-l", "app in (x)", "-o", "name"], "").await,
        &["pod/p"],
    );
    has(
        &bench.ok(&["get", "all", "-A"], "").await,
        &["pod/p", "deployment.apps/d"],
    );
    has(
        &bench.ok(&["describe", "pod", "p"], "").await,
        &["Name:", "QoS Class:", "Guaranteed"],
    );
    has(&bench.ok(&["describe", "deployment", "d"], "").await, &["3 desired"]);

    bench.ok(&["label", "pod", "p", "a=b"], "").await;
    bench.ok(&["annotate", "pod", "p", "c=d"], "").await;
    has(&bench.ok(&["get", "pod", "p", "--show-labels"], "").await, &["a=b"]);
    has(
        &bench.ok(&["scale", "deployment", "d", "--replicas=5"], "").await,
        &["scaled"],
    );
    has(
        &bench
            .ok(&["patch", "deployment", "d", "-p", r#"{"spec":{"paused":true}}"#], "")
            .await,
        &["patched"],
    );
    has(
        &bench.ok(&["set", "image", "deployment/d", "c=nginx:2"], "").await,
        &["image updated"],
    );
    has(
        &bench
            .ok(
                &[
                    "get",
                    "deployment",
                    "d",
                    "-o",
                    "jsonpath={.spec.replicas} {.metadata.generation}",
                ],
                "",
            )
            .await,
        &["5 5"],
    );
    let typo = WORKLOAD.replace("replicas: 2", "replicaz: 2");
    has(
        &bench.fails(&["apply", "-f", "-"], &typo).await,
        &["unknown field \"spec.replicaz\""],
    );
    has(
        &bench.fails(&["create", "-f", "-"], WORKLOAD).await,
        &["AlreadyExists", "pods \"p\" already exists"],
    );
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: b}}";
    let dry = bench
        .ok(&["create", "-f", "-", "--dry-run=server", "-o", "yaml"], map)
        .await;
    has(&dry, &["a: b", "uid:"]);
    has(
        &bench.fails(&["get", "configmap", "m"], "").await,
        &["Error from server (NotFound): configmaps \"m\" not found"],
    );
    has(
        &bench.ok(&["delete", "-f", "-"], WORKLOAD).await,
        &["pod \"p\" deleted", "deployment.apps \"d\" deleted"],
    );
}

#[tokio::test]
async fn custom_resources() {
    let bench = Bench::new().await;
    bench.ok(&["apply", "-f", "-"], DEFINITION).await;
    bench
        .ok(
            &[
                "wait",
                "--for=condition=Established",
                "crd/widgets.example.com",
                "--timeout=30s",
            ],
            "",
        )
        .await;
    let widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {replicas: 3}}";
    has(
        &bench.ok(&["apply", "-f", "-"], widget).await,
        &["widget.example.com/w created"],
    );
    has(&bench.ok(&["get", "wd"], "").await, &["NAME   SIZE", "w      3"]);
    has(
        &bench.ok(&["explain", "widget.spec"], "").await,
        &["How many there are."],
    );
    has(
        &bench.fails(&["scale", "wd", "w", "--replicas=9"], "").await,
        &["too many"],
    );
    has(&bench.ok(&["scale", "wd", "w", "--replicas=4"], "").await, &["scaled"]);
    has(
        &bench
            .ok(&["apply", "--server-side", "--force-conflicts", "-f", "-"], widget)
            .await,
        &["serverside-applied"],
    );
    bench.ok(&["delete", "crd", "widgets.example.com"], "").await;
    bench.fails(&["get", "wd"], "").await;
}

#[tokio::test]
async fn finalizers_hold_a_deletion() {
    let bench = Bench::new().await;
    let held = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, finalizers: [example.com/hold]}}";
    bench.ok(&["apply", "-f", "-"], held).await;
    bench.ok(&["delete", "configmap", "m", "--wait=false"], "").await;
    has(
        &bench.ok(&["get", "configmap", "m", "-o", "yaml"], "").await,
        &["deletionTimestamp"],
    );
    bench
        .ok(
            &[
                "patch",
                "configmap",
                "m",
                "--type=json",
                "-p",
                r#"[{"op":"remove","path":"/metadata/finalizers"}]"#,
            ],
            "",
        )
        .await;
    bench.fails(&["get", "configmap", "m"], "").await;
}

#[tokio::test]
async fn nodes_are_cordoned_and_drained() {
    let bench = Bench::new().await;
    let nodes: Api<Node> = Api::all(bench.client());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("a node");
    nodes.create(&PostParams::default(), &node).await.unwrap();
    bench.ok(&["apply", "-f", "-"], WORKLOAD).await;
    let pods: Api<Pod> = Api::default_namespaced(bench.client());
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let _: serde_json::Value = pods
        .create_subresource("binding", "p", &PostParams::default(), &binding)
        .await
        .unwrap();
    let running = json!({"status": {"phase": "Succeeded"}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(&running))
        .await
        .unwrap();
    has(&bench.ok(&["cordon", "n"], "").await, &["node/n cordoned"]);
    has(&bench.ok(&["get", "nodes"], "").await, &["SchedulingDisabled"]);
    has(
        &bench.ok(&["drain", "n", "--force", "--timeout=60s"], "").await,
        &["node/n drained"],
    );
    assert!(pods.get_opt("p").await.unwrap().is_none());
    has(&bench.ok(&["uncordon", "n"], "").await, &["node/n uncordoned"]);
    has(
        &bench.ok(&["describe", "node", "n"], "").await,
        &["Unschedulable:      false"],
    );
}

#[tokio::test]
async fn a_watch_shows_what_happens() {
    let bench = Bench::new().await;
    let mut watch = bench
        .command(&["get", "namespaces", "-w"])
        .spawn()
        .expect("kubectl starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.starts_with("kube-system") {
            break;
        }
    }
    let namespaces: Api<Namespace> = Api::all(bench.client());
    let new: Namespace = serde_json::from_value(json!({"metadata": {"name": "new"}})).expect("a namespace");
    namespaces.create(&PostParams::default(), &new).await.unwrap();
    let line = lines.next_line().await.unwrap().expect("the watch goes on");
    has(&line, &["new", "Active"]);
    watch.kill().await.expect("kubectl can be ended");
    has(
        &bench.fails(&["delete", "namespace", "default"], "").await,
        &["this namespace may not be deleted"],
    );
}

/// These commands make their objects themselves and send them in protobuf.
#[tokio::test]
async fn objects_that_kubectl_makes() {
    let bench = Bench::new().await;
    for (arguments, said) in [
        (&["create", "namespace", "n"][..], "namespace/n created"),
        (
            &["create", "configmap", "m", "--from-literal=a=b"],
            "configmap/m created",
        ),
        (
            &["create", "secret", "generic", "s", "--from-literal=a=b"],
            "secret/s created",
        ),
        (
            &[
                "create",
                "deployment",
                "d",
                "--image=nginx:1",
                "--replicas=2",
                "--port=80",
            ],
            "deployment.apps/d created",
        ),
        (
            &["expose", "deployment", "d", "--port=80", "--target-port=http"],
            "service/d exposed",
        ),
        (
            &["create", "service", "clusterip", "c", "--tcp=80:8080"],
            "service/c created",
        ),
        (
            &["create", "role", "r", "--verb=get,list", "--resource=pods"],
            "role.rbac.authorization.k8s.io/r created",
        ),
        (
            &[
                "create",
                "rolebinding",
                "b",
                "--role=r",
                "--serviceaccount=default:robot",
            ],
            "rolebinding.rbac.authorization.k8s.io/b created",
        ),
        (&["create", "serviceaccount", "robot"], "serviceaccount/robot created"),
        (&["create", "job", "j", "--image=busybox:1"], "job.batch/j created"),
        (
            &[
                "create",
                "poddisruptionbudget",
                "p",
                "--selector=app=d",
                "--min-available=50%",
            ],
            "poddisruptionbudget.policy/p created",
        ),
        (
            &["create", "priorityclass", "high", "--value=1000"],
            "priorityclass.scheduling.k8s.io/high created",
        ),
        (
            &["create", "quota", "q", "--hard=cpu=1,pods=2"],
            "resourcequota/q created",
        ),
        (
            &["run", "one", "--image=nginx:1", "--labels=app=one"],
            "pod/one created",
        ),
        (
            &["autoscale", "deployment", "d", "--max=5", "--cpu=60%"],
            "horizontalpodautoscaler.autoscaling/d autoscaled",
        ),
        (&["get", "horizontalpodautoscalers.v1.autoscaling", "d"], "60%"),
        (&["get", "service", "kubernetes"], "443/TCP"),
        (&["auth", "can-i", "create", "pods"], "yes"),
        (&["auth", "whoami"], "kubernetes-admin"),
        (&["delete", "configmap", "m"], "configmap \"m\" deleted"),
        (
            &["delete", "pod", "one", "--force", "--grace-period=0"],
            "pod \"one\" force deleted",
        ),
    ] {
        has(&bench.ok(arguments, "").await, &[said]);
    }
    let secret = bench
        .ok(&["get", "secret", "s", "-o", "jsonpath={.data.a} {.type}"], "")
        .await;
    assert_eq!(secret, "Yg== Opaque");
    let budget = bench
        .ok(&["get", "pdb", "p", "-o", "jsonpath={.spec.minAvailable}"], "")
        .await;
    assert_eq!(budget, "50%");
    let port = ["get", "service", "d", "-o", "jsonpath={.spec.ports[0].targetPort}"];
    assert_eq!(bench.ok(&port, "").await, "http");
    let replicas = ["get", "deployment", "d", "-o", "jsonpath={.spec.replicas}"];
    assert_eq!(bench.ok(&replicas, "").await, "2");
    let old = [
        "get",
        "horizontalpodautoscalers.v1.autoscaling",
        "d",
        "-o",
        "jsonpath={.apiVersion} {.spec}",
    ];
    has(
        &bench.ok(&old, "").await,
        &["autoscaling/v1 ", "\"targetCPUUtilizationPercentage\":60"],
    );
    assert!(!bench.ok(&["create", "token", "robot"], "").await.trim().is_empty());
    has(
        &bench.fails(&["create", "namespace", "n"], "").await,
        &["namespaces \"n\" already exists"],
    );
    has(
        &bench.fails(&["create", "namespace", "Not_A_Name"], "").await,
        &["Invalid value: \"Not_A_Name\""],
    );
}
