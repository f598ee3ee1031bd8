//! Which nodes the sources of volumes reach.
//!
//! Owns the reading of selectors against the cluster, at a cost that grows with the nodes they name and not with all nodes times
//! all volumes. Every look is paid for in steps.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::budget::{Exhausted, Steps};
use crate::predicates::{NodeSelector, NodeTerm, Operator};
use crate::state::{ClusterState, NodeId};
use crate::topology::DomainId;
use crate::volume::VolumeSource;

/// One way to serve a claim, and the nodes it reaches.
pub(super) struct Source {
    /// A volume that exists, by name; one is made otherwise.
    pub(super) volume: Option<String>,
    pub(super) nodes: Rc<BTreeSet<NodeId>>,
}

/// Which nodes selectors reach. What is asked twice is found once, and a selector that lists values of a label looks only at
/// the nodes that have them: there may be as many volumes as nodes.
pub(super) struct Reaches<'a> {
    state: &'a ClusterState,
    everywhere: Rc<BTreeSet<NodeId>>,
    known: BTreeMap<NodeSelector, Rc<BTreeSet<NodeId>>>,
    by_label: BTreeMap<String, BTreeMap<&'a str, Vec<NodeId>>>,
}

impl<'a> Reaches<'a> {
    pub(super) fn new(state: &'a ClusterState) -> Self {
        let all = state.view(0).nodes_in(DomainId::ROOT).iter().copied();
        Self {
            state,
            everywhere: Rc::new(all.collect()),
            known: BTreeMap::new(),
            by_label: BTreeMap::new(),
        }
    }

    /// The ways of a source: one for a volume, one for each place in which a volume can be made.
    pub(super) fn resolve(
        &mut self,
        source: &VolumeSource,
        found: &mut Vec<Source>,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        match source {
            VolumeSource::Volume { name, nodes } => {
                let nodes = match nodes {
                    Some(nodes) => self.reach(nodes, steps)?,
                    None => self.everywhere.clone(),
                };
                let volume = Some(name.clone());
                found.push(Source { volume, nodes });
            }
            VolumeSource::Provisioned { keys, nodes } => {
                let mut all = self.everywhere.clone();
                for selector in nodes {
                    let reach = self.reach(selector, steps)?;
                    all = Rc::new(all.intersection(&reach).copied().collect());
                }
                if keys.is_empty() {
                    found.push(Source {
                        volume: None,
                        nodes: all,
                    });
                    return Ok(());
                }
                steps.spend(all.len().saturating_mul(keys.len()))?;
                let mut places: BTreeMap<Vec<&str>, BTreeSet<NodeId>> = BTreeMap::new();
                for node in all.iter() {
                    let labels = &self.state.node(*node).labels;
                    let values = keys.iter().map(|key| labels.get(key).map(String::as_str));
                    if let Some(place) = values.collect::<Option<Vec<&str>>>() {
                        places.entry(place).or_default().insert(*node);
                    }
                }
                found.extend(places.into_values().map(|nodes| Source {
                    volume: None,
                    nodes: Rc::new(nodes),
                }));
            }
        }
        Ok(())
    }

    fn reach(&mut self, selector: &NodeSelector, steps: &mut Steps) -> Result<Rc<BTreeSet<NodeId>>, Exhausted> {
        steps.spend(1)?;
        if let Some(known) = self.known.get(selector) {
            return Ok(known.clone());
        }
        let mut nodes = BTreeSet::new();
        for term in &selector.terms {
            let candidates = self.candidates(term, steps)?;
            steps.spend(
                candidates
                    .len()
                    .saturating_mul(1 + term.expressions.len() + term.fields.len()),
            )?;
            nodes.extend(
                candidates
                    .into_iter()
                    .filter(|node| term.matches(self.state.node(*node))),
            );
        }
        let nodes = Rc::new(nodes);
        self.known.insert(selector.clone(), nodes.clone());
        Ok(nodes)
    }

    /// Nodes among which are all that match a term.
    fn candidates(&mut self, term: &NodeTerm, steps: &mut Steps) -> Result<Vec<NodeId>, Exhausted> {
        if let Some(field) = term.fields.iter().find(|field| field.operator == Operator::In) {
            return Ok(field
                .values
                .iter()
                .filter_map(|name| self.state.node_id(name))
                .collect());
        }
        let Some(listed) = term.expressions.iter().find(|one| one.operator == Operator::In) else {
            return Ok(self.everywhere.iter().copied().collect());
        };
        if !self.by_label.contains_key(&listed.key) {
            steps.spend(self.everywhere.len())?;
            let mut values: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
            for node in self.everywhere.iter() {
                if let Some(value) = self.state.node(*node).labels.get(&listed.key) {
                    values.entry(value).or_default().push(*node);
                }
            }
            self.by_label.insert(listed.key.clone(), values);
        }
        let values = &self.by_label[&listed.key];
        let found = listed.values.iter().filter_map(|value| values.get(value.as_str()));
        Ok(found.flatten().copied().collect())
    }
}
