//! The state: rolling back restores it bit for bit, and what is kept incrementally equals what is computed anew.

mod support;

use coppice_placement::{ClusterState, NodeId};
use proptest::prelude::*;
use support::cluster::{cluster, demands, node};

#[derive(Debug, Clone)]
enum Step {
    Add { pod: u8, node: u8, shape: u8 },
    Remove { pod: u8 },
    PutNode { node: u8, gpus: u8 },
    RemoveNode { node: u8 },
    Intern { resource: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..20_u8, 0..12_u8, 0..3_u8).prop_map(|(pod, node, shape)| Step::Add { pod, node, shape }),
        3 => (0..20_u8).prop_map(|pod| Step::Remove { pod }),
        1 => (0..12_u8, 0..9_u8).prop_map(|(node, gpus)| Step::PutNode { node, gpus }),
        1 => (0..12_u8).prop_map(|node| Step::RemoveNode { node }),
        1 => (0..3_u8).prop_map(|resource| Step::Intern { resource }),
    ]
}

fn name(at: u8) -> String {
    let at = usize::from(at);
    format!("b{}-r{}-h{}", at / 6, at / 3 % 2, at % 3)
}

fn run(state: &mut ClusterState, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Add { pod, node, shape } => {
                let shape = state.shape(&demands(i64::from(*shape) + 1));
                // A second pod of the name, or a node that is gone, is refused and changes nothing.
                let known = state.pod(&pod.to_string()).is_some();
                let there = state.node_id(&name(*node)).is_some();
                assert_eq!(
                    state.add_pod(&pod.to_string(), &name(*node), shape).is_ok(),
                    there && !known
                );
            }
            Step::Remove { pod } => {
                state.remove_pod(&pod.to_string());
            }
            Step::PutNode { node: at, gpus } => {
                let at = usize::from(*at);
                state.put_nodes([node(at / 6, at / 3 % 2, at % 3, i64::from(*gpus))]);
            }
            Step::RemoveNode { node } => state.remove_nodes([name(*node).as_str()]),
            Step::Intern { resource } => {
                let mut odd = demands(1);
                odd.requests.insert(format!("vendor/{resource}"), 1);
                state.shape(&odd);
            }
        }
    }
}

proptest! {
    #[test]
    fn incremental_sums_equal_recomputed_ones(steps in prop::collection::vec(step(), 0..60)) {
        let mut state = cluster(2, 2, 3, 8);
        run(&mut state, &steps);
        prop_assert!(state == state.recomputed());
    }

    #[test]
    fn rollback_restores_everything(
        steps in prop::collection::vec(step(), 0..40),
        tentative in prop::collection::vec((0..12_u8, 0..3_u8, 1..9_u32, any::<bool>()), 0..30),
    ) {
        let mut state = cluster(2, 2, 3, 8);
        run(&mut state, &steps);
        let shapes: Vec<_> = (1..4).map(|gpus| state.shape(&demands(gpus))).collect();
        let before = state.clone();
        let mark = state.mark();
        let mut inner = None;
        for (at, shape, count, lift) in tentative {
            let Some(node): Option<NodeId> = state.node_id(&name(at)) else { continue };
            let shape = shapes[usize::from(shape)];
            let there = state.residents_on(node).iter().find(|(id, _)| *id == shape).map_or(0, |(_, count)| *count);
            if lift && there > 0 {
                state.lift(node, shape, there.min(count));
            } else {
                state.place(node, shape, count);
            }
            inner.get_or_insert_with(|| (state.mark(), state.recomputed()));
        }
        if let Some((mark, then)) = inner {
            state.rollback(mark);
            prop_assert!(state == then);
        }
        state.rollback(mark);
        prop_assert!(state == before);
        prop_assert!(state == state.recomputed());
    }
}
