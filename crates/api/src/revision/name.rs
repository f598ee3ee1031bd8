//! The names of revisions.
//!
//! Owns their form: `<set>-<generation>`, and `<set>-<generation>-<n>` after `n` collisions. The same set and content
//! give the same name everywhere, so that two writers create one object. Nothing ever parses such a name.

use crate::canonical::GenerationIdentity;

/// The label that controllers of Kubernetes put the identity of a revision's content in.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The longest name an object can have.
const NAME_LIMIT: usize = 253;

/// The name of the revision of a set that holds this generation.
///
/// `collisions` counts the names that were found taken by something else; a name is cut in the set's part when it would
/// be too long.
#[must_use]
pub fn revision_name(set_name: &str, generation: &GenerationIdentity, collisions: u32) -> String {
    let suffix = match collisions {
        0 => format!("-{generation}"),
        count => format!("-{generation}-{count}"),
    };
    let mut length = set_name.len().min(NAME_LIMIT - suffix.len());
    while !set_name.is_char_boundary(length) {
        length -= 1;
    }
    let prefix = set_name[..length].trim_end_matches(['-', '.']);
    format!("{prefix}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::CliqueOrder;

    #[test]
    fn names_are_distinct_by_collision_and_never_too_long() {
        let generation = GenerationIdentity::of(&[], CliqueOrder::Free);
        assert_eq!(revision_name("web", &generation, 0), format!("web-{generation}"));
        assert_eq!(revision_name("web", &generation, 2), format!("web-{generation}-2"));
        for collisions in [0, 7, u32::MAX] {
            let name = revision_name(&"x".repeat(300), &generation, collisions);
            assert_eq!(name.len(), 253);
        }
        let dotted = format!("{}.-{}", "x".repeat(227), "y".repeat(60));
        assert_eq!(
            revision_name(&dotted, &generation, 0),
            format!("{}-{generation}", "x".repeat(227))
        );
        assert!(revision_name(&"ä".repeat(200), &generation, 0).len() <= 253);
    }
}
