//! Whether an expectation holds in a world, and if not, what differs. Pure functions; the runner calls them on every
//! change until they hold or time is up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::matcher::{Matcher, show_values};
use super::path::FieldPath;
use super::placement;
use super::target::{ConditionMatcher, Target};
use super::world::{self, ObjectKey, World};

/// How many objects are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Not fewer than this.
    pub at_least: usize,
    /// Not more than this.
    pub at_most: usize,
}

/// What is expected of the objects that a target means.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Where in the scenario file it stands.
    pub line: u64,
    /// The objects.
    pub target: Target,
    /// How many there are.
    pub count: Count,
    /// Values that every one of them has.
    pub fields: BTreeMap<FieldPath, Matcher>,
    /// Conditions that every one of them has.
    pub conditions: BTreeMap<String, ConditionMatcher>,
    /// Values in which no two of them agree.
    pub distinct: Vec<FieldPath>,
    /// Values in which all of them agree.
    pub same: Vec<FieldPath>,
    /// Labels of their nodes in which all of them agree: for pods.
    pub same_node_labels: Vec<String>,
    /// Labels of their nodes in which no two of them agree: for pods.
    pub distinct_node_labels: Vec<String>,
    /// Every object remembered under this name is still among them, by UID.
    pub keeps: Option<String>,
    /// No object remembered under this name is among them, by UID.
    pub replaces: Option<String>,
}

/// The UIDs that `remember` steps have noted, by name.
pub type Memory = BTreeMap<String, BTreeSet<String>>;

/// What differs from an expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where the expectation stands.
    pub line: u64,
    /// What was expected, in words.
    pub expectation: String,
    /// The differences.
    pub differences: Vec<Difference>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The object, unless the difference is in the number of objects.
    pub object: Option<ObjectKey>,
    /// What was looked at.
    pub what: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub actual: String,
}

impl Expectation {
    /// Compares with the world; `Ok` when everything holds.
    pub fn evaluate(&self, world: &World, memory: &Memory, namespace: &str) -> Result<(), Mismatch> {
        let objects = self.target.select(world, namespace);
        let mut differences = Vec::new();
        if objects.len() < self.count.at_least || objects.len() > self.count.at_most {
            let names: Vec<&str> = objects.iter().map(|(key, _)| key.name.as_str()).collect();
            let actual = if names.is_empty() {
                "0".to_owned()
            } else {
                format!("{} ({})", names.len(), names.join(", "))
            };
            differences.push(Difference {
                object: None,
                what: "number of objects".to_owned(),
                expected: self.count.to_string(),
                actual,
            });
        }
        for (key, object) in &objects {
            differences.extend(self.compare_object(key, object));
        }
        for path in &self.distinct {
            differences.extend(compare_distinct(path, &objects));
        }
        for path in &self.same {
            differences.extend(compare_same(path, &objects));
        }
        for label in &self.same_node_labels {
            differences.extend(placement::compare(label, &objects, world));
        }
        for label in &self.distinct_node_labels {
            differences.extend(placement::compare_distinct(label, &objects, world));
        }
        differences.extend(self.compare_memory(&objects, memory));
        if differences.is_empty() {
            return Ok(());
        }
        Err(Mismatch {
            line: self.line,
            expectation: self.to_string(),
            differences,
        })
    }

    fn compare_object(&self, key: &ObjectKey, object: &Value) -> Vec<Difference> {
        let fields = self.fields.iter().filter_map(|(path, matcher)| {
            let found = path.select(object);
            (!matcher.matches(&found)).then(|| (path.to_string(), matcher.to_string(), show_values(&found)))
        });
        let conditions = self
            .conditions
            .iter()
            .filter_map(|(name, matcher)| matcher.mismatch(name, object));
        fields
            .chain(conditions)
            .map(|(what, expected, actual)| Difference {
                object: Some(key.clone()),
                what,
                expected,
                actual,
            })
            .collect()
    }

    fn compare_memory(&self, objects: &[(&ObjectKey, &Arc<Value>)], memory: &Memory) -> Vec<Difference> {
        let present: BTreeSet<&str> = objects.iter().filter_map(|(_, object)| world::uid(object)).collect();
        let recalled = |name: &String| memory.get(name).cloned().unwrap_or_default();
        let mut differences = Vec::new();
        if let Some(name) = &self.keeps {
            let gone = recalled(name)
                .iter()
                .filter(|uid| !present.contains(uid.as_str()))
                .count();
            if gone > 0 {
                differences.push(Difference {
                    object: None,
                    what: format!("objects remembered as `{name}`"),
                    expected: "all still there".to_owned(),
                    actual: format!("{gone} gone"),
                });
            }
        }
        if let Some(name) = &self.replaces {
            let old = recalled(name);
            for (key, _) in objects
                .iter()
                .filter(|(_, object)| world::uid(object).is_some_and(|uid| old.contains(uid)))
            {
                differences.push(Difference {
                    object: Some((*key).clone()),
                    what: format!("objects remembered as `{name}`"),
                    expected: "replaced".to_owned(),
                    actual: "still the same object".to_owned(),
                });
            }
        }
        differences
    }
}

