//! What a name may look like and how long it may be.
//!
//! Kubernetes limits the names that we *derive*: a headless service is a DNS-1035 label, a host name and a pod's claim
//! name are DNS-1123 labels, and almost every name of ours is also a label value; each of those ends at 63 characters.
//! So the checks here build the longest derived name, index digits included, and say how long the user's part may be.
//! Indices get room for [`HEADROOM_DIGITS`] digits even when fewer are asked for now, because `kubectl scale` does not
//! pass by admission. Every combination within the Go operator's budget of 45 characters fits.

use std::fmt;

use super::pod_names::SUFFIX_LENGTH;

/// Longest DNS label, label value, host name and service name.
pub const LABEL_LENGTH: usize = 63;
/// Longest DNS subdomain: the name of most objects.
pub const SUBDOMAIN_LENGTH: usize = 253;
/// Digits that every index of a pod, copy of a set or copy of a group has room for.
pub const HEADROOM_DIGITS: usize = 3;
/// Digits of an epoch of ours.
pub const EPOCH_DIGITS: usize = 6;
/// What the API server adds to a `generateName`.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;

/// Why a name is not of the wanted form; the text is for people.
pub type FormResult = Result<(), &'static str>;

fn label_characters(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let outer = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.bytes().all(inner) && outer(text.bytes().next()) && outer(text.bytes().last())
}

/// A DNS label of RFC 1123: host names, pod claim names.
pub fn dns_1123_label(text: &str) -> FormResult {
    if text.len() <= LABEL_LENGTH && label_characters(text) {
        return Ok(());
    }
    Err("must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit (no dots)")
}

/// A DNS label of RFC 1035: services.
pub fn dns_1035_label(text: &str) -> FormResult {
    if dns_1123_label(text).is_ok() && text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(
        "must be at most 63 lower-case letters, digits and '-', begin with a letter and end with a letter or digit \
         (no dots), because services are named after it",
    )
}

/// A DNS subdomain of RFC 1123: the names of most objects.
pub fn dns_1123_subdomain(text: &str) -> FormResult {
    if text.len() <= SUBDOMAIN_LENGTH && text.split('.').all(label_characters) {
        return Ok(());
    }
    Err(
        "must be at most 253 lower-case letters, digits, '-' and '.', and each part between dots must begin and end \
         with a letter or digit",
    )
}

fn name_characters(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let outer = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && outer(text.bytes().next()) && outer(text.bytes().last())
}

/// The key of a label or annotation: a name of at most 63 characters, with an optional DNS subdomain before a slash.
pub fn qualified_name(text: &str) -> FormResult {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let prefix_fits = prefix.is_none_or(|prefix| dns_1123_subdomain(prefix).is_ok());
    if prefix_fits && name.len() <= LABEL_LENGTH && name_characters(name) {
        return Ok(());
    }
    Err(
        "must be a name of at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, \
         optionally with a DNS subdomain and '/' before it",
    )
}

/// The value of a label.
pub fn label_value(text: &str) -> FormResult {
    if text.is_empty() || text.len() <= LABEL_LENGTH && name_characters(text) {
        return Ok(());
    }
    Err("must be empty or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit")
}

/// The name of an environment variable, as Kubernetes has accepted it since 1.34.
pub fn environment_variable(text: &str) -> FormResult {
    if !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Ok(());
    }
    Err("must be one or more printable ASCII characters other than '='")
}

/// Digits of the highest index among `count` things.
pub fn index_digits(count: i32) -> usize {
    let highest = u32::try_from(count).unwrap_or(0).saturating_sub(1);
    highest.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn roomy_digits(count: i32) -> usize {
    index_digits(count).max(HEADROOM_DIGITS)
}

/// A derived name that would be too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// What would be named, with its pattern.
    pub what: &'static str,
    /// Whose names make it up.
    pub parts: &'static str,
    /// How long it would be.
    pub length: usize,
    /// How many characters the user's names may have together.
    pub budget: usize,
    /// How many they have.
    pub used: usize,
}

impl fmt::Display for Overrun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} would be {} characters long, and {LABEL_LENGTH} are allowed: {} may have at most {} characters and has {}; \
             use a shorter name",
            self.what, self.length, self.parts, self.budget, self.used
        )
    }
}

/// Checks `used` characters of the user's beside `fixed` characters of ours.
fn check(what: &'static str, parts: &'static str, used: usize, fixed: usize) -> Option<Overrun> {
    let length = used + fixed;
    (length > LABEL_LENGTH).then(|| Overrun {
        what,
        parts,
        length,
        budget: LABEL_LENGTH.saturating_sub(fixed),
        used,
    })
}

/// The names that derive from the set's alone: services, gangs and the label on its role.
pub fn check_set(set: &str, replicas: i32) -> Option<Overrun> {
    let parts = "the name of the set";
    let role = "grove.io-pcs-".len();
    check("the label of the role \"grove.io-pcs-<set>\"", parts, set.len(), role).or_else(|| {
        check(
            "the service \"<set>-<replica>\"",
            parts,
            set.len(),
            1 + roomy_digits(replicas),
        )
    })
}

/// The names of the pods of a standalone clique.
pub fn check_standalone_clique(set: &str, clique: &str, replicas: i32, pods: i32) -> Option<Overrun> {
    let parts = "the names of set and clique together";
    let used = set.len() + clique.len();
    let object = 2 + roomy_digits(replicas);
    check(
        "pod \"<set>-<replica>-<clique>-<suffix>\"",
        parts,
        used,
        object + 1 + SUFFIX_LENGTH,
    )
    .or_else(|| {
        check(
            "host \"<set>-<replica>-<clique>-<pod>\"",
            parts,
            used,
            object + 1 + roomy_digits(pods),
        )
    })
}

