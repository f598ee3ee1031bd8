//! Conditions: kept in order, with a transition time that moves only when the status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// What a condition should say.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The type of the condition.
    pub kind: &'static str,
    /// Its status: none is Unknown.
    pub status: Option<bool>,
    /// A reason of the documented list.
    pub reason: &'static str,
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
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of a type is there and True.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Puts a verdict among the conditions. One that says the same already is left alone, its transition time and its
/// observed generation included, so that nothing has to be written.
pub fn set(conditions: &mut Vec<Condition>, verdict: Verdict, generation: Option<i64>, now: Timestamp) {
    let status = text(verdict.status);
    let fresh = Condition {
        type_: verdict.kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
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
pub fn latch(last: &mut Option<Time>, conditions: &[Condition], kind: &str) {
    if let Some(condition) = find(conditions, kind).filter(|condition| condition.status == "True") {
        *last = Some(condition.last_transition_time.clone());
    }
}

/// Takes the condition of a type away.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.type_ != kind);
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
            kind: "Ready",
            status: Some(status),
            reason: "Because",
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
