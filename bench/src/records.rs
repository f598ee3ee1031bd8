//! The record layer of TLS 1.3 for a reader in a hurry: rustls makes the connection, then hands over its keys, and records are
//! opened in place, in the buffer that the socket was read into. Every record is decrypted and authenticated as by any
//! client; what is saved is copying. Knows one cipher and no change of keys.

use anyhow::{Context, bail, ensure};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};

const HEADER: usize = 5;
const APPLICATION_DATA: u8 = 23;
const HANDSHAKE: u8 = 22;

/// Both directions of an established connection.
pub(crate) struct Records {
    incoming: Direction,
    outgoing: Direction,
}

/// The keys of one direction and how many records went through it.
struct Direction {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl Direction {
    fn new(key: &[u8], iv: &[u8], sequence: u64) -> anyhow::Result<Self> {
        let key = UnboundKey::new(&AES_128_GCM, key)
            .ok()
            .context("a key of the wrong length")?;
        Ok(Self {
            key: LessSafeKey::new(key),
            iv: iv.try_into().context("an initialisation vector of the wrong length")?,
            sequence,
        })
    }

    fn go_on((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> anyhow::Result<Self> {
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else {
            bail!("the connection uses another cipher than was asked for");
        };
        Self::new(key.as_ref(), iv.as_ref(), sequence)
    }

    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// A record that was opened.
pub(crate) struct Opened<'a> {
    /// How long it was, with everything around its content.
    pub(crate) length: usize,
    /// Its content; empty for what concerns TLS only.
    pub(crate) content: &'a [u8],
}

impl Records {
    /// Goes on where rustls left off.
    pub(crate) fn new(secrets: ExtractedSecrets) -> anyhow::Result<Self> {
        Ok(Self {
            incoming: Direction::go_on(secrets.rx)?,
            outgoing: Direction::go_on(secrets.tx)?,
        })
    }

    /// A short text as one record.
    pub(crate) fn seal(&mut self, text: &[u8]) -> anyhow::Result<Vec<u8>> {
        let length = text.len() + 1 + AES_128_GCM.tag_len();
        let [high, low] = u16::try_from(length)?.to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        let mut inner = text.to_vec();
        inner.push(APPLICATION_DATA);
        let nonce = self.outgoing.next_nonce();
        self.outgoing
            .key
            .seal_in_place_append_tag(nonce, Aad::from(header), &mut inner)
            .ok()
            .context("a record cannot be sealed")?;
        Ok([&header[..], &inner].concat())
    }

    /// Opens the first record in `bytes`; `None` as long as it is not there wholly.
    pub(crate) fn open<'a>(&mut self, bytes: &'a mut [u8]) -> anyhow::Result<Option<Opened<'a>>> {
        let Some((header, rest)) = bytes.split_first_chunk_mut::<HEADER>() else {
            return Ok(None);
        };
        let [kind, _, _, high, low] = *header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(sealed) = rest.get_mut(..length) else {
            return Ok(None);
        };
        ensure!(kind == APPLICATION_DATA, "a record of type {kind} within the stream");
        let nonce = self.incoming.next_nonce();
        let inner = self
            .incoming
            .key
            .open_in_place(nonce, Aad::from(*header), sealed)
            .ok()
            .context("a record cannot be opened")?;
        // The content is followed by its type and any number of zeros.
        let end = inner.iter().rposition(|byte| *byte != 0).context("an empty record")?;
        let content = match inner[end] {
            APPLICATION_DATA => &inner[..end],
            HANDSHAKE => &[],
            other => bail!("the server sent a record of type {other}: {:?}", &inner[..end]),
        };
        Ok(Some(Opened {
            length: HEADER + length,
            content,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let direction = || Direction::new(&[7; 16], &[9; NONCE_LEN], 3).unwrap();
        Records {
            incoming: direction(),
            outgoing: direction(),
        }
    }

    #[test]
    fn records_are_opened_once_they_are_whole_and_in_order() {
        let (mut there, mut here) = (records(), records());
        let first = there.seal(b"first").unwrap();
        let second = there.seal(b"second\0").unwrap();
        for cut in 0..first.len() {
            assert!(here.open(&mut first.clone()[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        let mut both = [first.clone(), second].concat();
        let opened = here.open(&mut both).unwrap().unwrap();
        assert_eq!((opened.length, opened.content), (first.len(), &b"first"[..]));
        let opened = here.open(&mut both[first.len()..]).unwrap().unwrap();
        assert_eq!(opened.content, b"second\0");
    }

    #[test]
    fn a_record_that_was_changed_is_refused() {
        let mut sealed = records().seal(b"text").unwrap();
        sealed[HEADER] ^= 1;
        assert!(records().open(&mut sealed).is_err());
    }
}
