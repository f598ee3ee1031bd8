//! The server over sockets: TLS, a kubeconfig, a client that knows nothing else.

use std::sync::Arc;

use coppice_apiserver::{ApiServer, Certificates, Tls};
use futures::StreamExt;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::net::TcpListener;

async fn client_of(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("the kubeconfig is usable");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("the kubeconfig is usable");
    Client::try_from(config).expect("the kubeconfig is usable")
}

#[tokio::test]
async fn a_kubeconfig_is_all_a_client_needs() {
    let server = ApiServer::builder().seed(1).build();
    for tls in [Tls::On(Arc::new(Certificates::generate(&[]).unwrap())), Tls::Off] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = server.serve(listener, tls).unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&serving.kubeconfig()).await);
        let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "a-"}})).unwrap();
        let created = maps.create(&PostParams::default(), &map).await.unwrap();
        loop {
            match events.next().await.unwrap().unwrap() {
                WatchEvent::Added(object) if object.name_any() == created.name_any() => break,
                WatchEvent::Added(_) => {}
                other => panic!("{other:?}"),
            }
        }
        drop(events);
        serving.stop().await;
    }
}

/// The status of a request with the credentials that `user` of a kubeconfig would have.
async fn answer_to(kubeconfig: &str, user: serde_json::Value, path: &str) -> (u16, serde_json::Value) {
    let mut config: serde_json::Value = as_tree(kubeconfig);
    config["users"][0]["user"] = user;
    let client = client_of(&config.to_string()).await;
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.expect("a body");
    let text = String::from_utf8_lossy(&body).into_owned();
    (status, serde_json::from_str(&text).unwrap_or(json!(text)))
}

fn as_tree(kubeconfig: &str) -> serde_json::Value {
    serde_json::to_value(Kubeconfig::from_yaml(kubeconfig).expect("the kubeconfig is usable")).expect("a tree")
}

#[tokio::test]
async fn credentials_are_checked_over_tls() {
    let server = ApiServer::builder().seed(1).build();
    let serve = async |certificates| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        server.serve(listener, Tls::On(Arc::new(certificates))).unwrap()
    };
    let serving = serve(Certificates::generate(&[]).unwrap()).await;
    let kubeconfig = serving.kubeconfig();
    let ask = async |user, path| answer_to(&kubeconfig, user, path).await;
    let namespaces = "/api/v1/namespaces";

    let unauthorized = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    assert_eq!(ask(json!({}), namespaces).await, (401, unauthorized.clone()));
    assert_eq!(
        ask(json!({"token": "made-up"}), namespaces).await,
        (401, unauthorized.clone())
    );
    assert_eq!(ask(json!({}), "/apis").await, (401, unauthorized.clone()));
    for open in ["/readyz", "/livez", "/healthz", "/version"] {
        assert_eq!(ask(json!({}), open).await.0, 200, "{open}");
    }

    // A certificate of another authority is as good as none; the connection itself stands.
    let stranger = serve(Certificates::generate(&[]).unwrap()).await;
    let foreign = as_tree(&stranger.kubeconfig())["users"][0]["user"].clone();
    assert_eq!(ask(foreign, namespaces).await, (401, unauthorized));

    let own = as_tree(&kubeconfig)["users"][0]["user"].clone();
    assert_eq!(ask(own.clone(), namespaces).await.0, 200);
    let client = client_of(&kubeconfig).await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client);
    let robot = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&PostParams::default(), &robot).await.unwrap();
    let request = TokenRequest::default();
    let given = accounts
        .create_token_request("robot", &PostParams::default(), &request)
        .await;
    let token = given.unwrap().status.unwrap().token;
    assert_eq!(ask(json!({"token": token}), namespaces).await.0, 200);
    accounts.delete("robot", &Default::default()).await.unwrap();
    assert_eq!(ask(json!({"token": token}), namespaces).await.0, 401);
}
