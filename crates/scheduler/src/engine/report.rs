//! Why gangs wait, as their pods and they themselves say it.
//!
//! Owns what was reported last, the length of messages, and their rate: a reason of the same code is repeated with other words
//! at most once in [`Settings::retell`](super::Settings::retell), and pods get an event with it at most once in
//! [`Settings::repeat_events`](super::Settings::repeat_events).

use coppice_placement::{Reason, ReasonCode};
use coppice_runtime::cache::Meta;
use jiff::Timestamp;

use super::{Engine, Report, Round, wake};
use crate::model::GangId;

/// What was reported of a gang, when, and when its pods got events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported {
    code: ReasonCode,
    at: Timestamp,
    events: Timestamp,
}

/// The longest message.
pub const LONGEST_MESSAGE: usize = 400;

impl Engine {
    /// Reports to waiting pods and their gangs what their conditions do not say yet; not more often than `retell`.
    pub(super) fn report(&mut self, round: &mut Round) {
        for (gang, (reason, whole)) in std::mem::take(&mut round.reasons) {
            let reason = Reason::new(reason.code, bounded(&reason.message));
            if let Some(due) = self.arriving(&gang, &reason, round.now) {
                wake(&mut round.decision, due);
                continue;
            }
            let first_report = self.awaits_first_report(&gang, round.now).filter(|_| whole);
            if let Some(until) = first_report {
                wake(&mut round.decision, until);
            }
            let whole = whole && first_report.is_none();
            let text = reason_text(&reason);
            let uninformed: Vec<Meta> = self
                .model
                .waiting_pods(&gang)
                .filter(|pod| pod.reported_reason.as_deref() != Some(text.as_str()))
                .map(|pod| pod.meta.clone())
                .collect();
            if uninformed.is_empty() && !(whole && self.is_outdated(&gang, &reason)) {
                continue;
            }
            let known = self.reported.get(&gang).copied();
            let known = known.filter(|known| known.code == reason.code);
            if let Some(Reported { at, .. }) = known {
                let due = at.saturating_add(self.settings.retell).unwrap_or(at);
                let first_report = uninformed.iter().any(|pod| {
                    self.model
                        .pod(&pod.key)
                        .is_some_and(|pod| pod.reported_reason.is_none())
                });
                if due > round.now && !first_report {
                    wake(&mut round.decision, due);
                    continue;
                }
            }
            // A pod that is new gets its event; what changes afterwards is in its condition.
            let events_due = known.is_none_or(|known| {
                let due = known.events.saturating_add(self.settings.repeat_events);
                due.unwrap_or(known.events) <= round.now
            });
            let new_pods = uninformed.iter().all(|pod| {
                let pod = self.model.pod(&pod.key);
                pod.is_some_and(|pod| pod.reported_reason.is_none())
            });
            let events = events_due || new_pods;
            let reported = Reported {
                code: reason.code,
                at: round.now,
                events: known.filter(|_| !events_due).map_or(round.now, |known| known.events),
            };
            self.reported.insert(gang.clone(), reported);
            round.decision.reports.push(Report {
                gang,
                reason,
                pods: uninformed,
                events,
                whole,
            });
        }
    }

    /// Until when the pods of a gang may still be on their way; nothing when it is time to report that some are missing.
    fn arriving(&self, gang: &GangId, reason: &Reason, now: Timestamp) -> Option<Timestamp> {
        if reason.code != ReasonCode::WaitingForPods || self.reported.contains_key(gang) {
            return None;
        }
        let oldest = self.model.waiting_pods(gang).map(|pod| pod.created).min()??;
        let due = oldest.saturating_add(self.settings.arrival).ok()?;
        Some(due).filter(|due| *due > now)
    }
}

/// The message of a pod's condition for a reason.
#[must_use]
pub fn reason_text(reason: &Reason) -> String {
    format!("{}: {}", reason.code.as_str(), reason.message)
}

pub(super) fn bounded(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = (0..LONGEST_MESSAGE - 3)
        .rev()
        .find(|at| message.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}...", &message[..end])
}
