//! The installer against a scripted API server: what it sends, and what it makes of the answers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coppice_crds::{Change, InstallError, InstallOptions, Legacy, Progress, Refusal, install_definitions, legacy};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

const NAME: &str = "things.example.com";

/// Answers in order; a request that nobody expected gets none and stays open, like a watch on which nothing happens.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(u16, Value)>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = (u16, Value)>) -> Self {
        let script = Self::default();
        script.answers.lock().expect("not poisoned").extend(answers);
        script
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let (method, uri) = (request.method().clone(), request.uri().clone());
                let verb = if uri.query().unwrap_or_default().contains("watch=true") {
                    "WATCH"
                } else {
                    method.as_str()
                };
                script.requests.lock().expect("not poisoned").push(verb.to_owned());
                let answer = script.answers.lock().expect("not poisoned").pop_front();
                let Some((code, body)) = answer else {
                    return std::future::pending().await;
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(
                    Response::builder()
                        .status(code)
                        .body(body)
                        .expect("a response can be built"),
                )
            }
        });
        Client::new(service, "default")
    }

    fn requests(&self) -> String {
        self.requests.lock().expect("not poisoned").join(" ")
    }
}

fn definition(status: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": NAME, "uid": "u", "generation": 1, "resourceVersion": "5" },
        "spec": { "versions": [{ "name": "v1" }] },
        "status": status,
    })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({ "conditions": [{ "type": kind, "status": status, "message": "taken by stuff.example.com" }] })
}

fn listed(status: &Value) -> (u16, Value) {
    let list = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinitionList",
        "metadata": { "resourceVersion": "9" },
        "items": [definition(status)],
    });
    (200, list)
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason }),
    )
}

async fn run(script: &Script) -> (Result<Vec<(String, Change)>, InstallError>, Vec<Progress>) {
    let mut told = Vec::new();
    let options = InstallOptions {
        timeout: Duration::from_secs(30),
        ..InstallOptions::default()
    };
    let definitions = [definition(&json!({}))];
    let result = install_definitions(script.client(), &definitions, &options, |step| told.push(step)).await;
    (result, told)
}

#[tokio::test(start_paused = true)]
async fn a_new_definition_is_created_and_waited_for() {
    let script = Script::new([
        failure(404, "NotFound"),
        failure(404, "NotFound"),
        (201, definition(&json!({}))),
        listed(&condition("Established", "True")),
    ]);
    let (result, told) = run(&script).await;
    assert_eq!(result.expect("installed"), [(NAME.to_owned(), Change::Created)]);
    let name = NAME.to_owned();
    assert_eq!(
        told,
        [
            Progress::Applied {
                name: name.clone(),
                change: Change::Created
            },
            Progress::Established { name }
        ]
    );
    assert_eq!(script.requests(), "GET GET PATCH GET");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_another_installer_is_followed_by_another_look() {
    let script = Script::new([
        failure(404, "NotFound"),
        failure(404, "NotFound"),
        failure(409, "AlreadyExists"),
        (200, definition(&json!({}))),
        (200, definition(&json!({}))),
        listed(&condition("Established", "True")),
    ]);
    let (result, _) = run(&script).await;
    assert_eq!(result.expect("installed"), [(NAME.to_owned(), Change::Unchanged)]);
    assert_eq!(script.requests(), "GET GET PATCH GET PATCH GET");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_comes_before_the_first_write() {
    let script = Script::new([(200, definition(&json!({ "storedVersions": ["v1", "v2"] })))]);
    let (result, told) = run(&script).await;
    assert!(
        matches!(result, Err(InstallError::Refused(Refusal::StoredVersions { .. }))),
        "{result:?}"
    );
    assert_eq!((script.requests().as_str(), told.len()), ("GET", 0));
}

#[tokio::test(start_paused = true)]
async fn names_that_are_taken_end_the_wait_with_the_reason() {
    let script = Script::new([
        (200, definition(&json!({}))),
        (200, definition(&json!({}))),
        (200, definition(&json!({}))),
        listed(&condition("NamesAccepted", "False")),
    ]);
    let error = run(&script).await.0.expect_err("the names are taken").to_string();
    assert!(
        error.contains(NAME) && error.contains("taken by stuff.example.com"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_never_serves_the_kind_is_named_with_the_limit() {
    let script = Script::new([
        (200, definition(&json!({}))),
        (200, definition(&json!({}))),
        (200, definition(&json!({}))),
        listed(&condition("Established", "False")),
    ]);
    let error = run(&script).await.0.expect_err("never established").to_string();
    assert!(error.contains("not Established after 30s"), "{error}");
    assert!(
        script.requests().starts_with("GET GET PATCH GET WATCH"),
        "{}",
        script.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_said_with_the_name() {
    let script = Script::new([
        failure(404, "NotFound"),
        failure(404, "NotFound"),
        (
            403,
            json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "no" }),
        ),
    ]);
    let error = run(&script).await.0.expect_err("forbidden").to_string();
    assert!(
        error.starts_with(&format!("cannot apply the CustomResourceDefinition {NAME}")),
        "{error}"
    );
}

fn legacy_definition() -> Value {
    let mut legacy = definition(&condition("Established", "True"));
    legacy["metadata"]["name"] = json!("clustertopologies.grove.io");
    legacy
}

fn topologies(names: &[&str]) -> (u16, Value) {
    let items: Vec<Value> = names
        .iter()
        .map(|name| json!({ "apiVersion": "grove.io/v1", "kind": "ClusterTopology", "metadata": { "name": name } }))
        .collect();
    let list = json!({ "apiVersion": "grove.io/v1", "kind": "ClusterTopologyList", "metadata": {}, "items": items });
    (200, list)
}

#[tokio::test(start_paused = true)]
async fn the_legacy_definition_goes_when_nothing_uses_it() {
    let script = Script::new([
        (200, legacy_definition()),
        topologies(&[]),
        (
            200,
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }),
        ),
    ]);
    assert_eq!(legacy::remove(&script.client()).await, Legacy::Deleted);
    assert_eq!(script.requests(), "GET GET DELETE");
}

#[tokio::test(start_paused = true)]
async fn the_legacy_definition_stays_with_its_objects_and_when_nobody_can_tell() {
    let used = Script::new([(200, legacy_definition()), topologies(&["racks"])]);
    let outcome = legacy::remove(&used.client()).await;
    assert!(
        matches!(&outcome, Legacy::Kept(reason) if reason.contains("\"racks\"")),
        "{outcome:?}"
    );
    let unknown = Script::new([(200, legacy_definition()), failure(403, "Forbidden")]);
    assert!(matches!(legacy::remove(&unknown.client()).await, Legacy::Kept(_)));
    let absent = Script::new([failure(404, "NotFound")]);
    assert_eq!(legacy::remove(&absent.client()).await, Legacy::Absent);
    for script in [used, unknown, absent] {
        assert!(!script.requests().contains("DELETE"));
    }
}
