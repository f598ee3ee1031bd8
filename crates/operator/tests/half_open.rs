//! Clients that open connections to the webhooks and leave them half used, over real sockets and TLS: a review of another
//! client is answered all the same. No clock takes part: who comes last gets the place of who has waited longest.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use coppice_operator::webhooks::{Admission, Endpoint, Policy, server};
use coppice_operator::world::World;
use coppice_runtime::cache::Cache;
use coppice_runtime::metrics::Metrics;
use coppice_runtime::serving::Limits;
use kube::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

struct Plane {
    address: SocketAddr,
    connector: TlsConnector,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Plane {
    async fn start(limits: Limits) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = server::Server::bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap()
            .limited(limits);
        let address = server.address().unwrap();
        let no_cluster = tower::service_fn(async |_: axum::http::Request<kube::client::Body>| {
            Err::<axum::http::Response<axum::body::Body>, _>(std::io::Error::other("no cluster"))
        });
        let world = World::new(Cache::default());
        let admission = Admission::new(Policy::default(), world, Client::new(no_cluster, "default"));
        let stop = CancellationToken::new();
        let serving = server.run(admission, Arc::new(tls), Metrics::default(), stop.clone());
        Self {
            address,
            connector: TlsConnector::from(Arc::new(client)),
            stop,
            task: tokio::spawn(serving),
        }
    }

    async fn connect(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        let from = Ipv4Addr::new(127, 0, 0, last);
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// A connection that sent `text` after the handshake.
    async fn send(&self, last: u8, text: &str) -> TlsStream<TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let stream = self.connect(last).await;
        let mut stream = self.connector.connect(name, stream).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    async fn review(&self, last: u8) -> Value {
        let mut stream = self.send(last, &review()).await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        serde_json::from_str(body).unwrap()
    }
}

fn review() -> String {
    let set =
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "a", "namespace": "n"}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}, "namespace": "n",
        "operation": "DELETE", "oldObject": set}});
    let (path, body) = (Endpoint::ValidatePodCliqueSet.path(), review.to_string());
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn half_open_connections_do_not_silence_admission() {
    let limits = Limits {
        connections: 60,
        connections_per_address: 30,
        ..Limits::webhooks(8 << 20)
    };
    let plane = Plane::start(limits).await;
    let whole = review();
    let parts = [
        &whole[..whole.len() - 1],
        "POST /webhooks HTTP/1.1\r\nho",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ];
    let mut held = Vec::new();
    let mut handshakes = Vec::new();
    // Each of three addresses beyond what an address may have, all together beyond what there is.
    for number in 0..3 * 30 + 6 {
        let from = 2 + number % 3;
        held.push(plane.send(from, parts[usize::from(number / 3) % 3]).await);
        handshakes.push(plane.connect(from).await);
    }
    let answer = plane.review(9).await;
    assert_eq!(answer["response"]["allowed"], true);
    // Also one that comes from an address of theirs.
    let answer = plane.review(2).await;
    assert_eq!(answer["response"]["uid"], "u");
    plane.stop.cancel();
    drop((held, handshakes));
    plane.task.await.unwrap();
}
