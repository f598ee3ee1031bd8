use proptest::prelude::*;

use super::*;

fn meta(name: &str, uid: &str, version: u64) -> Meta {
    Meta {
        key: ObjectKey::new("n", name),
        uid: uid.into(),
        version: Version(version),
    }
}

struct Bench {
    barrier: Barrier<u64>,
    changes: Vec<Change<u64>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            barrier: Barrier::default(),
            changes: Vec::new(),
        }
    }
    fn observe(&mut self, name: &str, uid: &str, version: u64) {
        self.barrier
            .observe(meta(name, uid, version), Arc::new(version), &mut self.changes);
    }
    fn deleted(&mut self, name: &str, uid: &str, version: u64) {
        self.barrier
            .observe_deleted(&meta(name, uid, version), &mut self.changes);
    }
    fn fold(&mut self, name: &str, uid: &str, version: u64) {
        self.barrier
            .fold(meta(name, uid, version), Arc::new(version), &mut self.changes);
    }
    fn fold_deleted(&mut self, name: &str, uid: &str, version: u64, gone_at: Option<u64>) {
        self.barrier
            .fold_deleted(&meta(name, uid, version), gone_at.map(Version), &mut self.changes);
    }
    fn list(&mut self, version: u64, objects: &[(&str, &str, u64)]) {
        self.barrier.begin_list();
        for (name, uid, version) in objects {
            self.barrier
                .list(meta(name, uid, *version), Arc::new(*version), &mut self.changes);
        }
        self.barrier
            .finish_list(Version(version), false, &mut self.changes)
            .unwrap();
    }
    fn shown(&self, name: &str) -> Option<u64> {
        self.barrier.get(&ObjectKey::new("n", name)).map(|view| **view)
    }
}

#[test]
fn an_own_write_is_seen_at_once_and_an_older_event_does_not_undo_it() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3)]);
    bench.fold("a", "u", 9);
    bench.observe("a", "u", 7);
    assert_eq!(bench.shown("a"), Some(9));
    bench.observe("a", "u", 9);
    assert_eq!((bench.shown("a"), bench.barrier.unconfirmed()), (Some(9), 0));
    assert_eq!(bench.changes.len(), 2, "the event of the own write is no change");
}

#[test]
fn a_late_event_does_not_resurrect_what_was_deleted() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3)]);
    bench.fold_deleted("a", "u", 3, None);
    bench.observe("a", "u", 7);
    assert_eq!(bench.shown("a"), None);
    bench.deleted("a", "u", 8);
    assert_eq!((bench.shown("a"), bench.barrier.unconfirmed()), (None, 0));
    bench.list(7, &[("a", "u", 7)]);
    assert_eq!(bench.shown("a"), None, "a list from before the deletion");
}

#[test]
fn a_watch_faster_than_the_answer_leaves_no_tombstone() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3)]);
    bench.deleted("a", "u", 8);
    bench.fold_deleted("a", "u", 3, None);
    assert_eq!(bench.barrier.unconfirmed(), 0);
    bench.fold("b", "v", 7);
    assert_eq!(
        bench.shown("b"),
        None,
        "written and deleted again before the answer was read"
    );
}

#[test]
fn a_list_from_the_past_keeps_what_it_cannot_know() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3)]);
    bench.observe("b", "v", 8);
    bench.deleted("a", "u", 9);
    bench.fold("c", "w", 12);
    bench.list(6, &[("a", "u", 3)]);
    assert_eq!(
        (bench.shown("a"), bench.shown("b"), bench.shown("c")),
        (None, Some(8), Some(12))
    );
    bench.observe("b", "v", 8);
    bench.deleted("a", "u", 9);
    bench.observe("c", "w", 12);
    assert_eq!(
        (bench.shown("a"), bench.shown("b"), bench.shown("c")),
        (None, Some(8), Some(12))
    );
}

#[test]
fn a_list_tells_deletions_that_the_watch_missed() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3), ("b", "v", 4)]);
    bench.list(20, &[("b", "v", 4)]);
    assert_eq!((bench.shown("a"), bench.shown("b")), (None, Some(4)));
}

