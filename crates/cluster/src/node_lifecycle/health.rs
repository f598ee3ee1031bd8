//! Whether a node counts as alive, and which taints follow.
//!
//! Owns two pure decisions: the verdict over a node's silence, and the taints a node must carry because of its
//! `Ready` condition and cordon. Taints of others are kept in place and order.

use crate::node_view::{Node, NodeCondition};
use crate::tolerations::Taint;
use coppice_runtime::clock::{later, whole_second};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What follows from the time of the last sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may live; look again then.
    Alive { check_again: Option<Timestamp> },
    /// Its grace period is over.
    Silent,
}

/// Judges a node by its last sign of life. None means that it is not being measured.
pub(crate) fn judge(last_sign: Option<Timestamp>, grace: Duration, now: Timestamp) -> Verdict {
    let Some(last_sign) = last_sign else {
        return Verdict::Alive { check_again: None };
    };
    let end = later(last_sign, grace);
    if now >= end {
        Verdict::Silent
    } else {
        Verdict::Alive { check_again: Some(end) }
    }
}

/// The status patch that declares a silent node unknown; nothing if that has been done.
pub(crate) fn unknown_patch(node: &Node, now: Timestamp) -> Option<Value> {
    let now = whole_second(now);
    let conditions: Vec<NodeCondition> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .filter(|kind| {
            node.condition(kind)
                .is_none_or(|condition| condition.status != "Unknown")
        })
        .map(|kind| {
            let stored = node.condition(kind);
            NodeCondition {
                kind: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusUnknown".to_owned()),
                message: Some("Kubelet stopped posting node status.".to_owned()),
                last_heartbeat_time: stored.and_then(|stored| stored.last_heartbeat_time),
                last_transition_time: Some(now),
            }
        })
        .collect();
    (!conditions.is_empty()).then(|| json!({"status": {"conditions": conditions}}))
}

/// The taints the node must carry; nothing if it carries exactly these.
pub(crate) fn wanted_taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let ready = node
        .condition("Ready")
        .map_or("Unposted", |condition| condition.status.as_str());
    let down = match ready {
        "True" => None,
        "Unknown" => Some(UNREACHABLE),
        // A node that has never posted is repelled as unready, but its pods are not evicted.
        _ => Some(NOT_READY),
    };
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    if node.unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    if let Some(key) = down {
        wanted.push((key, "NoSchedule"));
        if ready != "Unposted" {
            wanted.push((key, "NoExecute"));
        }
    }
    let ours = |taint: &Taint| [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str());
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut taints: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| !ours(taint) || is_wanted(taint))
        .cloned()
        .collect();
    for (key, effect) in &wanted {
        if !taints.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            taints.push(Taint {
                key: (*key).to_owned(),
                value: None,
                effect: (*effect).to_owned(),
                time_added: Some(whole_second(now)),
            });
        }
    }
    (taints != node.taints).then_some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node(ready: &str) -> Node {
        let condition = NodeCondition {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            ..NodeCondition::default()
        };
        Node {
            conditions: vec![condition],
            ..Node::default()
        }
    }

    fn keys(taints: &[Taint]) -> Vec<(String, String)> {
        taints
            .iter()
            .map(|taint| (taint.key.clone(), taint.effect.clone()))
            .collect()
    }

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    }

    #[test]
    fn silence_is_judged_after_the_grace_period() {
        let grace = Duration::from_secs(40);
        assert_eq!(
            judge(Some(at(0)), grace, at(39)),
            Verdict::Alive {
                check_again: Some(at(40))
            }
        );
        assert_eq!(judge(Some(at(0)), grace, at(40)), Verdict::Silent);
        assert_eq!(judge(None, grace, at(4000)), Verdict::Alive { check_again: None });
    }

    #[test]
    fn a_silent_node_becomes_unknown_once() {
        let patch = unknown_patch(&node("True"), at(50)).unwrap();
        assert_eq!(patch["status"]["conditions"].as_array().unwrap().len(), 4);
        let mut declared = node("Unknown");
        for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            let mut condition = declared.conditions[0].clone();
            condition.kind = kind.to_owned();
            declared.conditions.push(condition);
        }
        assert_eq!(unknown_patch(&declared, at(60)), None);
    }

    #[test]
    fn taints_follow_the_ready_condition() {
        assert_eq!(wanted_taints(&node("True"), at(0)), None);
        let unreachable = wanted_taints(&node("Unknown"), at(0)).unwrap();
        assert_eq!(
            keys(&unreachable),
            [
                (UNREACHABLE.to_owned(), "NoSchedule".to_owned()),
                (UNREACHABLE.to_owned(), "NoExecute".to_owned())
            ]
        );
        assert_eq!(unreachable[1].time_added, Some(at(0)));
        let mut back = node("True");
        back.taints = unreachable;
        assert_eq!(wanted_taints(&back, at(9)), Some(vec![]));
    }

    #[test]
    fn a_node_that_never_posted_keeps_new_pods_away_without_eviction() {
        let taints = wanted_taints(&Node::default(), at(0)).unwrap();
        assert_eq!(keys(&taints), [(NOT_READY.to_owned(), "NoSchedule".to_owned())]);
    }

    #[test]
    fn cordon_is_a_taint_and_foreign_taints_stay() {
        let mut cordoned = node("True");
        cordoned.unschedulable = true;
        cordoned.taints = vec![taint("gpu", "NoSchedule")];
        let taints = wanted_taints(&cordoned, at(0)).unwrap();
        assert_eq!(keys(&taints)[0].0, "gpu");
        assert_eq!(keys(&taints)[1], (UNSCHEDULABLE.to_owned(), "NoSchedule".to_owned()));
        cordoned.taints = taints;
        assert_eq!(
            wanted_taints(&cordoned, at(5)),
            None,
            "an existing taint keeps its time"
        );
        cordoned.unschedulable = false;
        assert_eq!(
            keys(&wanted_taints(&cordoned, at(0)).unwrap()),
            [("gpu".to_owned(), "NoSchedule".to_owned())]
        );
    }
}
