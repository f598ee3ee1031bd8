//! Releases the pods of a gang to the scheduler once the gangs that it depends on are scheduled.

use super::{Draft, Replica};
use crate::command::Command;
use crate::layout::GangLayout;
use crate::reasons::Reason;

pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) {
    for (clique, state) in replica.layout.cliques.iter().zip(&replica.cliques) {
        let gated: Vec<_> = state.active.iter().filter(|pod| pod.gated).collect();
        if gated.is_empty() {
            continue;
        }
        let gang = replica.layout.gang_of(clique);
        let mut dependencies = replica.layout.dependencies(gang);
        match dependencies.find_map(|other| unscheduled(replica, other)) {
            Some(message) => draft.wait(&clique.name, Reason::WaitingForBaseGang, message),
            None => draft.pods.extend(gated.into_iter().map(|pod| Command::RemoveGate {
                target: pod.target(),
                remaining: pod.other_gates.clone(),
            })),
        }
    }
}

/// What a gang still lacks, in words; nothing when it is scheduled.
fn unscheduled(replica: &Replica<'_>, gang: &GangLayout) -> Option<String> {
    gang.cliques.iter().find_map(|&index| {
        let (clique, state) = (&replica.layout.cliques[index], &replica.cliques[index]);
        (state.scheduled() < clique.min_available).then(|| {
            format!(
                "its pods stay gated until gang {} is scheduled: {} needs {} pods on nodes",
                gang.name, clique.name, clique.min_available
            )
        })
    })
}
