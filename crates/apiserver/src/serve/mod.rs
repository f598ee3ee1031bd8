//! Serving over sockets: HTTP/1.1 and HTTP/2, with TLS or (on a loopback) without. Over TLS clients must show who they are.

mod certificates;
mod door;
mod idle;
mod kubeconfig;
mod slices;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

pub use certificates::{Certificates, TlsError};

use crate::auth::User;
use crate::rest::ApiBody;
use crate::server::{ApiServer, ApiService};
use door::Door;
use idle::{Counted, Requests};
use slices::ShortSlices;

/// Whether connections are encrypted.
#[derive(Clone, Debug)]
pub enum Tls {
    /// With these certificates. Clients need the one in the kubeconfig, or a service account's token from this server.
    On(Arc<Certificates>),
    /// Not at all, and everyone is the administrator; for loopback addresses.
    Off,
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    tls: Tls,
    stop: CancellationToken,
    connections: TaskTracker,
    /// Cancelled when connections are no longer accepted, for whatever reason.
    closed: CancellationToken,
}

impl ApiServer {
    /// Serves on `listener` until the returned handle is stopped or dropped.
    pub fn serve(&self, listener: TcpListener, tls: Tls) -> io::Result<Serving> {
        let address = listener.local_addr()?;
        let entrance = match &tls {
            Tls::On(certificates) => Some(Entrance {
                acceptor: TlsAcceptor::from(certificates.server_config().map_err(io::Error::other)?),
                certificates: certificates.clone(),
            }),
            Tls::Off => None,
        };
        let stop = CancellationToken::new();
        let connections = TaskTracker::new();
        let accepting = accept_all(listener, entrance, self.service(), stop.clone(), connections.clone());
        let closed = CancellationToken::new();
        let on_end = closed.clone().drop_guard();
        connections.spawn(async move {
            // Dropped also when accepting panics.
            let _on_end = on_end;
            accepting.await;
        });
        connections.close();
        Ok(Serving {
            address,
            tls,
            stop,
            connections,
            closed,
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

    /// Waits until connections are no longer accepted: it was stopped, or accepting failed.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.closed.clone().cancelled_owned()
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

/// What encrypted connections come through.
#[derive(Clone)]
struct Entrance {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

/// How much a connection encrypts before it writes: the events that a watcher has waiting go out in one system call.
const WRITE_BUFFER: usize = 256 * 1024;

impl Entrance {
    async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let configure = |connection: &mut rustls::ServerConnection| connection.set_buffer_limit(Some(WRITE_BUFFER));
        self.acceptor.accept_with(stream, configure).await
    }

    /// Who a connection belongs to. There is one certificate for clients, the administrator's.
    fn certified(&self, connection: &rustls::ServerConnection) -> Option<User> {
        let chain = connection.peer_certificates()?;
        match self.certificates.is_client(chain) {
            Ok(known) => known.then(User::admin),
            Err(error) => {
                tracing::warn!(%error, "a client's certificate could not be checked");
                None
            }
        }
    }
}

async fn accept_all(
    listener: TcpListener,
    entrance: Option<Entrance>,
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
                connections.spawn(connection(stream, entrance.clone(), service.clone(), stop.clone()));
            }
            Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
        }
    }
}

async fn connection(stream: TcpStream, entrance: Option<Entrance>, service: ApiService, stop: CancellationToken) {
    // Small writes (watch events) must not wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let work = async {
        match entrance {
            None => http(stream, service).await,
            Some(entrance) => match timeout(idle::HANDSHAKE, entrance.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let certified = entrance.certified(stream.get_ref().1);
                    http(ShortSlices(stream), Door::new(service, certified)).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake took too long"),
            },
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn http<S>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S)
where
    S: Service<Request<Incoming>, Response = Response<ApiBody>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let builder = auto::Builder::new(TokioExecutor::new());
    let requests = Requests::new();
    let service = Counted {
        inner: service,
        requests: requests.clone(),
    };
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut serving = std::pin::pin!(serving);
    let result = tokio::select! {
        biased;
        result = serving.as_mut() => result,
        () = requests.idle() => {
            // Tells HTTP/2 clients before the connection is closed.
            serving.as_mut().graceful_shutdown();
            timeout(idle::HANDSHAKE, serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        tracing::debug!(error = %error, "connection ended");
    }
}
