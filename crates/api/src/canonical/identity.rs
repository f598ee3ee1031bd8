//! Versioned names for a template and for a set's templates together, short enough for a label.
//!
//! Owns the form of the labels and what goes into a generation. SHA-256 is used so that equal names mean equal
//! templates without further thought; the label carries its first 100 bits. Never includes what must not roll pods:
//! replicas, minimum, start-up dependencies, scaling groups, topology, autoscaling, resource sharing.

use std::fmt;

use super::TemplateView;
use super::encode::{BufferedDigest, Encoder};
use super::walk::walk_template;

/// The version of the identity, part of every label. Raised when the facts or the encoding change in a way that gives
/// an existing template another identity; labels of other versions are then adopted by comparing templates.
pub const VERSION: u32 = 1;

const LABEL_CHARACTERS: usize = 20;
/// Digits and lower-case letters without those that are easily misread.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The identity of one pod template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateIdentity([u8; 32]);

/// The identity of all templates of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationIdentity([u8; 32]);

/// Whether the order of the cliques is part of a set's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliqueOrder {
    /// The order says nothing: cliques start in any order, or in one that they spell out themselves.
    Free,
    /// The cliques start in the order of the list.
    Counts,
}

impl TemplateIdentity {
    pub(super) fn of(template: &TemplateView<'_>) -> Self {
        let mut encoder = Encoder::new(BufferedDigest::new());
        encoder.bytes(b'T', &VERSION.to_le_bytes());
        walk_template(template, &mut encoder);
        Self(encoder.into_output().finish())
    }

    /// The identity as a label value.
    #[must_use]
    pub fn label(&self) -> String {
        self.to_string()
    }

    /// Whether a label value names this identity. A label of another version or origin never does.
    #[must_use]
    pub fn matches_label(&self, label: &str) -> bool {
        label == self.label()
    }
}

impl GenerationIdentity {
    /// The generation of a set, from the name and the template of each of its cliques.
    #[must_use]
    pub fn of(cliques: &[(&str, TemplateIdentity)], order: CliqueOrder) -> Self {
        let mut cliques: Vec<_> = cliques.iter().collect();
        if order == CliqueOrder::Free {
            cliques.sort_by_key(|(name, _)| *name);
        }
        let mut encoder = Encoder::new(BufferedDigest::new());
        encoder.bytes(b'G', &VERSION.to_le_bytes());
        for (name, template) in cliques {
            encoder.bytes(b'c', name.as_bytes());
            encoder.bytes(b't', &template.0);
        }
        Self(encoder.into_output().finish())
    }

    /// The identity as a label value.
    #[must_use]
    pub fn label(&self) -> String {
        self.to_string()
    }

    /// Whether a label value names this identity. A label of another version or origin never does.
    #[must_use]
    pub fn matches_label(&self, label: &str) -> bool {
        label == self.label()
    }
}

fn write_label(digest: &[u8; 32], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "v{VERSION}-")?;
    let mut bits = 0_u32;
    let mut held = 0;
    let mut bytes = digest.iter();
    for _ in 0..LABEL_CHARACTERS {
        if held < 5 {
            bits = (bits << 8) | u32::from(*bytes.next().expect("32 bytes hold more than the label's 100 bits"));
            held += 8;
        }
        held -= 5;
        let index = (bits >> held) as usize & 31;
        write!(formatter, "{}", char::from(ALPHABET[index]))?;
    }
    Ok(())
}

impl fmt::Display for TemplateIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_label(&self.0, formatter)
    }
}

impl fmt::Display for GenerationIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_label(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(byte: u8) -> TemplateIdentity {
        TemplateIdentity([byte; 32])
    }

    #[test]
    fn a_label_is_the_first_hundred_bits_and_a_valid_label_value() {
        assert_eq!(template(0xff).label(), format!("v1-{}", "z".repeat(20)));
        assert_eq!(template(0).label(), format!("v1-{}", "0".repeat(20)));
        let mut digest = [0; 32];
        digest[0] = 0b0000_1000;
        digest[12] = 0b0001_1111;
        assert_eq!(TemplateIdentity(digest).label(), "v1-10000000000000000001");
        assert!(template(7).matches_label(&template(7).label()));
        for other in ["", "v0-00000000000000000000", "5c7dbf8f9d", &template(8).label()] {
            assert!(!template(7).matches_label(other), "{other}");
        }
    }

    #[test]
    fn the_order_of_cliques_counts_only_where_they_start_in_order() {
        let (one, two) = (("a", template(1)), ("b", template(2)));
        let of = GenerationIdentity::of;
        assert_eq!(of(&[one, two], CliqueOrder::Free), of(&[two, one], CliqueOrder::Free));
        assert_ne!(
            of(&[one, two], CliqueOrder::Counts),
            of(&[two, one], CliqueOrder::Counts)
        );
    }

    #[test]
    fn names_and_templates_count() {
        let of = |cliques: &[(&str, TemplateIdentity)]| GenerationIdentity::of(cliques, CliqueOrder::Free);
        let base = of(&[("a", template(1)), ("b", template(2))]);
        assert_ne!(base, of(&[("a", template(2)), ("b", template(1))]));
        assert_ne!(base, of(&[("a", template(1)), ("c", template(2))]));
        assert_ne!(base, of(&[("a", template(1))]));
        assert_ne!(of(&[]), of(&[("", template(1))]));
    }
}
