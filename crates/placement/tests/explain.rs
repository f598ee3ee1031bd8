//! Explanations in situations that have a name. The corpus of injected causes is in `corpus`.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::collections::BTreeMap;

use coppice_placement::explain::{LIST_LIMIT, RemedyCode, Verdict, explain};
use coppice_placement::predicates::{Effect, Taint};
use coppice_placement::preempt::{Running, RunningGroup, RunningPod};
use coppice_placement::{Options, Outcome, Pack, ReasonCode, plan};
use support::cluster::{RACK, cluster, demands, gang, group, node};

fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        value: "yes".into(),
        effect: Effect::NoSchedule,
    }
}

#[test]
fn every_remedy_about_nodes_is_exact() {
    let mut state = cluster(1, 2, 4, 8);
    let eight = state.shape(&demands(8));
    for host in 0..3 {
        state
            .add_pod(&format!("old-{host}"), &format!("b0-r0-h{host}"), eight)
            .unwrap();
        state
            .add_pod(&format!("older-{host}"), &format!("b0-r1-h{host}"), eight)
            .unwrap();
    }
    let wanted = gang(
        "serving",
        Pack::required(RACK),
        vec![group("worker", eight, 3, 3, Pack::none())],
    );
    let explanation = explain(&state, &wanted, &[], &Options::default());
    assert_eq!(explanation.verdict, Verdict::DoesNotFit);
    let nodes = explanation
        .remedies
        .iter()
        .find(|remedy| remedy.code == RemedyCode::AddNodes)
        .unwrap();
    assert_eq!(nodes.text, "add 2 nodes like b0-r0-h0 to b0/r0");
    let level = explanation.levels.iter().find(|level| level.required).unwrap();
    assert_eq!((level.slots[0].have, level.slots[0].need), (1, 3));
    assert_eq!(level.lacks, BTreeMap::from([("nvidia.com/gpu".to_owned(), 16)]));
    let text = explanation.to_string();
    assert!(
        text.contains("serving, rack, required: b0/r0; 1 of 3 slots for worker; short 16 of nvidia.com/gpu"),
        "{text}"
    );
}

#[test]
fn a_gang_that_fits_says_so_and_lists_stay_short() {
    let mut state = cluster(1, 1, 60, 8);
    let eight = state.shape(&demands(8));
    let fits = gang(
        "serving",
        Pack::none(),
        vec![group("worker", eight, 1, 1, Pack::none())],
    );
    assert_eq!(explain(&state, &fits, &[], &Options::default()).verdict, Verdict::Fits);
    // Sixty different taints make sixty rules; the list stays bounded.
    let nodes = (0..60).map(|host| {
        let mut node = node(0, 0, host, 8);
        node.taints.push(taint(&format!("taint-{host}")));
        node
    });
    state.put_nodes(nodes);
    let many = gang(
        "serving",
        Pack::none(),
        vec![group("worker", eight, 60, 60, Pack::none())],
    );
    let explanation = explain(&state, &many, &[], &Options::default());
    assert_eq!(explanation.verdict, Verdict::DoesNotFit);
    assert_eq!(explanation.ruled_out.len(), LIST_LIMIT);
    assert!(explanation.to_string().len() < 4_000);
}

#[test]
fn a_refusal_and_its_explanation_name_the_same_pod_that_is_too_large() {
    let mut state = cluster(1, 1, 2, 4);
    let eight = state.shape(&demands(8));
    let wanted = gang(
        "serving",
        Pack::none(),
        vec![group("worker", eight, 4, 4, Pack::none())],
    );
    let Outcome::Infeasible(reasons) = plan(&mut state, &wanted, &Options::default()) else {
        panic!("no node has eight")
    };
    let explained = explain(&state, &wanted, &[], &Options::default()).reasons;
    assert_eq!(reasons[0].code, ReasonCode::PodExceedsEveryNode);
    assert_eq!(reasons[0], explained[0]);
    let text = "worker: a pod requests 8 of nvidia.com/gpu, the largest node has 4";
    assert_eq!(reasons[0].message, text);
}

#[test]
fn every_gang_in_the_way_is_named_with_its_own_priority() {
    let mut state = cluster(1, 1, 2, 8);
    let eight = state.shape(&demands(8));
    let mut running = Vec::new();
    for (name, host, priority) in [("n/batch", 0, -10), ("n/serving", 1, 1000)] {
        let pod = format!("{name}-0");
        state.add_pod(&pod, &format!("b0-r0-h{host}"), eight).unwrap();
        running.push(Running {
            name: name.into(),
            priority,
            base: None,
            sequence: 0,
            protected: false,
            groups: vec![RunningGroup {
                floor: 1,
                pods: vec![RunningPod {
                    name: pod,
                    budgets: Vec::new(),
                }],
            }],
        });
    }
    let message = |pods: u32, priority: i32, running: &[Running]| {
        let mut wanted = gang("new", Pack::none(), vec![group("x", eight, pods, pods, Pack::none())]);
        wanted.priority = priority;
        let reasons = explain(&state, &wanted, running, &Options::default()).reasons;
        let found = reasons.into_iter().find(|reason| reason.code == ReasonCode::Outranked);
        found.unwrap().message
    };
    assert_eq!(
        message(2, 0, &running),
        "blocked by n/serving (priority 1000): priority 0 cannot preempt higher priority"
    );
    assert_eq!(
        message(2, -10, &running),
        "blocked by n/serving (priority 1000), n/batch (priority -10): priority -10 cannot preempt higher priority"
    );
    assert_eq!(
        message(1, -10, &running[..1]),
        "blocked by n/batch (priority -10): equal priority cannot preempt"
    );
}
