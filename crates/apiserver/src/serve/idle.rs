//! The end of connections that nobody uses, in the times of a real API server.
//!
//! Owns the count of requests under way on one connection: a watch is one until its body ends. Never ends a connection
//! with a request under way.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, sleep_until};
use tower::Service;

use crate::rest::ApiBody;

/// How long a client may take for the TLS handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may be open before its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(32);
/// How long a connection may be open between requests.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(90);

#[derive(Debug)]
struct State {
    under_way: usize,
    /// When the connection is closed unless a request comes before.
    until: Instant,
}

/// The requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct Requests(Arc<Mutex<State>>);

impl Requests {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            under_way: 0,
            until: Instant::now() + FIRST_REQUEST,
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> UnderWay {
        self.state().under_way += 1;
        UnderWay(self.clone())
    }

    /// Ends when the connection has been without a request for too long.
    pub(super) async fn idle(&self) {
        loop {
            let until = {
                let state = self.state();
                match state.under_way {
                    0 if state.until <= Instant::now() => return,
                    0 => state.until,
                    // Whenever they end, the connection is not closed before that.
                    _ => Instant::now() + BETWEEN_REQUESTS,
                }
            };
            sleep_until(until).await;
        }
    }
}

/// A request; over when dropped.
#[derive(Debug)]
struct UnderWay(Requests);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way -= 1;
        state.until = Instant::now() + BETWEEN_REQUESTS;
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    pub(super) inner: S,
    pub(super) requests: Requests,
}

impl<S> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<ApiBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<CountedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let under_way = self.requests.begin();
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            Ok(answer.map(|inner| CountedBody {
                inner,
                _under_way: under_way,
            }))
        })
    }
}

/// A body that keeps its request under way.
pub(super) struct CountedBody {
    inner: ApiBody,
    _under_way: UnderWay,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = <ApiBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_it_was_without_requests_and_never_before() {
        let (requests, started) = (Requests::new(), Instant::now());
        requests.idle().await;
        assert_eq!(started.elapsed(), FIRST_REQUEST);

        let requests = Requests::new();
        let watch = requests.begin();
        let short = requests.begin();
        let idle = tokio::spawn({
            let requests = requests.clone();
            async move { requests.idle().await }
        });
        drop(short);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!idle.is_finished(), "a watch is under way");
        let ended = Instant::now();
        drop(watch);
        idle.await.unwrap();
        assert_eq!(ended.elapsed(), BETWEEN_REQUESTS);
    }
}
