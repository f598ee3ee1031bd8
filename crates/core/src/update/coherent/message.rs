//! An outcome in words, for `status.updateProgress.currentlyUpdating[].message`.

use super::types::{Outcome, Phase, Reason, Target};

/// Where a replica stands, why it waits and what would change it; empty when there is nothing to say.
pub fn message(target: &Target, outcome: &Outcome) -> String {
    let counts: Vec<String> = outcome
        .scope
        .iter()
        .filter_map(|&component| Some((target.components.get(component)?, outcome.progress.get(component)?)))
        .map(|(component, progress)| {
            format!(
                "{} {}/{} updated, {} available",
                component.name, progress.updated, progress.desired, progress.available
            )
        })
        .collect();
    let counts = counts.join("; ");
    let since = outcome.record.last_progress;
    let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
    let epochs: Vec<String> = outcome.in_flight.iter().map(ToString::to_string).collect();
    let epochs = epochs.join(", ");
    let waits = match outcome.reason {
        Reason::None => String::new(),
        Reason::WaitingForTurn => "waiting for other replicas to be updated".to_owned(),
        Reason::Paused => "paused by updateStrategy.paused; sizes and lost pods are still reconciled".to_owned(),
        Reason::GangUnschedulable => format!("gangs of epoch {epochs} are not scheduled{since}"),
        Reason::SurgeCapacityUnavailable => {
            format!("the temporary gang of epoch {epochs} is not scheduled{since}: no capacity for maxSurgeUnits")
        }
        Reason::UnitsNotReady => format!("pods of epoch {epochs} are scheduled, but have not been ready yet"),
        Reason::BudgetExhausted => "no further unit may become unavailable within maxUnavailable".to_owned(),
        Reason::RevisionMissing => "the templates of the target revision are not stored".to_owned(),
    };
    let stalled = if outcome.phase == Phase::Stalled {
        format!(
            "no progress{since} (progressDeadline exceeded); no pod is replaced until there is progress or a new template: "
        )
    } else {
        String::new()
    };
    [stalled + &waits, counts]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}
