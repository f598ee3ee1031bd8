//! Who has which place of a server: the decisions, without sockets and without a clock.
//!
//! Owns the table of open connections: whose they are, since when they wait, how much of a body they hold. Decides who
//! leaves when places or memory run out: a connection that is not being answered, of the address that has the most,
//! the one that has waited longest. So a client with a few connections keeps them whatever others open. Never
//! takes the place of a connection that is being answered, and never looks at the time: callers say what it is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Limits;

/// What the table knows about one connection.
#[derive(Debug)]
pub(super) struct Connection {
    address: IpAddr,
    /// When its last answer ended, or when it came.
    waiting_since: Instant,
    /// When the first byte of the request under way came (HTTP/1 only: an HTTP/2 connection also carries pings).
    begun: Option<Instant>,
    /// Whether a request was answered on it.
    used: bool,
    http2: bool,
    /// Requests whose head came and whose body did not yet end.
    receiving: usize,
    /// Whole requests that are being answered.
    answering: usize,
    /// Bytes of bodies that are held for it.
    bytes: usize,
    evicted: CancellationToken,
}

impl Connection {
    /// When it has to be closed unless something happens before. Bodies and answers under way have deadlines of their own.
    fn deadline(&self, limits: &Limits) -> Option<Instant> {
        if self.receiving > 0 || self.answering > 0 {
            return None;
        }
        let end = match self.begun {
            _ if !self.used => self.waiting_since + limits.request,
            Some(begun) => begun + limits.request,
            None => self.waiting_since + limits.idle,
        };
        Some(end)
    }
}

/// The answer to a newcomer.
#[derive(Debug)]
pub(super) enum Entry {
    /// It has a place; cancelled when it has to give it up.
    Admitted(u64, CancellationToken),
    /// Its address has as many connections as it may, and all are being answered.
    TooMany,
    /// Every connection is being answered; there will be a place soon.
    Full,
}

/// The table.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    connections: BTreeMap<u64, Connection>,
    last: u64,
    bytes: usize,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            connections: BTreeMap::new(),
            last: 0,
            bytes: 0,
        }
    }

    /// Gives a newcomer a place, taking one from another connection if it must.
    pub(super) fn enter(&mut self, address: IpAddr, now: Instant) -> Entry {
        let of_address = self.connections.values().filter(|held| held.address == address);
        if of_address.count() >= self.limits.connections_per_address {
            let Some(victim) = self.longest_waiting(|connection| connection.address == address) else {
                return Entry::TooMany;
            };
            self.evict(victim);
        } else if self.connections.len() >= self.limits.connections {
            let Some(victim) = self.longest_waiting(|_| true) else {
                return Entry::Full;
            };
            self.evict(victim);
        }
        self.last += 1;
        let evicted = CancellationToken::new();
        let connection = Connection {
            address,
            waiting_since: now,
            begun: None,
            used: false,
            http2: false,
            receiving: 0,
            answering: 0,
            bytes: 0,
            evicted: evicted.clone(),
        };
        self.connections.insert(self.last, connection);
        Entry::Admitted(self.last, evicted)
    }

    pub(super) fn leave(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            self.bytes -= connection.bytes;
        }
    }

    /// The handshake is over: what follows is the first request.
    pub(super) fn handshake_ended(&mut self, id: u64, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.waiting_since = now;
        }
    }

    /// Bytes came.
    pub(super) fn bytes_read(&mut self, id: u64, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.http2
            && connection.receiving + connection.answering == 0
        {
            connection.begun.get_or_insert(now);
        }
    }

    /// A head came. Returns until when its body has to be complete.
    pub(super) fn head_read(&mut self, id: u64, http2: bool, now: Instant) -> Instant {
        let Some(connection) = self.connections.get_mut(&id) else {
            return now;
        };
        connection.http2 |= http2;
        connection.receiving += 1;
        connection.begun.unwrap_or(now) + self.limits.request
    }

    /// A part of a body came. Takes the room from another connection if it must, possibly from this one. `false` when
    /// the room is needed by requests that are being answered.
    #[must_use]
    pub(super) fn body_read(&mut self, id: u64, bytes: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        connection.bytes += bytes;
        self.bytes += bytes;
        while self.bytes > self.limits.bodies {
            let Some(victim) = self.largest_waiting() else {
                return false;
            };
            self.evict(victim);
        }
        true
    }

    /// A body is complete: the request is being answered.
    pub(super) fn body_ended(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.receiving -= 1;
            connection.answering += 1;
        }
    }

    /// A request is over: answered, or given up before it was complete. Frees its bytes.
    pub(super) fn request_ended(&mut self, id: u64, complete: bool, bytes: usize, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.bytes -= bytes;
        self.bytes -= bytes;
        connection.begun = None;
        if complete {
            connection.answering -= 1;
            connection.waiting_since = now;
            connection.used = true;
        } else {
            connection.receiving -= 1;
        }
    }

    /// When the connection has to be closed, as things are.
    pub(super) fn deadline(&self, id: u64) -> Option<Instant> {
        self.connections.get(&id)?.deadline(&self.limits)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    fn evict(&mut self, id: u64) {
        if let Some(connection) = self.connections.get(&id) {
            connection.evicted.cancel();
        }
        self.leave(id);
    }

    /// Of the address with the most connections, the one that has waited longest.
    fn longest_waiting(&self, among: impl Fn(&Connection) -> bool) -> Option<u64> {
        let counts = self.by_address(|_| 1);
        let waiting = self.connections.iter();
        let waiting = waiting.filter(|(_, connection)| connection.answering == 0 && among(connection));
        let order = |(id, connection): &(&u64, &Connection)| {
            let count = counts.get(&connection.address).copied().unwrap_or_default();
            (std::cmp::Reverse(count), connection.waiting_since, **id)
        };
        waiting.min_by_key(order).map(|(id, _)| *id)
    }

    /// Among the connections with an incomplete request, of the address that holds the most bytes, the one that holds the
    /// most. That another of its requests is being answered does not save it.
    fn largest_waiting(&self) -> Option<u64> {
        let bytes = self.by_address(|connection| connection.bytes);
        let waiting = self.connections.iter();
        let waiting = waiting.filter(|(_, connection)| connection.receiving > 0);
        let order = |(id, connection): &(&u64, &Connection)| {
            let of_address = bytes.get(&connection.address).copied().unwrap_or_default();
            (of_address, connection.bytes, **id)
        };
        waiting.max_by_key(order).map(|(id, _)| *id)
    }

    fn by_address(&self, amount: impl Fn(&Connection) -> usize) -> BTreeMap<IpAddr, usize> {
        let mut sums = BTreeMap::new();
        for connection in self.connections.values() {
            *sums.entry(connection.address).or_default() += amount(connection);
        }
        sums
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
