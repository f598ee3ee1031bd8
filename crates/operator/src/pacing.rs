//! Lets counts settle before they are written.
//!
//! A status on its way to a settled state may wait a moment for the next change, so that a clique whose pods become
//! ready one after another costs one write and not one for each pod. A state that others act on never waits.

use std::collections::BTreeMap;

use coppice_core::command::{Command, Urgency};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// How long a status may wait for the next change.
const LONGEST: SignedDuration = SignedDuration::from_millis(1000);

/// Which objects have a status that waits, by uid, and since when.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    waiting: Mutex<BTreeMap<String, Timestamp>>,
}

impl Pacing {
    /// Takes out the statuses that may still wait. Returns the rest, and when to look again.
    pub(crate) fn release(&self, stages: Vec<Vec<Command>>, now: Timestamp) -> (Vec<Vec<Command>>, Option<Timestamp>) {
        let mut wake: Option<Timestamp> = None;
        let mut waiting = self.waiting.lock();
        let mut kept: Vec<Vec<Command>> = stages
            .into_iter()
            .map(|stage| {
                let mut stage = stage;
                stage.retain(|command| {
                    let Command::Status { target, urgency, .. } = command else {
                        return true;
                    };
                    let due = waiting
                        .get(&target.uid)
                        .copied()
                        .unwrap_or(now)
                        .saturating_add(LONGEST)
                        .unwrap_or(now);
                    if *urgency == Urgency::Now || due <= now {
                        waiting.remove(&target.uid);
                        return true;
                    }
                    waiting.entry(target.uid.clone()).or_insert(now);
                    wake = Some(wake.map_or(due, |earlier| earlier.min(due)));
                    false
                });
                stage
            })
            .collect();
        kept.retain(|stage| !stage.is_empty());
        (kept, wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coppice_core::command::{Kind, Target};
    use serde_json::json;

    fn status(urgency: Urgency) -> Vec<Vec<Command>> {
        let target = Target {
            kind: Kind::PodClique,
            namespace: "n".into(),
            name: "a".into(),
            uid: "u".into(),
            resource_version: "1".into(),
        };
        vec![vec![Command::Status {
            target,
            patch: json!({}),
            urgency,
        }]]
    }

    #[test]
    fn counts_wait_once_and_not_longer_than_a_second_and_news_does_not_wait() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        assert_eq!(
            pacing.release(status(Urgency::Settling), start),
            (vec![], Some(later(1000)))
        );
        assert_eq!(
            pacing.release(status(Urgency::Settling), later(400)),
            (vec![], Some(later(1000)))
        );
        assert_eq!(pacing.release(status(Urgency::Settling), later(1000)).0.len(), 1);
        assert_eq!(
            pacing.release(status(Urgency::Settling), later(1100)),
            (vec![], Some(later(2100)))
        );
        assert_eq!(pacing.release(status(Urgency::Now), later(1200)).0.len(), 1);
    }
}
