//! The limits of a server, as data.

use std::time::Duration;

/// What a server grants to connections and requests. Every number is a most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections, including those in a TLS handshake.
    pub connections: usize,
    /// Open connections of one remote address.
    pub connections_per_address: usize,
    /// Requests of one HTTP/2 connection at the same time.
    pub streams: u32,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for a whole request, head and body, from its first byte; for the first request from the end of the handshake.
    pub request: Duration,
    /// Time for the answer, from the last byte of the request.
    pub answer: Duration,
    /// Time between the end of an answer and the next request. Longer than the 90 seconds after which Go's client closes
    /// an idle connection, so that the client closes it and no request meets a closing connection.
    pub idle: Duration,
    /// Interval of HTTP/2 keep-alive pings, and the time for their answer.
    pub ping: Duration,
    /// Bytes of one request's body.
    pub body: usize,
    /// Bytes of all bodies that are held at the same time.
    pub bodies: usize,
}

impl Limits {
    /// For webhooks. An API server opens one HTTP/1.1 connection for each review under way, and has 200 changing requests
    /// under way unless configured otherwise: half of the places leave room for a second one.
    #[must_use]
    pub const fn webhooks(body: usize) -> Self {
        Self {
            connections: 512,
            connections_per_address: 256,
            streams: 128,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(15),
            // What an API server waits at most, whatever the configuration says.
            answer: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            ping: Duration::from_secs(20),
            body,
            bodies: 4 * body,
        }
    }

    /// For probes and metrics: a kubelet and a few scrapers, whose requests have no body.
    #[must_use]
    pub const fn probes() -> Self {
        Self {
            connections: 64,
            connections_per_address: 16,
            streams: 8,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(10),
            answer: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            ping: Duration::from_secs(20),
            body: 4 << 10,
            bodies: 256 << 10,
        }
    }
}
