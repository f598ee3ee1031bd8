//! Admission webhooks: in process by name, and over TLS through a resolver.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use coppice_apiserver::{ApiServer, Review, ServiceResolver};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn answer(review: &Value, patch: Option<&Value>, refusal: Option<&str>) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": refusal.is_none(), "warnings": ["seen"]});
    if let Some(patch) = patch {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(base64::engine::general_purpose::STANDARD.encode(patch.to_string()));
    }
    if let Some(message) = refusal {
        response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
    }
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

/// Adds a key to every config map, and refuses those that ask for it.
fn handler(review: Value) -> Review {
    Box::pin(async move {
        let asks = review["request"]["object"]["data"]["refuse"] == "yes";
        let patch = json!([{"op": "add", "path": "/data/added", "value": "1"}]);
        Ok(answer(&review, (!asks).then_some(&patch), asks.then_some("as asked")))
    })
}

fn configuration(kind: &str, client: &Value, extra: &Value) -> Value {
    let mut webhook = json!({"name": "maps.example.com", "clientConfig": client, "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [{"operations": ["CREATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    for (name, value) in extra.as_object().into_iter().flatten() {
        webhook[name] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "webhooks": [webhook]})
}

fn map(name: &str, data: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).expect("a config map")
}

async fn mutating(client: &Client, value: Value) {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = serde_json::from_value(value).expect("a configuration");
    api.create(&PostParams::default(), &configuration)
        .await
        .expect("the configuration is good");
}

#[tokio::test]
async fn handlers_in_process_change_and_refuse() {
    let server = ApiServer::builder()
        .seed(1)
        .admission_handler("maps.example.com", handler)
        .build();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let nowhere = json!({"url": "https://127.0.0.1:1"});
    let conditions = json!({"matchConditions": [{"name": "not-skipped", "expression": "object == null || object.metadata.name != 'skip'"}]});
    mutating(
        &client,
        configuration("MutatingWebhookConfiguration", &nowhere, &conditions),
    )
    .await;
    let changed = maps
        .create(&PostParams::default(), &map("a", &json!({"x": "1"})))
        .await
        .unwrap();
    assert_eq!(changed.data.unwrap().get("added").map(String::as_str), Some("1"));
    let skipped = maps
        .create(&PostParams::default(), &map("skip", &json!({"x": "1"})))
        .await
        .unwrap();
    assert_eq!(skipped.data.unwrap().len(), 1);
    let refused = maps
        .create(&PostParams::default(), &map("b", &json!({"refuse": "yes"})))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "admission webhook \"maps.example.com\" denied the request: as asked"
    );
}

#[tokio::test]
async fn a_webhook_that_cannot_be_reached_fails_or_is_ignored() {
    let server = ApiServer::builder().seed(1).build();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let service = json!({"service": {"namespace": "n", "name": "s"}});
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let value = configuration("ValidatingWebhookConfiguration", &service, &json!({}));
    api.create(&PostParams::default(), &serde_json::from_value(value).unwrap())
        .await
        .unwrap();
    let failed = maps
        .create(&PostParams::default(), &map("a", &json!({})))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = failed else {
        panic!("{failed}")
    };
    assert_eq!(status.code, 500);
    assert!(
        status.message.contains("failed calling webhook \"maps.example.com\""),
        "{}",
        status.message
    );
    api.delete("c", &DeleteParams::default()).await.unwrap();
    let value = configuration(
        "ValidatingWebhookConfiguration",
        &service,
        &json!({"failurePolicy": "Ignore"}),
    );
    api.create(&PostParams::default(), &serde_json::from_value(value).unwrap())
        .await
        .unwrap();
    maps.create(&PostParams::default(), &map("a", &json!({})))
        .await
        .unwrap();
}

struct Resolver(SocketAddr);

impl ServiceResolver for Resolver {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<String> {
        ((namespace, name, port) == ("n", "s", 443)).then(|| self.0.to_string())
    }
}

/// A minimal HTTPS server that answers one review after the other.
async fn serve_reviews(listener: TcpListener, acceptor: tokio_rustls::TlsAcceptor) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let mut received = Vec::new();
        let body = loop {
            let mut chunk = [0; 4096];
            let count = stream.read(&mut chunk).await.unwrap_or(0);
            received.extend_from_slice(&chunk[..count]);
            let text = String::from_utf8_lossy(&received).into_owned();
            if let Some(review) = text
                .split_once("\r\n\r\n")
                .and_then(|(_, body)| serde_json::from_str::<Value>(body).ok())
            {
                break review;
            }
            assert!(count > 0, "the request ended early");
        };
        let answer = handler(body).await.expect("the handler answers").to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream
            .write_all((head + &answer).as_bytes())
            .await
            .expect("the client listens");
        stream.flush().await.expect("the client listens");
    }
}

#[tokio::test]
async fn webhooks_behind_services_are_called_over_tls() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["s.n.svc".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(serve_reviews(listener, Arc::new(config).into()));

    let server = ApiServer::builder().seed(1).service_resolver(Resolver(address)).build();
    let client = Client::new(server.service(), "default");
    let bundle = base64::engine::general_purpose::STANDARD.encode(certificate.pem());
    let service = json!({"service": {"namespace": "n", "name": "s", "path": "/mutate"}, "caBundle": bundle});
    mutating(
        &client,
        configuration("MutatingWebhookConfiguration", &service, &json!({})),
    )
    .await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let changed = maps
        .create(&PostParams::default(), &map("a", &json!({"x": "1"})))
        .await
        .unwrap();
    assert_eq!(changed.data.unwrap().get("added").map(String::as_str), Some("1"));
    serving.abort();
}
