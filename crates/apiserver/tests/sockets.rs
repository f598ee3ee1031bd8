//! The server over sockets: TLS, a kubeconfig, a client that knows nothing else.

use std::sync::Arc;

use coppice_apiserver::{ApiServer, Certificates, Tls};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
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
