//! Small clusters with random gangs on them, as they would have been placed, and a newcomer.

use coppice_placement::preempt::{Running, RunningGroup, RunningPod};
use coppice_placement::{ClusterState, Gang, Options, plan};

use super::{Random, instance};

/// The cluster, who runs on it, and who wants in.
pub fn crowded(random: &mut Random) -> (ClusterState, Vec<Running>, Gang) {
    let newcomer = instance(random, 5, 6);
    let mut state = newcomer.state();
    let mut running = Vec::new();
    for number in 0..4 {
        let mut small = instance(random, 1, 4);
        small.parts.iter_mut().for_each(|part| part.wish = Default::default());
        (small.gang, small.outer) = Default::default();
        small.configs.iter_mut().for_each(|wish| *wish = Default::default());
        let mut gang = small.gang(&mut state);
        gang.topology = "fabric".into();
        let Some(plan) = plan(&mut state, &gang, &Options::default()).plan().cloned() else {
            continue;
        };
        let mut groups: Vec<RunningGroup> = gang
            .groups
            .iter()
            .map(|group| RunningGroup {
                floor: group.floor,
                pods: Vec::new(),
            })
            .collect();
        for binding in &plan.bindings {
            let name = format!("{number}/{}", binding.pod);
            state
                .add_pod(&name, &binding.node, gang.groups[binding.group].shape)
                .unwrap();
            groups[binding.group].pods.push(RunningPod {
                name,
                budgets: Vec::new(),
            });
        }
        running.push(Running {
            name: format!("gang-{number}"),
            priority: random.below(4) as i32,
            base: (number > 0 && random.one_in(3)).then(|| "gang-0".to_owned()),
            sequence: number,
            protected: random.one_in(8),
            groups,
        });
    }
    let mut gang = newcomer.gang(&mut state);
    gang.priority = 1 + random.below(3) as i32;
    (state, running, gang)
}
