//! Hostile clients against a server in the same thread, under paused time: nothing here waits for a real clock, and an
//! address is what the test says it is.

use std::net::Ipv4Addr;

use axum::routing::post;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::advance;

use super::*;

const HEAD: &str = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n";

struct Queue(mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>);

impl Listener for Queue {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, IpAddr)> {
        match self.0.recv().await {
            Some(accepted) => Ok(accepted),
            None => std::future::pending().await,
        }
    }
}

struct Plane {
    door: mpsc::UnboundedSender<(DuplexStream, IpAddr)>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    limits: Limits,
    metrics: Metrics,
}

impl Plane {
    fn start(limits: Limits) -> Self {
        let (door, queue) = mpsc::unbounded_channel();
        let (stop, metrics) = (CancellationToken::new(), Metrics::new("test"));
        let options = Options {
            name: "tested",
            limits,
            metrics: metrics.clone(),
        };
        let router = Router::new()
            .route("/echo", post(async |body: Bytes| body))
            .route("/never", post(std::future::pending::<()>));
        // A first byte stands for a handshake.
        let handshake = async |mut stream: DuplexStream| {
            stream.read_u8().await?;
            Ok(stream)
        };
        let task = tokio::spawn(serve(Queue(queue), options, handshake, router, stop.clone()));
        Self {
            door,
            stop,
            task,
            limits,
            metrics,
        }
    }

    fn connect(&self, last: u8) -> DuplexStream {
        let (ours, theirs) = duplex(64 << 10);
        self.door.send((theirs, Ipv4Addr::new(10, 0, 0, last).into())).unwrap();
        ours
    }

    /// A connection that sent a handshake and a part of a request.
    async fn send(&self, from: u8, part: &str) -> DuplexStream {
        let mut stream = self.connect(from);
        stream.write_all(b"!").await.unwrap();
        stream.write_all(part.as_bytes()).await.unwrap();
        stream
    }

    async fn client(&self, from: u8) -> http2::SendRequest<Full<Bytes>> {
        let mut stream = self.connect(from);
        stream.write_all(b"!").await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }

    fn closed(&self, reason: &str) -> u64 {
        let closed = self.metrics.counter("server_connections_closed", "");
        closed.with(&[("server", "tested"), ("reason", reason)]).get()
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// All that the server sends until it closes.
async fn rest(stream: &mut DuplexStream) -> String {
    let mut text = String::new();
    // A connection that is dropped with unread bytes breaks: that is an end, too.
    drop(stream.read_to_string(&mut text).await);
    text
}

/// One request on a connection that stays open.
async fn echo(stream: &mut DuplexStream) {
    let request = format!("{HEAD}\r\nhello");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"hello") {
        let read = stream.read_buf(&mut text).await.unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&text));
    }
    assert!(text.starts_with(b"HTTP/1.1 200"));
}

async fn ask(sender: &mut http2::SendRequest<Full<Bytes>>) -> hyper::Result<Bytes> {
    let request = Request::post("http://x/echo").body(Full::from("hello")).unwrap();
    let answer = sender.send_request(request).await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}

