//! Serving HTTP to clients that are not trusted.
//!
//! Owns the accept loop and the limits of connections and requests ([`Limits`]): a whole request has a deadline, idle
//! connections an age, an address a number of places, and all bodies together a number of bytes. When the places run
//! out, the connection that has waited longest gives up its own, first one of the address that has the most; so
//! clients that open connections and do not use them never keep out one that does. Assumes that handlers are quick;
//! never runs one before its request is complete.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use coppice_runtime::{metrics::Metrics, serving::{Limits, Options, serve}};
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
//! let options = Options { name: "probes", limits: Limits::probes(), metrics: Metrics::default() };
//! let stop = tokio_util::sync::CancellationToken::new();
//! let serving = serve(listener, options, |stream| std::future::ready(Ok(stream)), axum::Router::new(), stop.clone());
//! stop.cancel();
//! serving.await;
//! # }
//! ```

mod connection;
mod limits;
mod places;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::metrics::Metrics;
use connection::{End, Place, Shared};
pub use limits::Limits;
use places::{Entry, Places};

/// Where connections come from: a socket, or a test.
pub trait Listener: Send {
    /// A connection.
    type Stream: Send + 'static;

    /// Waits for the next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, IpAddr)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        Ok((stream, peer.ip().to_canonical()))
    }
}

/// What a server is.
#[derive(Clone)]
pub struct Options {
    /// What it is called in metrics.
    pub name: &'static str,
    /// What it grants.
    pub limits: Limits,
    /// Where connections are counted that the server closed.
    pub metrics: Metrics,
}

/// Serves until `stop` is cancelled, then lets running requests end.
pub async fn serve<L, H, F, S>(mut listener: L, options: Options, handshake: H, router: Router, stop: CancellationToken)
where
    L: Listener,
    H: Fn(L::Stream) -> F,
    F: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let closed = options.metrics.counter(
        "server_connections_closed",
        "Connections that a server closed, by server and reason",
    );
    let count = move |reason: &'static str| {
        debug!(server = options.name, reason, "a connection was closed");
        closed.with(&[("server", options.name), ("reason", reason)]).inc();
    };
    let shared = Arc::new(Shared {
        limits: options.limits,
        places: Mutex::new(Places::new(options.limits)),
        freed: Notify::new(),
    });
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, server = options.name, "a connection could not be accepted");
                // Out of file descriptors, mostly: give others the time to close theirs.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let entered = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            entered = enter(&shared, address) => entered,
        };
        let Some(place) = entered else {
            count("address");
            continue;
        };
        let serving = connection::serve(handshake(stream), Arc::new(place), router.clone(), stop.clone());
        let count = count.clone();
        connections.spawn(async move {
            match serving.await {
                End::Ordinary => {}
                end => count(end.reason()),
            }
        });
    }
    connections.close();
    connections.wait().await;
}

/// A place for a newcomer, as soon as there is one. `None` when its address has too many.
async fn enter(shared: &Arc<Shared>, address: IpAddr) -> Option<Place> {
    loop {
        let entry = shared.places.lock().enter(address, Instant::now());
        match entry {
            Entry::Admitted(id, evicted) => {
                let shared = shared.clone();
                return Some(Place { id, shared, evicted });
            }
            Entry::TooMany => return None,
            Entry::Full => shared.freed.notified().await,
        }
    }
}

#[cfg(test)]
mod tests;
