//! Serving over sockets: HTTP/1.1 and HTTP/2, with TLS or (on a loopback) without.

mod certificates;
mod kubeconfig;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use certificates::{Certificates, TlsError};

use crate::server::{ApiServer, ApiService};

/// Whether connections are encrypted.
#[derive(Clone, Debug)]
pub enum Tls {
    /// With these certificates.
    On(Arc<Certificates>),
    /// Not at all; for loopback addresses.
    Off,
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    tls: Tls,
    stop: CancellationToken,
    connections: TaskTracker,
}

impl ApiServer {
    /// Serves on `listener` until the returned handle is stopped or dropped.
    pub fn serve(&self, listener: TcpListener, tls: Tls) -> io::Result<Serving> {
        let address = listener.local_addr()?;
        let acceptor = match &tls {
            Tls::On(certificates) => Some(TlsAcceptor::from(
                certificates.server_config().map_err(io::Error::other)?,
            )),
            Tls::Off => None,
        };
        let stop = CancellationToken::new();
        let connections = TaskTracker::new();
        let accepting = accept_all(listener, acceptor, self.service(), stop.clone(), connections.clone());
        connections.spawn(accepting);
        connections.close();
        Ok(Serving {
            address,
            tls,
            stop,
            connections,
        })
    }
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients on this machine.
    pub fn url(&self) -> String {
        let scheme = match self.tls {
            Tls::On(_) => "https",
            Tls::Off => "http",
        };
        let host = if self.address.ip().is_unspecified() {
            format!("127.0.0.1:{}", self.address.port())
        } else {
            self.address.to_string()
        };
        format!("{scheme}://{host}")
    }

    /// A kubeconfig for the administrator, as YAML.
    pub fn kubeconfig(&self) -> String {
        let certificates = match &self.tls {
            Tls::On(certificates) => Some(&**certificates),
            Tls::Off => None,
        };
        kubeconfig::render(&self.url(), certificates)
    }

    /// Stops accepting, ends open requests (watches included), and waits until they are gone.
    pub async fn stop(self) {
        self.stop.cancel();
        self.connections.wait().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept_all(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    service: ApiService,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, acceptor.clone(), service.clone(), stop.clone()));
            }
            Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
        }
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, service: ApiService, stop: CancellationToken) {
    // Small writes (watch events) must not wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let work = async {
        match acceptor {
            None => http(stream, service).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => http(stream, service).await,
                Err(error) => tracing::debug!(%error, "TLS handshake failed"),
            },
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: ApiService) {
    let builder = auto::Builder::new(TokioExecutor::new());
    let result = builder
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .await;
    if let Err(error) = result {
        tracing::debug!(error = %error, "connection ended");
    }
}
