//! Reading watches: the events of a stream are counted, not parsed, with the least work that HTTP/1.1 over TLS allows, because
//! a thousand readers share the machine with the server that they measure. An event is one line.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anyhow::{Context as _, anyhow, bail, ensure};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::records::Records;

/// As much as several TLS records, small enough to stay in the processor's cache.
const BUFFER: usize = 256 * 1024;

thread_local! {
    // One for all watches of a thread: each empties it before the next one reads.
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// The server ended a watch.
#[derive(Debug, thiserror::Error)]
#[error("the watch ended after {after} events")]
pub(crate) struct Ended {
    /// How many events it had told.
    pub(crate) after: usize,
}

/// An open watch.
pub(crate) struct Events {
    stream: TcpStream,
    records: Records,
    /// The beginning of a record whose end has not come yet.
    begun: Vec<u8>,
    lines: Lines,
}

impl Events {
    /// Asks for a watch and reads the headers of the answer.
    pub(crate) async fn open(
        mut stream: TcpStream,
        mut records: Records,
        path: &str,
        host: &str,
    ) -> anyhow::Result<Self> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: coppice-bench/1\r\nAccept: application/json\r\n\r\n"
        );
        stream.write_all(&records.seal(request.as_bytes())?).await?;
        let mut events = Self {
            stream,
            records,
            begun: Vec::new(),
            lines: Lines::default(),
        };
        let mut head = Vec::new();
        let end = loop {
            events
                .receive(|_, content| {
                    head.extend_from_slice(content);
                    Ok(())
                })
                .await
                .with_context(|| format!("GET {path}"))?;
            if let Some(at) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let headers = String::from_utf8_lossy(&head[..end]).to_lowercase();
        ensure!(headers.starts_with("http/1.1 200"), "GET {path}: {headers}");
        ensure!(
            headers.contains("transfer-encoding: chunked"),
            "GET {path}: the answer is no stream: {headers}"
        );
        events.lines.take(&head[end..])?;
        Ok(events)
    }

    /// Reads until `count` events have come in all, and tells each time which ones came. Returns how long they were together.
    pub(crate) async fn read(&mut self, count: usize, mut told: impl FnMut(Range<usize>)) -> anyhow::Result<usize> {
        told(0..self.lines.seen);
        while self.lines.seen < count {
            let seen = self.lines.seen;
            self.receive(Lines::take)
                .await
                .with_context(|| format!("after {seen} of {count} events"))?;
            told(seen..self.lines.seen);
        }
        Ok(self.lines.bytes)
    }

    /// Waits for the socket and hands on what it has, once.
    async fn receive(&mut self, mut take: impl FnMut(&mut Lines, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        poll_fn(|context| SHARED.with_borrow_mut(|buffer| self.poll_receive(context, buffer, &mut take))).await
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        take: &mut impl FnMut(&mut Lines, &[u8]) -> anyhow::Result<()>,
    ) -> Poll<anyhow::Result<()>> {
        let begun = self.begun.len();
        buffer[..begun].copy_from_slice(&self.begun);
        // Unlike `try_read`, this knows from a short read that the socket is empty and does not ask again.
        let mut unread = ReadBuf::new(&mut buffer[begun..]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut unread))?;
        let read = unread.filled().len();
        if read == 0 {
            return Poll::Ready(Err(anyhow!("the connection ended")));
        }
        let (mut at, end) = (0, begun + read);
        while let Some(opened) = self.records.open(&mut buffer[at..end])? {
            take(&mut self.lines, opened.content)?;
            at += opened.length;
        }
        self.begun.clear();
        self.begun.extend_from_slice(&buffer[at..end]);
        Poll::Ready(Ok(()))
    }
}

/// Counts the lines in a chunked body that comes in pieces.
#[derive(Default)]
struct Lines {
    seen: usize,
    /// The length of everything that was seen.
    bytes: usize,
    /// What is left of the current chunk.
    left: usize,
    /// The line with the size of the next chunk, as far as it has come, and the line end of the chunk before it.
    header: Vec<u8>,
}

impl Lines {
    fn take(&mut self, mut piece: &[u8]) -> anyhow::Result<()> {
        while !piece.is_empty() {
            if self.left > 0 {
                let (now, later) = piece.split_at(self.left.min(piece.len()));
                self.seen += memchr::memchr_iter(b'\n', now).count();
                self.bytes += now.len();
                self.left -= now.len();
                piece = later;
                continue;
            }
            let Some(end) = memchr::memchr(b'\n', piece) else {
                self.header.extend_from_slice(piece);
                return Ok(());
            };
            self.header.extend_from_slice(&piece[..end]);
            piece = &piece[end + 1..];
            let text = std::str::from_utf8(&self.header)
                .context("a chunk's size is not text")?
                .trim();
            if !text.is_empty() {
                self.left = usize::from_str_radix(text, 16).with_context(|| format!("chunk size {text:?}"))?;
                if self.left == 0 {
                    bail!(Ended { after: self.seen });
                }
            }
            self.header.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_wherever_the_stream_is_cut() {
        let stream = b"5\r\n{a}\n{\r\n4\r\nb}\n\n\r\n10\r\n{cccccccccccccc}\r\n1\r\n\n\r\n";
        for cut in 0..stream.len() {
            let mut lines = Lines::default();
            lines.take(&stream[..cut]).unwrap();
            lines.take(&stream[cut..]).unwrap();
            assert_eq!((lines.seen, lines.bytes, lines.left), (4, 26, 0), "cut at {cut}");
        }
    }

    #[test]
    fn an_end_and_nonsense_are_errors() {
        assert!(Lines::default().take(b"0\r\n\r\n").is_err());
        assert!(Lines::default().take(b"zz\r\n").is_err());
    }
}
