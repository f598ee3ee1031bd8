//! Lets the pods of scaled gangs go to the scheduler once the base gang of the replica is scheduled.

use super::{Draft, Replica};
use crate::command::Command;
use crate::reasons;

pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) {
    let missing = unscheduled_base_clique(replica);
    for (clique, state) in replica.layout.cliques.iter().zip(&replica.cliques) {
        let gated: Vec<_> = state.active.iter().filter(|pod| pod.gated).collect();
        if gated.is_empty() {
            continue;
        }
        match &missing {
            Some(message) if replica.layout.gang_of(clique).scaled.is_some() => {
                draft.wait(&clique.name, reasons::WAITING_FOR_BASE, message.clone());
            }
            _ => draft.pods.extend(gated.into_iter().map(|pod| Command::RemoveGate {
                target: pod.target(),
                remaining: pod.other_gates.clone(),
            })),
        }
    }
}

/// What the base gang still lacks, in words; nothing when it is scheduled, or when there is none.
fn unscheduled_base_clique(replica: &Replica<'_>) -> Option<String> {
    let base = replica.layout.gangs.iter().find(|gang| gang.scaled.is_none())?;
    base.cliques.iter().find_map(|&index| {
        let (clique, state) = (&replica.layout.cliques[index], &replica.cliques[index]);
        let scheduled = state.scheduled();
        (scheduled < clique.min_available).then(|| {
            format!(
                "the base gang {} is not scheduled: {} has {scheduled} of {} pods on nodes",
                base.name, clique.name, clique.min_available
            )
        })
    })
}
