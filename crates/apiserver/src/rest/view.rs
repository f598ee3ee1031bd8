//! Objects as one version of a resource shows them.
//!
//! The store holds each object once. Another version of a custom resource differs only in `apiVersion` (there is no
//! conversion beyond that); events have two shapes, one per group, and autoscalers one per version.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::kinds::autoscaler_versions;
use crate::registry::Served;
use crate::store::Object;

/// The built-in group with two versions of one kind.
const AUTOSCALING: &str = "autoscaling";

/// Whether objects must be changed to be shown.
pub(crate) fn is_storage_view(served: &Served) -> bool {
    *served.storage_api_version == *served.api_version()
}

/// A stored object as this resource shows it.
pub(crate) fn shown(served: &Served, object: &Object) -> Bytes {
    if is_storage_view(served) && object.revision() >= served.rules.defaults_changed_at() {
        return object.json().into();
    }
    let mut value = object.value();
    to_view(served, &mut value);
    serde_json::to_vec(&value).expect("trees always serialise").into()
}

/// A stored tree as this resource shows it.
pub(crate) fn shown_value(served: &Served, object: &Object) -> Value {
    let mut value = object.value();
    to_view(served, &mut value);
    value
}

/// Turns a stored tree into this resource's view.
pub(crate) fn to_view(served: &Served, value: &mut Value) {
    let revision = crate::tree::meta_text(value, "resourceVersion")
        .parse::<u64>()
        .unwrap_or(u64::MAX);
    if revision < served.rules.defaults_changed_at() {
        served.rules.default(value);
    }
    if is_storage_view(served) {
        return;
    }
    if &*served.group == "events.k8s.io" {
        rename(value, &TO_EVENTS_GROUP);
        drop_empty_reporter(value);
    }
    if &*served.group == AUTOSCALING {
        autoscaler_versions::to_v1(value);
    }
    value["apiVersion"] = json!(served.api_version());
}

/// Turns a tree that a client sent for this resource into what is stored.
pub(crate) fn to_storage(served: &Served, value: &mut Value) {
    if is_storage_view(served) {
        return;
    }
    if &*served.group == "events.k8s.io" {
        let back: Vec<(&str, &str)> = TO_EVENTS_GROUP.iter().map(|(core, group)| (*group, *core)).collect();
        rename(value, &back);
        restore_source(value);
    }
    if &*served.group == AUTOSCALING {
        autoscaler_versions::to_v2(value);
    }
    value["apiVersion"] = json!(&*served.storage_api_version);
}

const TO_EVENTS_GROUP: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

fn rename(value: &mut Value, names: &[(&str, &str)]) {
    let Some(members) = value.as_object_mut() else { return };
    let mut moved = Map::new();
    for (from, to) in names {
        if let Some(member) = members.remove(*from) {
            moved.insert((*to).to_owned(), member);
        }
    }
    members.extend(moved);
}

/// The new group leaves out a reporter that is not known.
fn drop_empty_reporter(value: &mut Value) {
    let Some(members) = value.as_object_mut() else { return };
    members.retain(|name, value| !matches!(name.as_str(), "reportingController" | "reportingInstance") || *value != "");
}

/// Events of the new group name their reporter; lists of core events print the old source.
fn restore_source(value: &mut Value) {
    if value.get("source").is_none() {
        value["source"] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Registry, builtin_resources};

    #[test]
    fn events_change_shape_between_their_groups() {
        let registry = Registry::new(builtin_resources());
        let served = registry.find("events.k8s.io", "v1", "events").unwrap();
        let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod"}, "note": "hello", "reportingController": "c"});
        let sent = event.clone();
        to_storage(served, &mut event);
        assert_eq!(event["apiVersion"], "v1");
        assert_eq!(event["involvedObject"]["kind"], "Pod");
        assert_eq!(event["message"], "hello");
        to_view(served, &mut event);
        event.as_object_mut().unwrap().remove("deprecatedSource");
        assert_eq!(event, sent);
    }
}
