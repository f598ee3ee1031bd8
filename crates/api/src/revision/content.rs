//! The content of a revision: the canonical templates of all cliques of a set.
//!
//! Owns the JSON form under `data`. Assumes nothing about revisions read back: whoever wrote them, they are read
//! with errors that name the revision. Never holds what does not belong to a template (replicas, topology, …), so a
//! return to an older revision leaves those as they are.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

use crate::canonical::{CliqueOrder, GenerationIdentity, OwnedTemplate, TemplateError, TemplateView, canonical_value};

/// The version of the JSON form, independent of the version of the identity.
const FORMAT: u64 = 1;

/// One clique of a set as far as revisions are concerned.
#[derive(Debug, Clone, Copy)]
pub struct CliqueTemplate<'a> {
    /// The clique's name in the set.
    pub name: &'a str,
    /// Its pod template.
    pub template: TemplateView<'a>,
}

/// The templates of a set, read back from a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionContent {
    cliques: Vec<(String, OwnedTemplate)>,
    order: CliqueOrder,
}

/// Why a revision cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// Written in a form that this version does not know.
    #[error("ControllerRevision {revision:?}: data.format must be {FORMAT}; it was written by something else")]
    UnknownFormat {
        /// The revision's name.
        revision: String,
    },
    /// Something in the content is missing or of the wrong type.
    #[error("ControllerRevision {revision:?}: data.{path} is missing or malformed")]
    Malformed {
        /// The revision's name.
        revision: String,
        /// Where in the data.
        path: String,
    },
    /// A template cannot be read.
    #[error("ControllerRevision {revision:?}: clique {clique:?}: {source}")]
    Template {
        /// The revision's name.
        revision: String,
        /// The clique's name.
        clique: String,
        /// What is wrong with the template.
        source: TemplateError,
    },
}

/// The identity of the generation that these cliques make up.
pub(super) fn generation_of(cliques: &[CliqueTemplate<'_>], order: CliqueOrder) -> GenerationIdentity {
    let identities: Vec<_> = cliques
        .iter()
        .map(|clique| (clique.name, clique.template.identity()))
        .collect();
    GenerationIdentity::of(&identities, order)
}

/// The content of a revision as JSON. Equal generations give equal JSON.
pub(super) fn content_value(cliques: &[CliqueTemplate<'_>], order: CliqueOrder) -> Value {
    let mut cliques: Vec<_> = cliques.iter().collect();
    if order == CliqueOrder::Free {
        cliques.sort_by_key(|clique| clique.name);
    }
    let cliques: Vec<Value> = cliques
        .into_iter()
        .map(|clique| json!({"name": clique.name, "template": canonical_value(&clique.template)}))
        .collect();
    let order = match order {
        CliqueOrder::Free => "Free",
        CliqueOrder::Counts => "Counts",
    };
    json!({"cliqueOrder": order, "cliques": cliques, "format": FORMAT})
}

impl RevisionContent {
    /// Reads the content of a stored revision.
    pub fn read(revision: &ControllerRevision) -> Result<Self, RevisionError> {
        let name = || revision.metadata.name.clone().unwrap_or_default();
        let malformed = |path: String| RevisionError::Malformed { revision: name(), path };
        let data = &revision.data.0;
        if data.get("format").and_then(Value::as_u64) != Some(FORMAT) {
            return Err(RevisionError::UnknownFormat { revision: name() });
        }
        let order = match data.get("cliqueOrder").and_then(Value::as_str) {
            Some("Free") => CliqueOrder::Free,
            Some("Counts") => CliqueOrder::Counts,
            _ => return Err(malformed("cliqueOrder".to_owned())),
        };
        let stored = data
            .get("cliques")
            .and_then(Value::as_array)
            .ok_or_else(|| malformed("cliques".to_owned()))?;
        let mut cliques = Vec::with_capacity(stored.len());
        for (index, clique) in stored.iter().enumerate() {
            let text = clique.get("name").and_then(Value::as_str);
            let clique_name = text
                .ok_or_else(|| malformed(format!("cliques[{index}].name")))?
                .to_owned();
            let template = clique.get("template").unwrap_or(&Value::Null);
            match OwnedTemplate::from_value(template) {
                Ok(template) => cliques.push((clique_name, template)),
                Err(source) => {
                    return Err(RevisionError::Template {
                        revision: name(),
                        clique: clique_name,
                        source,
                    });
                }
            }
        }
        Ok(Self { cliques, order })
    }

    /// The identity of the stored generation, computed anew from the content.
    #[must_use]
    pub fn generation(&self) -> GenerationIdentity {
        let cliques: Vec<_> = self
            .cliques
            .iter()
            .map(|(name, template)| (name.as_str(), template.view().identity()))
            .collect();
        GenerationIdentity::of(&cliques, self.order)
    }

    /// The stored template of one clique.
    #[must_use]
    pub fn template(&self, clique: &str) -> Option<&OwnedTemplate> {
        self.cliques
            .iter()
            .find(|(name, _)| name == clique)
            .map(|(_, template)| template)
    }

    /// The stored cliques: by name, or in start-up order where that order counts.
    pub fn cliques(&self) -> impl Iterator<Item = (&str, &OwnedTemplate)> {
        self.cliques.iter().map(|(name, template)| (name.as_str(), template))
    }
}
