//! Consistent lists, now or at a revision in the recent past, a page at a time.
//!
//! The past is rebuilt by undoing: for each key that changed after the wanted revision, the first later commit holds
//! the state of that moment. So a page costs its own length plus the commits since, and keeping a list open costs nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::selector::Selection;

use super::object::{Key, Object};
use super::{Collection, Store};

/// Which part of which list is wanted.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// The revision to list at; the current one when absent.
    pub revision: Option<u64>,
    /// Continue after this key.
    pub after: Option<Key>,
    /// At most this many objects; 0 for all.
    pub limit: usize,
}

/// A part of a list.
#[derive(Debug)]
pub struct Page {
    /// The revision the list shows.
    pub revision: u64,
    /// The objects, in key order.
    pub objects: Vec<Arc<Object>>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// How many more (matching or not, when a selector is given the number is not known to clients).
    pub remaining: usize,
}

/// Why a list cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The wanted revision is forgotten; list anew.
    #[error("revision {0} has been compacted")]
    Expired(u64),
    /// The wanted revision has not happened yet.
    #[error("revision {wanted} is in the future, the current one is {current}")]
    Future {
        /// What was asked for.
        wanted: u64,
        /// Where the store is.
        current: u64,
    },
}

impl Store {
    /// A page of the objects of `resource` that `selection` admits.
    pub fn list(&self, resource: &str, selection: &Selection, request: &PageRequest) -> Result<Page, ListError> {
        let inner = self.inner.lock();
        let current = inner.revision;
        let revision = request.revision.unwrap_or(current);
        if revision > current {
            return Err(ListError::Future {
                wanted: revision,
                current,
            });
        }
        let Some(collection) = inner.collections.get(resource) else {
            return Ok(Page {
                revision,
                objects: Vec::new(),
                more: false,
                remaining: 0,
            });
        };
        if revision < current && revision < collection.history.floor() {
            return Err(ListError::Expired(revision));
        }
        let after = request.after.as_ref();
        let past;
        let objects: Box<dyn Iterator<Item = &Arc<Object>>> = if revision == current {
            Box::new(in_namespace(&collection.objects, &selection.namespace, after).map(|(_, object)| object))
        } else {
            past = collection.at(revision, &selection.namespace, after);
            Box::new(past.iter())
        };
        Ok(paginate(objects, selection, revision, request.limit))
    }
}

fn paginate<'a>(
    objects: impl Iterator<Item = &'a Arc<Object>>,
    selection: &Selection,
    revision: u64,
    limit: usize,
) -> Page {
    let mut matching = objects.filter(|object| selection.matches(object));
    if limit == 0 {
        return Page {
            revision,
            objects: matching.cloned().collect(),
            more: false,
            remaining: 0,
        };
    }
    let page: Vec<_> = matching.by_ref().take(limit).cloned().collect();
    let remaining = matching.count();
    Page {
        revision,
        objects: page,
        more: remaining > 0,
        remaining,
    }
}

/// The objects of a namespace (all when empty), after a key.
pub(super) fn in_namespace<'a>(
    objects: &'a BTreeMap<Key, Arc<Object>>,
    namespace: &str,
    after: Option<&Key>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
    let prefix = if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    };
    let first = Key::from_text(&prefix);
    let start = match after {
        Some(after) if *after >= first => Bound::Excluded(after.clone()),
        _ => Bound::Included(first),
    };
    objects
        .range((start, Bound::Unbounded))
        .take_while(move |(key, _)| key.as_str().starts_with(&prefix))
}

impl Collection {
    fn at(&self, revision: u64, namespace: &str, after: Option<&Key>) -> Vec<Arc<Object>> {
        let mut undone: BTreeMap<Key, Arc<Object>> = in_namespace(&self.objects, namespace, after)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        for commit in self.history.after(revision) {
            let key = commit.object().key();
            if !seen.insert(key.clone()) {
                continue;
            }
            match commit.previous() {
                Some(previous) => undone.insert(key.clone(), previous.clone()),
                None => undone.remove(key),
            };
        }
        in_namespace(&undone, namespace, after)
            .map(|(_, object)| object.clone())
            .collect()
    }
}
