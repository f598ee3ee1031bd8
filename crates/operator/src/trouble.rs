//! Writes that the API server refused: what is known of them, and when each is tried again.
//!
//! Owned by the shell, because refusals are not part of the cluster's state; planners get them with their snapshots. A
//! refused write waits longer after each attempt, with what depends on it: everything else of its replica goes on. One that
//! is planned differently than before (somebody changed the template) is tried at once, and one that is no longer
//! planned is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coppice_core::command::Command;
use coppice_core::failure::{Failure, Subject};
use coppice_core::object::NewObject;
use coppice_core::report;
use coppice_runtime::backoff::Backoff;
use coppice_runtime::clock::later;
use jiff::Timestamp;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use serde_json::Value;

use crate::holding::Hold;
use crate::keys::{Key, SetKey};

/// The waits after refusals.
const WAITS: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(60),
    jitter: 0.0,
};

struct Entry {
    failure: Failure,
    /// What was tried, so that a changed plan is told from another attempt.
    content: Content,
    attempts: u32,
    retry_at: Timestamp,
}

/// What was refused, by key.
#[derive(Default)]
pub(crate) struct Trouble {
    entries: Mutex<BTreeMap<Key, BTreeMap<Subject, Entry>>>,
}

/// What of a command decides whether it is the same as the one that was refused. Versions do not: they move on with
/// every write of others.
#[derive(Debug, PartialEq)]
enum Content {
    /// A new object.
    Object(Box<NewObject>),
    /// A patch of the object with this uid; none for another write of it.
    Write(String, Option<Value>),
    /// No write at all.
    Nothing,
}

fn content(command: &Command) -> Content {
    match command {
        Command::Create(object) => Content::Object(Box::new(object.clone())),
        Command::Merge { target, patch } | Command::Status { target, patch, .. } => {
            Content::Write(target.uid.clone(), Some(patch.clone()))
        }
        Command::RemoveGate { target, .. } | Command::Delete { target } => Content::Write(target.uid.clone(), None),
        Command::Confirm { .. } | Command::Event { .. } => Content::Nothing,
    }
}

impl Trouble {
    /// Everything that was refused for a key and is still wanted.
    pub(crate) fn known(&self, key: &Key) -> Vec<Failure> {
        let entries = self.entries.lock();
        let of_key = entries.get(key).into_iter().flat_map(BTreeMap::values);
        of_key.map(|entry| entry.failure.clone()).collect()
    }

    /// Looks at one plan for a key, and forgets what is no longer planned.
    pub(crate) fn round(&self, key: &Key, stages: &[Vec<Command>], now: Timestamp) -> Round<'_> {
        let mut entries = self.entries.lock();
        if let Some(of_key) = entries.get_mut(key) {
            let planned: BTreeSet<Subject> = stages.iter().flatten().filter_map(Subject::of).collect();
            of_key.retain(|subject, _| planned.contains(subject));
            if of_key.is_empty() {
                entries.remove(key);
            }
        }
        let of_key = MutexGuard::try_map(entries, |entries| entries.get_mut(key)).ok();
        Round {
            now,
            of_key,
            held: Vec::new(),
        }
    }

    /// A command was refused.
    pub(crate) fn refused(&self, key: &Key, command: &Command, mut failure: Failure, now: Timestamp) {
        let mut entries = self.entries.lock();
        let of_key = entries.entry(key.clone()).or_default();
        let content = content(command);
        let before = of_key.get(&failure.subject).filter(|entry| entry.content == content);
        let attempts = before.map_or(0, |entry| entry.attempts) + 1;
        if let Some(before) = before.filter(|entry| entry.failure.cause == failure.cause) {
            failure.since = before.failure.since;
        }
        let entry = Entry {
            content,
            attempts,
            retry_at: later(now, WAITS.full_delay(attempts)),
            failure,
        };
        of_key.insert(entry.failure.subject.clone(), entry);
    }

    /// A command succeeded.
    pub(crate) fn done(&self, key: &Key, command: &Command) {
        let mut entries = self.entries.lock();
        if let Some(of_key) = entries.get_mut(key)
            && let Some(subject) = Subject::of(command)
        {
            of_key.remove(&subject);
        }
    }

    /// Forgets everything about a set that is gone.
    pub(crate) fn forget(&self, gone: &SetKey) {
        self.entries.lock().retain(|key, _| match key {
            Key::Set(set) | Key::Replica(set, _) => set != gone,
            Key::Topology(_) => true,
        });
    }
}

/// One look at a plan.
pub(crate) struct Round<'a> {
    now: Timestamp,
    of_key: Option<MappedMutexGuard<'a, BTreeMap<Subject, Entry>>>,
    held: Vec<Command>,
}

