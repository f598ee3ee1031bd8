//! Lets counts settle before they are written, and does not make an object over and over that keeps vanishing.
//!
//! A status on its way to a settled state may wait a moment for the next change, so that a clique whose pods become
//! ready one after another costs one write and not one for each pod. One that has settled is written at once, unless keys wait
//! for which something happened: what users wait for must not stand behind statuses that few read. A state that others act
//! on waits only when it changed many times within the last second.
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

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// No more than can be done at once.
    Idle,
    /// Keys wait for a worker.
    Busy,
    /// Keys wait for a worker for which something happened.
    Pressed,
}

/// How often the status of one object is written within that time, however urgent. A state that changes more often is written
/// by two operators with views of different age, each of which takes the other's for wrong; their views meet while they wait.
const STATUSES: usize = 20;

/// What waits, and what was made of late.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    /// Objects with a status that waits, by uid, and since when.
    waiting: Mutex<BTreeMap<String, Timestamp>>,
    /// When objects were made.
    created: Mutex<Lately<Created>>,
    /// When statuses were written, by uid.
    written: Mutex<Lately<String>>,
}

/// When something was done of late, by what it was done to.
#[derive(Debug)]
struct Lately<K>(BTreeMap<K, Vec<Timestamp>>);

impl<K> Default for Lately<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Lately<K> {
    fn forget_before(&mut self, now: Timestamp) {
        self.0.retain(|_, times| {
            times.retain(|time| after(*time, LONGEST) > now);
            !times.is_empty()
        });
    }

    /// Counts one more time, or says when it may be done again because it was done so often already.
    fn count(&mut self, key: K, most: usize, now: Timestamp) -> Option<Hold> {
        let times = self.0.entry(key).or_default();
        if times.len() < most {
            times.push(now);
            return None;
        }
        Some(Hold {
            until: Some(after(times[0], LONGEST)),
            with_later_stages: true,
        })
    }
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
    pub(crate) fn round(&self, now: Timestamp, load: Load) -> Round<'_> {
        let (mut created, mut written) = (self.created.lock(), self.written.lock());
        created.forget_before(now);
        written.forget_before(now);
        Round {
            now,
            load,
            waiting: self.waiting.lock(),
            created,
            written,
        }
    }
}

fn after(start: Timestamp, wait: SignedDuration) -> Timestamp {
    start.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// One look at a plan.
pub(crate) struct Round<'a> {
    now: Timestamp,
    load: Load,
    waiting: MutexGuard<'a, BTreeMap<String, Timestamp>>,
    created: MutexGuard<'a, Lately<Created>>,
    written: MutexGuard<'a, Lately<String>>,
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
        self.created.count(key, CREATIONS, self.now)
    }

    fn hold_status(&mut self, uid: &str, urgency: Urgency) -> Option<Hold> {
        let longest = match (urgency, self.load) {
            (Urgency::Now, _) | (Urgency::Settled, Load::Idle | Load::Busy) => SignedDuration::ZERO,
            (Urgency::Settled, Load::Pressed) | (Urgency::Settling, Load::Busy | Load::Pressed) => LONGEST_WHILE_BUSY,
            (Urgency::Settling, Load::Idle) => LONGEST,
        };
        let since = self.waiting.get(uid).copied().unwrap_or(self.now);
        let due = after(since, longest);
        if due <= self.now {
            self.waiting.remove(uid);
            return self.written.count(uid.to_owned(), STATUSES, self.now);
        }
        self.waiting.entry(uid.to_owned()).or_insert(self.now);
        let until = match urgency {
            // As soon as nothing of high priority is due.
            Urgency::Settled => self.now,
            // There may be time sooner.
            _ => due.min(after(self.now, LONGEST)),
        };
        Some(Hold {
            until: Some(until),
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
        load: Load,
    ) -> (Vec<Vec<Command>>, Option<Timestamp>) {
        let key = Key::Set(SetKey::new("n", "s"));
        let released = release(&Trouble::default(), pacing, &key, stages, now, load);
        (released.stages, released.wake)
    }

    #[test]
    fn counts_wait_once_and_not_longer_than_a_second_and_news_does_not_wait() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        assert_eq!(
            released(&pacing, status(Urgency::Settling), start, Load::Idle),
            (vec![], Some(later(1000)))
        );
        assert_eq!(
            released(&pacing, status(Urgency::Settling), later(400), Load::Idle),
            (vec![], Some(later(1000)))
        );
        assert_eq!(
            released(&pacing, status(Urgency::Settling), later(1000), Load::Idle)
                .0
                .len(),
            1
        );
        assert_eq!(
            released(&pacing, status(Urgency::Settling), later(1100), Load::Idle),
            (vec![], Some(later(2100)))
        );
        assert_eq!(
            released(&pacing, status(Urgency::Now), later(1200), Load::Idle).0.len(),
            1
        );
    }

    #[test]
    fn counts_wait_longer_while_there_is_more_to_do() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        let settling = |at, load| released(&pacing, status(Urgency::Settling), at, load);
        assert_eq!(settling(start, Load::Busy), (vec![], Some(later(1000))));
        assert_eq!(settling(later(1000), Load::Busy), (vec![], Some(later(2000))));
        assert_eq!(settling(later(4500), Load::Busy), (vec![], Some(later(5000))));
        assert_eq!(settling(later(4600), Load::Idle).0.len(), 1, "there is time now");
        assert_eq!(settling(later(4600), Load::Busy), (vec![], Some(later(5600))));
        assert_eq!(settling(later(9600), Load::Busy).0.len(), 1, "nothing waits for ever");
    }

    #[test]
    fn what_has_settled_waits_only_for_keys_for_which_something_happened_and_not_for_ever() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        let settled = |at, load| released(&pacing, status(Urgency::Settled), at, load);
        assert_eq!(settled(start, Load::Busy).0.len(), 1);
        assert_eq!(settled(start, Load::Pressed), (vec![], Some(start)));
        assert_eq!(settled(later(10), Load::Pressed), (vec![], Some(later(10))));
        assert_eq!(settled(later(20), Load::Busy).0.len(), 1);
        assert_eq!(settled(later(30), Load::Pressed), (vec![], Some(later(30))));
        assert_eq!(settled(later(5030), Load::Pressed).0.len(), 1);
        assert_eq!(released(&pacing, status(Urgency::Now), start, Load::Pressed).0.len(), 1);
    }

    #[test]
    fn a_status_that_changes_to_and_fro_is_written_a_few_times_a_second() {
        let pacing = Pacing::default();
        let start = Timestamp::from_second(100).expect("in range");
        let later = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        let urgent = |at| released(&pacing, status(Urgency::Now), at, Load::Idle);
        for _ in 0..STATUSES {
            assert_eq!(urgent(start).0.len(), 1);
        }
        assert_eq!(urgent(later(10)), (vec![], Some(later(1000))));
        assert_eq!(urgent(later(1000)).0.len(), 1);
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
            assert_eq!(
                released(&pacing, vec![vec![create("a")]], later(time), Load::Idle).1,
                None
            );
        }
        let (kept, wake) = released(&pacing, plan(), later(30), Load::Idle);
        assert_eq!((kept, wake), (vec![vec![create("b")]], Some(later(1000))));
        assert_eq!(released(&pacing, plan(), later(1000), Load::Idle), (plan(), None));
    }
}
