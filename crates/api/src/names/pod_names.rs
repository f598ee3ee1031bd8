//! Names and host names of pods.
//!
//! A pod is named `<clique>-<suffix>`, five characters like those the API server would generate, but computed: from
//! the pod's index and a token of the caller. So the name is known before the pod exists, a gang can list its pods
//! before they are created, and a create that is repeated after a lost answer meets its own pod instead of making a
//! second one.
//!
//! For one clique and one token the suffixes of all indices differ (the index is mapped one-to-one). The token tells
//! incarnations apart: a pod that replaces another at the same index takes a new token, because the old name may
//! still be held by a terminating pod. Different tokens may, once in fourteen million pairs, meet in the same suffix; a create
//! that finds a name taken by a pod that is not its own is repeated with the next token.

use sha2::{Digest, Sha256};

/// Characters of a suffix: no vowels, so no words; the ones that Kubernetes uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters in a suffix.
pub const SUFFIX_LENGTH: usize = 5;
const SUFFIXES: u64 = 27u64.pow(SUFFIX_LENGTH as u32);

/// The name of the pod with this index and incarnation. `clique` is the name of the PodClique object.
pub fn pod_name(clique: &str, pod_index: u32, token: &str) -> String {
    format!("{clique}-{}", suffix(clique, pod_index, token))
}

/// The host name of the pod with this index, stable over its incarnations.
pub fn pod_hostname(clique: &str, pod_index: u32) -> String {
    format!("{clique}-{pod_index}")
}

fn suffix(clique: &str, pod_index: u32, token: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update((clique.len() as u64).to_be_bytes());
    hasher.update(clique);
    hasher.update(token);
    let digest = hasher.finalize();
    let word = |start: usize| {
        digest[start..start + 8]
            .iter()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte))
    };
    let offset = word(0) % SUFFIXES;
    // A factor that is not divisible by 3, the only prime of 27: multiplication by it is one-to-one.
    let factor = 3 * (word(8) % (SUFFIXES / 3)) + 1;
    let mut number = ((u64::from(pod_index) % SUFFIXES) * factor + offset) % SUFFIXES;
    let mut text = String::with_capacity(SUFFIX_LENGTH);
    for _ in 0..SUFFIX_LENGTH {
        text.push(char::from(ALPHABET[(number % 27) as usize]));
        number /= 27;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_deterministic_and_differ_by_index_and_token() {
        assert_eq!(pod_name("web-0-router", 0, "a"), pod_name("web-0-router", 0, "a"));
        assert_ne!(pod_name("web-0-router", 0, "a"), pod_name("web-0-router", 0, "b"));
        let names: BTreeSet<_> = (0..20_000).map(|index| pod_name("web-0-router", index, "a")).collect();
        assert_eq!(names.len(), 20_000);
    }

    #[test]
    fn a_suffix_has_five_characters_of_the_alphabet() {
        let name = pod_name("c", 7, "token");
        let suffix = name.strip_prefix("c-").expect("the clique comes first");
        assert_eq!(suffix.len(), SUFFIX_LENGTH);
        assert!(suffix.bytes().all(|byte| ALPHABET.contains(&byte)));
    }

    #[test]
    fn names_never_change_between_versions() {
        assert_eq!(pod_name("web-0-router", 0, "1"), "web-0-router-6nsls");
        assert_eq!(pod_name("web-0-router", 1, "1"), "web-0-router-bz2wt");
    }

    #[test]
    fn host_names_carry_the_index() {
        assert_eq!(pod_hostname("web-0-router", 12), "web-0-router-12");
    }
}
