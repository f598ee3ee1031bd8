//! What pods that are gone leave behind: shapes in the state, label keys that their anti-affinity mentioned.
//!
//! Owns when that is forgotten: each time the table of shapes, counted in shapes or in parts of their demands, has grown to
//! twice of what was in use when it was last looked at. So memory follows the pods there are, and the work of forgetting
//! the pods that came and went.

use super::Model;

/// Tables smaller than this are not worth a look.
const FEW_SHAPES: usize = 1_000;
const FEW_PARTS: usize = 100_000;

/// How far tables may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    shapes: usize,
    parts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            shapes: FEW_SHAPES,
            parts: FEW_PARTS,
        }
    }
}

impl Model {
    /// Forgets shapes and label keys that no pod has any more, if there may be many. Returns whether it looked. Shapes have
    /// other numbers afterwards, so nothing may be asked or placed tentatively at the time.
    pub fn forget_unused(&mut self) -> bool {
        let shapes = self.state.shapes();
        if shapes.len() <= self.limits.shapes && shapes.parts() <= self.limits.parts {
            return false;
        }
        let pods = self.pods.values();
        let selectors = pods.flat_map(|pod| pod.demands.keep_apart.iter().flat_map(|term| &term.selector));
        self.mentioned = selectors.map(|expression| expression.key.clone()).collect();
        self.rebuild();
        // Those of pods that wait are made when they are asked about; they are in use too.
        for pod in self.pods.values().cloned().collect::<Vec<_>>() {
            self.shape(&pod);
        }
        let shapes = self.state.shapes();
        self.limits = Limits {
            shapes: FEW_SHAPES.max(shapes.len().saturating_mul(2)),
            parts: FEW_PARTS.max(shapes.parts().saturating_mul(2)),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::testing::{PodSketch, two_racks};
    use crate::model::{PodRecord, PodRecords};

    /// A pod that no other is like, with a large selector.
    fn large(number: usize, records: &PodRecords) -> std::sync::Arc<PodRecord> {
        let values: Vec<String> = (0..2_000).map(|value| format!("{number}-{value}")).collect();
        let terms = json!([{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": values}]}]);
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let pod = PodSketch::new(&format!("p{number}"), "g", "c");
        pod.record_by(records, &json!({"affinity": affinity}))
    }

    #[test]
    fn what_pods_demanded_is_forgotten_when_they_are_gone() {
        let (mut model, records) = (two_racks(4, 4), PodRecords::default());
        let mut most = 0;
        for number in 0..600 {
            let pod = large(number, &records);
            model.put_pod(&pod);
            model.shape(&pod);
            model.remove_pod(&pod.meta.key);
            drop(pod);
            model.forget_unused();
            records.note_gone(1);
            most = most.max(model.state().shapes().parts());
        }
        assert!(most <= FEW_PARTS + 4_000, "{most} parts");
        model.limits = Limits { shapes: 0, parts: 0 };
        model.forget_unused();
        records.forget_unused();
        assert_eq!(model.state().shapes().len(), 0);
        assert_eq!(records.len(), 0, "demands that no pod has");
    }

    #[test]
    fn what_is_in_use_is_kept_and_not_looked_at_again_and_again() {
        let (mut model, records) = (two_racks(4, 4), PodRecords::default());
        for number in 0..200 {
            let pod = large(number, &records);
            model.put_pod(&pod);
            model.shape(&pod);
        }
        assert!(model.forget_unused());
        assert_eq!(model.state().shapes().len(), 200);
        assert!(!model.forget_unused(), "it has not doubled");
        records.forget_unused();
        assert_eq!(records.len(), 200);
    }
}
