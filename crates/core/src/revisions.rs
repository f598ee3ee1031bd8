//! The templates of a set at earlier times, as its ControllerRevisions hold them.
//!
//! Reading one is expensive, so it is done once for each version of a ControllerRevision. What cannot be read, or is
//! being deleted, is left out: nothing is created from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::canonical::{GenerationIdentity, OwnedTemplate, TemplateIdentity};
use coppice_api::names::annotations;
use coppice_api::revision::RevisionContent;
use k8s_openapi::api::apps::v1::ControllerRevision;

/// The templates of all cliques at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRevision {
    /// The name of the ControllerRevision.
    pub name: String,
    /// Its number: the newest has the highest.
    pub number: i64,
    /// Their identity together.
    pub generation: GenerationIdentity,
    /// The name that another operator gave them.
    pub adopted: Option<String>,
    cliques: BTreeMap<String, (TemplateIdentity, OwnedTemplate)>,
}

impl StoredRevision {
    /// Reads a revision.
    pub fn read(revision: &ControllerRevision) -> Option<Self> {
        let content = RevisionContent::read(revision).ok();
        let content = content.filter(|_| revision.metadata.deletion_timestamp.is_none())?;
        let cliques = content.cliques().map(|(name, template)| {
            let identity = template.view().identity();
            (name.to_owned(), (identity, template.clone()))
        });
        let annotations = revision.metadata.annotations.as_ref();
        Some(Self {
            name: revision.metadata.name.clone()?,
            number: revision.revision.unwrap_or(0),
            adopted: annotations
                .and_then(|all| all.get(annotations::ADOPTED_GENERATION_HASH))
                .cloned(),
            generation: content.generation(),
            cliques: cliques.collect(),
        })
    }

    /// The template of a clique, by its name in the set.
    pub fn template(&self, clique: &str) -> Option<&OwnedTemplate> {
        self.cliques.get(clique).map(|(_, template)| template)
    }

    /// The identity of the template of a clique.
    pub fn identity(&self, clique: &str) -> Option<TemplateIdentity> {
        self.cliques.get(clique).map(|(identity, _)| *identity)
    }
}

/// The revisions of a set that can be read, in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revisions(Vec<Arc<StoredRevision>>);

impl Revisions {
    /// Reads all revisions of a set.
    pub fn read(all: &[Arc<ControllerRevision>]) -> Self {
        all.iter()
            .filter_map(|revision| StoredRevision::read(revision).map(Arc::new))
            .collect()
    }

    /// The revisions.
    pub fn iter(&self) -> impl Iterator<Item = &StoredRevision> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// The revision with a generation, by its label or by the name that another operator gave it.
    pub fn of_generation(&self, label: &str) -> Option<&StoredRevision> {
        let named = |revision: &&StoredRevision| {
            revision.generation.matches_label(label) || revision.adopted.as_deref() == Some(label)
        };
        self.iter().find(named)
    }
}

impl FromIterator<Arc<StoredRevision>> for Revisions {
    fn from_iter<T: IntoIterator<Item = Arc<StoredRevision>>>(revisions: T) -> Self {
        Self(revisions.into_iter().collect())
    }
}
