//! Cliques whose objects would have the same name.
//!
//! A standalone clique `g-0-c` and clique `c` of scaling group `g` are both `<set>-<replica>-g-0-c`; so are clique `0-c` of
//! group `g` and clique `c` of group `g-0`, for copy 0 of each. Indices are digits between dashes, so such a name can be
//! read in two ways only where one of the template's names contains a number of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::subject::Subject;
use super::{FieldError, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, group) in subject.groups() {
        members
            .entry(&group.name)
            .or_default()
            .extend(group.clique_names.iter().map(String::as_str));
    }
    for (path, clique) in subject.cliques() {
        if subject.group_of(&clique.name).is_some() {
            continue;
        }
        let collision = splits(&clique.name)
            .find(|(group, _, member)| members.get(group).is_some_and(|cliques| cliques.contains(member)));
        if let Some((group, copy, member)) = collision {
            let detail = format!(
                "copy {copy} of scaling group {group:?} already names an object like this for its clique {member:?}; \
                 rename this clique"
            );
            found
                .errors
                .push(FieldError::invalid(path.field("name"), clique.name.as_str(), detail));
        }
    }
    for (path, group) in subject.groups() {
        for (index, clique) in group.clique_names.iter().enumerate() {
            if let Some((other, member)) = other_reading(&group.name, clique, &members) {
                let detail = format!(
                    "an object of scaling group {other:?} for its clique {member:?} would have the same name; rename one of \
                     the groups or cliques"
                );
                let at = path.field("cliqueNames").item(index, clique);
                found.errors.push(FieldError::invalid(at, clique.as_str(), detail));
            }
        }
    }
}

/// The group with a shorter name, and its clique, whose objects may be named like those of this member.
fn other_reading<'a>(
    group: &'a str,
    clique: &str,
    members: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> Option<(&'a str, &'a str)> {
    // The shorter group's index lies inside the longer group's name: at its end, or followed by the rest of it.
    let at_end = group
        .rsplit_once('-')
        .filter(|(_, last)| is_index(last))
        .map(|(shorter, _)| (shorter, ""));
    let inside = splits(group).map(|(shorter, _, rest)| (shorter, rest));
    at_end.into_iter().chain(inside).find_map(|(shorter, rest)| {
        let (shorter, cliques) = members.get_key_value(shorter)?;
        let matches = |member: &&&str| {
            let remainder = if rest.is_empty() {
                Some(**member)
            } else {
                member.strip_prefix(rest).and_then(|m| m.strip_prefix('-'))
            };
            let index = remainder
                .and_then(|remainder| remainder.strip_suffix(clique))
                .and_then(|r| r.strip_suffix('-'));
            index.is_some_and(is_index)
        };
        cliques.iter().find(matches).map(|member| (*shorter, *member))
    })
}

/// Every reading of a text as name, index and name with dashes between.
fn splits(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.match_indices('-').filter_map(|(dash, _)| {
        let (index, rest) = text[dash + 1..].split_once('-')?;
        is_index(index).then(|| (&text[..dash], index, rest))
    })
}

fn is_index(text: &str) -> bool {
    crate::names::parsing::parse_index(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_name() {
        let found: Vec<_> = splits("a-0-b-1-c").collect();
        assert_eq!(found, [("a", "0", "b-1-c"), ("a-0-b", "1", "c")]);
        assert_eq!(splits("a-b-00-c-1").count(), 0);
    }

    #[test]
    fn two_groups_may_read_alike() {
        let members = |pairs: &[(&'static str, &'static str)]| {
            let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (group, clique) in pairs {
                all.entry(group).or_default().insert(clique);
            }
            all
        };
        // g-0 + "-" + 0-c  and  g-0 + "-0-" + c
        assert_eq!(other_reading("g-0", "c", &members(&[("g", "0-c")])), Some(("g", "0-c")));
        // g-0-x-5-c: group g, copy 0, clique x-5-c; and group g-0-x, copy 5, clique c
        assert_eq!(
            other_reading("g-0-x", "c", &members(&[("g", "x-5-c")])),
            Some(("g", "x-5-c"))
        );
        assert_eq!(other_reading("g-0", "c", &members(&[("g", "c"), ("g", "x-c")])), None);
        assert_eq!(other_reading("h", "c", &members(&[("g", "0-c")])), None);
    }
}
