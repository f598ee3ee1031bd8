use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::selector::{LabelSelector, Selection};

const PODS: &str = "pods";

fn draft(name: &str, team: &str) -> Draft {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"team": team}}});
    Draft::new(&object, Texts::default())
}

fn put(store: &Store, name: &str, team: &str) -> u64 {
    let key = Key::new("default", name);
    let expect = store
        .get(PODS, &key)
        .map_or(Expect::Absent, |object| Expect::Revision(object.revision()));
    store.put(PODS, &key, expect, draft(name, team)).unwrap().revision()
}

fn remove(store: &Store, name: &str) -> Option<u64> {
    let key = Key::new("default", name);
    let revision = store.get(PODS, &key)?.revision();
    Some(store.remove(PODS, &key, revision).unwrap().revision())
}

fn names(page: &Page) -> Vec<&str> {
    page.objects.iter().map(|object| object.key().name()).collect()
}

#[test]
fn revisions_are_global_and_positive() {
    let store = Store::default();
    let first = put(&store, "a", "x");
    assert!(first > 1);
    let other = store
        .put("nodes", &Key::new("", "n"), Expect::Absent, draft("n", "x"))
        .unwrap();
    assert_eq!(other.revision(), first + 1);
    assert_eq!(store.revision(), first + 1);
}

#[test]
fn a_write_on_an_old_state_is_refused_with_the_current_one() {
    let store = Store::default();
    let key = Key::new("default", "a");
    let old = put(&store, "a", "x");
    let new = put(&store, "a", "y");
    let refused = store
        .put(PODS, &key, Expect::Revision(old), draft("a", "z"))
        .unwrap_err();
    assert_eq!(refused.current.unwrap().revision(), new);
    assert!(store.put(PODS, &key, Expect::Absent, draft("a", "z")).is_err());
    assert!(store.remove(PODS, &key, old).is_err());
    assert_eq!(store.revision(), new);
}

#[test]
fn pages_show_the_state_of_their_revision() {
    let store = Store::default();
    for name in ["a", "b", "c", "d"] {
        put(&store, name, "x");
    }
    let first = store
        .list(
            PODS,
            &Selection::everything(),
            &PageRequest {
                limit: 2,
                ..Default::default()
            },
        )
        .unwrap();
    assert_eq!((names(&first), first.more, first.remaining), (vec!["a", "b"], true, 2));
    remove(&store, "c");
    put(&store, "cc", "x");
    put(&store, "d", "y");
    let after = first.objects.last().map(|object| object.key().clone());
    let rest = PageRequest {
        revision: Some(first.revision),
        after,
        limit: 0,
    };
    let second = store.list(PODS, &Selection::everything(), &rest).unwrap();
    assert_eq!(names(&second), ["c", "d"]);
    let (_, label) = second.objects[1].facts().labels.iter().next().unwrap();
    assert_eq!(label, "x");
    store.compact(store.revision());
    let expired = store.list(PODS, &Selection::everything(), &rest).unwrap_err();
    assert_eq!(expired, ListError::Expired(first.revision));
}

#[test]
fn lists_follow_the_namespace() {
    let store = Store::default();
    for namespace in ["a", "a-b", "b"] {
        store
            .put(PODS, &Key::new(namespace, "p"), Expect::Absent, draft("p", "x"))
            .unwrap();
    }
    let all = store
        .list(PODS, &Selection::everything(), &PageRequest::default())
        .unwrap();
    let order: Vec<_> = all
        .objects
        .iter()
        .map(|object| object.key().namespace().to_owned())
        .collect();
    assert_eq!(order, ["a-b", "a", "b"]);
    assert_eq!(
        store
            .list(PODS, &Selection::namespace("a"), &PageRequest::default())
            .unwrap()
            .objects
            .len(),
        1
    );
}

