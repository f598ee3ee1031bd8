//! Conditions: kept in order, with a transition time that moves only when the status does.

mod types;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub use types::ConditionType;

use crate::reasons::Reason;

/// What a condition should say.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The type of the condition.
    pub kind: ConditionType,
    /// Its status: none is Unknown.
    pub status: Option<bool>,
    /// A reason of the documented list.
    pub reason: Reason,
    /// The reason in words.
    pub message: String,
}

fn text(status: Option<bool>) -> &'static str {
    match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

/// The condition of a type, if it is there.
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

/// Whether the condition of a type is there and True.
pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Puts a verdict among the conditions. One that says the same already is left alone, its transition time and its
/// observed generation included, so that nothing has to be written.
pub fn set(conditions: &mut Vec<Condition>, verdict: Verdict, generation: Option<i64>, now: Timestamp) {
    let status = text(verdict.status);
    let fresh = Condition {
        type_: verdict.kind.as_str().to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.as_str().to_owned(),
        message: verdict.message,
        observed_generation: generation,
        last_transition_time: Time(whole_seconds(now)),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == fresh.type_) {
        None => conditions.push(fresh),
        Some(existing) => {
            let unchanged =
                existing.status == fresh.status && existing.reason == fresh.reason && existing.message == fresh.message;
            if !unchanged {
                let since = if existing.status == fresh.status {
                    existing.last_transition_time.clone()
                } else {
                    fresh.last_transition_time.clone()
                };
                *existing = Condition {
                    last_transition_time: since,
                    ..fresh
                };
            }
        }
    }
}

/// Remembers when a condition last became True. Filled in for objects from before there was such a field.
pub fn latch(last: &mut Option<Time>, conditions: &[Condition], kind: ConditionType) {
    if let Some(condition) = find(conditions, kind).filter(|condition| condition.status == "True") {
        *last = Some(condition.last_transition_time.clone());
    }
}

/// Takes the condition of a type away.
pub fn remove(conditions: &mut Vec<Condition>, kind: ConditionType) {
    conditions.retain(|condition| condition.type_ != kind.as_str());
}

/// The API keeps whole seconds; what is written must equal what will be read.
pub fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: bool, message: &str) -> Verdict {
        Verdict {
            kind: ConditionType::Ready,
            status: Some(status),
            reason: Reason::AllReplicasAvailable,
            message: message.into(),
        }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = Timestamp::from_second(100).unwrap();
        let later = Timestamp::from_second(200).unwrap();
        let mut conditions = Vec::new();
        set(&mut conditions, verdict(false, "a"), Some(1), first);
        set(&mut conditions, verdict(false, "b"), Some(2), later);
        assert_eq!(
            (conditions[0].last_transition_time.0, conditions[0].message.as_str()),
            (first, "b")
        );
        set(&mut conditions, verdict(true, "b"), Some(2), later);
        assert_eq!(conditions[0].last_transition_time.0, later);
        let before = conditions.clone();
        set(&mut conditions, verdict(true, "b"), Some(3), later);
        assert_eq!(conditions, before, "a generation alone is no reason to write");
    }
}
