//! Releases the pods of a gang to the scheduler once the gangs that it depends on are scheduled, or were: a gang that
//! loses a pod later holds nobody back.

use super::{Draft, Replica};
use crate::command::Command;
use crate::layout::GangLayout;
use crate::reasons::Reason;

pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) {
    let parts = replica.layout.cliques.iter().zip(&replica.cliques);
    for (clique, share, pods) in parts.flat_map(|(clique, state)| {
        let parts = clique.shares.iter().zip(&state.parts);
        parts.map(move |(share, pods)| (clique, share, pods))
    }) {
        let gated: Vec<_> = pods.iter().filter(|pod| pod.gated).collect();
        if gated.is_empty() {
            continue;
        }
        let gang = &replica.layout.gangs[share.gang];
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

/// What a gang still lacks, in words; nothing when it is scheduled or was.
fn unscheduled(replica: &Replica<'_>, gang: &GangLayout) -> Option<String> {
    let position = replica.layout.gangs.iter().position(|other| other.name == gang.name)?;
    let stored = replica.snapshot.gangs.get(&gang.name);
    let status = stored.and_then(|stored| stored.status.as_ref());
    if status.is_some_and(|status| status.last_scheduled.is_some()) {
        return None;
    }
    gang.cliques.iter().find_map(|&index| {
        let minimum = replica.layout.minimum_in(position, index);
        let scheduled = replica.count_in(position, index, |pod| pod.scheduled);
        (scheduled < minimum).then(|| {
            format!(
                "its pods stay gated until gang {} is scheduled: {} needs {minimum} pods on nodes",
                gang.name, replica.layout.cliques[index].name
            )
        })
    })
}