#[tokio::test]
async fn a_watch_translates_selector_transitions() {
    let store = Store::default();
    let selection = Selection {
        labels: LabelSelector::parse("team=x").unwrap(),
        ..Selection::everything()
    };
    let mut watch = store.watch(PODS, selection, StartFrom::CurrentState).unwrap();
    put(&store, "a", "y");
    put(&store, "a", "x");
    put(&store, "a", "x");
    let left = put(&store, "a", "y");
    remove(&store, "a");
    let batch = watch.next().await.unwrap();
    let rest = watch.ready().unwrap();
    let deliveries: Vec<_> = [batch]
        .into_iter()
        .chain(rest)
        .flat_map(|batch| batch.deliveries().to_vec())
        .collect();
    let events: Vec<_> = deliveries.iter().map(|delivery| delivery.event).collect();
    assert_eq!(events, [EventType::Added, EventType::Modified, EventType::Deleted]);
    let departed = deliveries[2].object().value();
    assert_eq!(departed["metadata"]["labels"]["team"], "x");
    assert_eq!(departed["metadata"]["resourceVersion"], left.to_string());
}

#[tokio::test]
async fn a_slow_watch_is_cut_and_an_idle_one_is_not() {
    let store = Store::new(4);
    let selection = Selection {
        labels: LabelSelector::parse("team=none").unwrap(),
        ..Selection::everything()
    };
    let mut idle = store.watch(PODS, selection, StartFrom::CurrentState).unwrap();
    let mut slow = store
        .watch(PODS, Selection::everything(), StartFrom::CurrentState)
        .unwrap();
    for _ in 0..10 {
        put(&store, "a", "x");
    }
    assert!(matches!(slow.next().await, Err(WatchError::Expired { .. })));
    put(&store, "b", "none");
    assert_eq!(idle.next().await.unwrap().deliveries().len(), 1);
    assert_eq!(idle.position(), store.revision());
}

#[tokio::test]
async fn many_watchers_let_a_burst_of_writes_through_and_take_it_together() {
    const WATCHERS: usize = 1000;
    const BURST: usize = 4;
    let store = Store::default();
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        let mut watch = store
            .watch(PODS, Selection::everything(), StartFrom::CurrentState)
            .unwrap();
        watchers.spawn(async move {
            let (mut told, mut batches) = (0, 0);
            while told < BURST {
                told += watch.next().await.unwrap().deliveries().len();
                batches += 1;
            }
            batches
        });
    }
    // As requests from sockets do, every write comes behind all tasks that were ready before it.
    let writer = tokio::spawn(async move {
        for number in 0..BURST {
            put(&store, &number.to_string(), "x");
            tokio::task::yield_now().await;
        }
    });
    writer.await.unwrap();
    let batches: usize = watchers.join_all().await.into_iter().sum();
    assert!(batches < WATCHERS * 3 / 2, "{batches} batches");
}

#[test]
fn watches_start_only_where_the_history_reaches() {
    let store = Store::new(2);
    let first = put(&store, "a", "x");
    for _ in 0..3 {
        put(&store, "a", "x");
    }
    let old = store.watch(PODS, Selection::everything(), StartFrom::Revision(first));
    assert!(matches!(old, Err(WatchError::Expired { .. })));
    let future = store.watch(PODS, Selection::everything(), StartFrom::Revision(1000));
    assert!(matches!(future, Err(WatchError::Future { .. })));
    assert_eq!(store.watch_count(PODS), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Remove(u8),
    Start(bool, u8),
    Drain(u8),
    Compact(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5u8, any::<bool>()).prop_map(|(name, team)| Step::Put(name, team)),
        2 => (0..5u8).prop_map(Step::Remove),
        2 => (any::<bool>(), 0..12u8).prop_map(|(selected, back)| Step::Start(selected, back)),
        4 => any::<u8>().prop_map(Step::Drain),
        1 => (0..12u8).prop_map(Step::Compact),
    ]
}

