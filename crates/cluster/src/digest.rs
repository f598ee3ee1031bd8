//! Short names that follow from texts.

/// Letters and digits that form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Ten characters that follow from texts: the FNV-1a hash, of which nothing depends on being hard to forge.
pub(crate) fn digest(texts: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for text in texts {
        // A byte that is in no text keeps them apart.
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    let mut digits = String::new();
    for _ in 0..10 {
        let digit = usize::try_from(hash % 27).unwrap_or(0);
        digits.push(char::from(ALPHABET[digit]));
        hash /= 27;
    }
    digits
}
