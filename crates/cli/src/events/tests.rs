//! Events of a set, against golden files.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::golden;
use crate::view::events::{EventsView, build, text};
use crate::view::text::Style;

const NOW: &str = "2026-01-01T12:00:00Z";

fn event(severity: &str, reason: &str, object: (&str, &str), message: &str, more: &Value) -> Event {
    let (kind, name) = object;
    let mut event = json!({"metadata": {"name": "e"}, "type": severity, "reason": reason, "message": message,
        "involvedObject": {"kind": kind, "name": name, "namespace": "serving", "uid": format!("uid-{name}")}});
    json_patch::merge(&mut event, more);
    serde_json::from_value(event).expect("a valid event")
}

fn counted(count: i32, first: &str, last: &str) -> Value {
    json!({"count": count, "firstTimestamp": format!("2026-01-01T{first}Z"), "lastTimestamp": format!("2026-01-01T{last}Z")})
}

fn events() -> Vec<Event> {
    let gang = ("PodGang", "llm-0");
    vec![
        event(
            "Normal",
            "Scheduled",
            ("Pod", "llm-0-router-a"),
            "on n1",
            &counted(1, "11:00:00", "11:00:00"),
        ),
        event(
            "Normal",
            "Scheduled",
            ("Pod", "llm-0-router-b"),
            "on n2",
            &counted(1, "11:00:05", "11:00:05"),
        ),
        event(
            "Warning",
            "FailedScheduling",
            gang,
            "no rack has 12 GPUs",
            &counted(3, "10:00:00", "11:59:30"),
        ),
        // Another process told the same.
        event(
            "Warning",
            "FailedScheduling",
            gang,
            "no rack has 12 GPUs",
            &counted(2, "09:00:00", "11:00:00"),
        ),
        // The newer way of telling.
        event(
            "Warning",
            "BackOff",
            ("Pod", "llm-0-router-a"),
            "restarting\nfailed container",
            &json!({"eventTime": "2026-01-01T11:58:00.000000Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-01T11:59:50.000000Z"}}),
        ),
        event(
            "Normal",
            "Created",
            ("PodClique", "other"),
            "of another set",
            &counted(1, "11:59:59", "11:59:59"),
        ),
    ]
}

fn view(owned: Option<&[&str]>) -> EventsView {
    let owned: Option<BTreeSet<String>> = owned.map(|names| names.iter().map(|name| format!("uid-{name}")).collect());
    let set = owned.is_some().then_some("llm");
    build::view("serving", set, build::entries(&events(), owned.as_ref()))
}

fn drawn(view: &EventsView, all: bool) -> String {
    let style = Style {
        terminal: false,
        pods: all,
    };
    text::draw(view, style, NOW.parse::<Timestamp>().expect("a time"))
}

#[test]
fn warnings_come_first_and_the_same_is_counted_together() {
    let ours = view(Some(&["llm", "llm-0", "llm-0-router-a", "llm-0-router-b"]));
    golden::check("events/golden/set.txt", &drawn(&ours, false));
    golden::check("events/golden/set-all.txt", &drawn(&ours, true));
    let json = serde_json::to_string_pretty(&ours).expect("it can be written");
    golden::check("events/golden/set.json", &(json + "\n"));
    golden::check("events/golden/namespace.txt", &drawn(&view(None), false));
}

#[test]
fn silence_is_said() {
    assert!(drawn(&view(Some(&[])), false).starts_with("No events of PodCliqueSet serving/llm: "));
    let quiet = view(Some(&["llm-0-router-b"]));
    assert!(drawn(&quiet, false).starts_with("No warnings of PodCliqueSet serving/llm\n"));
}

#[test]
fn what_happens_now_is_a_line() {
    let entries = build::entries(&events()[2..3], None);
    assert_eq!(
        text::line(&entries[0]),
        "11:59:30  Warning  FailedScheduling  podgang/llm-0  no rack has 12 GPUs\n"
    );
}
