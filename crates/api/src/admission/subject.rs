//! A set under validation: its parts with their paths, and who belongs to whom.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::names::limits::{GENERATED_SUFFIX_LENGTH, LABEL_LENGTH};
use crate::types::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplate, PodCliqueTemplate};

use super::FieldPath;

/// A set and an index over it.
pub(super) struct Subject<'a> {
    pub(super) set: &'a PodCliqueSet,
    pub(super) template: &'a PodCliqueSetTemplate,
    cliques: BTreeMap<&'a str, usize>,
    groups: BTreeMap<&'a str, usize>,
    group_of: BTreeMap<&'a str, usize>,
    claim_templates: BTreeSet<&'a str>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(set: &'a PodCliqueSet) -> Self {
        let template = &set.spec.template;
        let mut cliques = BTreeMap::new();
        for (index, clique) in template.cliques.iter().enumerate() {
            cliques.entry(clique.name.as_str()).or_insert(index);
        }
        let mut groups = BTreeMap::new();
        let mut group_of = BTreeMap::new();
        for (index, group) in template.pod_clique_scaling_groups.iter().enumerate() {
            groups.entry(group.name.as_str()).or_insert(index);
            for clique in &group.clique_names {
                group_of.entry(clique.as_str()).or_insert(index);
            }
        }
        let claim_templates = template
            .resource_claim_templates
            .iter()
            .map(|template| template.name.as_str());
        Self {
            set,
            template,
            cliques,
            groups,
            group_of,
            claim_templates: claim_templates.collect(),
        }
    }

    pub(super) fn template_path() -> FieldPath {
        FieldPath::root("spec").field("template")
    }

    /// The cliques with their paths.
    pub(super) fn cliques(&self) -> impl Iterator<Item = (FieldPath, &'a PodCliqueTemplate)> + use<'a> {
        let path = Self::template_path().field("cliques");
        let cliques = self.template.cliques.iter().enumerate();
        cliques.map(move |(index, clique)| (path.item(index, &clique.name), clique))
    }

    /// The scaling groups with their paths.
    pub(super) fn groups(&self) -> impl Iterator<Item = (FieldPath, &'a PodCliqueScalingGroupConfig)> + use<'a> {
        let path = Self::template_path().field("podCliqueScalingGroups");
        let groups = self.template.pod_clique_scaling_groups.iter().enumerate();
        groups.map(move |(index, group)| (path.item(index, &group.name), group))
    }

    /// The clique of this name; the first, should there be several.
    pub(super) fn clique(&self, name: &str) -> Option<&'a PodCliqueTemplate> {
        self.cliques.get(name).map(|index| &self.template.cliques[*index])
    }

    /// Whether there is a scaling group of this name.
    pub(super) fn group(&self, name: &str) -> Option<&'a PodCliqueScalingGroupConfig> {
        self.groups
            .get(name)
            .map(|index| &self.template.pod_clique_scaling_groups[*index])
    }

    /// The scaling group that a clique belongs to.
    pub(super) fn group_of(&self, clique: &str) -> Option<&'a PodCliqueScalingGroupConfig> {
        self.group_of
            .get(clique)
            .map(|index| &self.template.pod_clique_scaling_groups[*index])
    }

    /// Whether the set has an inline claim template of this name.
    pub(super) fn has_claim_template(&self, name: &str) -> bool {
        !name.is_empty() && self.claim_templates.contains(name)
    }

    /// The name that the set has, or will have: a generated one stands in with as many characters.
    pub(super) fn name(&self) -> Cow<'a, str> {
        let metadata = &self.set.metadata;
        match (
            metadata.name.as_deref().unwrap_or(""),
            metadata.generate_name.as_deref().unwrap_or(""),
        ) {
            ("", "") => Cow::Borrowed(""),
            ("", base) => {
                let base: String = base.chars().take(LABEL_LENGTH - GENERATED_SUFFIX_LENGTH).collect();
                Cow::Owned(base + &"x".repeat(GENERATED_SUFFIX_LENGTH))
            }
            (name, _) => Cow::Borrowed(name),
        }
    }
}

/// The most pods that a clique may have, as far as the template says.
pub(super) fn most_pods(clique: &PodCliqueTemplate) -> i32 {
    let limit = clique
        .spec
        .auto_scaling_config
        .as_ref()
        .map_or(0, |config| config.max_replicas);
    clique.spec.replicas.max(limit)
}

/// The most copies that a scaling group may have, as far as the template says.
pub(super) fn most_copies(group: &PodCliqueScalingGroupConfig) -> i32 {
    let limit = group.scale_config.as_ref().map_or(0, |config| config.max_replicas);
    group.replicas.unwrap_or(1).max(limit)
}
