//! The template of a clique that exists, brought to what the set has now.

use coppice_api::names::{annotations, labels};
use serde_json::{Value, json};

use crate::command::{Command, Kind, merge_patch};
use crate::objects::{self, TemplateSource};
use crate::snapshot::target_of;
use crate::state::Replica;

/// The patch that gives a clique the set's template: pod specification, the author's labels and annotations, identity.
pub(crate) fn patch(replica: &Replica<'_>, index: usize) -> Option<Command> {
    let position = replica.layout.cliques[index].position;
    let hash = replica.context.identities[position].label();
    patch_to(
        replica,
        index,
        TemplateSource::of_set(&replica.context.facts, position),
        &hash,
    )
}

/// The patch that gives a clique a template with its hash.
pub(crate) fn patch_to(replica: &Replica<'_>, index: usize, source: TemplateSource<'_>, hash: &str) -> Option<Command> {
    let clique = &replica.layout.cliques[index];
    let stored = replica.cliques[index].stored?;
    let desired = objects::clique_template(&replica.context.facts, &replica.layout, clique, source, hash);
    debug_assert!(desired.labels.contains_key(labels::POD_TEMPLATE_HASH));
    let view = |labels: Value, annotations: Value, pod_spec: Value| json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": {"podSpec": pod_spec}});
    let mut annotations = stored.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(annotations::POD_INDEX_OFFSET);
    let current = view(
        json!(stored.metadata.labels.clone().unwrap_or_default()),
        json!(annotations),
        json!(stored.spec.pod_spec),
    );
    let wanted = view(
        json!(desired.labels),
        json!(desired.annotations),
        json!(desired.pod_spec),
    );
    let patch = merge_patch(&current, &wanted)?;
    Some(Command::Merge {
        target: target_of(Kind::PodClique, &stored.metadata),
        patch,
    })
}
