//! How many writes the formation of one undisturbed clique of 18 nodes costs, in virtual time.

use coppice_domains::api::Clique;
use coppice_domains::decide::rows::{
    Action, CliqueFacts, CliqueWriter, NodeMembership, Outcome, PodFacts, Timing, Urgency,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

/// When each node is labelled, its daemon has an address, and its daemon is ready; milliseconds.
type Start = (i64, i64, i64);

const ROUND_TRIP: i64 = 12;

/// Runs to the end and counts the writes.
fn writes(starts: &[Start]) -> usize {
    let begin = Timestamp::from_second(1_000_000).unwrap();
    let mut writer = CliqueWriter::new("u.1", 18, Timing::default());
    writer.observed_absent();
    let (mut version, mut count) = (0_u64, 0);
    let mut answer: Option<(i64, Outcome)> = None;
    let end = starts.iter().map(|start| start.2).max().unwrap_or(0) + 30_000;
    let mut changes: Vec<i64> = starts.iter().flat_map(|start| [start.0, start.1, start.2]).collect();
    changes.sort_unstable();
    let mut millis = 0;
    while millis < end {
        if let Some((_, outcome)) = answer.take_if(|(due, _)| *due <= millis) {
            writer.finished(outcome);
        }
        let now = begin + SignedDuration::from_millis(millis);
        let (action, plan) = writer.next(&facts(starts, millis, begin), now);
        assert!(plan.refused.is_empty() && plan.checks.is_empty());
        let mut next = changes.iter().copied().find(|change| *change > millis).unwrap_or(end);
        match action {
            Action::Create(rows) | Action::Replace { rows, .. } => {
                count += 1;
                version += 1;
                let mut clique = Clique {
                    daemons: rows,
                    ..Clique::default()
                };
                clique.metadata.resource_version = Some(version.to_string());
                answer = Some((millis + ROUND_TRIP, Outcome::Stored(Box::new(clique))));
            }
            Action::WaitUntil(due) => next = next.min(due.duration_since(begin).as_millis() as i64),
            Action::Rest => {}
            Action::Read => panic!("nothing is unknown here"),
        }
        if let Some((due, _)) = &answer {
            next = next.min(*due);
        }
        millis = next.max(millis + 1);
    }
    let plan = writer.plan(&facts(starts, end, begin), begin + SignedDuration::from_millis(end));
    assert_eq!((plan.urgency, plan.rows.len()), (Urgency::None, starts.len()));
    count
}

fn facts(starts: &[Start], now: i64, begin: Timestamp) -> CliqueFacts {
    let mut facts = CliqueFacts::default();
    for (number, (labelled, address, ready)) in starts.iter().enumerate() {
        let node = format!("node-{number:02}");
        if *labelled <= now {
            facts.nodes.insert(node.clone(), NodeMembership::Member);
        }
        if *address <= now {
            let pod = PodFacts {
                uid: format!("pod-{number}"),
                node: node.clone(),
                created: begin,
                address: format!("10.0.0.{}", number + 1),
                ready: *ready <= now,
                ended: false,
                writes_own_row: false,
                reported_clique: None,
            };
            facts.pods.insert(node, vec![pod]);
        }
    }
    facts
}

fn spread(within: i64) -> Vec<Start> {
    let at = |number: i64| number * within / 17;
    (0..18)
        .map(|number| (at(number), 2_500 + at(number), 4_500 + at(number)))
        .collect()
}

/// The counts that the budget speaks of: 18 nodes, labels, addresses and readiness each spread over this long.
#[test]
fn eighteen_nodes_form_with_a_handful_of_writes() {
    let counted: Vec<(i64, usize)> = [0, 250, 1_000].map(|within| (within, writes(&spread(within)))).into();
    assert_eq!(counted, [(0, 3), (250, 3), (1_000, 5)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nodes that start within a second of each other never cost more than six writes; today's protocol has 37.
    #[test]
    fn an_undisturbed_formation_costs_at_most_six_writes(
        offsets in prop::collection::vec((0..1_000_i64, 0..1_000_i64, 0..1_000_i64), 18),
        address in 1_000..4_000_i64,
        ready in 1_000..3_000_i64,
    ) {
        let starts: Vec<Start> = offsets
            .iter()
            .map(|(label, start, up)| (*label, address + start, address + ready + start.max(up)))
            .collect();
        let count = writes(&starts);
        prop_assert!(count <= 6, "{count} writes");
    }
}