fn compare_distinct(path: &FieldPath, objects: &[(&ObjectKey, &Arc<Value>)]) -> Vec<Difference> {
    let mut seen: BTreeMap<String, &ObjectKey> = BTreeMap::new();
    let mut differences = Vec::new();
    for (key, object) in objects {
        let value = show_values(&path.select(object));
        if let Some(first) = seen.get(&value) {
            differences.push(Difference {
                object: Some((*key).clone()),
                what: path.to_string(),
                expected: format!("another value than that of {first}"),
                actual: value,
            });
        } else {
            seen.insert(value, key);
        }
    }
    differences
}

fn compare_same(path: &FieldPath, objects: &[(&ObjectKey, &Arc<Value>)]) -> Vec<Difference> {
    let Some((first, rest)) = objects.split_first() else {
        return Vec::new();
    };
    let wanted = show_values(&path.select(first.1));
    rest.iter()
        .filter_map(|(key, object)| {
            let actual = show_values(&path.select(object));
            (actual != wanted).then(|| Difference {
                object: Some((*key).clone()),
                what: path.to_string(),
                expected: format!("{wanted} as in {}", first.0),
                actual,
            })
        })
        .collect()
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at_least, self.at_most) {
            (least, most) if least == most => write!(formatter, "{least}"),
            (least, usize::MAX) => write!(formatter, "at least {least}"),
            (0, most) => write!(formatter, "at most {most}"),
            (least, most) => write!(formatter, "{least} to {most}"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.count, self.target)?;
        for (path, matcher) in &self.fields {
            write!(formatter, ", {path} = {matcher}")?;
        }
        for (name, matcher) in &self.conditions {
            write!(formatter, ", condition {name} = {}", matcher.status)?;
        }
        for path in &self.distinct {
            write!(formatter, ", {path} all different")?;
        }
        for path in &self.same {
            write!(formatter, ", {path} all the same")?;
        }
        for label in &self.same_node_labels {
            write!(formatter, ", {label} of their nodes all the same")?;
        }
        for label in &self.distinct_node_labels {
            write!(formatter, ", {label} of their nodes all different")?;
        }
        if let Some(name) = &self.keeps {
            write!(formatter, ", none of `{name}` lost")?;
        }
        if let Some(name) = &self.replaces {
            write!(formatter, ", none of `{name}` left")?;
        }
        Ok(())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "expected (line {}): {}", self.line, self.expectation)?;
        for difference in &self.differences {
            let object = difference
                .object
                .as_ref()
                .map_or_else(String::new, |key| format!("{key}: "));
            writeln!(formatter, "  {object}{}", difference.what)?;
            writeln!(formatter, "    - expected {}", difference.expected)?;
            writeln!(formatter, "    + actual   {}", difference.actual)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::world::Scope;
    use serde_json::json;

    fn world(pods: &[(&str, &str, &str)]) -> World {
        let scope = Scope {
            kind: "Pod".to_owned(),
            group: String::new(),
            namespace: "ns".to_owned(),
        };
        let mut world = World::default();
        for (name, node, ready) in pods {
            world.apply(
                scope.key(name),
                json!({
                    "metadata": {"uid": format!("uid-{name}"), "labels": {"app": "web"}},
                    "spec": {"nodeName": node},
                    "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Because"}]},
                }),
            );
        }
        world
    }

    fn expectation() -> Expectation {
        Expectation {
            line: 7,
            target: Target::all("Pod".parse().unwrap()),
            count: Count {
                at_least: 1,
                at_most: usize::MAX,
            },
            fields: BTreeMap::new(),
            conditions: BTreeMap::new(),
            distinct: Vec::new(),
            same: Vec::new(),
            same_node_labels: Vec::new(),
            distinct_node_labels: Vec::new(),
            keeps: None,
            replaces: None,
        }
    }

    fn differences(expectation: &Expectation, world: &World, memory: &Memory) -> Vec<(String, String, String)> {
        let name = |difference: &Difference| difference.object.as_ref().map_or("", |key| &key.name).to_owned();
        match expectation.evaluate(world, memory, "ns") {
            Ok(()) => Vec::new(),
            Err(mismatch) => mismatch
                .differences
                .iter()
                .map(|difference| (name(difference), difference.expected.clone(), difference.actual.clone()))
                .collect(),
        }
    }

    fn row(object: &str, expected: &str, actual: &str) -> (String, String, String) {
        (object.to_owned(), expected.to_owned(), actual.to_owned())
    }

    #[test]
    fn counts_name_what_is_there() {
        let mut expectation = expectation();
        expectation.count = Count {
            at_least: 3,
            at_most: 3,
        };
        let world = world(&[("a", "n1", "True"), ("b", "n2", "True")]);
        assert_eq!(
            differences(&expectation, &world, &Memory::new()),
            [row("", "3", "2 (a, b)")]
        );
        assert_eq!(
            differences(&expectation, &World::default(), &Memory::new()),
            [row("", "3", "0")]
        );
        expectation.count = Count {
            at_least: 0,
            at_most: 2,
        };
        assert_eq!(differences(&expectation, &world, &Memory::new()), []);
    }

    #[test]
    fn absence_is_a_count_of_none() {
        let mut expectation = expectation();
        expectation.count = Count {
            at_least: 0,
            at_most: 0,
        };
        assert_eq!(differences(&expectation, &World::default(), &Memory::new()), []);
        assert_eq!(
            differences(&expectation, &world(&[("a", "n", "True")]), &Memory::new()),
            [row("", "0", "1 (a)")]
        );
    }

    #[test]
    fn fields_and_conditions_are_compared_per_object() {
        let mut expectation = expectation();
        expectation
            .fields
            .insert("spec.nodeName".parse().unwrap(), Matcher::Equals(json!("n1")));
        let ready = ConditionMatcher {
            status: Matcher::Equals(json!("True")),
            reason: None,
            message: None,
        };
        expectation.conditions.insert("Ready".to_owned(), ready);
        let world = world(&[("a", "n1", "True"), ("b", "n2", "False")]);
        assert_eq!(
            differences(&expectation, &world, &Memory::new()),
            [row("b", "\"n1\"", "\"n2\""), row("b", "\"True\"", "\"False\"")]
        );
    }

    #[test]
    fn values_can_be_required_to_differ_or_to_agree() {
        let mut expectation = expectation();
        expectation.distinct = vec!["spec.nodeName".parse().unwrap()];
        let spread = world(&[("a", "n1", "True"), ("b", "n2", "True")]);
        let packed = world(&[("a", "n1", "True"), ("b", "n1", "True")]);
        assert_eq!(differences(&expectation, &spread, &Memory::new()), []);
        assert_eq!(
            differences(&expectation, &packed, &Memory::new()),
            [row("b", "another value than that of Pod a", "\"n1\"")]
        );
        expectation.same = std::mem::take(&mut expectation.distinct);
        assert_eq!(differences(&expectation, &packed, &Memory::new()), []);
        assert_eq!(
            differences(&expectation, &spread, &Memory::new()),
            [row("b", "\"n1\" as in Pod a", "\"n2\"")]
        );
    }

    #[test]
    fn remembered_objects_are_kept_or_replaced_by_identity() {
        let memory = Memory::from([(
            "old".to_owned(),
            BTreeSet::from(["uid-a".to_owned(), "uid-b".to_owned()]),
        )]);
        let world = world(&[("a", "n1", "True"), ("c", "n1", "True")]);
        let mut keeps = expectation();
        keeps.keeps = Some("old".to_owned());
        assert_eq!(
            differences(&keeps, &world, &memory),
            [row("", "all still there", "1 gone")]
        );
        let mut replaces = expectation();
        replaces.replaces = Some("old".to_owned());
        assert_eq!(
            differences(&replaces, &world, &memory),
            [row("a", "replaced", "still the same object")]
        );
    }

    #[test]
    fn a_mismatch_reads_as_a_diff() {
        let mut expectation = expectation();
        expectation.target.selector = Some("app=web".parse().unwrap());
        expectation
            .fields
            .insert("spec.nodeName".parse().unwrap(), Matcher::Equals(json!("n2")));
        let text = expectation
            .evaluate(&world(&[("a", "n1", "True")]), &Memory::new(), "ns")
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "expected (line 7): at least 1 Pod with app=web, spec.nodeName = \"n2\"\n  Pod a: spec.nodeName\n    \
             - expected \"n2\"\n    + actual   \"n1\"\n"
        );
    }
}
