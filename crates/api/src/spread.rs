//! How the replicas of a set keep away from each other: two annotations of the set, at most one of which is given.
//!
//! The value is a level of the set's topology (`rack`) or a node label key (`topology.kubernetes.io/zone`). On a set
//! people write either; on a gang stands the label key, if the operator could translate it.

use std::collections::BTreeMap;

use crate::names::annotations::{SPREAD_PREFERRED, SPREAD_REQUIRED};

/// What a set asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread<'a> {
    /// The level, or the label key, whose domains replicas should not share.
    pub over: &'a str,
    /// A replica waits rather than share a domain.
    pub required: bool,
}

impl<'a> Spread<'a> {
    /// Reads the annotations of a set or a gang. When both are there, the stricter counts.
    pub fn of(annotations: Option<&'a BTreeMap<String, String>>) -> Option<Self> {
        let value = |key: &str| {
            annotations?
                .get(key)
                .map(String::as_str)
                .filter(|over| !over.is_empty())
        };
        let spread = |required: bool| move |over| Self { over, required };
        let required = value(SPREAD_REQUIRED).map(spread(true));
        required.or_else(|| value(SPREAD_PREFERRED).map(spread(false)))
    }

    /// The annotation that says it.
    pub fn key(self) -> &'static str {
        if self.required {
            SPREAD_REQUIRED
        } else {
            SPREAD_PREFERRED
        }
    }

    /// The level of the set's topology that it names; none when it names a label key.
    pub fn level(self) -> Option<&'a str> {
        Some(self.over).filter(|over| !over.contains('/'))
    }
}