fn small() -> Limits {
    Limits {
        connections: 32,
        connections_per_address: 16,
        ..Limits::webhooks(1000)
    }
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_half_open_connection_ends_at_its_deadline() {
    let plane = Plane::start(small());
    let started = Instant::now();
    let mut handshake = plane.connect(1);
    rest(&mut handshake).await;
    assert_eq!(started.elapsed().as_secs(), plane.limits.handshake.as_secs());
    assert_eq!(plane.closed("handshake"), 1);
    let parts = ["", "POST /echo HTTP/1.1\r\nho", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    for (ended, part) in (1..).zip(parts) {
        let started = Instant::now();
        let mut stream = plane.send(1, part).await;
        rest(&mut stream).await;
        let limit = plane.limits.request.as_secs();
        assert!((limit..=limit + 1).contains(&started.elapsed().as_secs()), "{part}");
        assert_eq!(plane.closed("deadline"), ended, "{part}");
    }
    let started = Instant::now();
    let mut body = plane.send(1, &format!("{HEAD}\r\nhel")).await;
    let text = rest(&mut body).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert_eq!(started.elapsed().as_secs(), plane.limits.request.as_secs());
    plane.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_does_not_count_from_the_last_byte() {
    let plane = Plane::start(small());
    let mut stream = plane.send(1, "").await;
    echo(&mut stream).await;
    advance(plane.limits.idle / 2).await;
    let started = Instant::now();
    for byte in HEAD.as_bytes() {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let limit = plane.limits.request.as_secs();
    assert!(
        (limit..=limit + 2).contains(&started.elapsed().as_secs()),
        "{:?}",
        started.elapsed()
    );
    plane.end().await;
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_kept_for_a_while_and_then_closed() {
    let plane = Plane::start(small());
    let mut stream = plane.send(1, "").await;
    let mut client = plane.client(1).await;
    for _ in 0..3 {
        echo(&mut stream).await;
        assert_eq!(ask(&mut client).await.unwrap(), "hello");
        tokio::time::sleep(plane.limits.idle - Duration::from_secs(1)).await;
    }
    let started = Instant::now();
    assert_eq!(rest(&mut stream).await, "");
    client.ready().await.unwrap_err();
    assert!(started.elapsed() <= Duration::from_secs(2));
    assert_eq!(plane.closed("deadline"), 2);
    plane.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_review_is_answered_while_others_hold_all_places() {
    let plane = Plane::start(small());
    let half_body = format!("{HEAD}\r\nhel");
    let mut good = plane.send(99, "").await;
    echo(&mut good).await;
    let mut held = Vec::new();
    // Three addresses, each beyond what an address may have: half-open handshakes, heads and bodies.
    for number in 0..3 * plane.limits.connections_per_address as u8 + 3 {
        held.push(plane.connect(number % 3));
        held.push(plane.send(number % 3, "POST /echo HTTP/1.1\r\nho").await);
        held.push(plane.send(number % 3, &half_body).await);
    }
    let mut idle = Vec::new();
    for number in 0..2 * plane.limits.connections_per_address as u8 {
        let mut client = plane.client(number % 3).await;
        assert_eq!(ask(&mut client).await.unwrap(), "hello");
        idle.push(client);
    }
    echo(&mut good).await;
    let mut newcomer = plane.send(98, "").await;
    echo(&mut newcomer).await;
    let mut client = plane.client(97).await;
    assert_eq!(ask(&mut client).await.unwrap(), "hello");
    echo(&mut good).await;
    assert!(plane.closed("evicted") > 0);
    plane.end().await;
}

#[tokio::test(start_paused = true)]
async fn bodies_together_are_bounded() {
    let limits = small();
    let plane = Plane::start(limits);
    let half = format!(
        "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{}",
        "x".repeat(900)
    );
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(plane.send(1, &half).await);
    }
    let mut good = plane.send(2, &half).await;
    good.write_all("x".repeat(100).as_bytes()).await.unwrap();
    let mut text = [0; 15];
    good.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"HTTP/1.1 200 OK");
    assert!(plane.closed("evicted") >= 6);
    let mut large = plane
        .send(2, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1001\r\n\r\n")
        .await;
    assert!(rest(&mut large).await.starts_with("HTTP/1.1 413"));
    let chunked = format!(
        "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{}",
        "x".repeat(1001)
    );
    let mut large = plane.send(2, &chunked).await;
    assert!(rest(&mut large).await.starts_with("HTTP/1.1 413"));
    plane.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_in_time_and_a_stop_waits_for_it() {
    let plane = Plane::start(small());
    let started = Instant::now();
    let mut stream = plane
        .send(1, "POST /never HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        .await;
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    plane.stop.cancel();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 503"));
    assert_eq!(started.elapsed().as_secs(), plane.limits.answer.as_secs());
    plane.end().await;
}