impl Round<'_> {
    /// Whether a command waits for its next attempt, or depends on one that does.
    pub(crate) fn hold(&mut self, command: &Command) -> Option<Hold> {
        let of_key = self.of_key.as_ref()?;
        if self.held.iter().any(|refused| report::depends_on(command, refused)) {
            return Some(Hold {
                until: None,
                with_later_stages: false,
            });
        }
        let entry = of_key.get(&Subject::of(command)?)?;
        if entry.retry_at <= self.now || entry.content != content(command) {
            return None;
        }
        let until = Some(entry.retry_at);
        self.held.push(command.clone());
        Some(Hold {
            until,
            // A status before the last stage is a mark: what it announces must not happen without it.
            with_later_stages: matches!(command, Command::Status { .. }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holding::release;
    use crate::pacing::{Load, Pacing};
    use coppice_core::command::{Kind, Target};
    use coppice_core::object::{Body, Metadata};
    use serde_json::json;

    fn object(kind: Kind, name: &str) -> NewObject {
        NewObject {
            kind,
            metadata: Metadata {
                name: name.to_owned(),
                ..Metadata::default()
            },
            owner: None,
            body: Body::default(),
        }
    }

    fn create(image: &str) -> Command {
        Command::Create(NewObject {
            body: Body::from_fields([("image", json!(image))]),
            ..object(Kind::Pod, "a")
        })
    }

    fn failure(cause: &str, since: Timestamp) -> Failure {
        Failure {
            subject: Subject::of(&create("")).expect("a subject"),
            owner: Target {
                kind: Kind::PodClique,
                namespace: "n".into(),
                name: "c".into(),
                uid: "u".into(),
                resource_version: String::new(),
            },
            cause: cause.into(),
            since,
        }
    }

    /// What is carried out now, and when the rest is due.
    fn admitted(
        trouble: &Trouble,
        key: &Key,
        stages: Vec<Vec<Command>>,
        now: Timestamp,
    ) -> (Vec<Vec<Command>>, Option<Timestamp>) {
        let released = release(trouble, &Pacing::default(), key, stages, now, Load::Idle);
        (released.stages, released.wake)
    }

    #[test]
    fn a_refused_write_waits_longer_each_time_unless_it_changes_and_is_forgotten_when_it_is_not_wanted() {
        let trouble = Trouble::default();
        let key = Key::Replica(SetKey::new("n", "s"), 0);
        let at = |milliseconds: i64| Timestamp::from_millisecond(1_000_000 + milliseconds).expect("in range");
        let other = || Command::Create(object(Kind::Pod, "b"));

        trouble.refused(&key, &create("x"), failure("quota", at(0)), at(0));
        let (stages, wake) = admitted(&trouble, &key, vec![vec![create("x"), other()]], at(100));
        assert_eq!((stages, wake), (vec![vec![other()]], Some(at(500))), "others go on");
        assert_eq!(
            admitted(&trouble, &key, vec![vec![create("x")]], at(500)).0.len(),
            1,
            "its turn"
        );
        trouble.refused(&key, &create("x"), failure("quota", at(500)), at(500));
        assert_eq!(trouble.known(&key)[0].since, at(0), "the same trouble as before");
        assert_eq!(
            admitted(&trouble, &key, vec![vec![create("x")]], at(600)).1,
            Some(at(1500))
        );
        assert_eq!(
            admitted(&trouble, &key, vec![vec![create("y")]], at(600)).0.len(),
            1,
            "changed"
        );
        trouble.done(&key, &create("y"));
        assert_eq!(trouble.known(&key), []);

        let gang = || Command::Create(object(Kind::PodGang, "g"));
        let pod = |gang: &str| {
            let mut pod = object(Kind::Pod, "p");
            let label = ("grove.io/podgang".to_owned(), gang.to_owned());
            pod.metadata.labels.extend([label]);
            Command::Create(pod)
        };
        let refused = Failure {
            subject: Subject::of(&gang()).expect("a subject"),
            ..failure("quota", at(600))
        };
        trouble.refused(&key, &gang(), refused, at(600));
        let (stages, _) = admitted(&trouble, &key, vec![vec![gang()], vec![pod("g"), pod("h")]], at(700));
        assert_eq!(stages, vec![vec![pod("h")]], "a pod waits for its gang");

        trouble.refused(&key, &create("x"), failure("quota", at(700)), at(700));
        admitted(&trouble, &key, vec![vec![other()]], at(800));
        assert_eq!(trouble.known(&key), [], "no longer wanted");
    }
}
