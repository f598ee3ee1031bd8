//! From what a person names to the gangs that are meant.

use std::collections::BTreeSet;

use coppice_api::names::labels;
use coppice_runtime::cache::ObjectKey;
use coppice_scheduler::model::{GangId, Model};
use serde::Serialize;
use serde_json::Value;

use super::{Result, Snapshot};

/// What kind of object was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Kind {
    PodGang,
    PodCliqueSet,
    Pod,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::PodGang => "PodGang",
            Self::PodCliqueSet => "PodCliqueSet",
            Self::Pod => "pod",
        }
    }
}

/// What was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    kind: Option<Kind>,
    key: ObjectKey,
}

impl Target {
    /// An object of a kind.
    #[must_use]
    pub fn named(kind: Kind, namespace: &str, name: &str) -> Self {
        Self {
            kind: Some(kind),
            key: ObjectKey::new(namespace, name),
        }
    }

    /// Reads `kind/name`, `kind name` or `name`.
    pub fn parse(words: &[String], namespace: &str) -> Result<Self> {
        let (kind, name) = match words {
            [one] => match one.split_once('/') {
                Some((kind, name)) => (Some(kind), name),
                None => (None, one.as_str()),
            },
            [kind, name] => (Some(kind.as_str()), name.as_str()),
            _ => refuse!("name one thing to explain"),
        };
        let kind = match kind.map(str::to_lowercase).as_deref() {
            None => None,
            Some("podgang" | "podgangs" | "pg") => Some(Kind::PodGang),
            Some("podcliqueset" | "podcliquesets" | "pcs") => Some(Kind::PodCliqueSet),
            Some("pod" | "pods" | "po") => Some(Kind::Pod),
            Some(other) => refuse!("cannot explain a {other:?}: name a podgang, a pcs or a pod"),
        };
        Ok(Self {
            kind,
            key: ObjectKey::new(namespace, name),
        })
    }

    /// The kind and the gangs that are meant, in order.
    pub fn find(&self, snapshot: &Snapshot, model: &Model) -> Result<(Kind, ObjectKey, Vec<GangId>)> {
        let kinds = match &self.kind {
            Some(kind) => vec![*kind],
            None => vec![Kind::PodGang, Kind::PodCliqueSet, Kind::Pod],
        };
        for kind in &kinds {
            if names(snapshot, *kind, &self.key.namespace).contains(&*self.key.name) {
                return Ok((*kind, self.key.clone(), self.gangs(*kind, snapshot, model)));
            }
        }
        let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        let mut message = format!(
            "no {} {:?} in namespace {:?} of {}",
            words.join(" or "),
            self.key.name,
            self.key.namespace,
            snapshot.source
        );
        let similar = self.similar(snapshot, &kinds);
        match similar.as_slice() {
            [] => message.push_str(": give its namespace with -n"),
            similar => message.push_str(&format!("; similar: {}", similar.join(", "))),
        }
        refuse!("{message}")
    }

    fn gangs(&self, kind: Kind, snapshot: &Snapshot, model: &Model) -> Vec<GangId> {
        match kind {
            Kind::PodGang => vec![GangId::Gang(self.key.clone())],
            Kind::Pod => {
                let gang = model.pod(&self.key).and_then(|pod| pod.gang());
                vec![gang.map_or(GangId::Pod(self.key.clone()), GangId::Gang)]
            }
            Kind::PodCliqueSet => {
                let mine = |gang: &&Value| {
                    gang["metadata"]["namespace"] == *self.key.namespace
                        && gang["metadata"]["labels"][labels::PART_OF] == *self.key.name
                };
                let named = |gang: &Value| gang["metadata"]["name"].as_str().map(ToOwned::to_owned);
                let names: BTreeSet<String> = snapshot.objects.gangs.iter().filter(mine).filter_map(named).collect();
                let key = |name: String| GangId::Gang(ObjectKey::new(self.key.namespace.clone(), name));
                names.into_iter().map(key).collect()
            }
        }
    }

    /// Names that may have been meant, in this namespace and in others.
    fn similar(&self, snapshot: &Snapshot, kinds: &[Kind]) -> Vec<String> {
        let wanted = &*self.key.name;
        let mut found: Vec<(usize, String)> = Vec::new();
        for kind in kinds {
            for object in objects(snapshot, *kind) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let distance = if name == wanted { 0 } else { distance(name, wanted) };
                if distance <= 3 || name.contains(wanted) || wanted.contains(name) {
                    let short = kind.word().to_lowercase();
                    let place = if namespace == &*self.key.namespace {
                        String::new()
                    } else {
                        format!(" (-n {namespace})")
                    };
                    found.push((distance, format!("{short}/{name}{place}")));
                }
            }
        }
        found.sort();
        found.dedup();
        found.into_iter().map(|(_, name)| name).take(5).collect()
    }
}

fn objects(snapshot: &Snapshot, kind: Kind) -> &[Value] {
    match kind {
        Kind::PodGang => &snapshot.objects.gangs,
        Kind::PodCliqueSet => &snapshot.sets,
        Kind::Pod => &snapshot.objects.pods,
    }
}

fn names<'a>(snapshot: &'a Snapshot, kind: Kind, namespace: &str) -> BTreeSet<&'a str> {
    let here = objects(snapshot, kind)
        .iter()
        .filter(|object| object["metadata"]["namespace"] == *namespace);
    here.filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

/// How many letters must be added, dropped or changed to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (to, other) in right.iter().enumerate() {
            let changed = before + usize::from(letter != *other);
            before = row[to + 1];
            row[to + 1] = changed.min(row[to] + 1).min(before + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_in_every_spelling() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Target::parse(&words, "n")
        };
        let key = ObjectKey::new("n", "a");
        for (words, kind) in [
            (&["pg/a"][..], Some(Kind::PodGang)),
            (&["PodCliqueSet", "a"], Some(Kind::PodCliqueSet)),
            (&["po/a"], Some(Kind::Pod)),
            (&["a"], None),
        ] {
            let expected = Target { kind, key: key.clone() };
            assert_eq!(parse(words).expect("can be read"), expected);
        }
        let error = parse(&["deployment/a"]).expect_err("not a kind of ours");
        assert!(error.to_string().contains("name a podgang, a pcs or a pod"), "{error}");
    }

    #[test]
    fn distances_count_changes() {
        assert_eq!(distance("serving-0", "serving-0"), 0);
        assert_eq!(distance("servng-0", "serving-0"), 1);
        assert_eq!(distance("abc", "xyz"), 3);
        assert_eq!(distance("", "xy"), 2);
    }
}