/// What one watcher should see: replayed from the record of commits, independent of the store's own bookkeeping.
fn expected(record: &[(u64, String, Option<bool>)], selected: bool, from: u64) -> Vec<(u64, EventType)> {
    let mut state: BTreeMap<&str, bool> = BTreeMap::new();
    let mut seen = Vec::new();
    for (revision, name, team) in record {
        let admits = |team: bool| !selected || team;
        let before = state.get(name.as_str()).copied().is_some_and(admits);
        let after = team.is_some_and(admits);
        match team {
            Some(team) => state.insert(name, *team),
            None => state.remove(name.as_str()),
        };
        let event = match (before, after) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => continue,
        };
        if *revision > from {
            seen.push((*revision, event));
        }
    }
    seen
}

struct Watcher {
    watch: Watch,
    selected: bool,
    from: u64,
    seen: Vec<(u64, EventType)>,
    cut: bool,
}

impl Watcher {
    fn drain(&mut self) {
        while !self.cut {
            match self.watch.ready() {
                Ok(None) => break,
                Ok(Some(batch)) => {
                    let told = batch.deliveries().iter();
                    self.seen.extend(told.map(|item| (item.commit.revision(), item.event)));
                }
                Err(_) => self.cut = true,
            }
        }
    }
}

proptest! {
    #[test]
    fn every_watcher_sees_exactly_the_committed_history(
        steps in proptest::collection::vec(step(), 1..120),
        limit in 1usize..40,
    ) {
        let store = Store::new(limit);
        let mut record: Vec<(u64, String, Option<bool>)> = Vec::new();
        let mut watchers: Vec<Watcher> = Vec::new();
        for step in steps {
            match step {
                Step::Put(name, team) => {
                    let name = format!("p{name}");
                    let revision = put(&store, &name, if team { "x" } else { "y" });
                    record.push((revision, name, Some(team)));
                }
                Step::Remove(name) => {
                    let name = format!("p{name}");
                    if let Some(revision) = remove(&store, &name) {
                        record.push((revision, name, None));
                    }
                }
                Step::Start(selected, back) => {
                    let from = store.revision().saturating_sub(u64::from(back));
                    let mut selection = Selection::everything();
                    if selected {
                        selection.labels = LabelSelector::parse("team=x").unwrap();
                    }
                    if let Ok(watch) = store.watch(PODS, selection, StartFrom::Revision(from)) {
                        watchers.push(Watcher { watch, selected, from, seen: Vec::new(), cut: false });
                    }
                }
                Step::Drain(which) => {
                    if !watchers.is_empty() {
                        let index = usize::from(which) % watchers.len();
                        watchers[index].drain();
                    }
                }
                Step::Compact(back) => store.compact(store.revision().saturating_sub(u64::from(back))),
            }
        }
        for watcher in &mut watchers {
            watcher.drain();
            let expected = expected(&record, watcher.selected, watcher.from);
            if watcher.cut {
                prop_assert!(expected.starts_with(&watcher.seen), "{:?} is no prefix of {expected:?}", watcher.seen);
            } else {
                prop_assert_eq!(&watcher.seen, &expected);
            }
        }
    }

    #[test]
    fn a_list_in_the_past_equals_the_list_made_then(
        steps in proptest::collection::vec((0..5u8, any::<bool>(), any::<bool>()), 1..60),
        limit in 1usize..4,
    ) {
        let store = Store::default();
        let mut lists: Vec<(u64, Vec<u64>)> = Vec::new();
        for (name, team, delete) in steps {
            let name = format!("p{name}");
            if delete {
                remove(&store, &name);
            } else {
                put(&store, &name, if team { "x" } else { "y" });
            }
            let (revision, objects) = store.current(PODS);
            lists.push((revision, objects.iter().map(|object| object.revision()).collect()));
        }
        for (revision, expected) in lists {
            let mut found = Vec::new();
            let mut request = PageRequest { revision: Some(revision), after: None, limit };
            loop {
                let page = store.list(PODS, &Selection::everything(), &request).unwrap();
                found.extend(page.objects.iter().map(|object| object.revision()));
                if !page.more {
                    break;
                }
                request.after = page.objects.last().map(|object| object.key().clone());
            }
            prop_assert_eq!(found, expected);
        }
    }
}
