//! The names under which the IMEX daemons of one domain know each other.
//!
//! An index is a name; which address it has is in the hosts file. Names carry a hash of the domain's UID: IMEX takes
//! daemons with equal node files for members of one domain, so equal names in all domains would let a reused pod address
//! receive another domain's messages.

/// How every name begins.
pub const PREFIX: &str = "compute-domain-daemon-";
/// Address of the names that no daemon has: it refuses at once, where a missing name would search through DNS.
pub const UNUSED_ADDRESS: &str = "127.0.0.2";

const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The names of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainNames {
    prefix: String,
}

impl DomainNames {
    /// The names of the domain with this UID.
    pub fn new(domain_uid: &str) -> Self {
        Self {
            prefix: format!("{PREFIX}{}-", hash(domain_uid)),
        }
    }

    /// The name of an index.
    pub fn name(&self, index: u32) -> String {
        format!("{}{index:04}", self.prefix)
    }
}

/// FNV-1a with 32 bits, its decimal digits written in Kubernetes' alphabet for names without words: the form of a
/// pod-template hash.
pub fn hash(text: &str) -> String {
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let digits = sum.to_string().into_bytes();
    digits
        .iter()
        .map(|digit| char::from(ALPHABET[usize::from(*digit) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_domains_share_no_name() {
        let one = DomainNames::new("0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11");
        let other = DomainNames::new("0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b12");
        assert_ne!(one.name(0), other.name(0));
        assert!(one.name(7).starts_with(PREFIX) && one.name(7).ends_with("-0007"));
    }

    /// Known values of FNV-1a: the empty text is the offset basis 2166136261, "a" is 3826002220.
    #[test]
    fn the_hash_has_the_form_of_a_pod_template_hash() {
        assert_eq!(hash(""), "65bb57b6b5");
        assert_eq!(hash("a"), "7d6b446664");
        assert!(hash("x").bytes().all(|byte| b"456789bcdf".contains(&byte)));
    }
}
