//! When a pod that waits for other cliques may start.
//!
//! Owns the arguments of the init container `grove-initc`, which pods count for a parent, and the decision itself. The
//! program in the pod (`coppice initc`) and the simulated kubelet both ask here, so that what a scenario shows on
//! simulated nodes is what a node does. Assumes that counted pods are of the waiting pod's own namespace and gang. Never
//! looks at names of pods, and knows neither a client nor a clock.

use std::fmt;

/// The name of the init container.
pub const CONTAINER: &str = "grove-initc";
/// The label with the name of a pod's clique.
pub const CLIQUE_LABEL: &str = "grove.io/podclique";
/// The label with the name of a pod's gang.
pub const GANG_LABEL: &str = "grove.io/podgang";

/// A clique to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The name of the PodClique object.
    pub clique: String,
    /// How many of its pods must be ready.
    pub minimum: u32,
}

/// What is wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An entry is not a name and a number.
    #[error("expected <clique>:<minimum>, got {0:?}")]
    NotAPair(String),
    /// The number is not a positive one.
    #[error("the minimum in {0:?} is not a positive number")]
    NotPositive(String),
    /// The flag stands at the end.
    #[error("argument {0} needs a value <clique>:<minimum>")]
    NoValue(String),
    /// It is not an argument of this program.
    #[error("unknown argument {0:?}")]
    Unknown(String),
}

/// Reads the values of the flag: each a list of `<clique>:<minimum>` with commas between; blank entries are skipped.
pub fn parents<'text>(values: impl IntoIterator<Item = &'text str>) -> Result<Vec<Parent>, ArgumentError> {
    let entries = values
        .into_iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    entries.map(parent).collect()
}

fn parent(entry: &str) -> Result<Parent, ArgumentError> {
    let parts: Vec<&str> = entry.split(':').map(str::trim).collect();
    let [clique, minimum] = parts.as_slice() else {
        return Err(ArgumentError::NotAPair(entry.to_owned()));
    };
    if clique.is_empty() {
        return Err(ArgumentError::NotAPair(entry.to_owned()));
    }
    let minimum = minimum.parse().ok().filter(|count| *count > 0);
    Ok(Parent {
        clique: (*clique).to_owned(),
        minimum: minimum.ok_or_else(|| ArgumentError::NotPositive(entry.to_owned()))?,
    })
}

/// Reads the arguments of the container as they stand in a pod.
pub fn arguments(arguments: &[String]) -> Result<Vec<Parent>, ArgumentError> {
    let mut values = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        if let Some(value) = argument.strip_prefix("--podcliques=").or(argument.strip_prefix("-p=")) {
            values.push(value);
        } else if argument == "--podcliques" || argument == "-p" {
            let value = rest.next();
            values.push(value.ok_or_else(|| ArgumentError::NoValue(argument.to_owned()))?);
        } else {
            return Err(ArgumentError::Unknown(argument.to_owned()));
        }
    }
    parents(values)
}

/// Whether a pod counts for its clique: a pod that is going serves nobody, even while it is still ready.
pub fn counts(ready: bool, terminating: bool) -> bool {
    ready && !terminating
}

/// A parent with too few ready pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The name of the PodClique object.
    pub clique: String,
    /// How many of its pods count.
    pub ready: u32,
    /// How many are needed.
    pub minimum: u32,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{} ready", self.clique, self.ready, self.minimum)
    }
}

/// The parents that are still missing pods; nothing when the pod may start. `ready` tells how many pods count for a
/// clique.
pub fn remaining(parents: &[Parent], ready: impl Fn(&str) -> u32) -> Vec<Shortfall> {
    let short = |parent: &Parent| {
        let ready = ready(&parent.clique);
        (ready < parent.minimum).then(|| Shortfall {
            clique: parent.clique.clone(),
            ready,
            minimum: parent.minimum,
        })
    };
    parents.iter().filter_map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coppice_api::names::{environment, labels};

    fn parent(clique: &str, minimum: u32) -> Parent {
        Parent {
            clique: clique.to_owned(),
            minimum,
        }
    }

    #[test]
    fn names_are_those_of_the_contract() {
        assert_eq!(CONTAINER, environment::WAITER_CONTAINER);
        assert_eq!(CLIQUE_LABEL, labels::POD_CLIQUE);
        assert_eq!(GANG_LABEL, labels::POD_GANG);
        let argument = environment::waiter_argument("llm-0-router", 2);
        assert_eq!(arguments(&[argument]), Ok(vec![parent("llm-0-router", 2)]));
    }

    #[test]
    fn the_flag_is_repeated_or_holds_a_list() {
        let given = ["--podcliques=a:1,b:2", "-p", "c:3", "-p=d:4,", "--podcliques", ", e:5"].map(str::to_owned);
        let expected = vec![
            parent("a", 1),
            parent("b", 2),
            parent("c", 3),
            parent("d", 4),
            parent("e", 5),
        ];
        assert_eq!(arguments(&given), Ok(expected));
    }

    #[test]
    fn mistakes_are_told() {
        for (argument, error) in [
            ("--podcliques=a", ArgumentError::NotAPair("a".to_owned())),
            ("--podcliques=:1", ArgumentError::NotAPair(":1".to_owned())),
            ("--podcliques=a:b:1", ArgumentError::NotAPair("a:b:1".to_owned())),
            ("--podcliques=a:0", ArgumentError::NotPositive("a:0".to_owned())),
            ("--podcliques=a:-1", ArgumentError::NotPositive("a:-1".to_owned())),
            ("-p", ArgumentError::NoValue("-p".to_owned())),
            ("--verbose", ArgumentError::Unknown("--verbose".to_owned())),
        ] {
            assert_eq!(arguments(&[argument.to_owned()]), Err(error), "{argument}");
        }
    }

    #[test]
    fn nothing_remains_when_every_parent_has_its_minimum() {
        let parents = [parent("leader", 2), parent("router", 1)];
        let ready = |leaders: u32, routers: u32| {
            move |clique: &str| match clique {
                "leader" => leaders,
                "router" => routers,
                other => panic!("nobody waits for {other}"),
            }
        };
        let told = |short: Vec<Shortfall>| short.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            told(remaining(&parents, ready(0, 0))),
            ["leader 0/2 ready", "router 0/1 ready"]
        );
        assert_eq!(told(remaining(&parents, ready(1, 1))), ["leader 1/2 ready"]);
        assert_eq!(remaining(&parents, ready(3, 1)), []);
        assert_eq!(remaining(&[], ready(0, 0)), []);
    }

    #[test]
    fn a_pod_that_is_going_does_not_count() {
        assert!(counts(true, false));
        assert!(!counts(true, true));
        assert!(!counts(false, false));
    }
}
