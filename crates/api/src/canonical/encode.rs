//! The canonical template as an unambiguous stream of bytes.
//!
//! Owns the encoding under the identity: a tag before every value and a length before every text, so that no two
//! different templates share a stream. The encoding is frozen: a change to it, or to the facts in a way that changes
//! an existing stream, needs a new [`super::identity::VERSION`]. Never holds more than a small buffer.

use serde_json::Number;
use sha2::{Digest, Sha256};

use super::order::whole;
use super::walk::Sink;
use crate::quantity::Quantity;

/// Where the bytes go.
pub(super) trait Output {
    fn byte(&mut self, byte: u8);
    fn write(&mut self, bytes: &[u8]);
}

impl Output for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A SHA-256 fed in larger pieces than the walk produces.
pub(super) struct BufferedDigest {
    digest: Sha256,
    buffer: [u8; Self::CAPACITY],
    length: usize,
}

impl BufferedDigest {
    const CAPACITY: usize = 1024;

    pub(super) fn new() -> Self {
        Self {
            digest: Sha256::new(),
            buffer: [0; Self::CAPACITY],
            length: 0,
        }
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        self.digest.update(&self.buffer[..self.length]);
        self.digest.finalize().into()
    }
}

impl Output for BufferedDigest {
    #[inline]
    fn byte(&mut self, byte: u8) {
        if self.length == Self::CAPACITY {
            self.digest.update(self.buffer);
            self.length = 0;
        }
        self.buffer[self.length] = byte;
        self.length += 1;
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if self.length + bytes.len() > Self::CAPACITY {
            self.digest.update(&self.buffer[..self.length]);
            self.length = 0;
            if bytes.len() > Self::CAPACITY {
                self.digest.update(bytes);
                return;
            }
        }
        self.buffer[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

/// Writes what the walk reports as bytes.
pub(super) struct Encoder<O> {
    output: O,
}

impl<O: Output> Encoder<O> {
    pub(super) fn new(output: O) -> Self {
        Self { output }
    }

    pub(super) fn into_output(self) -> O {
        self.output
    }

    /// A tag and an integer in groups of seven bits, low groups first.
    fn tagged(&mut self, tag: u8, mut integer: u128) {
        self.output.byte(tag);
        while integer >= 0x80 {
            self.output.byte((integer & 0x7f) as u8 | 0x80);
            integer >>= 7;
        }
        self.output.byte(integer as u8);
    }

    fn tagged_signed(&mut self, tag: u8, integer: i128) {
        self.tagged(tag, ((integer << 1) ^ (integer >> 127)).cast_unsigned());
    }

    /// A tagged byte string with its length.
    pub(super) fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.tagged(tag, bytes.len() as u128);
        self.output.write(bytes);
    }
}

impl<O: Output> Sink for Encoder<O> {
    const KEEPS_DEFAULTS: bool = false;

    fn begin_object(&mut self) {
        self.output.byte(b'{');
    }

    fn key(&mut self, name: &str) {
        self.bytes(b'k', name.as_bytes());
    }

    fn end_object(&mut self) {
        self.output.byte(b'}');
    }

    fn begin_list(&mut self, length: usize) {
        self.tagged(b'[', length as u128);
    }

    fn end_list(&mut self) {}

    fn null(&mut self) {
        self.output.byte(b'n');
    }

    fn flag(&mut self, value: bool) {
        self.output.byte(if value { b't' } else { b'f' });
    }

    fn number(&mut self, value: &Number) {
        match whole(value) {
            Some(integer) => self.tagged_signed(b'i', integer),
            None => self.bytes(b'd', &value.as_f64().unwrap_or(f64::NAN).to_bits().to_le_bytes()),
        }
    }

    fn integer(&mut self, value: i64) {
        self.tagged_signed(b'i', value.into());
    }

    fn text(&mut self, value: &str) {
        self.bytes(b's', value.as_bytes());
    }

    fn quantity(&mut self, value: Quantity) {
        self.tagged_signed(b'q', value.nanos());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_digest_of_the_whole() {
        for size in [1, 7, 64, 1023, 1024, 1025, 5000] {
            let mut buffered = BufferedDigest::new();
            for _ in 0..5 {
                buffered.write(&vec![b'x'; size]);
                buffered.write(b"y");
            }
            let mut whole = Vec::new();
            for _ in 0..5 {
                whole.extend(vec![b'x'; size]);
                whole.push(b'y');
            }
            assert_eq!(buffered.finish(), <[u8; 32]>::from(Sha256::digest(&whole)), "{size}");
        }
    }

    #[test]
    fn extreme_integers_are_encoded() {
        for integer in [i128::MIN, -1, 0, 1, i128::MAX] {
            let mut encoder = Encoder::new(Vec::new());
            encoder.tagged_signed(b'i', integer);
            let bytes = encoder.into_output();
            let value = bytes[1..]
                .iter()
                .rev()
                .fold(0_u128, |sum, byte| (sum << 7) | u128::from(byte & 0x7f));
            assert_eq!(((value >> 1) as i128) ^ -((value & 1) as i128), integer);
        }
    }
}
