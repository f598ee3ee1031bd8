//! The webhook server: HTTPS on one port, reviews in, reviews out.
//!
//! Owns the socket, the routes and the size of a review. Anyone in the cluster's network can connect, so connections and
//! requests have limits ([`coppice_runtime::serving`]), and reviews of more than [`LARGEST_REVIEW`] together are not
//! evaluated at the same time: a review in memory is many times its text. Certificates may change at any time; open
//! connections are not disturbed by that. Health is served elsewhere, so that a busy webhook is never taken for a dead
//! process. Never keeps a request beyond the time that an API server waits.

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use coppice_runtime::metrics::Metrics;
use coppice_runtime::serving::{Limits, Options, serve};
use futures::FutureExt;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{Admission, Endpoint};

/// The largest review: two objects of the largest size that an API server takes, and what is around them.
const LARGEST_REVIEW: usize = 8 << 20;

/// A server that is bound and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
}

impl Server {
    /// Binds to an address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            limits: Limits::webhooks(LARGEST_REVIEW),
        })
    }

    /// The same with other limits.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        Self { limits, ..self }
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
        let options = Options {
            name: "webhooks",
            limits: self.limits,
            metrics,
        };
        serve(self.listener, options, |stream| acceptor.accept(stream), router, stop).await;
    }
}

/// The routes, for tests and for processes that have a server already.
pub fn router(admission: &Admission, metrics: &Metrics) -> Router {
    let reviews = metrics.counter("webhook_reviews", "Admission reviews by path and result");
    let evaluated = Arc::new(Semaphore::new(LARGEST_REVIEW));
    let mut router = Router::new();
    for endpoint in Endpoint::ALL
        .into_iter()
        .filter(|endpoint| admission.answers(*endpoint))
    {
        let (admission, reviews, evaluated) = (admission.clone(), reviews.clone(), evaluated.clone());
        let answer = move |body: Bytes| {
            let (admission, reviews, evaluated) = (admission.clone(), reviews.clone(), evaluated.clone());
            async move {
                let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
                // Never closed; a review that is larger than all permits does not get this far.
                let _permits = evaluated.acquire_many(size).await;
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
