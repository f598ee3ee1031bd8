//! Whether a clique, or a scaling group, has fallen below its minimum: the condition `MinAvailableBreached`, whose
//! transition time is the clock of gang termination.

use coppice_api::types::PodCliqueStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::conditions::{self, ConditionType, Verdict, whole_seconds};
use crate::reasons::Reason;
use crate::settings::Settings;
use crate::state::{CliqueState, Replica};

/// Whether a clique has fallen below its minimum.
///
/// It has when some but too few of its pods have a node, or when its minimum was ready once and is not any more. It has
/// not while it is starting for the first time or after a termination, while it is being updated, or when it never had
/// a node. Nor has it while it grows: what was scaled below its minimum and up again never
/// had the new minimum, and the pods that run must not go because there is no room for more.
///
/// The reason before tells whether its minimum was ready once.
pub(crate) fn of_clique(state: &CliqueState<'_>, updating: bool, settings: &Settings) -> Verdict {
    let (scheduled, ready, minimum) = (state.scheduled(), state.ready(), state.min_available);
    let stored = state.stored.and_then(|stored| stored.status.as_ref());
    let starts_again = stored.is_some_and(marked) && state.active.is_empty();
    let before = stored.and_then(|status| conditions::find(&status.conditions, ConditionType::MinAvailableBreached));
    let was_healthy = !starts_again
        && before.is_some_and(|condition| {
            [
                Reason::SufficientReadyPods,
                Reason::AllScheduledReplicasLost,
                Reason::InsufficientReadyPods,
                Reason::ScheduledReplicasBelowMinAvailable,
            ]
            .iter()
            .any(|reason| condition.reason == *reason)
        });
    // What was enough then is not enough now: it is the minimum that moved.
    let grows = stored.zip(before).is_some_and(|(status, condition)| {
        let had = u32::try_from(status.ready_replicas).unwrap_or(0);
        condition.reason == Reason::GrowingToMinAvailable
            || (condition.reason == Reason::SufficientReadyPods && had < minimum)
    });
    let (status, reason, message) = if updating {
        (None, Reason::UpdateInProgress, "the clique is being updated".to_owned())
    } else if ready >= minimum {
        (
            Some(false),
            Reason::SufficientReadyPods,
            format!("{ready} pods are ready, {minimum} are needed"),
        )
    } else if grows && scheduled > 0 {
        (
            Some(false),
            Reason::GrowingToMinAvailable,
            format!("{ready} of the {minimum} pods needed since it was scaled up are ready so far"),
        )
    } else if scheduled == 0 && was_healthy {
        (
            Some(true),
            Reason::AllScheduledReplicasLost,
            all_lost(minimum, settings),
        )
    } else if scheduled == 0 {
        (
            Some(false),
            Reason::WaitingForScheduling,
            format!("no pod has a node yet, {minimum} are needed"),
        )
    } else if scheduled < minimum {
        let reason = if was_healthy {
            Reason::ScheduledReplicasBelowMinAvailable
        } else {
            Reason::PartlyScheduled
        };
        (
            Some(true),
            reason,
            format!("{scheduled} pods have a node, {minimum} are needed"),
        )
    } else if was_healthy {
        (
            Some(true),
            Reason::InsufficientReadyPods,
            format!("{ready} pods are ready, {minimum} are needed"),
        )
    } else {
        (
            Some(false),
            Reason::WaitingForReadiness,
            format!("{ready} of {minimum} needed pods are ready so far"),
        )
    };
    Verdict {
        kind: ConditionType::MinAvailableBreached,
        status,
        reason,
        message,
    }
}

fn all_lost(minimum: u32, settings: &Settings) -> String {
    let lost = format!("no pod has a node any more, {minimum} are needed");
    if settings.terminate_when_all_lost {
        lost
    } else {
        format!(
            "{lost}; its gang is not replaced for that (gangTermination.whenAllLost is Wait), new pods wait for room"
        )
    }
}

/// Whether a clique has fallen below its minimum in a way that its gang is replaced for. Terminating the rest of a gang that
/// has nothing left here would free nothing for it, so that is not done unless the settings want it all the same.
pub(crate) fn is_acted_on(state: &CliqueState<'_>, settings: &Settings) -> bool {
    let verdict = of_clique(state, false, settings);
    let lost = verdict.reason == Reason::AllScheduledReplicasLost;
    verdict.status == Some(true) && (!lost || settings.terminate_when_all_lost)
}

/// Whether a stored condition says since when something was below its minimum in a way that its gang is replaced for.
pub(crate) fn starts_clock(condition: &Condition, settings: &Settings) -> bool {
    settings.terminate_when_all_lost || condition.reason != Reason::AllScheduledReplicasLost
}

/// Puts the verdict among the conditions. Where one that is not acted on turns into one that is, the clock of the
/// termination begins then.
pub(crate) fn record(all: &mut Vec<Condition>, verdict: Verdict, generation: Option<i64>, replica: &Replica<'_>) {
    let now = replica.now;
    let settings = replica.context.settings;
    let lost = |all: &[Condition]| {
        let found = conditions::find(all, ConditionType::MinAvailableBreached);
        found.is_some_and(|condition| !starts_clock(condition, settings))
    };
    let before = lost(all);
    conditions::set(all, verdict, generation, now);
    if before
        && !lost(all)
        && let Some(condition) = all
            .iter_mut()
            .find(|condition| condition.type_ == ConditionType::MinAvailableBreached.as_str())
    {
        condition.last_transition_time = Time(whole_seconds(now));
    }
}

/// Whether a clique is being terminated as part of its gang.
pub(crate) fn marked(status: &PodCliqueStatus) -> bool {
    conditions::is_true(&status.conditions, ConditionType::GangTerminationInProgress)
}

/// Whether a group has fallen below its minimum of copies: too few of them are free of breaches.
pub(crate) fn of_group(replica: &Replica<'_>, group: usize, available: u32, updating: bool) -> Verdict {
    let layout = &replica.layout.groups[group];
    let minimum = replica.context.facts.groups[group].min_available.min(layout.count());
    let settings = replica.context.settings;
    let without = |is_broken: &dyn Fn(&CliqueState<'_>) -> bool| {
        let healthy = layout
            .permanent()
            .filter(|copy| !replica.cliques[layout.members(*copy)].iter().any(is_broken));
        u32::try_from(healthy.count()).unwrap_or(0)
    };
    let healthy = without(&|state| of_clique(state, false, settings).status == Some(true));
    // Copies of which nothing is left do not count where a gang is not replaced for that.
    let spared = without(&|state| is_acted_on(state, settings));
    let (status, reason, message) = if updating {
        (None, Reason::UpdateInProgress, "the group is being updated".to_owned())
    } else if healthy < minimum && spared >= minimum {
        let message = format!(
            "{healthy} copies are whole, {minimum} are needed; nothing of the others is left, and the gang is not replaced for that (gangTermination.whenAllLost is Wait)"
        );
        (Some(true), Reason::AllScheduledReplicasLost, message)
    } else if healthy < minimum {
        let message = format!("{healthy} copies are whole, {minimum} are needed");
        (
            Some(true),
            Reason::InsufficientAvailablePodCliqueScalingGroupReplicas,
            message,
        )
    } else {
        let message = format!("{available} copies are available, {minimum} are needed");
        (
            Some(false),
            Reason::SufficientAvailablePodCliqueScalingGroupReplicas,
            message,
        )
    };
    Verdict {
        kind: ConditionType::MinAvailableBreached,
        status,
        reason,
        message,
    }
}