#[test]
fn a_successor_of_the_same_name_replaces_and_an_old_incarnation_does_not() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3)]);
    bench.fold("a", "v", 10);
    bench.observe("a", "u", 7);
    bench.deleted("a", "u", 9);
    assert_eq!(bench.shown("a"), Some(10));
    let change = bench
        .changes
        .iter()
        .find(|change| change.new.as_deref() == Some(&10))
        .unwrap();
    assert_eq!(change.old.as_deref(), Some(&3));
}

#[test]
fn a_write_outside_the_scope_of_the_watch_is_dropped_when_the_watch_has_passed() {
    let mut bench = Bench::new();
    bench.list(5, &[]);
    bench.fold("elsewhere", "u", 8);
    bench.barrier.advance(Version(9), &mut bench.changes);
    assert_eq!((bench.shown("elsewhere"), bench.barrier.unconfirmed()), (None, 0));
}

#[test]
fn a_malformed_version_keeps_the_last_good_one() {
    let mut bench = Bench::new();
    bench.list(5, &[("a", "u", 3)]);
    bench.barrier.observe_malformed(&meta("a", "u", 7), &mut bench.changes);
    assert_eq!(bench.shown("a"), Some(3));
    bench.barrier.begin_list();
    bench.barrier.list_malformed(&meta("a", "u", 7), &mut bench.changes);
    bench.barrier.finish_list(Version(9), true, &mut bench.changes).unwrap();
    assert_eq!(bench.shown("a"), Some(3));
    bench
        .barrier
        .observe_malformed(&meta("a", "other", 12), &mut bench.changes);
    assert_eq!(bench.shown("a"), None, "the object itself is another one now");
}

#[test]
fn a_store_that_was_set_back_is_noticed_and_followed() {
    let mut bench = Bench::new();
    bench.list(50, &[("a", "u", 30), ("b", "v", 40)]);
    bench.barrier.begin_list();
    bench.barrier.list(meta("a", "u", 10), Arc::new(10), &mut bench.changes);
    let refused = bench.barrier.finish_list(Version(12), true, &mut bench.changes);
    assert_eq!(
        refused,
        Err(WentBack {
            listed: Version(12),
            passed: Version(50)
        })
    );
    assert_eq!(bench.shown("a"), Some(30));
    bench.barrier.forget_versions();
    bench.list(12, &[("a", "u", 10)]);
    assert_eq!((bench.shown("a"), bench.shown("b")), (Some(10), None));
}

/// A server with its whole history, and one client of it whose watch lags.
#[derive(Clone, Default)]
struct Server {
    version: u64,
    /// Per name: uid and version, at the newest version.
    objects: BTreeMap<usize, (u64, u64)>,
    /// Per version: name, uid, and whether it was a deletion.
    history: Vec<(u64, usize, u64, bool)>,
    next_uid: u64,
}

impl Server {
    fn write(&mut self, name: usize) -> (u64, u64) {
        self.version += 1;
        let uid = self.objects.get(&name).map_or_else(
            || {
                self.next_uid += 1;
                self.next_uid
            },
            |(uid, _)| *uid,
        );
        self.objects.insert(name, (uid, self.version));
        self.history.push((self.version, name, uid, false));
        (uid, self.version)
    }
    fn delete(&mut self, name: usize) -> Option<(u64, u64, u64)> {
        let (uid, last) = self.objects.remove(&name)?;
        self.version += 1;
        self.history.push((self.version, name, uid, true));
        Some((uid, last, self.version))
    }
    fn at(&self, version: u64) -> BTreeMap<usize, (u64, u64)> {
        let mut state = BTreeMap::new();
        for (when, name, uid, deleted) in self.history.iter().take_while(|entry| entry.0 <= version) {
            if *deleted {
                state.remove(name);
            } else {
                state.insert(*name, (*uid, *when));
            }
        }
        state
    }
}

