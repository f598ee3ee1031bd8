//! The one client of all measurements: HTTP/1.1 over TLS, one request at a time per connection, bodies made beforehand and
//! answers not parsed, so that as little as possible of what is measured is the client. It reads its endpoint from a
//! kubeconfig, as any client does, and never retries.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::events::Events;
use crate::records::Records;

/// What a connection may hold that the client has not read yet: no server is to wait for a thousand readers to take turns.
const RECEIVE_BUFFER: u32 = 1024 * 1024;

/// Where a server is and how it is trusted.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    host: HeaderValue,
    tls: TlsConnector,
}

/// A request whose bytes are ready.
#[derive(Clone)]
pub(crate) struct Prepared {
    /// The method.
    pub(crate) method: Method,
    /// The path, with its query.
    pub(crate) path: String,
    /// The media type of the body.
    pub(crate) content_type: &'static str,
    /// Who asks; the server keeps fields under this name.
    pub(crate) agent: &'static str,
    /// The body.
    pub(crate) body: Bytes,
}

impl Prepared {
    /// A request without a body.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            content_type: "application/json",
            agent: "coppice-bench/1",
            body: Bytes::new(),
        }
    }

    /// The creation of an object.
    pub(crate) fn create(path: impl Into<String>, object: &Value) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            content_type: "application/json",
            agent: "coppice/1",
            body: object.to_string().into(),
        }
    }

    /// A strategic merge patch, as kubelets send them.
    pub(crate) fn patch(path: impl Into<String>, patch: &Value) -> Self {
        Self {
            method: Method::PATCH,
            path: path.into(),
            content_type: "application/strategic-merge-patch+json",
            agent: "kubelet/v1.36.3",
            body: patch.to_string().into(),
        }
    }
}

impl Endpoint {
    /// The endpoint of the only cluster and user in a kubeconfig with embedded certificates.
    pub(crate) fn from_kubeconfig(text: &str) -> anyhow::Result<Self> {
        let config: Value = serde_saphyr::from_str(text).context("the kubeconfig is not YAML")?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let server = cluster["server"]
            .as_str()
            .context("the kubeconfig names no server")?
            .strip_prefix("https://")
            .context("the server is not reached over TLS")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&decoded(cluster, "certificate-authority-data")?) {
            roots.add(certificate?)?;
        }
        let chain = CertificateDer::pem_slice_iter(&decoded(user, "client-certificate-data")?)
            .collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&decoded(user, "client-key-data")?)?;
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // The same cipher with every server, whatever each would prefer.
        provider.cipher_suites = vec![rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let mut tls = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        // For watches, which read their records themselves.
        tls.enable_secret_extraction = true;
        Ok(Self {
            address: server.parse().context("the server is not an address with a port")?,
            host: HeaderValue::from_str(server)?,
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// A fresh connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.stream().await?)).await?;
        // The connection's own task ends with its sender and body; its errors show up there.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Connection {
            sender,
            host: self.host.clone(),
        })
    }

    /// A watch on a connection of its own.
    pub(crate) async fn watch(&self, path: &str) -> anyhow::Result<Events> {
        // The server has said nothing yet that rustls might have read ahead.
        let (stream, connection) = self.stream().await?.into_inner();
        let records = Records::new(connection.dangerous_extract_secrets()?)?;
        Events::open(stream, records, path, self.host.to_str()?).await
    }

    async fn stream(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let socket = match self.address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        let stream = socket.connect(self.address).await.context("connect")?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        self.tls.connect(name, stream).await.context("TLS handshake")
    }

    /// One request on a connection of its own.
    pub(crate) async fn once(&self, request: &Prepared) -> anyhow::Result<Bytes> {
        self.connect().await?.send(request).await
    }
}

/// An open connection.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    host: HeaderValue,
}

impl Connection {
    /// Sends a request that must succeed, and reads the whole answer.
    pub(crate) async fn send(&mut self, request: &Prepared) -> anyhow::Result<Bytes> {
        let response = self.answer(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(
            status.is_success(),
            "{} {}: {status}: {}",
            request.method,
            request.path,
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    async fn answer(&mut self, request: &Prepared) -> anyhow::Result<Response<Incoming>> {
        let http = Request::builder()
            .method(&request.method)
            .uri(&request.path)
            .header(HOST, &self.host)
            .header(USER_AGENT, request.agent)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, request.content_type)
            .body(Full::new(request.body.clone()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(http).await?)
    }
}

fn decoded(section: &Value, name: &str) -> anyhow::Result<Vec<u8>> {
    let text = section[name]
        .as_str()
        .with_context(|| format!("the kubeconfig has no {name}"))?;
    Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
}
