//! Whether a stored PodClique still says what the set's template says: another client may have edited it, and its next pod
//! would run the edit under the identity of the set's template.

use std::collections::BTreeMap;

use coppice_api::canonical::{TemplateView, same_template};
use coppice_api::names::label_sets::Labels;
use coppice_api::names::{annotations, environment, labels};
use coppice_api::types::PodClique;
use serde_json::{Map, Value};

use crate::context::SetContext;
use crate::layout::{CliqueLayout, ReplicaLayout};
use crate::{mnnvl, objects};

/// Whether the template in a stored clique means what the set's means.
pub(super) fn is_as_in_the_set(
    context: &SetContext<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    stored: &PodClique,
) -> bool {
    let source = objects::TemplateSource::of_set(&context.facts, clique.position);
    let desired = objects::clique_template(&context.facts, layout, clique, source, "");
    let empty = BTreeMap::new();
    let stored_labels = users(stored.metadata.labels.as_ref().unwrap_or(&empty));
    let desired_labels = users(&desired.labels);
    let mut stored_annotations = stored.metadata.annotations.clone().unwrap_or_default();
    stored_annotations.remove(annotations::POD_INDEX_OFFSET);
    let (stored_spec, desired_spec) = (stored.spec.pod_spec.as_map(), desired.pod_spec.as_map());
    if stored_spec == desired_spec && stored_labels == desired_labels && stored_annotations == desired.annotations {
        return true;
    }
    let (stored_spec, desired_spec) = (authored(stored_spec), authored(desired_spec));
    let view = |labels, annotations, spec| TemplateView {
        labels,
        annotations,
        priority_class: context.facts.set.spec.template.priority_class_name.as_deref(),
        spec,
    };
    same_template(
        &view(&stored_labels, &stored_annotations, &stored_spec),
        &view(&desired_labels, &desired.annotations, &desired_spec),
    )
}

/// Whether the template in a stored clique at a position means what the set's means, wherever the clique stands.
pub(crate) fn means_the_set(context: &SetContext<'_>, position: usize, stored: &PodClique) -> bool {
    let template = context.facts.cliques[position].template;
    let (stored_labels, wanted_labels) = (
        users(&stored.metadata.labels.clone().unwrap_or_default()),
        users(&template.labels),
    );
    let mut stored_annotations = stored.metadata.annotations.clone().unwrap_or_default();
    stored_annotations.remove(annotations::POD_INDEX_OFFSET);
    let mut wanted_annotations = template.annotations.clone();
    wanted_annotations.remove(annotations::TOPOLOGY_NAME);
    let (stored_spec, wanted_spec) = (
        authored(stored.spec.pod_spec.as_map()),
        authored(template.spec.pod_spec.as_map()),
    );
    let priority_class = context.facts.set.spec.template.priority_class_name.as_deref();
    let view = |labels, annotations, spec| TemplateView {
        labels,
        annotations,
        priority_class,
        spec,
    };
    same_template(
        &view(&stored_labels, &stored_annotations, &stored_spec),
        &view(&wanted_labels, &wanted_annotations, &wanted_spec),
    )
}

/// Whether what pods are made from, or what readers take for the clique's minimum and role, was edited.
pub(super) fn is_edited(
    context: &SetContext<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    stored: &PodClique,
) -> bool {
    let of_set = &context.facts.cliques[clique.position];
    stored.spec.role_name != of_set.template.spec.role_name
        || stored.spec.min_available != i32::try_from(of_set.min_available).ok()
        || !is_as_in_the_set(context, layout, clique, stored)
}

/// A pod specification without what the operator adds to it: that follows sizes and settings, not the template.
fn authored(spec: &Map<String, Value>) -> Map<String, Value> {
    let mut spec = spec.clone();
    mnnvl::remove_claim(&mut spec);
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(variables) = container["env"].as_array_mut() {
                variables.retain(|variable| !variable["name"].as_str().is_some_and(environment::is_reserved));
            }
        }
    }
    spec
}

/// The labels that come from the author of the template, not from us.
fn users(all: &Labels) -> Labels {
    let ours = |key: &str| {
        labels::is_reserved(key)
            || [labels::MANAGED_BY, labels::PART_OF, labels::NAME, labels::COMPONENT].contains(&key)
    };
    all.iter()
        .filter(|(key, _)| !ours(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
