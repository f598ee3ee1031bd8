//! How a gang keeps away from the other copies of its set.
//!
//! A copy takes a domain as soon as one of its pods has a node there, or is about to. Spreading is about whole copies, so
//! a copy whose packing says nothing of that level, or of a narrower one, is kept inside one such domain where it fits.

use std::collections::{BTreeMap, BTreeSet};

use coppice_placement::topology::DomainPath;
use coppice_placement::{Gang, Reason, ReasonCode, Spread};

use super::{GangRecord, Model, ReplicaKey};

impl Model {
    /// Tells the gang where the other copies are. Returns why it cannot be placed, when it must keep apart and nothing is
    /// known of that level.
    pub(super) fn spread(&self, gang: &mut Gang, record: &GangRecord) -> Option<Reason> {
        let ((key, hard), replica) = record.spread.as_ref().zip(record.replica.as_ref())?;
        if !self.is_within(&gang.topology, key, key) {
            let message =
                format!("replicas must spread over {key}, which is a level of no topology that the gang can use");
            return hard.then(|| Reason::new(ReasonCode::UnknownTopology, message));
        }
        gang.spread = Some(Spread {
            key: key.clone(),
            taken: self.taken_by_others(&gang.topology, key, replica),
            hard: *hard,
        });
        let narrow = |level: &String| self.is_within(&gang.topology, level, key);
        let packs = [
            Some(&gang.pack),
            gang.placement_group.as_ref().map(|shared| &shared.pack),
        ];
        let packed = packs
            .iter()
            .flatten()
            .any(|pack| pack.preferred.is_some() || pack.required.as_ref().is_some_and(narrow));
        if let Some(shared) = gang.placement_group.as_mut().filter(|_| !packed) {
            shared.pack.preferred = Some(key.clone());
        }
        None
    }

    /// How many other copies of the set each domain of a level holds.
    fn taken_by_others(&self, topology: &str, key: &str, own: &ReplicaKey) -> BTreeMap<DomainPath, u32> {
        let mut taken = BTreeMap::new();
        let Some(view) = self.state.view_named(topology).map(|at| self.state.view(at)) else {
            return taken;
        };
        let Some(depth) = view.depth_of(key) else { return taken };
        let first = (own.0.clone(), 0);
        let last = (own.0.clone(), u32::MAX);
        for (_, gangs) in self.replicas.range(first..=last).filter(|(replica, _)| *replica != own) {
            let pods = gangs.iter().filter_map(|gang| self.members.get(gang)).flatten();
            let pods = pods.filter_map(|pod| self.pods.get(pod)).filter(|pod| pod.counts());
            let nodes = pods.filter_map(|pod| self.state.node_id(&self.node_of(pod)?));
            let domains: BTreeSet<_> = nodes.filter_map(|node| view.domain_of(node, depth)).collect();
            for domain in domains {
                *taken.entry(view.domain(domain).path.clone()).or_default() += 1;
            }
        }
        taken
    }

    /// Whether a level is this one or a narrower one.
    fn is_within(&self, topology: &str, level: &str, outer: &str) -> bool {
        let view = self.state.view_named(topology).map(|at| self.state.view(at));
        let depth = |key: &str| view.and_then(|view| view.depth_of(key));
        depth(level)
            .zip(depth(outer))
            .is_some_and(|(level, outer)| level >= outer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coppice_placement::{Options, Outcome, plan};
    use serde_json::json;

    use super::*;
    use crate::model::testing::{PodSketch, gang_id, node, two_racks};

    /// The gang of a copy, with so many pods.
    fn put_copy(model: &mut Model, index: u32, annotation: (&str, &str), pods: u32) {
        let name = format!("s-{index}");
        let object = json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
                "annotations": {(annotation.0): annotation.1},
                "labels": {"app.kubernetes.io/part-of": "s", "grove.io/podcliqueset-replica-index": index.to_string()}},
            "spec": {"podgroups": [{"name": format!("{name}-a"), "podReferences": [], "minReplicas": pods}]},
        });
        let record = GangRecord::of(&serde_json::from_value(object).unwrap()).unwrap();
        model.put_gang(Arc::new(record));
        for pod in 0..pods {
            let sketch = PodSketch::new(&format!("{name}-a-{pod}"), &name, &format!("{name}-a"));
            model.put_pod(&sketch.record());
        }
    }

    /// Places a copy as the shell would, and tells its racks.
    fn place(model: &mut Model, index: u32) -> Result<BTreeSet<&'static str>, String> {
        let question = model.question(&gang_id(&format!("s-{index}"))).unwrap();
        if let Some(obstacle) = question.obstacle {
            return Err(obstacle.message);
        }
        match plan(model.state_mut(), &question.gang, &Options::default()) {
            Outcome::Placed(plan) => {
                let mut racks = BTreeSet::new();
                for binding in &plan.bindings {
                    racks.insert(if ["n0", "n1"].contains(&binding.node.as_str()) {
                        "r0"
                    } else {
                        "r1"
                    });
                    model.assume(&question.pods[&binding.pod], &binding.node);
                }
                Ok(racks)
            }
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn copies_prefer_racks_of_their_own_and_share_when_there_is_no_other() {
        let mut model = two_racks(2, 2);
        let mut racks = Vec::new();
        for index in 0..4 {
            put_copy(&mut model, index, ("grove.io/spread-preferred", "rack"), 2);
            racks.push(place(&mut model, index).unwrap());
        }
        assert_eq!(racks[0].len(), 1, "a copy stays inside one rack");
        assert!(racks[0].is_disjoint(&racks[1]));
        assert!(racks[2].is_disjoint(&racks[3]), "the fuller rack comes last");
        put_copy(&mut model, 4, ("grove.io/spread-preferred", "rack"), 2);
        assert!(place(&mut model, 4).is_err(), "eight pods fill the cluster");
    }

    #[test]
    fn copies_that_must_keep_apart_wait_for_a_rack() {
        let mut model = two_racks(2, 2);
        for index in 0..2 {
            put_copy(&mut model, index, ("grove.io/spread-required", "rack"), 1);
            place(&mut model, index).unwrap();
        }
        put_copy(&mut model, 2, ("grove.io/spread-required", "rack"), 1);
        let refusal = place(&mut model, 2).unwrap_err();
        assert!(refusal.starts_with("Infeasible"), "{refusal}");
        model.put_nodes([node("n4", "r2", 2)]);
        place(&mut model, 2).unwrap();
    }

    #[test]
    fn without_spreading_copies_are_packed() {
        let mut model = two_racks(2, 2);
        let mut racks = BTreeSet::new();
        for index in 0..2 {
            put_copy(&mut model, index, ("example.com/note", "rack"), 2);
            racks.extend(place(&mut model, index).unwrap());
        }
        assert_eq!(racks.len(), 1);
    }

    #[test]
    fn an_unknown_level_is_refused_when_it_must_hold_and_left_out_when_not() {
        let mut model = two_racks(2, 2);
        put_copy(&mut model, 0, ("grove.io/spread-required", "example.com/row"), 1);
        let refusal = place(&mut model, 0).unwrap_err();
        assert!(refusal.contains("spread over example.com/row"), "{refusal}");
        put_copy(&mut model, 1, ("grove.io/spread-preferred", "example.com/row"), 1);
        place(&mut model, 1).unwrap();
    }
}
