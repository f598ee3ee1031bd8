//! Hands writes on in short slices.
//!
//! TLS copies what it is given into its records, five bytes after an aligned address. The C library does copies of more than
//! 4 KiB with one instruction (`rep movsb`) that several processors carry out up to twenty times slower than a loop when
//! only one of the two addresses is aligned (glibc bug 30994, mended in 2.40). Shorter copies are loops everywhere.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Shorter than what the C library copies in that way.
const LONGEST: usize = 2048;
/// How many slices go into one write; together as much as a connection encrypts at once.
const MOST: usize = super::WRITE_BUFFER / LONGEST;

/// A stream whose writes reach the one inside in short slices.
pub(super) struct ShortSlices<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for ShortSlices<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ShortSlices<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut short = [IoSlice::new(&[]); MOST];
        let mut count = 0;
        for (place, slice) in short
            .iter_mut()
            .zip(slices.iter().flat_map(|slice| slice.chunks(LONGEST)))
        {
            *place = IoSlice::new(slice);
            count += 1;
        }
        Pin::new(&mut self.0).poll_write_vectored(context, &short[..count])
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Takes so many bytes of each write, and notes the lengths of the slices.
    struct Sink {
        takes: usize,
        taken: Vec<u8>,
        longest: usize,
    }

    impl AsyncWrite for Sink {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            unreachable!("only slices are written")
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let longest = slices.iter().map(|slice| slice.len()).max().unwrap_or_default();
            self.longest = self.longest.max(longest);
            let takes = self.takes;
            let written: Vec<u8> = slices
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .take(takes)
                .collect();
            self.taken.extend_from_slice(&written);
            Poll::Ready(Ok(written.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn all_of_a_long_write_arrives_in_order_and_in_short_slices() {
        let bytes: Vec<u8> = (0..3 * LONGEST * MOST).map(|number| (number % 251) as u8).collect();
        for takes in [1000, LONGEST, usize::MAX] {
            let mut stream = ShortSlices(Sink {
                takes,
                taken: Vec::new(),
                longest: 0,
            });
            let mut at = 0;
            while at < bytes.len() {
                let (first, second) = bytes[at..].split_at((bytes.len() - at) / 3);
                let slices = [first, &[], second].map(IoSlice::new);
                at += poll_fn(|context| Pin::new(&mut stream).poll_write_vectored(context, &slices))
                    .await
                    .unwrap();
            }
            assert!(stream.0.taken == bytes, "{takes} at a time");
            assert_eq!(stream.0.longest, LONGEST);
        }
    }

    #[tokio::test]
    async fn a_write_of_nothing_is_nothing() {
        let mut stream = ShortSlices(Sink {
            takes: 1,
            taken: Vec::new(),
            longest: 0,
        });
        let written = poll_fn(|context| Pin::new(&mut stream).poll_write(context, &[])).await;
        assert_eq!(written.unwrap(), 0);
    }
}
