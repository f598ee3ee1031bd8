//! Pods in a table: the status column is a summary of phase, conditions and containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::{AGE, Heading, NAME, age, items, name, number_at, text, text_at, wide};
use crate::registry::Served;
use crate::tree::is_deleting;

pub(super) const COLUMNS: &[Heading] = &[
    NAME,
    text("Ready"),
    text("Status"),
    text("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, since(&time, now)),
        _ => summary.restarts.to_string(),
    };
    let total = items(pod, "/spec/containers").count() + summary.sidecars;
    vec![
        name(pod),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.status),
        json!(restarts),
        age(pod, now),
        json!(text_at(pod, "/status/podIP", "<none>")),
        json!(text_at(pod, "/spec/nodeName", "<none>")),
        json!(text_at(pod, "/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

struct Summary {
    status: String,
    ready: usize,
    sidecars: usize,
    restarts: i64,
    last_restart: Option<String>,
}

fn summarise(pod: &Value) -> Summary {
    let mut status = text_at(pod, "/status/reason", &text_at(pod, "/status/phase", "Unknown"));
    if items(pod, "/status/conditions").any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated") {
        status = "SchedulingGated".to_owned();
    }
    let mut summary = Summary {
        status,
        ready: 0,
        sidecars: 0,
        restarts: 0,
        last_restart: None,
    };
    let initialising = summarise_init(pod, &mut summary);
    if !initialising || is_initialised(pod) {
        summarise_containers(pod, &mut summary, initialising);
    }
    if is_deleting(pod) {
        let phase = text_at(pod, "/status/phase", "");
        if text_at(pod, "/status/reason", "") == "NodeLost" {
            summary.status = "Unknown".to_owned();
        } else if !matches!(phase.as_str(), "Failed" | "Succeeded") {
            summary.status = "Terminating".to_owned();
        }
    }
    summary
}

fn is_initialised(pod: &Value) -> bool {
    items(pod, "/status/conditions").any(|one| one["type"] == "Initialized" && one["status"] == "True")
}

/// Counts init containers; says whether the pod still initialises, and how far it is.
fn summarise_init(pod: &Value, summary: &mut Summary) -> bool {
    let total = items(pod, "/spec/initContainers").count();
    for (index, container) in items(pod, "/status/initContainerStatuses").enumerate() {
        count_restarts(container, summary);
        let spec = items(pod, "/spec/initContainers").find(|one| one["name"] == container["name"]);
        let sidecar = spec.is_some_and(|spec| spec["restartPolicy"] == "Always");
        if sidecar {
            summary.sidecars += 1;
            if container["ready"] == true {
                summary.ready += 1;
            }
            if container["started"] == true {
                continue;
            }
        }
        if let Some(terminated) = container.pointer("/state/terminated") {
            let (code, signal) = (number_at(terminated, "/exitCode"), number_at(terminated, "/signal"));
            if code == 0 {
                continue;
            }
            summary.status = match (text_at(terminated, "/reason", ""), signal) {
                (reason, _) if !reason.is_empty() => format!("Init:{reason}"),
                (_, 0) => format!("Init:ExitCode:{code}"),
                (_, signal) => format!("Init:Signal:{signal}"),
            };
            return true;
        }
        let waiting = text_at(container, "/state/waiting/reason", "");
        summary.status = if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{total}")
        };
        return true;
    }
    false
}

fn summarise_containers(pod: &Value, summary: &mut Summary, initialising: bool) {
    if !initialising {
        summary.restarts = 0;
        summary.last_restart = None;
        for container in items(pod, "/status/initContainerStatuses") {
            let spec = items(pod, "/spec/initContainers").find(|one| one["name"] == container["name"]);
            if spec.is_some_and(|spec| spec["restartPolicy"] == "Always") {
                count_restarts(container, summary);
            }
        }
    }
    let mut running = false;
    let containers: Vec<&Value> = items(pod, "/status/containerStatuses").collect();
    for container in containers.into_iter().rev() {
        count_restarts(container, summary);
        let waiting = text_at(container, "/state/waiting/reason", "");
        if !waiting.is_empty() {
            summary.status = waiting;
        } else if let Some(terminated) = container.pointer("/state/terminated") {
            let (code, signal) = (number_at(terminated, "/exitCode"), number_at(terminated, "/signal"));
            summary.status = match (text_at(terminated, "/reason", ""), signal) {
                (reason, _) if !reason.is_empty() => reason,
                (_, 0) => format!("ExitCode:{code}"),
                (_, signal) => format!("Signal:{signal}"),
            };
        } else if container["ready"] == true && container.pointer("/state/running").is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.status == "Completed" && running {
        let ready = items(pod, "/status/conditions").any(|one| one["type"] == "Ready" && one["status"] == "True");
        summary.status = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

fn count_restarts(container: &Value, summary: &mut Summary) {
    summary.restarts += number_at(container, "/restartCount");
    let finished = container
        .pointer("/lastState/terminated/finishedAt")
        .and_then(Value::as_str);
    if let Some(finished) = finished
        && summary.last_restart.as_deref().is_none_or(|last| last < finished)
    {
        summary.last_restart = Some(finished.to_owned());
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates: Vec<&Value> = items(pod, "/spec/readinessGates").collect();
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates
        .iter()
        .filter(|gate| {
            items(pod, "/status/conditions").any(|one| one["type"] == gate["conditionType"] && one["status"] == "True")
        })
        .count();
    format!("{passed}/{}", gates.len())
}

/// What the row of a pod that has ended says about that, so that clients can leave it out.
pub(super) fn completed(served: &Served, object: &Value) -> Option<Value> {
    if served.custom || &*served.kind != "Pod" {
        return None;
    }
    let (reason, message) = match text_at(object, "/status/phase", "").as_str() {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pod: &Value) -> (String, String, String) {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let cells = cells(pod, now);
        let text = |index: usize| cells[index].as_str().unwrap().to_owned();
        (text(1), text(2), text(3))
    }

    #[test]
    fn status_summarises_the_containers() {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]});
        let pending = json!({"spec": spec, "status": {"phase": "Pending"}});
        assert_eq!(row(&pending), ("0/2".into(), "Pending".into(), "0".into()));
        let gated = json!({"spec": spec, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}});
        assert_eq!(row(&gated).1, "SchedulingGated");
        let init = json!({"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}});
        assert_eq!(row(&init).1, "Init:0/1");
        let running = json!({"spec": spec, "status": {"phase": "Running",
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"ready": true, "state": {"running": {}}, "restartCount": 2,
                "lastState": {"terminated": {"finishedAt": "2026-01-01T00:58:00Z"}}},
                {"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(
            row(&running),
            ("1/2".into(), "CrashLoopBackOff".into(), "2 (2m ago)".into())
        );
        let mut leaving = running;
        leaving["metadata"] = json!({"deletionTimestamp": "2026-01-01T01:00:00Z"});
        assert_eq!(row(&leaving).1, "Terminating");
    }
}
