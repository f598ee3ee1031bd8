//! `coppice initc` as a program, against the embedded API server over a socket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use coppice_apiserver::{ApiServer, Serving, Tls};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use support::{Place, make_ready};
use tokio::net::TcpListener;

struct Server {
    server: ApiServer,
    serving: Serving,
    pods: Api<Pod>,
}

impl Server {
    async fn start() -> Self {
        let server = ApiServer::builder().build();
        let pods = Api::namespaced(Client::new(server.service(), "default"), "default");
        let serving = Self::listen(&server, "127.0.0.1:0").await;
        Self { server, serving, pods }
    }

    async fn listen(server: &ApiServer, address: &str) -> Serving {
        let listener = TcpListener::bind(address).await.unwrap();
        server.serve(listener, Tls::Off).unwrap()
    }

    async fn pod(&self, name: &str, clique: &str, gang: &str) {
        let pod = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {"grove.io/podclique": clique, "grove.io/podgang": gang},
                "finalizers": ["test.coppice.dev/stays"],
            },
            "spec": {"containers": [{"name": "main", "image": "registry.example/main"}]},
        }));
        self.pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap();
    }
}

fn arguments(list: &[&str]) -> Vec<String> {
    list.iter().map(|argument| (*argument).to_owned()).collect()
}

#[tokio::test]
async fn it_waits_for_ready_pods_of_the_exact_clique_and_gang_and_survives_a_restart_of_the_server() {
    let mut server = Server::start().await;
    let place = Place::new("default", "llm-0", &server.serving.kubeconfig());
    for (name, clique, gang) in [
        ("llm-0-work-0", "llm-0-work", "llm-0"),
        ("llm-0-work-1", "llm-0-work", "llm-0"),
        // The old ones that must not count: another clique whose name begins alike, another gang, a pod that is going.
        ("llm-0-worker-0", "llm-0-worker", "llm-0"),
        ("llm-1-work-0", "llm-0-work", "llm-1"),
        ("llm-0-work-old", "llm-0-work", "llm-0"),
    ] {
        server.pod(name, clique, gang).await;
    }
    for name in ["llm-0-worker-0", "llm-1-work-0", "llm-0-work-old"] {
        make_ready(&server.pods, name).await;
    }
    let going = DeleteParams::default();
    server.pods.delete("llm-0-work-old", &going).await.unwrap();

    let mut waiting = place.start(&arguments(&["--podcliques=llm-0-work:2"]));
    waiting
        .says("waiting in namespace default, gang llm-0, for: llm-0-work (2 ready)")
        .await;
    waiting.says("waiting: llm-0-work 0/2 ready").await;
    make_ready(&server.pods, "llm-0-work-0").await;
    waiting.says("waiting: llm-0-work 1/2 ready").await;

    let address = server.serving.address().to_string();
    server.serving.stop().await;
    make_ready(&server.pods, "llm-0-work-1").await;
    waiting.says("list or watch interrupted").await;
    server.serving = Server::listen(&server.server, &address).await;
    let before = waiting.says("everything is ready").await;
    assert!(
        before.iter().all(|line| !line.contains("waiting:")),
        "nothing changed in between: {before:?}"
    );
    assert_eq!(waiting.ends().await.0, Some(0));
}

#[tokio::test]
async fn it_ends_at_once_when_told_to_and_not_as_if_all_were_ready() {
    let server = Server::start().await;
    let place = Place::new("default", "llm-0", &server.serving.kubeconfig());
    let mut waiting = place.start(&arguments(&["--podcliques=llm-0-a:1,llm-0-b:1"]));
    waiting.says("waiting: llm-0-a 0/1 ready, llm-0-b 0/1 ready").await;
    waiting.terminate().await;
    let (code, lines) = waiting.ends().await;
    assert_eq!(code, Some(143), "{lines:?}");
}

#[tokio::test]
async fn mistakes_end_it_with_a_message() {
    let server = Server::start().await;
    let place = Place::new("default", "", &server.serving.kubeconfig());
    for (given, message) in [
        ("--podcliques=llm-0-a", "expected <clique>:<minimum>"),
        ("--podcliques=llm-0-a:0", "is not a positive number"),
        (
            "--podcliques=llm-0-a:1",
            "podgangname is empty; the pod lacks the label grove.io/podgang",
        ),
    ] {
        let (code, lines) = place.start(&arguments(&[given])).ends().await;
        assert_eq!(code, Some(1), "{given}: {lines:?}");
        assert!(lines.join("\n").contains(message), "{given}: {lines:?}");
    }
    let nobody = place.start(&arguments(&["--podcliques="])).ends().await;
    assert_eq!(nobody.0, Some(0), "nobody to wait for: {:?}", nobody.1);
}
