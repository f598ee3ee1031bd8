//! What the API server would write into an absent field of a given object.
//!
//! Owns the conditional defaults: those that depend on sibling fields or on the pod around them. Assumes that the facts
//! name the right sibling. Never writes anything: the walk compares and reports.

use serde_json::{Map, Value};

use super::facts::{EMPTY_DIR_VOLUME, Fill, Kind, VOLUME};
use super::order::{integer, is_absent, says_nothing};

/// What a default depends on besides the object itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surroundings {
    pub(super) host_network: bool,
}

/// The value of a default.
#[derive(Debug)]
pub(super) enum Filled<'a> {
    Text(&'static str),
    Integer(i64),
    Flag(bool),
    Sibling(&'a Value),
    EmptyDir,
}

impl Filled<'_> {
    /// Whether an explicit value says no more than the default.
    pub(super) fn equals(&self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Integer(expected) => integer(value) == Some((*expected).into()),
            Self::Flag(flag) => value.as_bool() == Some(*flag),
            Self::Sibling(sibling) => integer(sibling).is_some() && integer(sibling) == integer(value),
            Self::EmptyDir => value
                .as_object()
                .is_some_and(|object| says_nothing(&EMPTY_DIR_VOLUME, object)),
        }
    }
}

/// The default of a field of `object`, if it has one there.
pub(super) fn filled<'a>(fill: Fill, object: &'a Map<String, Value>, surroundings: Surroundings) -> Option<Filled<'a>> {
    match fill {
        Fill::Nothing => None,
        Fill::Text(text) => Some(Filled::Text(text)),
        Fill::Integer(integer) => Some(Filled::Integer(integer)),
        Fill::Flag(flag) => Some(Filled::Flag(flag)),
        Fill::PullPolicyOf(sibling) => {
            let image = object.get(sibling).and_then(Value::as_str).unwrap_or_default();
            Some(Filled::Text(if has_latest_tag(image) {
                "Always"
            } else {
                "IfNotPresent"
            }))
        }
        Fill::ContainerPortOnHostNetwork => object
            .get("containerPort")
            .filter(|port| surroundings.host_network && integer(port).is_some_and(|port| port != 0))
            .map(Filled::Sibling),
        Fill::EmptyDirWithoutSource => object
            .iter()
            .all(|(name, value)| {
                let kind = VOLUME.field(name).map_or(Kind::Any, |field| field.kind);
                name == "name" || name == "emptyDir" || is_absent(kind, value)
            })
            .then_some(Filled::EmptyDir),
    }
}

/// Whether an image reference stands for the tag `latest`: by that tag, or by naming neither tag nor digest. The empty
/// reference is no reference and has no tag.
fn has_latest_tag(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last_part = name.rsplit('/').next().unwrap_or(name);
    match last_part.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none() && !image.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_latest_is_found_where_it_is_meant() {
        for image in [
            "x",
            "x:latest",
            "host:5000/x",
            "host:5000/a/x:latest",
            "x:latest@sha256:00",
        ] {
            assert!(has_latest_tag(image), "{image}");
        }
        for image in [
            "",
            "x:1",
            "host:5000/x:v2",
            "x@sha256:00",
            "x:1@sha256:00",
            "localhost:5000",
        ] {
            assert!(!has_latest_tag(image), "{image}");
        }
    }
}
