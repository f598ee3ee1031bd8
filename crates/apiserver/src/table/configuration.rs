//! Everything else in tables: namespaces, services, configuration, access, events, leases, claims.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::{
    AGE, Fill, Heading, NAME, age, items, members, name, name_and_age, number, number_at, selector, text, text_at, wide,
};
use crate::tree::meta_text;

const CREATED_AT: Heading = ("Created At", "date", "", 0);

/// The columns of a kind and how to fill them; name and age when nothing better is known.
pub(super) fn layout(group: &str, kind: &str) -> (&'static [Heading], Fill) {
    match (group, kind) {
        ("", "Namespace") => (const { &[NAME, text("Status"), AGE] }, |object, now| {
            vec![
                name(object),
                json!(text_at(object, "/status/phase", "")),
                age(object, now),
            ]
        }),
        ("", "Service") => (SERVICE, service),
        ("", "ConfigMap") => (const { &[NAME, text("Data"), AGE] }, |object, now| {
            vec![
                name(object),
                json!(members(object, "/data") + members(object, "/binaryData")),
                age(object, now),
            ]
        }),
        ("", "Secret") => (const { &[NAME, text("Type"), text("Data"), AGE] }, |object, now| {
            vec![
                name(object),
                json!(text_at(object, "/type", "")),
                json!(members(object, "/data")),
                age(object, now),
            ]
        }),
        ("" | "events.k8s.io", "Event") => (EVENT, event),
        ("coordination.k8s.io", _) => (const { &[NAME, text("Holder"), AGE] }, |object, now| {
            vec![
                name(object),
                json!(text_at(object, "/spec/holderIdentity", "")),
                age(object, now),
            ]
        }),
        ("scheduling.k8s.io", _) => (PRIORITY, priority_class),
        ("apiextensions.k8s.io", _) | ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            (const { &[NAME, CREATED_AT] }, |object, _| {
                vec![name(object), json!(meta_text(object, "creationTimestamp"))]
            })
        }
        ("rbac.authorization.k8s.io", _) => (BINDING, binding),
        ("admissionregistration.k8s.io", _) => (const { &[NAME, number("Webhooks"), AGE] }, |object, now| {
            vec![
                name(object),
                json!(items(object, "/webhooks").count()),
                age(object, now),
            ]
        }),
        ("apps", "ControllerRevision") => (REVISION, revision),
        ("resource.k8s.io", "ResourceClaim") => (const { &[NAME, text("State"), AGE] }, |object, now| {
            vec![name(object), json!(claim_state(object)), age(object, now)]
        }),
        ("resource.k8s.io", "ResourceSlice") => (SLICE, slice),
        _ => (&[NAME, AGE], name_and_age),
    }
}

