//! The queue of a set. Admission makes the parts of a set agree on one; a set that was stored before it did may not.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::{annotations, labels};

use super::Limit;
use crate::facts::SetFacts;

type Map = BTreeMap<String, String>;

fn value<'a>(map: Option<&'a Map>, key: &str) -> Option<&'a str> {
    map.and_then(|map| map.get(key))
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

/// KAI's queue: of the set before that of its cliques, the label before the annotation.
///
/// # Errors
/// When there is none, or when the cliques differ.
pub fn kai_queue<'a>(facts: &SetFacts<'a>) -> Result<&'a str, Limit> {
    let either = |labels: Option<&'a Map>, annotations: Option<&'a Map>| {
        value(labels, labels::KAI_QUEUE).or_else(|| value(annotations, annotations::KAI_QUEUE))
    };
    let metadata = &facts.set.metadata;
    if let Some(queue) = either(metadata.labels.as_ref(), metadata.annotations.as_ref()) {
        return Ok(queue);
    }
    let of_cliques = facts
        .cliques
        .iter()
        .filter_map(|clique| either(Some(&clique.template.labels), Some(&clique.template.annotations)));
    one(of_cliques).map(|queue| queue.ok_or(Limit::QueueMissing { key: labels::KAI_QUEUE }))?
}

/// Volcano's queue: an annotation of the set, then of its cliques, then Volcano's own default.
///
/// # Errors
/// When the cliques differ.
pub fn volcano_queue<'a>(facts: &SetFacts<'a>) -> Result<&'a str, Limit> {
    let own = value(facts.set.metadata.annotations.as_ref(), annotations::VOLCANO_QUEUE);
    if let Some(queue) = own {
        return Ok(queue);
    }
    let of_cliques = facts
        .cliques
        .iter()
        .filter_map(|clique| value(Some(&clique.template.annotations), annotations::VOLCANO_QUEUE));
    one(of_cliques).map(|queue| queue.unwrap_or(annotations::VOLCANO_DEFAULT_QUEUE))
}

/// The one queue of all that are named.
fn one<'a>(queues: impl Iterator<Item = &'a str>) -> Result<Option<&'a str>, Limit> {
    let queues: BTreeSet<&str> = queues.collect();
    if queues.len() > 1 {
        let queues = queues.into_iter().map(str::to_owned).collect();
        return Err(Limit::QueuesDiffer { queues });
    }
    Ok(queues.into_iter().next())
}