/// The names of the pods of a clique in a scaling group.
pub fn check_member_clique(
    (set, replicas): (&str, i32),
    (group, copies): (&str, i32),
    (clique, pods): (&str, i32),
) -> Option<Overrun> {
    let parts = "the names of set, scaling group and clique together";
    let used = set.len() + group.len() + clique.len();
    let object = 4 + roomy_digits(replicas) + roomy_digits(copies);
    check(
        "pod \"<set>-<replica>-<group>-<copy>-<clique>-<suffix>\"",
        parts,
        used,
        object + 1 + SUFFIX_LENGTH,
    )
    .or_else(|| {
        check(
            "host \"<set>-<replica>-<group>-<copy>-<clique>-<pod>\"",
            parts,
            used,
            object + 1 + roomy_digits(pods),
        )
    })
}

/// The names of the gangs of a scaling group, which are also label values of pods.
pub fn check_copy_gang((set, replicas): (&str, i32), (group, copies): (&str, i32)) -> Option<Overrun> {
    check(
        "PodGang \"<set>-<replica>-<epoch>-<group>-<copy>\"",
        "the names of set and scaling group together",
        set.len() + group.len(),
        4 + EPOCH_DIGITS + roomy_digits(replicas) + roomy_digits(copies),
    )
}

/// The name of a shared claim. `owner` is the length of the owner's name, indices included; `index` the number of
/// replicas that get a claim each, or none when all share one.
pub fn check_claim(owner: usize, template: &str, index: Option<i32>) -> Option<Overrun> {
    let middle = index.map_or("all".len(), index_digits);
    let what = match index {
        None => "resource claim \"<owner>-all-<name>\"",
        Some(_) => "resource claim \"<owner>-<index>-<name>\"",
    };
    check(what, "this name", template.len(), owner + middle + 2)
}

/// The name of a ComputeDomain, which is also a label value.
pub fn check_compute_domain(set: &str, replicas: i32, group: &str) -> Option<Overrun> {
    let fixed = set.len() + index_digits(replicas) + 2;
    check(
        "ComputeDomain \"<set>-<replica>-<group>\"",
        "the name of the NVLink group",
        group.len(),
        fixed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(length: usize) -> String {
        "n".repeat(length)
    }

    #[test]
    fn everything_within_the_go_budget_fits() {
        for set in 1..45 {
            assert_eq!(check_set(&name(set), 1000), None);
            assert_eq!(
                check_standalone_clique(&name(set), &name(45 - set), 1000, 1000),
                None,
                "set {set}"
            );
            for group in 1..45 - set {
                let clique = name(45 - set - group);
                let found = check_member_clique((&name(set), 1000), (&name(group), 1000), (&clique, 1000));
                assert_eq!(found, None, "set {set} group {group}");
                let gang = check_copy_gang((&name(set), 10_000), (&name(group), 5_000));
                assert_eq!(gang, None, "gang of set {set} group {group}");
            }
        }
    }

    #[test]
    fn the_message_says_how_long_the_name_may_be() {
        let overrun = check_standalone_clique(&name(30), &name(30), 1, 1).expect("too long");
        assert_eq!((overrun.length, overrun.budget, overrun.used), (71, 52, 60));
        assert!(
            overrun
                .to_string()
                .contains("may have at most 52 characters and has 60"),
            "{overrun}"
        );
        assert_eq!(check_standalone_clique(&name(30), &name(22), 1, 1), None);
    }

    #[test]
    fn digits_of_large_counts_shorten_the_budget() {
        assert_eq!(check_standalone_clique(&name(30), &name(22), 1000, 1), None);
        assert!(check_standalone_clique(&name(30), &name(22), 1001, 1).is_some());
        assert!(check_standalone_clique(&name(30), &name(22), 1, 2_000_000).is_some());
    }

    #[test]
    fn digits_count_the_highest_index() {
        let digits = [i32::MIN, 0, 1, 10, 11, 100, 101, 1000, i32::MAX].map(index_digits);
        assert_eq!(digits, [1, 1, 1, 1, 2, 2, 3, 3, 10]);
    }

    #[test]
    fn claims_and_domains_have_no_headroom() {
        assert_eq!(check_claim(50, &name(8), None), None);
        assert!(check_claim(50, &name(9), None).is_some());
        assert_eq!(check_claim(50, &name(10), Some(10)), None);
        assert!(check_claim(50, &name(10), Some(11)).is_some());
        assert_eq!(check_compute_domain(&name(30), 10, &name(30)), None);
        assert!(check_compute_domain(&name(30), 11, &name(30)).is_some());
    }

    #[test]
    fn forms() {
        for good in ["a", "a-b", "0a", "a0"] {
            assert_eq!(dns_1123_label(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a-", "a.b", "A", "a_b", &name(64)] {
            assert!(dns_1123_label(bad).is_err(), "{bad}");
        }
        assert!(dns_1035_label("0a").is_err() && dns_1035_label("a0").is_ok());
        assert!(dns_1123_subdomain("a.0-b").is_ok() && dns_1123_subdomain("a..b").is_err());
        assert!(qualified_name("nvidia.com/Restart_At").is_ok() && qualified_name("a/b/c").is_err());
        assert!(qualified_name("/a").is_err() && qualified_name("").is_err());
        assert!(label_value("").is_ok() && label_value("-a").is_err() && label_value("A.b_c").is_ok());
        assert!(environment_variable("a-b.c").is_ok() && environment_variable("a=b").is_err());
        assert!(environment_variable("").is_err() && environment_variable("é").is_err());
    }
}