const SERVICE: &[Heading] = &[
    NAME,
    text("Type"),
    text("Cluster-IP"),
    text("External-IP"),
    text("Port(s)"),
    AGE,
    wide("Selector"),
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(object, "/spec/ports")
        .map(|port| {
            let (number, protocol) = (number_at(port, "/port"), text_at(port, "/protocol", "TCP"));
            match number_at(port, "/nodePort") {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    let kind = text_at(object, "/spec/type", "ClusterIP");
    let external = match kind.as_str() {
        "ExternalName" => text_at(object, "/spec/externalName", "<none>"),
        "LoadBalancer" => text_at(object, "/status/loadBalancer/ingress/0/ip", "<pending>"),
        _ => text_at(object, "/spec/externalIPs/0", "<none>"),
    };
    vec![
        name(object),
        json!(kind),
        json!(text_at(object, "/spec/clusterIP", "<none>")),
        json!(external),
        json!(if ports.is_empty() {
            "<none>".to_owned()
        } else {
            ports.join(",")
        }),
        age(object, now),
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

const EVENT: &[Heading] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    wide("Count"),
    ("Name", "string", "name", 1),
];

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let first_of = |paths: &[&str]| {
        paths
            .iter()
            .map(|path| text_at(object, path, ""))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let event_time = text_at(object, "/eventTime", "");
    let last = first_of(&[
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/eventTime",
    ]);
    let first = first_of(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    let regarding = if object.get("regarding").is_some() {
        "regarding"
    } else {
        "involvedObject"
    };
    let kind = text_at(object, &format!("/{regarding}/kind"), "").to_lowercase();
    let about = match text_at(object, &format!("/{regarding}/name"), "").as_str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = first_of(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    let count = [
        number_at(object, "/series/count"),
        number_at(object, "/count"),
        number_at(object, "/deprecatedCount"),
        1,
    ];
    let message = first_of(&["/message", "/note"]);
    let seen = |time: &str| {
        if time.is_empty() {
            since(&event_time, now)
        } else {
            since(time, now)
        }
    };
    vec![
        json!(seen(&last)),
        json!(text_at(object, "/type", "")),
        json!(text_at(object, "/reason", "")),
        json!(about),
        json!(text_at(object, &format!("/{regarding}/fieldPath"), "")),
        json!(source),
        json!(message.trim()),
        json!(seen(&first)),
        json!(count.into_iter().find(|count| *count > 0)),
        name(object),
    ]
}

const PRIORITY: &[Heading] = &[
    NAME,
    number("Value"),
    ("Global-Default", "boolean", "", 0),
    AGE,
    text("PreemptionPolicy"),
];

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(number_at(object, "/value")),
        json!(object["globalDefault"] == true),
        age(object, now),
        json!(text_at(object, "/preemptionPolicy", "PreemptLowerPriority")),
    ]
}

const BINDING: &[Heading] = &[
    NAME,
    text("Role"),
    AGE,
    wide("Users"),
    wide("Groups"),
    wide("ServiceAccounts"),
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let names: Vec<String> = items(object, "/subjects")
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match text_at(subject, "/namespace", "") {
                namespace if namespace.is_empty() => text_at(subject, "/name", ""),
                namespace => format!("{namespace}/{}", text_at(subject, "/name", "")),
            })
            .collect();
        json!(names.join(", "))
    };
    let role = format!(
        "{}/{}",
        text_at(object, "/roleRef/kind", ""),
        text_at(object, "/roleRef/name", "")
    );
    vec![
        name(object),
        json!(role),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

const REVISION: &[Heading] = &[NAME, text("Controller"), text("Revision"), AGE];

fn revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = items(object, "/metadata/ownerReferences").find(|owner| owner["controller"] == true);
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            format!(
                "{}/{}",
                text_at(owner, "/kind", "").to_lowercase(),
                text_at(owner, "/name", "")
            )
        },
    );
    vec![
        name(object),
        json!(controller),
        json!(number_at(object, "/revision")),
        age(object, now),
    ]
}

fn claim_state(object: &Value) -> String {
    let deleting = crate::tree::is_deleting(object);
    let allocated = object.pointer("/status/allocation").is_some();
    let reserved = allocated && items(object, "/status/reservedFor").next().is_some();
    let states = [
        (deleting, "deleted"),
        (!allocated && !deleting, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let states: Vec<&str> = states
        .into_iter()
        .filter_map(|(is, state)| is.then_some(state))
        .collect();
    states.join(",")
}

const SLICE: &[Heading] = &[NAME, text("Node"), text("Driver"), text("Pool"), AGE];

fn slice(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text_at(object, "/spec/nodeName", "<unset>")),
        json!(text_at(object, "/spec/driver", "")),
        json!(text_at(object, "/spec/pool/name", "")),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_fills_its_columns() {
        let kinds = [
            ("", "Namespace"),
            ("", "Service"),
            ("", "ConfigMap"),
            ("", "Secret"),
            ("", "ServiceAccount"),
            ("", "Event"),
            ("coordination.k8s.io", "Lease"),
            ("scheduling.k8s.io", "PriorityClass"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            ("rbac.authorization.k8s.io", "RoleBinding"),
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
            ("apps", "ControllerRevision"),
            ("resource.k8s.io", "ResourceClaim"),
            ("resource.k8s.io", "ResourceSlice"),
            ("x", "Y"),
        ];
        for (group, kind) in kinds {
            let (columns, fill) = layout(group, kind);
            assert_eq!(
                fill(&json!({"metadata": {"name": "a"}}), Timestamp::UNIX_EPOCH).len(),
                columns.len(),
                "{kind}"
            );
        }
    }

    #[test]
    fn services_show_their_ports() {
        let object = json!({"spec": {"ports": [{"port": 80}, {"port": 81, "nodePort": 30000, "protocol": "UDP"}]}});
        assert_eq!(service(&object, Timestamp::UNIX_EPOCH)[4], "80/TCP,81:30000/UDP");
    }
}
