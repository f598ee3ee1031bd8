//! Which template the pods of a clique are made from, and which of them the map has no place for.
//!
//! With coherent updates every pod is made from the revision that the map names for its gang, so that a lost old pod comes
//! back old. With other strategies it is made from what its clique says.

use std::borrow::Cow;

use coppice_api::types::PodClique;

use crate::components::{self, CliqueSource, ComponentFacts};
use crate::gang_map::Entry;
use crate::objects::{self, UpdateStamp};
use crate::snapshot::PodFacts;
use crate::state::Replica;

/// What a pod is made from.
pub(crate) struct Rendered<'a> {
    /// The clique as it would be with the pod's template.
    pub(crate) clique: Cow<'a, PodClique>,
    /// Whether the template says which priority class it has.
    pub(crate) own_priority: bool,
    /// What tells routers which version it is.
    pub(crate) stamp: Option<UpdateStamp>,
}

/// The component of a clique.
pub(crate) fn component_of<'r>(replica: &'r Replica<'_>, index: usize) -> Option<&'r ComponentFacts> {
    let position = replica.layout.cliques[index].position;
    let mut components = replica.components.iter();
    components.find(|component| component.cliques.contains(&position))
}

/// The entry of the map that a share of a clique belongs to.
pub(crate) fn entry_of<'r>(replica: &'r Replica<'_>, index: usize, share: usize) -> Option<&'r Entry> {
    let share = replica.layout.cliques[index].shares.get(share)?;
    let entry = replica.layout.gangs[share.gang].entry?;
    Some(&replica.layout.map.entries[entry])
}

/// The template of a share by the map; none when its revision is not stored.
pub(crate) fn source_of<'r>(replica: &'r Replica<'_>, index: usize, share: usize) -> Option<CliqueSource<'r>> {
    let position = replica.layout.cliques[index].position;
    let component = component_of(replica, index)?;
    let named = entry_of(replica, index, share).and_then(|entry| entry.revision(&component.name));
    let revision = named.unwrap_or(&component.wanted);
    components::source(replica.context, component, revision, position)
}

/// The template that the object of a clique has: that of its newest gang.
pub(crate) fn source_of_clique<'r>(replica: &'r Replica<'_>, index: usize) -> Option<CliqueSource<'r>> {
    source_of(replica, index, replica.layout.cliques[index].shares.len() - 1)
}

/// What the pods of a share are made from; none when their revision is not stored.
pub(crate) fn of_share<'s>(
    replica: &Replica<'_>,
    index: usize,
    share: usize,
    stored: &'s PodClique,
) -> Option<Rendered<'s>> {
    if !replica.context.coherent() {
        return Some(Rendered {
            clique: Cow::Borrowed(stored),
            own_priority: false,
            stamp: None,
        });
    }
    let source = source_of(replica, index, share)?;
    let layout = &replica.layout.cliques[index];
    let state = &replica.cliques[index];
    // What is not the set's template is not taken from the clique: nothing would restore it if somebody edited it there.
    let clique = if state.current && source.is_of_set {
        Cow::Borrowed(stored)
    } else {
        let facts = &replica.context.facts;
        let template = objects::clique_template(facts, &replica.layout, layout, source.template, &source.hash);
        let mut clique = stored.clone();
        clique.metadata.labels = Some(template.labels);
        clique.metadata.annotations = Some(template.annotations);
        clique.spec.pod_spec = template.pod_spec;
        Cow::Owned(clique)
    };
    let component = component_of(replica, index)?;
    let stamp = entry_of(replica, index, share).map(|entry| {
        let serves_with = entry.depends_on.last().filter(|_| !entry.is_one_gang());
        UpdateStamp {
            revision: entry.revision(&component.name).unwrap_or(&component.wanted).to_owned(),
            epoch: serves_with.unwrap_or(&entry.epoch).to_string(),
        }
    });
    Some(Rendered {
        clique,
        own_priority: !source.is_of_set,
        stamp,
    })
}

/// The pods of a clique that the map has no place for: those in a gang that has none of it any more, and in each gang
/// those that are too many, in the order that the planner counts on.
pub(crate) fn beyond_map<'a>(replica: &Replica<'a>, index: usize, kept: &[&'a PodFacts]) -> Vec<&'a PodFacts> {
    let state = &replica.cliques[index];
    let mut gone: Vec<&'a PodFacts> = Vec::new();
    let is_kept = |pod: &PodFacts| kept.iter().any(|kept| kept.uid == pod.uid);
    for pod in &state.strays {
        let pod: &'a PodFacts = pod;
        if is_kept(pod) {
            gone.push(pod);
        }
    }
    for (share, part) in state.parts.iter().enumerate() {
        let planned = state.planned[share] as usize;
        let mut pods: Vec<&'a PodFacts> = Vec::new();
        for pod in part {
            let pod: &'a PodFacts = pod;
            if is_kept(pod) {
                pods.push(pod);
            }
        }
        if pods.len() <= planned {
            continue;
        }
        let source = source_of(replica, index, share);
        let has_template = |pod: &PodFacts| {
            let hash = source.as_ref().map(|source| source.hash.as_str());
            hash == Some(pod.template_hash.as_str())
        };
        pods.sort_by_key(|pod| {
            let lacks = |condition: bool| !condition;
            (
                lacks(pod.ready),
                lacks(has_template(pod)),
                lacks(pod.scheduled),
                pod.ready_since,
                (pod.created, pod.name.clone()),
            )
        });
        gone.extend(pods.split_off(planned));
    }
    gone
}
