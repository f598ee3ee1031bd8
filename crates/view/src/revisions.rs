//! The revisions of a set: what its templates were, and which pods have them.
//!
//! Owns the answer to "which revision does this pod have": by the identity of its clique's template, in the newest
//! revision that has it. Assumes that the objects are those of one set. Revisions that cannot be read are left out, and
//! named.

use std::collections::BTreeMap;

use coppice_api::names::annotations;
use coppice_api::revision::RevisionContent;
use coppice_api::types::PodCliqueSet;
use coppice_core::context::SetContext;
use coppice_core::settings::Settings;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// One revision of a set.
pub struct Revision {
    /// Its number: the generation of the set that brought it.
    pub number: i64,
    pub name: String,
    pub recorded: Option<Time>,
    pub cause: Option<String>,
    pub content: RevisionContent,
    /// The identity of each clique's template, by the name of the clique.
    identities: BTreeMap<String, String>,
    /// Whether another operator gave its pods their hashes.
    adopted: bool,
}

/// All revisions of a set, oldest first.
#[derive(Default)]
pub struct Revisions {
    pub all: Vec<Revision>,
    /// The place of the revision that the set has now; none when it has not been recorded.
    current: Option<usize>,
    /// The identity of each clique's template in the set itself.
    wanted: BTreeMap<String, String>,
    /// Why some could not be read.
    pub unreadable: Vec<String>,
}

impl Revisions {
    /// Reads those that the set owns.
    pub fn of(set: &PodCliqueSet, stored: &[ControllerRevision]) -> Self {
        let settings = Settings::default();
        let context = SetContext::new(set, &settings, None);
        let cliques = context.facts.cliques.iter().zip(&context.identities);
        let mut revisions = Self {
            wanted: cliques
                .map(|(clique, identity)| (clique.template.name.clone(), identity.label()))
                .collect(),
            ..Self::default()
        };
        let owned = stored.iter().filter(|revision| {
            let mut owners = revision.owner_references().iter();
            set.metadata.uid.is_none() || owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
        });
        for revision in owned {
            match RevisionContent::read(revision) {
                Ok(content) => revisions.all.push(Revision::of(revision, content)),
                Err(error) => revisions.unreadable.push(error.to_string()),
            }
        }
        revisions
            .all
            .sort_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
        let mut places = revisions.all.iter().enumerate().rev();
        revisions.current = places
            .find(|(_, revision)| revision.content.generation() == context.generation)
            .map(|(place, _)| place);
        revisions
    }

    /// The revision that the set has now.
    pub fn current(&self) -> Option<&Revision> {
        self.all.get(self.current?)
    }

    /// Whether the set has this revision now.
    pub fn is_current(&self, revision: &Revision) -> bool {
        self.current().is_some_and(|current| current.number == revision.number)
    }

    /// Whether a pod of this clique has another template than the set; none when no revision explains its hash.
    pub fn is_outdated(&self, clique: &str, hash: &str) -> Option<bool> {
        if self.wanted.get(clique).is_some_and(|wanted| wanted == hash) {
            return Some(false);
        }
        self.of_pod(clique, hash).map(|revision| !self.is_current(revision))
    }

    /// The newest revision whose template of this clique has the identity that a pod carries.
    pub fn of_pod(&self, clique: &str, hash: &str) -> Option<&Revision> {
        // The set's own revision is the newest, also when its number was not raised yet.
        let newest_first = self.current().into_iter().chain(self.all.iter().rev());
        let mut having = newest_first.filter(|revision| revision.has(clique, hash));
        having.next().or_else(|| {
            // A hash that no revision explains is one that another operator wrote.
            let mut adopted = self.all.iter().filter(|revision| revision.adopted);
            adopted.next()
        })
    }
}

impl Revision {
    fn of(stored: &ControllerRevision, content: RevisionContent) -> Self {
        let identities = content
            .cliques()
            .map(|(name, template)| (name.to_owned(), template.view().identity().label()));
        Self {
            number: stored.revision.unwrap_or(0),
            name: stored.name_any(),
            recorded: stored.creation_timestamp(),
            cause: stored.annotations().get(annotations::CHANGE_CAUSE).cloned(),
            identities: identities.collect(),
            adopted: stored.annotations().contains_key(annotations::ADOPTED_GENERATION_HASH),
            content,
        }
    }

    /// Whether pods of a clique with this hash have its template.
    pub fn has(&self, clique: &str, hash: &str) -> bool {
        self.identities.get(clique).is_some_and(|identity| identity == hash)
    }
}
