//! A set with everything that does not depend on one replica: facts, identities of its templates, settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::canonical::{CliqueOrder, GenerationIdentity, TemplateIdentity, TemplateView};
use coppice_api::types::{CliqueStartupType, PodCliqueSet, UpdateStrategyType};

use serde_json::Value;

use crate::backends::{self, Backend, BackendContext};
use crate::facts::SetFacts;
use crate::revisions::Revisions;
use crate::settings::{Settings, TopologyLevels};

/// A set, ready for planning.
#[derive(Clone, Debug)]
pub struct SetContext<'a> {
    /// What follows from its template.
    pub facts: SetFacts<'a>,
    /// The identity of each clique's pod template, by position.
    pub identities: Vec<TemplateIdentity>,
    /// The identity of all templates together.
    pub generation: GenerationIdentity,
    /// The operator's settings.
    pub settings: &'a Settings,
    /// The topology that its constraints refer to, when there is one.
    pub topology: Option<&'a TopologyLevels>,
    /// A hash written by another operator, or by another version of ours, that names these templates.
    pub adopted_hash: Option<String>,
    /// What the objects of the set's scheduler need to know of the cluster.
    pub backend: BackendContext,
    /// The templates that the set had; read only where updates are coherent.
    pub revisions: Arc<Revisions>,
    /// The ResourceClaimTemplate objects that the set refers to and that exist, by namespace and name.
    pub claim_templates: BTreeMap<(String, String), Arc<Value>>,
}

impl<'a> SetContext<'a> {
    /// Reads a set. Computing the identities is the expensive part: once for each generation is enough.
    pub fn new(set: &'a PodCliqueSet, settings: &'a Settings, topology: Option<&'a TopologyLevels>) -> Self {
        let facts = facts(set, settings);
        let identities: Vec<TemplateIdentity> = (0..facts.cliques.len())
            .map(|position| template_view(&facts, position).identity())
            .collect();
        let order = match set.spec.template.clique_startup_type {
            Some(CliqueStartupType::InOrder) => CliqueOrder::Counts,
            _ => CliqueOrder::Free,
        };
        let named: Vec<(&str, TemplateIdentity)> = facts
            .cliques
            .iter()
            .zip(&identities)
            .map(|(clique, id)| (clique.template.name.as_str(), *id))
            .collect();
        let generation = GenerationIdentity::of(&named, order);
        Self {
            facts,
            identities,
            generation,
            settings,
            topology,
            adopted_hash: None,
            backend: BackendContext::default(),
            revisions: Arc::default(),
            claim_templates: BTreeMap::new(),
        }
    }

    /// The same, with identities that were computed before for this generation of the set.
    pub fn with_identities(
        set: &'a PodCliqueSet,
        settings: &'a Settings,
        topology: Option<&'a TopologyLevels>,
        identities: Vec<TemplateIdentity>,
        generation: GenerationIdentity,
    ) -> Self {
        Self {
            facts: facts(set, settings),
            identities,
            generation,
            settings,
            topology,
            adopted_hash: None,
            backend: BackendContext::default(),
            revisions: Arc::default(),
            claim_templates: BTreeMap::new(),
        }
    }

    /// The scheduler of the set.
    pub fn scheduler(&self) -> &str {
        backends::scheduler_of(&self.facts, self.settings)
    }

    /// The mapping of gangs for the scheduler of the set.
    pub fn backend(&self) -> &'static dyn Backend {
        backends::of_set(&self.facts, self.settings)
    }

    /// Whether the set is being deleted.
    pub fn deleting(&self) -> bool {
        self.facts.set.metadata.deletion_timestamp.is_some()
    }

    /// Whether pods are replaced only when somebody else deletes them.
    pub fn on_delete(&self) -> bool {
        let strategy = self
            .facts
            .set
            .spec
            .update_strategy
            .as_ref()
            .map(|strategy| &strategy.strategy);
        strategy == Some(&UpdateStrategyType::OnDelete)
    }

    /// Whether all changed components are moved in step.
    pub fn coherent(&self) -> bool {
        let strategy = self.facts.set.spec.update_strategy.as_ref();
        strategy.is_some_and(|strategy| strategy.strategy == UpdateStrategyType::Coherent)
    }

    /// Whether the user stopped updates of the set.
    pub fn paused(&self) -> bool {
        let strategy = self.facts.set.spec.update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.paused) == Some(true) && !self.on_delete()
    }

    /// Whether the set's status has accepted the templates as they are now.
    pub fn accepted(&self) -> Option<bool> {
        let hash = self.facts.set.status.as_ref()?.current_generation_hash.as_deref()?;
        Some(self.generation.matches_label(hash) || self.adopted_hash.as_deref() == Some(hash))
    }

    /// The hash under which the set's current templates are known to clients.
    pub fn generation_hash(&self) -> String {
        self.adopted_hash.clone().unwrap_or_else(|| self.generation.label())
    }
}

fn facts<'a>(set: &'a PodCliqueSet, settings: &Settings) -> SetFacts<'a> {
    SetFacts {
        auto_mnnvl: settings.auto_mnnvl,
        ..SetFacts::of(set)
    }
}

/// The pod template of a clique, as its identity sees it.
pub fn template_view<'a>(facts: &SetFacts<'a>, position: usize) -> TemplateView<'a> {
    let template = facts.cliques[position].template;
    TemplateView {
        labels: &template.labels,
        annotations: &template.annotations,
        priority_class: facts
            .set
            .spec
            .template
            .priority_class_name
            .as_deref()
            .filter(|name| !name.is_empty()),
        spec: template.spec.pod_spec.as_map(),
    }
}
