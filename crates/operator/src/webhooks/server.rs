//! The webhook server: HTTPS on one port, reviews in, reviews out.
//!
//! Owns the socket, the limits of a request and of a connection, and the end of both. Certificates come from whoever
//! keeps them and may change at any time; open connections are not disturbed by that. Health is served elsewhere, so that
//! a busy webhook is never taken for a dead process. Never keeps a request beyond the time that an API server waits.

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use coppice_runtime::metrics::Metrics;
use futures::FutureExt;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use super::{Admission, Endpoint};

/// The largest review: two objects of the largest size that an API server takes, and what is around them.
const LARGEST_REVIEW: usize = 8 << 20;
/// How long a client may take for the TLS handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at most. API servers keep a few open each.
const CONNECTIONS: usize = 512;

/// A server that is bound and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds to an address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is cancelled, then lets running requests end.
    pub async fn run(
        self,
        admission: Admission,
        tls: Arc<rustls::ServerConfig>,
        metrics: Metrics,
        stop: CancellationToken,
    ) {
        let router = router(&admission, &metrics);
        let acceptor = TlsAcceptor::from(tls);
        let connections = TaskTracker::new();
        let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
        loop {
            let accept = async {
                let place = places.clone().acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let serving = connection(stream, acceptor.clone(), router.clone(), stop.clone());
                    connections.spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    // Out of file descriptors, mostly: give others the time to close theirs.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router, stop: CancellationToken) {
    let handshake = tokio::time::timeout(PATIENCE, acceptor.accept(stream));
    let stream = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        stream = handshake => stream,
    };
    let stream = match stream {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake took too long"),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let result = tokio::select! {
        biased;
        result = serving.as_mut() => result,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        debug!(error = %error, "connection ended");
    }
}

/// The routes, for tests and for processes that have a server already.
pub fn router(admission: &Admission, metrics: &Metrics) -> Router {
    let reviews = metrics.counter("webhook_reviews", "Admission reviews by path and result");
    let mut router = Router::new();
    for endpoint in Endpoint::ALL
        .into_iter()
        .filter(|endpoint| admission.answers(*endpoint))
    {
        let (admission, reviews) = (admission.clone(), reviews.clone());
        let answer = move |body: Bytes| {
            let (admission, reviews) = (admission.clone(), reviews.clone());
            async move {
                let (result, response) = answer(&admission, endpoint, &body).await;
                reviews.with(&[("path", endpoint.path()), ("result", result)]).inc();
                response
            }
        };
        router = router.route(endpoint.path(), post(answer));
    }
    router.layer(DefaultBodyLimit::max(LARGEST_REVIEW))
}

async fn answer(admission: &Admission, endpoint: Endpoint, body: &[u8]) -> (&'static str, Response) {
    let review: Value = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return malformed(&format!("the body is not JSON: {error}")),
    };
    // A rule that panics must refuse one request, not end the connection that others share.
    match AssertUnwindSafe(admission.review(endpoint, &review))
        .catch_unwind()
        .await
    {
        Ok(Ok(answer)) => {
            let result = if answer["response"]["allowed"] == true {
                "admitted"
            } else {
                "refused"
            };
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (result, (kind, answer.to_string()).into_response())
        }
        Ok(Err(problem)) => malformed(&problem.to_string()),
        Err(_) => {
            error!(path = endpoint.path(), "a rule panicked");
            let message = "an admission rule failed; the operator's log says more";
            ("failed", (StatusCode::INTERNAL_SERVER_ERROR, message).into_response())
        }
    }
}

fn malformed(problem: &str) -> (&'static str, Response) {
    warn!(problem, "a malformed review was sent");
    (
        "malformed",
        (StatusCode::BAD_REQUEST, problem.to_owned()).into_response(),
    )
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
