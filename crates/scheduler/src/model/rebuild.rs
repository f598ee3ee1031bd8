//! The model built again from its objects: to compare with, after a change that no part of the state survives, and after a panic.

use coppice_placement::ClusterState;
use coppice_runtime::cache::ObjectKey;

use super::{Changes, Model};

impl Model {
    /// The same model built from its objects at once; it answers like this one unless there is a bug.
    #[must_use]
    pub fn rebuilt(&self) -> Self {
        self.rebuilt_noting(&mut None)
    }

    /// The same; `current` is the pod that is being put in.
    pub(super) fn rebuilt_noting(&self, current: &mut Option<ObjectKey>) -> Self {
        let mut other = Self::new(self.ours.iter().cloned());
        // A key that was mentioned once stays: looking at one label too many harms nobody.
        other.mentioned.clone_from(&self.mentioned);
        other.set_topologies(self.topologies.clone());
        other.budgets.clone_from(&self.budgets);
        other.storage = self.storage.without_users();
        other.put_nodes(self.nodes.values().cloned());
        self.gangs.values().for_each(|gang| other.put_gang(gang.clone()));
        #[cfg(test)]
        other.faulty.clone_from(&self.faulty);
        for (key, pod) in &self.pods {
            *current = Some(key.clone());
            other.put_pod(pod);
        }
        for (key, node) in &self.assumed {
            *current = Some(key.clone());
            other.assume(key, node);
        }
        *current = None;
        other
    }

    pub(super) fn rebuild(&mut self) {
        let topologies: Vec<_> = self.topologies.clone().into_iter().collect();
        self.state = ClusterState::new(&topologies);
        let nodes = self.nodes.values().cloned();
        self.state.put_nodes(nodes.map(|node| self.storage.with_limits(node)));
        self.changes = Changes::All;
        self.room += 1;
        for key in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.settle(&key);
        }
    }
}
