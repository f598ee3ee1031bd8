//! The rules of services: what is filled in, what may be said, what of it may change. Addresses are in `service_ip`.

use std::collections::BTreeSet;

use coppice_schema::FieldError;
use serde_json::{Value, json};

use super::defaults::set;
use crate::tree::object_mut;

/// Fills in what a service leaves out.
pub(super) fn fill(object: &mut Value) {
    let spec = object_mut(object, "spec");
    let mut value = Value::Object(std::mem::take(spec));
    set(&mut value, "sessionAffinity", json!("None"));
    set(&mut value, "type", json!("ClusterIP"));
    if value["sessionAffinity"] == "ClientIP" {
        set(&mut value, "sessionAffinityConfig", json!({}));
        let config = &mut value["sessionAffinityConfig"];
        set(config, "clientIP", json!({}));
        set(&mut config["clientIP"], "timeoutSeconds", json!(10_800));
    } else if let Some(members) = value.as_object_mut() {
        members.remove("sessionAffinityConfig");
    }
    let kind = value["type"].as_str().unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        set(&mut value, "internalTrafficPolicy", json!("Cluster"));
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(&mut value, "externalTrafficPolicy", json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        set(&mut value, "allocateLoadBalancerNodePorts", json!(true));
    }
    for port in value
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        set(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        if port
            .get("targetPort")
            .is_none_or(|target| target.is_null() || *target == 0 || *target == "")
        {
            port["targetPort"] = number;
        }
    }
    object["spec"] = value;
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Complaints about a service.
pub(super) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let kind = text(object, "/spec/type");
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        let allowed = kinds.map(|kind| json!(kind));
        errors.push(FieldError::not_supported("spec.type", json!(kind), &allowed));
    }
    let headless = text(object, "/spec/clusterIP") == "None";
    let ports: &[Value] = object
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if kind == "ExternalName" && text(object, "/spec/externalName").is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    let selects = selector.is_some_and(|labels| !labels.is_empty());
    let families = text(object, "/spec/ipFamilyPolicy");
    // One that is headless and selects nothing has whatever addresses its maker gives it.
    if families == "RequireDualStack" && (selects || !headless) {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", json!(families), detail));
    }
    validate_ports(ports, errors);
}

fn validate_ports(ports: &[Value], errors: &mut Vec<FieldError>) {
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{at}.port"), json!(number), detail));
        }
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(format!("{at}.name"), ""));
            }
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), json!(name)));
        }
        if !numbers.insert((number, port["protocol"].as_str())) {
            errors.push(FieldError::duplicate(at, port.clone()));
        }
    }
}

/// Complaints about a change of a service: it keeps its address.
pub(super) fn validate_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old) = (text(object, "/spec/clusterIP"), text(old, "/spec/clusterIP"));
    if !old.is_empty() && !new.is_empty() && new != old {
        let detail = "may not change once set";
        errors.push(FieldError::invalid("spec.clusterIPs[0]", json!([new]), detail));
    }
}

/// Warnings about a service.
pub(super) fn warnings(object: &Value) -> Vec<String> {
    let affinity = !matches!(text(object, "/spec/sessionAffinity"), "" | "None");
    if text(object, "/spec/clusterIP") == "None" && affinity {
        return vec!["spec.SessionAffinity is ignored for headless services".to_owned()];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_affinity_are_completed() {
        let filled = |spec: Value| {
            let mut object = json!({"spec": spec});
            fill(&mut object);
            object
        };
        let object = filled(json!({"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}));
        assert_eq!(object["spec"]["ports"][0]["targetPort"], 80);
        let affinity = object["spec"]["sessionAffinityConfig"].clone();
        assert_eq!(affinity, json!({"clientIP": {"timeoutSeconds": 10800}}));
        let object = filled(json!({"sessionAffinityConfig": affinity}));
        assert_eq!(object["spec"].get("sessionAffinityConfig"), None);
    }

    #[test]
    fn ports_are_told_apart_by_name_and_by_number() {
        let errors = |ports: Value| {
            let mut errors = Vec::new();
            let spec = json!({"type": "ClusterIP", "clusterIP": "None", "ports": ports});
            validate(&json!({"spec": spec}), &mut errors);
            errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
        };
        let port = |name: &str, port: i64, protocol: &str| json!({"name": name, "port": port, "protocol": protocol});
        assert_eq!(errors(json!([port("a", 80, "TCP"), port("b", 80, "UDP")])), [""; 0]);
        assert_eq!(
            errors(json!([port("a", 80, "TCP"), port("b", 80, "TCP")])),
            ["spec.ports[1]"]
        );
        assert_eq!(
            errors(json!([port("a", 80, "TCP"), port("a", 81, "TCP")])),
            ["spec.ports[1].name"]
        );
    }
}
