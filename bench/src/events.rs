//! Reading watches: the events of a stream are counted, not parsed, with the least work that HTTP/1.1 allows, because a
//! thousand readers share the machine with the server that they measure. An event is one line.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// As much as several TLS records.
const BUFFER: usize = 64 * 1024;

/// An open watch.
pub(crate) struct Events {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    /// Bytes of the body that came with the headers.
    ready: usize,
    lines: Lines,
}

impl Events {
    /// Asks for a watch and reads the headers of the answer.
    pub(crate) async fn open(mut stream: TlsStream<TcpStream>, path: &str, host: &str) -> anyhow::Result<Self> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: coppice-bench/1\r\nAccept: application/json\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut buffer = vec![0; BUFFER];
        let mut filled = 0;
        let end = loop {
            let count = stream.read(&mut buffer[filled..]).await?;
            ensure!(count > 0, "GET {path}: the connection ended within the headers");
            filled += count;
            if let Some(at) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let headers = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
        ensure!(headers.starts_with("http/1.1 200"), "GET {path}: {headers}");
        ensure!(
            headers.contains("transfer-encoding: chunked"),
            "GET {path}: the answer is no stream: {headers}"
        );
        buffer.copy_within(end..filled, 0);
        Ok(Self {
            stream,
            buffer,
            ready: filled - end,
            lines: Lines::default(),
        })
    }

    /// Reads until `count` events have come in all.
    pub(crate) async fn read(&mut self, count: usize) -> anyhow::Result<()> {
        self.lines.take(&self.buffer[..std::mem::take(&mut self.ready)])?;
        while self.lines.seen < count {
            let read = self.stream.read(&mut self.buffer).await?;
            let seen = self.lines.seen;
            ensure!(read > 0, "the watch ended after {seen} of {count} events");
            self.lines.take(&self.buffer[..read])?;
        }
        Ok(())
    }
}

/// Counts the lines in a chunked body that comes in pieces.
#[derive(Default)]
struct Lines {
    seen: usize,
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
                self.seen += now.iter().filter(|byte| **byte == b'\n').count();
                self.left -= now.len();
                piece = later;
                continue;
            }
            let Some(end) = piece.iter().position(|byte| *byte == b'\n') else {
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
                    bail!("the watch ended after {} events", self.seen);
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
            assert_eq!((lines.seen, lines.left), (4, 0), "cut at {cut}");
        }
    }

    #[test]
    fn an_end_and_nonsense_are_errors() {
        assert!(Lines::default().take(b"0\r\n\r\n").is_err());
        assert!(Lines::default().take(b"zz\r\n").is_err());
    }
}
