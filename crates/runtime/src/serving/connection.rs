//! One connection from its first byte to its end.
//!
//! Owns the deadlines: of the handshake, of a whole request, of an answer, of waiting. A request reaches the router only
//! when it is complete, so that handlers never wait for a client. Never decides who has to leave: [`super::places`] does.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::Limits;
use super::places::Places;

/// What all connections of a server share.
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) places: Mutex<Places>,
    /// Notified when a connection ends or may be taken for another.
    pub(super) freed: Notify,
}

/// A connection's place. Given back when dropped.
pub(super) struct Place {
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) evicted: CancellationToken,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.places.lock().leave(self.id);
        self.shared.freed.notify_one();
    }
}

/// Why a connection was closed by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By the client, or after a stop.
    Ordinary,
    /// Its handshake failed or took too long.
    Handshake,
    /// It waited too long, or sent too slowly.
    Deadline,
    /// Its place was given to another.
    Evicted,
}

impl End {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ordinary => "ended",
            Self::Handshake => "handshake",
            Self::Deadline => "deadline",
            Self::Evicted => "evicted",
        }
    }
}

/// Serves one connection until it ends or loses its place.
pub(super) async fn serve<S>(
    handshake: impl Future<Output = io::Result<S>>,
    place: Arc<Place>,
    router: Router,
    stop: CancellationToken,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = place.shared.limits;
    let stream = tokio::select! {
        biased;
        () = stop.cancelled() => return End::Ordinary,
        () = place.evicted.cancelled() => return End::Evicted,
        stream = timeout(limits.handshake, handshake) => stream,
    };
    let Ok(Ok(stream)) = stream else {
        return End::Handshake;
    };
    place.shared.places.lock().handshake_ended(place.id, Instant::now());
    let stream = Watched {
        stream,
        place: place.clone(),
    };
    let builder = builder(&limits);
    let exchanges = place.clone();
    let service = hyper::service::service_fn(move |request| exchange(request, router.clone(), exchanges.clone()));
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let end = tokio::select! {
        biased;
        () = place.evicted.cancelled() => return End::Evicted,
        _ = serving.as_mut() => return End::Ordinary,
        () = overdue(&place) => End::Deadline,
        () = stop.cancelled() => End::Ordinary,
    };
    // Requests under way may end; no other is taken.
    serving.as_mut().graceful_shutdown();
    let grace = match end {
        End::Deadline => std::time::Duration::from_secs(1),
        _ => limits.request + limits.answer,
    };
    tokio::select! {
        biased;
        () = place.evicted.cancelled() => End::Evicted,
        _ = timeout(grace, serving) => end,
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The deadlines of HTTP/1 are ours: its own time-out for heads would also end idle connections.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(16 << 10)
        .initial_connection_window_size(256 << 10)
        .initial_stream_window_size(64 << 10)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping);
    builder
}

/// Ends when the connection's deadline has passed.
async fn overdue(place: &Place) {
    let limits = place.shared.limits;
    loop {
        let deadline = place.shared.places.lock().deadline(place.id);
        let now = Instant::now();
        match deadline {
            Some(deadline) if deadline <= now => return,
            // The deadline may come nearer when a request begins: look again in time for that.
            Some(deadline) => sleep_until(deadline.min(now + limits.request)).await,
            None => sleep_until(now + limits.request).await,
        }
    }
}

/// A request on its way. Taken out of the table when dropped, for whatever reason.
struct Exchange {
    place: Arc<Place>,
    bytes: usize,
    complete: bool,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let shared = &self.place.shared;
        let mut places = shared.places.lock();
        places.request_ended(self.place.id, self.complete, self.bytes, Instant::now());
        shared.freed.notify_one();
    }
}

async fn exchange(request: Request<Incoming>, router: Router, place: Arc<Place>) -> Result<Response, Infallible> {
    let shared = place.shared.clone();
    let http2 = request.version() == Version::HTTP_2;
    let deadline = shared.places.lock().head_read(place.id, http2, Instant::now());
    let mut exchange = Exchange {
        place,
        bytes: 0,
        complete: false,
    };
    let (head, body) = request.into_parts();
    let body = match timeout_at(deadline, collect(body, &mut exchange)).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return Ok(last(refused, http2)),
        Err(_) => return Ok(last(StatusCode::REQUEST_TIMEOUT, http2)),
    };
    shared.places.lock().body_ended(exchange.place.id);
    exchange.complete = true;
    let answering = router.oneshot(Request::from_parts(head, Body::from(body)));
    Ok(match timeout(shared.limits.answer, answering).await {
        Ok(answer) => answer.into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the answer took too long").into_response(),
    })
}

/// The whole body, or why it is not taken.
async fn collect(mut body: Incoming, exchange: &mut Exchange) -> Result<Bytes, StatusCode> {
    let shared = exchange.place.shared.clone();
    let largest = shared.limits.body;
    if body.size_hint().lower() > largest as u64 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if whole.len() + data.len() > largest {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        exchange.bytes += data.len();
        if !shared.places.lock().body_read(exchange.place.id, data.len()) {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// An answer to an incomplete request, after which an HTTP/1 connection cannot be used.
fn last(status: StatusCode, http2: bool) -> Response {
    let mut answer = status.into_response();
    if !http2 {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
    answer
}

/// A stream that reports when bytes come.
struct Watched<S> {
    stream: S,
    place: Arc<Place>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            let Place { id, shared, .. } = &*self.place;
            shared.places.lock().bytes_read(*id, Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
