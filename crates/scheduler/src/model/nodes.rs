//! Nodes and topologies in the model.

use std::collections::BTreeMap;

use coppice_placement::predicates::Node;

use super::{Changes, Model};

impl Model {
    /// Adds or replaces nodes. Those that did not change cost nothing.
    pub fn put_nodes(&mut self, nodes: impl IntoIterator<Item = Node>) {
        let changed: Vec<Node> = nodes
            .into_iter()
            .filter(|node| self.nodes.get(&node.name) != Some(node))
            .collect();
        if changed.is_empty() {
            return;
        }
        self.room += 1;
        self.capacity += 1;
        let mut new = Vec::new();
        for node in &changed {
            if self.nodes.insert(node.name.clone(), node.clone()).is_none() {
                new.push(node.name.clone());
            }
        }
        let dressed = changed.into_iter().map(|node| self.storage.with_limits(node));
        self.state.put_nodes(dressed);
        if !new.is_empty() {
            self.changes = Changes::All;
        }
        for name in new {
            let pods = self.by_node.get(name.as_str()).into_iter().flatten().cloned();
            for key in pods.collect::<Vec<_>>() {
                self.settle(&key);
            }
        }
    }

    /// Removes nodes. Pods on them are remembered for when they come back.
    pub fn remove_nodes<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let gone: Vec<&str> = names
            .into_iter()
            .filter(|name| self.nodes.remove(*name).is_some())
            .collect();
        if !gone.is_empty() {
            // Pods on a node that is gone no longer pin their gang to its domain.
            self.room += 1;
            self.changes = Changes::All;
            self.state.remove_nodes(gone);
        }
    }

    /// Replaces the topologies: label keys by name, broadest first.
    pub fn set_topologies(&mut self, topologies: BTreeMap<String, Vec<String>>) {
        if topologies != self.topologies {
            self.topologies = topologies;
            self.room += 1;
            let list: Vec<_> = self.topologies.clone().into_iter().collect();
            self.state.set_topologies(&list);
        }
    }
}