#[derive(Debug, Clone)]
enum Step {
    OwnWrite {
        name: usize,
        answer_is_late: bool,
    },
    OwnDelete {
        name: usize,
        says_version: bool,
        answer_is_late: bool,
    },
    ForeignWrite {
        name: usize,
    },
    ForeignDelete {
        name: usize,
    },
    Deliver {
        events: usize,
    },
    Bookmark,
    ReadLateAnswer,
    /// A list that stands `lag` versions behind the newest; own requests may happen between its objects.
    Relist {
        lag: u64,
        aborted: bool,
        write_meanwhile: Option<usize>,
        delete_meanwhile: Option<usize>,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..4usize;
    let step = prop_oneof![
        4 => (name.clone(), any::<bool>()).prop_map(|(name, answer_is_late)| Step::OwnWrite { name, answer_is_late }),
        3 => (name.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(name, says_version, answer_is_late)| Step::OwnDelete { name, says_version, answer_is_late }),
        3 => name.clone().prop_map(|name| Step::ForeignWrite { name }),
        2 => name.clone().prop_map(|name| Step::ForeignDelete { name }),
        4 => (1..4usize).prop_map(|events| Step::Deliver { events }),
        1 => Just(Step::Bookmark),
        2 => Just(Step::ReadLateAnswer),
        2 => (0..12u64, any::<bool>(), prop::option::of(name.clone()), prop::option::of(name))
            .prop_map(|(lag, aborted, write_meanwhile, delete_meanwhile)| {
                Step::Relist { lag, aborted, write_meanwhile, delete_meanwhile }
            }),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Copy)]
enum Answer {
    Written {
        name: usize,
        uid: u64,
        version: u64,
    },
    Deleted {
        name: usize,
        uid: u64,
        last: u64,
        gone_at: Option<u64>,
    },
}

struct World {
    server: Server,
    /// The version after which the watch will tell next.
    cursor: u64,
    late: Vec<Answer>,
    bench: Bench,
    newest: BTreeMap<usize, u64>,
    buried: BTreeSet<u64>,
    uid_of_version: BTreeMap<u64, u64>,
}

const fn name_of(name: usize) -> &'static str {
    ["a", "b", "c", "d"][name]
}

