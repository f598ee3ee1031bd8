//! Which revisions to create, renumber and delete.
//!
//! Owns the bounded history, by the rules of StatefulSets: the revision with the highest number is the current one;
//! going back to older content renumbers its revision instead of storing it twice; the limit counts only revisions
//! that nothing uses. Two that plan at once, one of them from an older set, do not undo each other's numbers. Assumes a list of the revisions that carry the set's labels; those that the set does not own are
//! left alone, only their names count as taken. Never deletes a revision in use.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

use super::content::{CliqueTemplate, RevisionContent, content_value, generation_of};
use super::name::{HASH_LABEL, revision_name};
use crate::canonical::CliqueOrder;

/// How many revisions that nothing uses are kept, unless the set says otherwise.
pub const DEFAULT_HISTORY_LIMIT: usize = 5;

/// The revision that should be the current one.
#[derive(Debug, Clone)]
pub struct DesiredRevision<'a> {
    /// The set's name.
    pub set_name: &'a str,
    /// The set's namespace.
    pub namespace: &'a str,
    /// The reference to the set, which makes it the owner.
    pub owner: OwnerReference,
    /// The labels by which the set's revisions are listed.
    pub labels: BTreeMap<String, String>,
    /// The set's cliques.
    pub cliques: &'a [CliqueTemplate<'a>],
    /// Whether the order of the cliques counts.
    pub order: CliqueOrder,
    /// How many names to skip. Raise it after a create that failed because the name exists.
    pub collisions: u32,
    /// The set's generation as it was read. It is the number of the revision that becomes current, so whoever read an
    /// older set than somebody else never puts an older revision before theirs. Without it, numbers are counted.
    pub set_generation: Option<i64>,
}

/// One step towards the desired history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryStep {
    /// Create this revision.
    Create(Box<ControllerRevision>),
    /// Give an existing revision a new number.
    Bump {
        /// Its name.
        name: String,
        /// The version that was read: write only if it still holds.
        resource_version: Option<String>,
        /// The new number.
        revision: i64,
    },
    /// Delete a revision.
    Delete {
        /// Its name.
        name: String,
        /// The identity that was read: delete only this one.
        uid: Option<String>,
    },
}

/// The steps, and the name of the revision that is current after them.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPlan {
    /// The name of the current revision.
    pub current: String,
    /// What to do, in order: the current revision first, deletions last.
    pub steps: Vec<HistoryStep>,
}

/// Plans the history: the desired content becomes the current revision and at most `limit` unused revisions remain.
///
/// `in_use` names the revisions that pods were made from or that an update is under way from or to.
#[must_use]
pub fn plan_history(
    existing: &[impl Borrow<ControllerRevision>],
    desired: &DesiredRevision<'_>,
    limit: usize,
    in_use: &BTreeSet<String>,
) -> HistoryPlan {
    let mut owned: Vec<&ControllerRevision> = existing
        .iter()
        .map(Borrow::borrow)
        .filter(|revision| is_live(revision, &desired.owner))
        .collect();
    owned.sort_by_key(|revision| (revision.revision.unwrap_or(0), name_of(revision)));
    let highest = owned.iter().filter_map(|revision| revision.revision).max().unwrap_or(0);

    let generation = generation_of(desired.cliques, desired.order);
    let equal = owned
        .iter()
        .rev()
        .find(|revision| RevisionContent::read(revision).is_ok_and(|content| content.generation() == generation));
    let mut steps = Vec::new();
    // A number of this generation or a later one that is not ours was given by somebody who read a newer set.
    let outdated = desired.set_generation.is_some_and(|generation| highest >= generation);
    let number = desired.set_generation.unwrap_or_else(|| highest.saturating_add(1));
    let current = match equal {
        Some(revision) => {
            let name = name_of(revision).to_owned();
            let is_newest = owned.last().is_some_and(|newest| name_of(newest) == name);
            if (!is_newest && !outdated) || revision.revision.is_none() {
                steps.push(HistoryStep::Bump {
                    name: name.clone(),
                    resource_version: revision.metadata.resource_version.clone(),
                    revision: number,
                });
            }
            name
        }
        None if outdated => owned
            .last()
            .map(|newest| name_of(newest).to_owned())
            .unwrap_or_default(),
        None => {
            let taken: BTreeSet<&str> = existing.iter().map(|revision| name_of(revision.borrow())).collect();
            let name = (desired.collisions..=u32::MAX)
                .map(|collisions| revision_name(desired.set_name, &generation, collisions))
                .find(|name| !taken.contains(name.as_str()))
                .unwrap_or_else(|| revision_name(desired.set_name, &generation, u32::MAX));
            let label = generation.label();
            steps.push(HistoryStep::Create(Box::new(build(
                desired,
                name.clone(),
                label,
                number,
            ))));
            name
        }
    };
    let unused: Vec<_> = owned
        .into_iter()
        .filter(|revision| name_of(revision) != current && !in_use.contains(name_of(revision)))
        .collect();
    let surplus = unused.len().saturating_sub(limit);
    steps.extend(unused.into_iter().take(surplus).map(|revision| HistoryStep::Delete {
        name: name_of(revision).to_owned(),
        uid: revision.metadata.uid.clone(),
    }));
    HistoryPlan { current, steps }
}

fn build(desired: &DesiredRevision<'_>, name: String, label: String, revision: i64) -> ControllerRevision {
    let mut labels = desired.labels.clone();
    labels.insert(HASH_LABEL.to_owned(), label);
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(desired.namespace.to_owned()),
            labels: Some(labels),
            owner_references: Some(vec![desired.owner.clone()]),
            ..ObjectMeta::default()
        },
        data: RawExtension(content_value(desired.cliques, desired.order)),
        revision: Some(revision),
    }
}

fn name_of(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

fn is_live(revision: &ControllerRevision, owner: &OwnerReference) -> bool {
    let owners = revision.metadata.owner_references.as_deref().unwrap_or_default();
    revision.metadata.deletion_timestamp.is_none() && owners.iter().any(|reference| reference.uid == owner.uid)
}
