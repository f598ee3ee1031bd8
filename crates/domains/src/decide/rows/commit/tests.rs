//! One write in flight, and as few as possible.

use super::super::facts::NodeMembership;
use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn members(count: usize) -> CliqueFacts {
    let nodes = (0..count).map(|number| (format!("n{number:02}"), NodeMembership::Member));
    CliqueFacts {
        nodes: nodes.collect(),
        ..CliqueFacts::default()
    }
}

fn object(version: u64, rows: &[DaemonRow]) -> Clique {
    let mut clique = Clique {
        daemons: rows.to_vec(),
        ..Clique::default()
    };
    clique.metadata.resource_version = Some(version.to_string());
    clique
}

fn stored(version: u64, rows: &[DaemonRow]) -> Outcome {
    Outcome::Stored(Box::new(object(version, rows)))
}

fn writer() -> CliqueWriter {
    let mut writer = CliqueWriter::new("u.1", 18, Timing::default());
    writer.observed_absent();
    writer
}

#[test]
fn changes_within_the_first_moment_are_one_write() {
    let mut writer = writer();
    assert_eq!(writer.next(&members(1), at(0)).0, Action::WaitUntil(at(250)));
    assert_eq!(writer.next(&members(9), at(100)).0, Action::WaitUntil(at(250)));
    let Action::Create(rows) = writer.next(&members(18), at(250)).0 else {
        panic!("a create")
    };
    assert_eq!(rows.len(), 18);
    assert_eq!(writer.next(&members(18), at(251)).0, Action::Rest, "one in flight");
    writer.finished(stored(1, &rows));
    assert_eq!(writer.next(&members(18), at(300)).0, Action::Rest);
}

#[test]
fn changes_during_a_write_are_collected_and_wait_longer_each_time() {
    let mut writer = writer();
    let mut now = 0;
    let mut waits = Vec::new();
    for round in 1..=6 {
        let facts = members(round);
        let Action::WaitUntil(due) = writer.next(&facts, at(now)).0 else {
            panic!("a wait")
        };
        waits.push(due.as_millisecond() - now);
        now = due.as_millisecond();
        let rows = match writer.next(&facts, at(now)).0 {
            Action::Create(rows) | Action::Replace { rows, .. } => rows,
            other => panic!("{other:?}"),
        };
        writer.finished(stored(round as u64, &rows));
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 2_000, 2_000]);
}

#[test]
fn a_conflict_or_a_lost_answer_is_followed_by_a_read() {
    for outcome in [Outcome::Conflict, Outcome::Lost] {
        let mut writer = writer();
        writer.next(&members(1), at(0));
        assert!(matches!(writer.next(&members(1), at(250)).0, Action::Create(_)));
        writer.finished(outcome);
        assert_eq!(writer.next(&members(1), at(260)).0, Action::Read);
        let theirs = DaemonRow {
            node_name: "zz".into(),
            index: Some(0),
            ..DaemonRow::default()
        };
        writer.finished(stored(5, std::slice::from_ref(&theirs)));
        let (action, plan) = writer.next(&members(1), at(270));
        assert_eq!(action, Action::WaitUntil(at(770)), "the burst goes on");
        assert_eq!(plan.rows.len(), 2);
        let Action::Replace { resource_version, rows } = writer.next(&members(1), at(770)).0 else {
            panic!()
        };
        assert_eq!((resource_version.as_str(), rows[1].index), ("5", Some(1)));
    }
}

#[test]
fn an_older_event_does_not_undo_an_own_write() {
    let mut writer = writer();
    writer.next(&members(2), at(0));
    let Action::Create(rows) = writer.next(&members(2), at(250)).0 else {
        panic!()
    };
    writer.finished(stored(10, &rows));
    writer.observed(&object(9, &[]));
    assert_eq!(writer.rows().len(), 2);
    assert_eq!(writer.next(&members(2), at(300)).0, Action::Rest);
}

#[test]
fn an_object_that_was_deleted_comes_back_with_the_same_indices() {
    let mut writer = writer();
    let row = |node: &str, index| DaemonRow {
        node_name: node.into(),
        index: Some(index),
        clique_id: "u.1".into(),
        ..DaemonRow::default()
    };
    writer.observed(&object(3, &[row("n00", 7), row("n01", 2)]));
    writer.observed_absent();
    writer.next(&members(3), at(0));
    let Action::Create(rows) = writer.next(&members(3), at(250)).0 else {
        panic!()
    };
    let indices: Vec<_> = rows
        .iter()
        .map(|row| (row.node_name.as_str(), row.index.unwrap()))
        .collect();
    assert_eq!(indices, [("n02", 0), ("n01", 2), ("n00", 7)]);
}
