//! Carrying reviews to webhooks: to a handler in this process, or over HTTPS to a URL or a service.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::Webhook;

/// The future of an in-process review.
pub type Review = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

/// A webhook inside this process: takes an `AdmissionReview` with a request, answers one with a response. Registered
/// under a webhook's name, it is called instead of that webhook's address.
pub trait AdmissionHandler: Send + Sync + 'static {
    /// Answers a review; an error is a failure to answer, which the webhook's `failurePolicy` decides about.
    fn review(&self, review: Value) -> Review;
}

impl<F> AdmissionHandler for F
where
    F: Fn(Value) -> Review + Send + Sync + 'static,
{
    fn review(&self, review: Value) -> Review {
        self(review)
    }
}

/// Finds the address (`host:port`) behind a service. There is no cluster network here, so someone has to know.
pub trait ServiceResolver: Send + Sync + 'static {
    /// The address to connect to, if the service is known.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<String>;
}

/// How webhooks are reached.
#[derive(Clone, Default)]
pub(crate) struct Transport {
    pub(crate) handlers: BTreeMap<String, Arc<dyn AdmissionHandler>>,
    pub(crate) resolver: Option<Arc<dyn ServiceResolver>>,
}

/// Where a webhook listens.
struct Address {
    connect: String,
    server_name: String,
    path: String,
}

impl Transport {
    /// Sends a review and waits for the answer, as long as the webhook may take.
    pub(super) async fn send(&self, webhook: &Webhook, review: &Value) -> Result<Value, String> {
        let answer = async {
            match self.handlers.get(&webhook.name) {
                Some(handler) => handler.review(review.clone()).await,
                None => self.post(webhook, review).await,
            }
        };
        let failed = |problem: String| format!("failed to call webhook: {problem}");
        match tokio::time::timeout(webhook.timeout, answer).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    async fn post(&self, webhook: &Webhook, review: &Value) -> Result<Value, String> {
        let address = self.address(&webhook.client)?;
        let authority = webhook
            .client
            .get("caBundle")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let config = client_config(authority)?;
        let stream = TcpStream::connect(&address.connect)
            .await
            .map_err(|error| error.to_string())?;
        let name = ServerName::try_from(address.server_name.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| error.to_string())?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        let exchange = async {
            let request = Request::post(address.path.as_str())
                .header(HOST, address.server_name.as_str())
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(review.to_string())))
                .map_err(|error| error.to_string())?;
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = response
                .into_body()
                .collect()
                .await
                .map_err(|error| error.to_string())?
                .to_bytes();
            if !status.is_success() {
                return Err(format!("the webhook answered {status}"));
            }
            serde_json::from_slice(&body).map_err(|error| format!("the answer is not JSON: {error}"))
        };
        // The connection does the reading and writing. When it ends, the answer is there or never comes, and the
        // exchange knows which.
        let mut connection = std::pin::pin!(connection);
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }

    fn address(&self, client: &Value) -> Result<Address, String> {
        if let Some(url) = client.get("url").and_then(Value::as_str) {
            let uri: http::Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
            let host = uri
                .host()
                .ok_or("the url has no host")?
                .trim_matches(['[', ']'])
                .to_owned();
            let port = uri.port_u16().unwrap_or(443);
            let path = uri
                .path_and_query()
                .map_or("/", http::uri::PathAndQuery::as_str)
                .to_owned();
            return Ok(Address {
                connect: format!("{}:{port}", uri.host().unwrap_or_default()),
                server_name: host,
                path,
            });
        }
        let service = client
            .get("service")
            .ok_or("the webhook has neither a url nor a service")?;
        let text = |name: &str| service.get(name).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let port = service
            .get("port")
            .and_then(Value::as_u64)
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or(443);
        let found = self
            .resolver
            .as_ref()
            .and_then(|resolver| resolver.resolve(namespace, name, port));
        let connect = found.ok_or_else(|| format!("service {namespace}/{name} cannot be resolved"))?;
        let path = match text("path") {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        Ok(Address {
            connect,
            server_name: format!("{name}.{namespace}.svc"),
            path,
        })
    }
}

fn client_config(bundle: &str) -> Result<Arc<ClientConfig>, String> {
    let pem = base64::engine::general_purpose::STANDARD
        .decode(bundle)
        .map_err(|error| format!("the caBundle is not base64: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("the caBundle is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
