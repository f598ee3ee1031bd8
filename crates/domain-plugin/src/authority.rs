//! Lets the kubelet's HTTP/2 requests through to a strict server.
//!
//! The kubelet dials plugin sockets by path, and its gRPC library sends that path, escaped, as `:authority`: not a valid
//! one, so our HTTP/2 library resets the stream before any handler sees it. This filter stands between socket and server: it
//! replaces the authority in each block of request headers and passes everything else on as it is. It assumes
//! the default size of the header table, which the server does not change. It never looks into messages.

use std::io;

use loona_hpack::Decoder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, copy, duplex, split};

const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The most bytes of one block of headers, as sent and as decoded. The kubelet sends a few hundred.
const MOST: usize = 16_384;
const BUFFER: usize = 64 * 1024;

/// A stream that a strict server can be given instead of `stream`. The copying tasks end with either side.
pub(crate) fn tolerant<S>(stream: S) -> DuplexStream
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (inner, outer) = duplex(BUFFER);
    let (mut from_client, mut to_client) = split(stream);
    let (mut from_server, mut to_server) = split(inner);
    tokio::spawn(async move {
        if let Err(error) = filter(&mut from_client, &mut to_server).await
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            tracing::debug!(%error, "a connection of the kubelet has ended");
        }
        // Nothing more comes: the server sees the end and closes its side.
        let _ = to_server.shutdown().await;
    });
    tokio::spawn(async move {
        let _ = copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    });
    outer
}

async fn filter(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface).await?;
    to.write_all(&preface).await?;
    let mut decoder = Decoder::new();
    loop {
        let frame = Frame::read(from).await?;
        if frame.kind != HEADERS {
            to.write_all(&frame.header(frame.length, frame.flags)).await?;
            let length = u64::try_from(frame.length).unwrap_or(u64::MAX);
            if copy(&mut (&mut *from).take(length), to).await? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        }
        let block = header_block(from, &frame).await?;
        let block = rewritten(&mut decoder, &block)?;
        let flags = (frame.flags & END_STREAM) | END_HEADERS;
        to.write_all(&frame.header(block.len(), flags)).await?;
        to.write_all(&block).await?;
    }
}

struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

impl Frame {
    async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut bytes = [0; FRAME_HEADER];
        from.read_exact(&mut bytes).await?;
        let [high, middle, low, kind, flags, stream @ ..] = bytes;
        Ok(Self {
            length: usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low),
            kind,
            flags,
            stream,
        })
    }

    fn header(&self, length: usize, flags: u8) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        let mut bytes = vec![high, middle, low, self.kind, flags];
        bytes.extend(self.stream);
        bytes
    }
}