impl World {
    fn own_write(&mut self, name: usize, late: bool) {
        let (uid, version) = self.server.write(name);
        self.uid_of_version.insert(version, uid);
        let answer = Answer::Written { name, uid, version };
        if late {
            self.late.push(answer);
        } else {
            self.read(answer);
        }
    }
    fn own_delete(&mut self, name: usize, says_version: bool, late: bool) {
        if let Some((uid, last, gone)) = self.server.delete(name) {
            let answer = Answer::Deleted {
                name,
                uid,
                last,
                gone_at: says_version.then_some(gone),
            };
            if late {
                self.late.push(answer);
            } else {
                self.read(answer);
            }
        }
    }
    fn read(&mut self, answer: Answer) {
        match answer {
            Answer::Written { name, uid, version } => {
                self.bench.fold(name_of(name), &uid.to_string(), version);
                let shown = self.newest.entry(name).or_default();
                *shown = (*shown).max(version);
            }
            Answer::Deleted {
                name,
                uid,
                last,
                gone_at,
            } => {
                self.bench.fold_deleted(name_of(name), &uid.to_string(), last, gone_at);
                self.buried.insert(uid);
            }
        }
        self.check();
    }
    fn deliver(&mut self, events: usize) {
        let due: Vec<_> = self
            .server
            .history
            .iter()
            .filter(|entry| entry.0 > self.cursor)
            .take(events)
            .copied()
            .collect();
        for (version, name, uid, deleted) in due {
            self.cursor = version;
            self.uid_of_version.insert(version, uid);
            if deleted {
                self.bench.deleted(name_of(name), &uid.to_string(), version);
                self.buried.insert(uid);
            } else {
                self.bench.observe(name_of(name), &uid.to_string(), version);
            }
            self.check();
        }
    }
    fn relist(&mut self, lag: u64, aborted: bool, write: Option<usize>, delete: Option<usize>) {
        let version = self.server.version.saturating_sub(lag);
        let state = self.server.at(version);
        self.bench.barrier.begin_list();
        let half = state.len() / 2;
        for (position, (name, (uid, seen))) in state.iter().enumerate() {
            if position == half {
                write.into_iter().for_each(|name| self.own_write(name, false));
                delete.into_iter().for_each(|name| self.own_delete(name, true, false));
            }
            self.uid_of_version.insert(*seen, *uid);
            let meta = meta(name_of(*name), &uid.to_string(), *seen);
            self.bench.barrier.list(meta, Arc::new(*seen), &mut self.bench.changes);
            self.check();
        }
        if !aborted {
            self.bench
                .barrier
                .finish_list(Version(version), false, &mut self.bench.changes)
                .unwrap();
            self.cursor = version;
            self.check();
        }
    }
    /// Never older than what was shown or written; nothing that was deleted.
    fn check(&mut self) {
        for name in 0..4 {
            if let Some(version) = self.bench.shown(name_of(name)) {
                let newest = self.newest.entry(name).or_default();
                assert!(
                    version >= *newest,
                    "{} went back from {newest} to {version}",
                    name_of(name)
                );
                *newest = version;
                assert!(
                    !self.buried.contains(&self.uid_of_version[&version]),
                    "{} was resurrected",
                    name_of(name)
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_older_never_resurrected_and_in_the_end_equal(steps in steps()) {
        let mut world = World {
            server: Server::default(),
            cursor: 0,
            late: Vec::new(),
            bench: Bench::new(),
            newest: BTreeMap::new(),
            buried: BTreeSet::new(),
            uid_of_version: BTreeMap::new(),
        };
        for step in steps {
            match step {
                Step::OwnWrite { name, answer_is_late } => world.own_write(name, answer_is_late),
                Step::OwnDelete { name, says_version, answer_is_late } => {
                    world.own_delete(name, says_version, answer_is_late);
                }
                Step::ForeignWrite { name } => { world.server.write(name); }
                Step::ForeignDelete { name } => { world.server.delete(name); }
                Step::Deliver { events } => world.deliver(events),
                Step::Bookmark => {
                    if world.server.history.iter().all(|entry| entry.0 <= world.cursor) {
                        world.bench.barrier.advance(Version(world.server.version), &mut world.bench.changes);
                    }
                }
                Step::ReadLateAnswer => {
                    if !world.late.is_empty() {
                        let answer = world.late.remove(0);
                        world.read(answer);
                    }
                }
                Step::Relist { lag, aborted, write_meanwhile, delete_meanwhile } => {
                    world.relist(lag, aborted, write_meanwhile, delete_meanwhile);
                }
            }
        }
        for answer in std::mem::take(&mut world.late) {
            world.read(answer);
        }
        world.deliver(usize::MAX);
        world.bench.barrier.advance(Version(world.server.version), &mut world.bench.changes);
        let shown: BTreeMap<usize, u64> =
            (0..4).filter_map(|name| world.bench.shown(name_of(name)).map(|version| (name, version))).collect();
        let expected: BTreeMap<usize, u64> =
            world.server.objects.iter().map(|(name, (_, version))| (*name, *version)).collect();
        prop_assert_eq!(&shown, &expected);
        prop_assert_eq!(world.bench.barrier.unconfirmed(), 0);
        // The changes told are the differences between the states: replaying them gives the same state.
        let mut replayed: BTreeMap<ObjectKey, u64> = BTreeMap::new();
        for change in &world.bench.changes {
            prop_assert_eq!(replayed.get(&change.key).copied(), change.old.as_deref().copied());
            match &change.new {
                Some(view) => replayed.insert(change.key.clone(), **view),
                None => replayed.remove(&change.key),
            };
        }
        prop_assert_eq!(replayed.len(), expected.len());
    }
}
