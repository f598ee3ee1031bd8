//! Field sets: which paths a manager owns. A tree of path elements, each of which may itself be a member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use serde_json::{Map, Value};

use super::element::PathElement;
use super::place::Place;

/// A set of field paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSet {
    /// Never holds an entry that is neither a member nor has members below it.
    pub(super) entries: BTreeMap<PathElement, Entry>,
}

/// What a set says about one path: whether it is in the set, and what is in the set below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Entry {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl Entry {
    pub(super) fn member() -> Self {
        Self {
            member: true,
            below: FieldSet::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.member |= other.member;
        self.below.extend(other.below);
    }
}

impl FieldSet {
    /// The set of these paths of plain fields, for example `[["status"], ["metadata", "uid"]]`.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&elements);
        }
        set
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a path; the empty path is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.entries.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.entries.entry(first.clone()).or_default().below.insert(rest),
        }
    }

    pub(super) fn put(&mut self, element: PathElement, entry: Entry) {
        if !entry.is_empty() {
            self.entries.insert(element, entry);
        }
    }

    /// Whether the path is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.entries.get(last).is_some_and(|entry| entry.member),
            [first, rest @ ..] => self.entries.get(first).is_some_and(|entry| entry.below.has(rest)),
        }
    }

    /// Everything in either set.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.extend(other);
        self
    }

    /// Adds everything of another set.
    pub fn extend(&mut self, other: Self) {
        if self.entries.is_empty() {
            *self = other;
            return;
        }
        for (element, entry) in other.entries {
            match self.entries.entry(element) {
                MapEntry::Vacant(place) => {
                    place.insert(entry);
                }
                MapEntry::Occupied(mut place) => place.get_mut().extend(entry),
            }
        }
    }

    /// Everything in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (element, entry) in &self.entries {
            if let Some(theirs) = other.entries.get(element) {
                let below = entry.below.intersection(&theirs.below);
                out.put(
                    element.clone(),
                    Entry {
                        member: entry.member && theirs.member,
                        below,
                    },
                );
            }
        }
        out
    }

    /// Everything that is not in the other set.
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// Removes everything that is in the other set.
    pub fn subtract(&mut self, other: &Self) {
        self.remove_where(other, |mine, theirs| {
            mine.member &= !theirs.member;
            mine.below.subtract(&theirs.below);
        });
    }

    /// Removes everything that is in the other set or below one of its members.
    pub fn subtract_recursively(&mut self, other: &Self) {
        self.remove_where(other, |mine, theirs| {
            if theirs.member {
                *mine = Entry::default();
            } else {
                mine.below.subtract_recursively(&theirs.below);
            }
        });
    }

    /// Changes the entries that both sets have; walks the smaller one.
    fn remove_where(&mut self, other: &Self, change: impl Fn(&mut Entry, &Entry)) {
        if other.entries.len() < self.entries.len() {
            for (element, theirs) in &other.entries {
                let Some(mine) = self.entries.get_mut(element) else {
                    continue;
                };
                change(mine, theirs);
                if mine.is_empty() {
                    self.entries.remove(element);
                }
            }
        } else {
            self.entries.retain(|element, mine| {
                if let Some(theirs) = other.entries.get(element) {
                    change(mine, theirs);
                }
                !mine.is_empty()
            });
        }
    }

    /// The set with every declared field that has members below it as a member itself, so that removing all of a field's
    /// content removes the field.
    pub(super) fn with_declared_fields(&self, place: Place<'_>) -> Self {
        let mut out = Self::default();
        for (element, entry) in &self.entries {
            let (declared, child) = match element {
                PathElement::Field(name) => (place.declares(name), place.child_or_deduced(name)),
                PathElement::Key(_) => (false, place.items()),
                PathElement::Value(_) | PathElement::Index(_) => (false, Place::Deduced),
            };
            let member = entry.member || (declared && !entry.below.is_empty());
            out.put(
                element.clone(),
                Entry {
                    member,
                    below: entry.below.with_declared_fields(child),
                },
            );
        }
        out
    }

    /// All paths; at each level members come before what is below them.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut out);
        out
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for (element, entry) in &self.entries {
            if entry.member {
                let mut path = prefix.clone();
                path.push(element.clone());
                out.push(path);
            }
        }
        for (element, entry) in &self.entries {
            if !entry.below.is_empty() {
                prefix.push(element.clone());
                entry.below.collect_paths(prefix, out);
                prefix.pop();
            }
        }
    }

    /// The set as `fieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        let entries = self.entries.iter().map(|(element, entry)| {
            let mut value = entry.below.to_fields_v1();
            if let (true, false, Value::Object(map)) = (entry.member, entry.below.is_empty(), &mut value) {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.encode(), value)
        });
        Value::Object(entries.collect())
    }

    /// Reads `fieldsV1`. Steps of an unknown kind are left out.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, String> {
        let mut set = Self::default();
        let map = match fields {
            Value::Null => return Ok(set),
            Value::Object(map) => map,
            other => return Err(format!("fieldsV1 must be an object, not {other}")),
        };
        for (key, value) in map {
            if key == "." {
                continue;
            }
            let Some(element) = PathElement::decode(key)? else {
                continue;
            };
            let below = Self::from_fields_v1(value)?;
            let member = below.is_empty() || value.get(".").is_some();
            set.put(element, Entry { member, below });
        }
        Ok(set)
    }
}