fn broken(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// The whole block that a HEADERS frame begins, without padding and priority.
async fn header_block(from: &mut (impl AsyncRead + Unpin), first: &Frame) -> io::Result<Vec<u8>> {
    let mut block = payload(from, first.length).await?;
    if first.flags & PADDED != 0 {
        let padding = usize::from(*block.first().ok_or_else(|| broken("no length of padding"))?);
        let end = block.len().checked_sub(padding).filter(|end| *end >= 1);
        block.truncate(end.ok_or_else(|| broken("more padding than content"))?);
        block.remove(0);
    }
    if first.flags & PRIORITY != 0 {
        block = block.get(5..).ok_or_else(|| broken("no priority"))?.to_vec();
    }
    let mut flags = first.flags;
    while flags & END_HEADERS == 0 {
        let next = Frame::read(from).await?;
        if next.kind != CONTINUATION || next.stream != first.stream || block.len() + next.length > MOST {
            return Err(broken("a block of headers is not continued"));
        }
        block.extend(payload(from, next.length).await?);
        flags = next.flags;
    }
    Ok(block)
}

async fn payload(from: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    if length > MOST {
        return Err(broken("a block of headers is too large"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The same headers, each spelled out, with an authority that every server accepts.
fn rewritten(decoder: &mut Decoder<'_>, block: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoded = Vec::with_capacity(block.len() * 2);
    let decoded = decoder.decode_with_cb(block, |name, value| {
        if encoded.len() <= MOST {
            let value = if &name[..] == b":authority" {
                &b"localhost"[..]
            } else {
                &value
            };
            literal(&name, value, &mut encoded);
        }
    });
    decoded.map_err(|_| broken("a block of headers cannot be decoded"))?;
    if encoded.len() > MOST {
        return Err(broken("a block of headers is too large"));
    }
    Ok(encoded)
}

/// A header as a literal that enters no table.
fn literal(name: &[u8], value: &[u8], into: &mut Vec<u8>) {
    into.push(0);
    for text in [name, value] {
        integer(text.len(), into);
        into.extend(text);
    }
}

/// An integer with a prefix of seven bits; the eighth says that the text is not compressed.
fn integer(mut number: usize, into: &mut Vec<u8>) {
    if number < 127 {
        into.push(u8::try_from(number).unwrap_or(126));
        return;
    }
    into.push(127);
    number -= 127;
    while number >= 128 {
        into.push(u8::try_from(number % 128).unwrap_or(0) | 128);
        number /= 128;
    }
    into.push(u8::try_from(number).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let frame = Frame {
            length: payload.len(),
            kind,
            flags,
            stream: [0, 0, 0, stream],
        };
        [frame.header(payload.len(), flags), payload.to_vec()].concat()
    }

    async fn filtered(bytes: &[u8]) -> (io::Result<()>, Vec<u8>) {
        let mut output = Vec::new();
        let input = [&[b'x'; PREFACE], bytes].concat();
        let result = filter(&mut input.as_slice(), &mut output).await;
        (result, output.split_off(PREFACE.min(output.len())))
    }

    fn headers(authority: &str) -> Vec<u8> {
        let mut block = Vec::new();
        literal(b":path", b"/a/b", &mut block);
        literal(b":authority", authority.as_bytes(), &mut block);
        literal(b"long", "v".repeat(300).as_bytes(), &mut block);
        block
    }

    #[tokio::test]
    async fn the_authority_is_replaced_and_nothing_else() {
        let data = frame(0, 1, 1, b"message");
        let path = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx.sock";
        let input = [frame(HEADERS, END_HEADERS, 1, &headers(path)), data.clone()].concat();
        let (result, output) = filtered(&input).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let expected = [frame(HEADERS, END_HEADERS, 1, &headers("localhost")), data].concat();
        assert_eq!(output, expected);
    }

    #[tokio::test]
    async fn padded_prioritized_and_continued_blocks_are_joined() {
        let block = headers("%2Fx");
        let (one, other) = block.split_at(20);
        let padded = [&[3][..], &[0; 5], one, &[0; 3]].concat();
        let input = [
            frame(HEADERS, PADDED | PRIORITY | END_STREAM, 3, &padded),
            frame(CONTINUATION, END_HEADERS, 3, other),
        ];
        let (_, output) = filtered(&input.concat()).await;
        assert_eq!(
            output,
            frame(HEADERS, END_STREAM | END_HEADERS, 3, &headers("localhost"))
        );
    }

    #[tokio::test]
    async fn nonsense_ends_the_connection_without_a_panic() {
        for input in [
            frame(HEADERS, PADDED | END_HEADERS, 1, &[9, 1]),
            frame(HEADERS, PRIORITY | END_HEADERS, 1, &[1]),
            frame(HEADERS, 0, 1, &[]),
            frame(HEADERS, END_HEADERS, 1, &[255; 40]),
            [0xff, 0xff, 0xff, HEADERS, END_HEADERS, 0, 0, 0, 1].to_vec(),
        ] {
            let (result, _) = filtered(&input).await;
            assert!(result.is_err(), "{input:?}");
        }
    }
}
