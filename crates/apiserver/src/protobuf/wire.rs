//! Protobuf's wire format: numbered fields, of which only the encoding is known.

/// What a field holds, as far as the wire tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32,
}

/// The fields of a message, in the order they are written.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u64, Content<'a>), String> {
        let tag = varint(&mut self.rest)?;
        let content = match tag & 7 {
            0 => Content::Varint(varint(&mut self.rest)?),
            1 => {
                let bytes = self.take(8)?;
                Content::Fixed64(u64::from_le_bytes(bytes.try_into().expect("eight were taken")))
            }
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| CUT_OFF.to_owned())?;
                Content::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Content::Fixed32
            }
            other => return Err(format!("wire type {other} is not used by Kubernetes")),
        };
        Ok((tag >> 3, content))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Content<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

const CUT_OFF: &str = "unexpected EOF";

/// Reads one number of variable length from the front of `bytes`.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if index > 9 {
            return Err("integer overflow".to_owned());
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok(number);
        }
    }
    Err(CUT_OFF.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_read() {
        let message = [
            0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 0, 0, 0, 0,
        ];
        let fields: Result<Vec<_>, _> = Fields::new(&message).collect();
        let expected = [
            (1, Content::Varint(150)),
            (2, Content::Fixed64(1)),
            (3, Content::Bytes(b"hi")),
            (4, Content::Fixed32),
        ];
        assert_eq!(fields.unwrap(), expected);
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_refused_once() {
        for message in [
            &[0x08][..],
            &[0x1a, 5, b'h'],
            &[0x11, 1],
            &[0x0b],
            &[0x08, 0x80],
            &[0x80; 12],
        ] {
            let fields: Vec<_> = Fields::new(message).collect();
            assert_eq!(fields.len(), 1, "{message:?}");
            assert!(fields[0].is_err(), "{message:?}");
        }
    }
}
