//! Lets counts settle before they are written, and does not make an object over and over that keeps vanishing.
//!
//! A status on its way to a settled state may wait a moment for the next change, so that a clique whose pods become
//! ready one after another costs one write and not one for each pod. A state that others act on never waits.
//!
//! An object that is gone as soon as it was made is being deleted by somebody who knows more, such as a garbage collector
//! that has seen its owner go before we have. It is made again, but a few times a second and not as fast as we can.

use std::collections::BTreeMap;

use coppice_core::command::{Command, Kind, Urgency};
use coppice_core::object::NewObject;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::holding::Hold;

/// How long a status may wait for the next change.
const LONGEST: SignedDuration = SignedDuration::from_millis(1000);

/// How long it may wait while there is more to do than can be done at once: then the next change is likely to have
/// happened already.
const LONGEST_WHILE_BUSY: SignedDuration = SignedDuration::from_secs(5);

/// How often one object is made within that time; a lost answer or two are not a sign of anything.
const CREATIONS: usize = 3;

/// What waits, and what was made of late.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    /// Objects with a status that waits, by uid, and since when.
    waiting: Mutex<BTreeMap<String, Timestamp>>,
    /// When objects were made.
    created: Mutex<BTreeMap<Created, Vec<Timestamp>>>,
}

/// An object that was made.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Created {
    kind: Kind,
    namespace: String,
    name: String,
}

impl Pacing {
    /// Looks at one plan.
    pub(crate) fn round(&self, now: Timestamp, busy: bool) -> Round<'_> {
        let mut created = self.created.lock();
        created.retain(|_, times| {
            times.retain(|time| after(*time, LONGEST) > now);
            !times.is_empty()
        });
        Round {
            now,
            longest: if busy { LONGEST_WHILE_BUSY } else { LONGEST },
            waiting: self.waiting.lock(),
            created,
        }
    }
}

fn after(start: Timestamp, wait: SignedDuration) -> Timestamp {
    start.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// One look at a plan.
pub(crate) struct Round<'a> {
    now: Timestamp,
    longest: SignedDuration,
    waiting: MutexGuard<'a, BTreeMap<String, Timestamp>>,
    created: MutexGuard<'a, BTreeMap<Created, Vec<Timestamp>>>,
}

impl Round<'_> {
    /// Whether a command should wait.
    pub(crate) fn hold(&mut self, command: &Command) -> Option<Hold> {
        match command {
            Command::Create(object) => self.hold_creation(object),
            Command::Status { target, urgency, .. } => self.hold_status(&target.uid, *urgency),
            _ => None,
        }
    }

    /// What was made too often of late waits, and so does everything that may depend on it.
    fn hold_creation(&mut self, object: &NewObject) -> Option<Hold> {
        let key = Created {
            kind: object.kind,
            namespace: object.metadata.namespace.clone(),
            name: object.metadata.name.clone(),
        };
        let times = self.created.entry(key).or_default();
        if times.len() < CREATIONS {
            times.push(self.now);
            return None;
        }
        Some(Hold {
            until: Some(after(times[0], LONGEST)),
            with_later_stages: true,
        })
    }

    fn hold_status(&mut self, uid: &str, urgency: Urgency) -> Option<Hold> {
        let since = self.waiting.get(uid).copied().unwrap_or(self.now);
        let due = after(since, self.longest);
        if urgency == Urgency::Now || due <= self.now {
            self.waiting.remove(uid);
            return None;
        }
        self.waiting.entry(uid.to_owned()).or_insert(self.now);
        Some(Hold {
            // There may be time sooner.
            until: Some(due.min(after(self.now, LONGEST))),
            with_later_stages: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holding::release;
    use crate::keys::{Key, SetKey};
    use crate::trouble::Trouble;
    use coppice_core::command::Target;
    use coppice_core::object::{Body, Metadata};
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

    /// What is carried out now, and when the rest is due.
    fn released(
        pacing: &Pacing,
        stages: Vec<Vec<Command>>,
        now: Timestamp,
        busy: bool,
    ) -> (Vec<Vec<Command>>, Option<Timestamp>) {
        let key = Key::Set(SetKey::new("n", "s"));
        let released = release(&Trouble::default(), pacing, &key, stages, now, busy);
        (released.stages, released.wake)
    }

    #[test]
    fn counts_wait_once_and_not_longer_than_a_second_and_news_does_not_wait() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        assert_eq!(
            released(&pacing, status(Urgency::Settling), start, false),
            (vec![], Some(later(1000)))
        );
        assert_eq!(
            released(&pacing, status(Urgency::Settling), later(400), false),
            (vec![], Some(later(1000)))
        );
        assert_eq!(
            released(&pacing, status(Urgency::Settling), later(1000), false).0.len(),
            1
        );
        assert_eq!(
            released(&pacing, status(Urgency::Settling), later(1100), false),
            (vec![], Some(later(2100)))
        );
        assert_eq!(released(&pacing, status(Urgency::Now), later(1200), false).0.len(), 1);
    }

    #[test]
    fn counts_wait_longer_while_there_is_more_to_do() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        let settling = |at, busy| released(&pacing, status(Urgency::Settling), at, busy);
        assert_eq!(settling(start, true), (vec![], Some(later(1000))));
        assert_eq!(settling(later(1000), true), (vec![], Some(later(2000))));
        assert_eq!(settling(later(4500), true), (vec![], Some(later(5000))));
        assert_eq!(settling(later(4600), false).0.len(), 1, "there is time now");
        assert_eq!(settling(later(4600), true), (vec![], Some(later(5600))));
        assert_eq!(settling(later(9600), true).0.len(), 1, "nothing waits for ever");
    }

    #[test]
    fn what_keeps_vanishing_is_made_a_few_times_a_second_and_nothing_that_depends_on_it() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        let create = |name: &str| {
            Command::Create(NewObject {
                kind: Kind::Role,
                metadata: Metadata {
                    namespace: "n".to_owned(),
                    name: name.to_owned(),
                    ..Metadata::default()
                },
                owner: None,
                body: Body::default(),
            })
        };
        let plan = || vec![vec![create("a"), create("b")], vec![create("c")]];
        for time in [0, 10, 20] {
            assert_eq!(released(&pacing, vec![vec![create("a")]], later(time), false).1, None);
        }
        let (kept, wake) = released(&pacing, plan(), later(30), false);
        assert_eq!((kept, wake), (vec![vec![create("b")]], Some(later(1000))));
        assert_eq!(released(&pacing, plan(), later(1000), false), (plan(), None));
    }
}
