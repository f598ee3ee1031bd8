//! Conditions of a ComputeDomain, in the form of the Kubernetes API conventions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::Reason;

/// Whether every node that has joined can broker memory.
pub const READY: &str = "Ready";
/// Whether the objects that workloads and daemons need exist.
pub const TEMPLATES: &str = "TemplatesCreated";

/// Puts a verdict among the conditions. One that says the same already is left as it is, so that nothing is written.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: Reason,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if status { "True" } else { "False" };
    // The API keeps whole seconds: what is written must equal what will be read.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let existing = conditions.iter_mut().find(|condition| condition.type_ == kind);
    if let Some(same) = &existing
        && (same.status.as_str(), same.reason.as_str(), &same.message) == (status, reason.as_str(), &message)
    {
        return;
    }
    let since = existing.as_ref().filter(|condition| condition.status == status);
    let fresh = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        last_transition_time: since.map_or(Time(now), |condition| condition.last_transition_time.clone()),
        message,
        observed_generation: generation,
    };
    match existing {
        Some(place) => *place = fresh,
        None => conditions.push(fresh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_with_the_status_only_and_repetition_changes_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        let mut set = |status, reason, message: &str, second| {
            set_condition(
                &mut conditions,
                READY,
                status,
                reason,
                message.into(),
                Some(1),
                at(second),
            );
            (
                conditions[0].last_transition_time.0.as_second(),
                conditions[0].message.clone(),
            )
        };
        assert_eq!(set(false, Reason::NoNodes, "a", 10), (10, "a".into()));
        assert_eq!(set(false, Reason::WaitingForDaemons, "b", 20), (10, "b".into()));
        assert_eq!(set(true, Reason::AllNodesReady, "c", 30), (30, "c".into()));
        assert_eq!(set(true, Reason::AllNodesReady, "c", 40), (30, "c".into()));
    }
}
