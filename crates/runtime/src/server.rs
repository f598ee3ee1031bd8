//! The small server for probes and metrics: `/healthz`, `/readyz`, `/metrics`.
//!
//! Owns the socket. Serves within [`Limits::probes`] until it is cancelled, then lets running requests end. Never decides
//! how the process is; [`crate::health::Health`] does.
//!
//! ```
//! use coppice_runtime::{health::Health, metrics::Metrics, server::Server};
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
//! let stop = tokio_util::sync::CancellationToken::new();
//! let task = tokio::spawn(server.run(Health::default(), Metrics::default(), stop.clone()));
//! stop.cancel();
//! task.await.unwrap().unwrap();
//! # }
//! ```

use std::{io, net::SocketAddr};

use axum::{
    Router,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::serving::{Limits, Options, serve};
use crate::{health::Health, metrics::Metrics};

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

    /// Serves until `stop` is cancelled and running requests have ended.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn run(self, health: Health, metrics: Metrics, stop: CancellationToken) -> io::Result<()> {
        let options = Options {
            name: "probes",
            limits: Limits::probes(),
            metrics: metrics.clone(),
        };
        let plain = |stream: TcpStream| std::future::ready(Ok(stream));
        serve(self.listener, options, plain, router(health, metrics), stop).await;
        Ok(())
    }
}

/// The routes, for processes that have a server already.
pub fn router(health: Health, metrics: Metrics) -> Router {
    let liveness = health.clone();
    Router::new()
        .route("/healthz", get(async move || probe(liveness.liveness())))
        .route(
            "/readyz",
            get(async move || probe(health.readiness().map_err(|unmet| unmet.join("\n")))),
        )
        .route(
            "/metrics",
            get(async move || {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                ([(header::CONTENT_TYPE, kind)], metrics.render())
            }),
        )
}

fn probe(result: Result<(), String>) -> impl IntoResponse {
    match result {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, path: &str) -> (u16, String) {
        let answer = router
            .clone()
            .oneshot(Request::get(path).body(Body::empty()).unwrap())
            .await
            .unwrap();
        let code = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn probes_and_metrics() {
        let (health, metrics) = (Health::default(), Metrics::new("test"));
        let router = router(health.clone(), metrics.clone());
        let condition = health.condition("cache");
        assert_eq!(ask(&router, "/healthz").await, (200, "ok".to_owned()));
        assert_eq!(ask(&router, "/readyz").await, (503, "cache: not yet".to_owned()));
        condition.set_ready();
        assert_eq!(ask(&router, "/readyz").await.0, 200);
        metrics.counter("things", "Things").with(&[("a", "b")]).inc();
        assert!(
            ask(&router, "/metrics")
                .await
                .1
                .contains("test_things_total{a=\"b\"} 1")
        );
        health.set_dead("stuck");
        assert_eq!(ask(&router, "/healthz").await, (503, "stuck".to_owned()));
    }

    #[tokio::test]
    async fn it_serves_and_ends() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(Health::default(), Metrics::default(), stop.clone()));
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        stop.cancel();
        task.await.unwrap().unwrap();
    }
}
