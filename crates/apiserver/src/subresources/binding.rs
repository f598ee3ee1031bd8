//! Binding a pod to a node: the one way `spec.nodeName` is set after creation.

use http::StatusCode;
use serde_json::{Value, json};

use crate::kinds::Part;
use crate::managed::Writer;
use crate::rest::{Call, Reply};
use crate::status::{About, ApiError};
use crate::store::Key;
use crate::tree::{is_deleting, meta, meta_mut, meta_text};

/// POST on pods/NAME/binding.
pub(super) async fn create(call: &Call) -> Result<Reply, ApiError> {
    let binding = call.plain_body()?;
    bind(call, &binding).await
}

/// POST on bindings, the older address of the same thing.
pub(super) async fn create_by_collection(call: &Call) -> Result<Reply, ApiError> {
    let binding = call.plain_body()?;
    let pods = call
        .registry
        .find("", "v1", "pods")
        .cloned()
        .ok_or_else(ApiError::unknown_path)?;
    let mut on_pod = call.on_object(&Key::new(&call.path.namespace, meta_text(&binding, "name")));
    on_pod.served = pods;
    bind(&on_pod, &binding).await
}

async fn bind(call: &Call, binding: &Value) -> Result<Reply, ApiError> {
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let kind = binding
        .pointer("/target/kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let about = About {
        group: "",
        resource: "Binding",
    };
    if !matches!(kind, "" | "Node") {
        let error =
            coppice_schema::FieldError::not_supported("target.kind", json!(kind), &[json!("Node"), json!("<empty>")]);
        return Err(ApiError::invalid(about, &call.path.name, &[error]));
    }
    if node.is_empty() {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        return Err(ApiError::new(status, "", "target.name: Required value"));
    }
    let wanted_uid = meta_text(binding, "uid").to_owned();
    let now = crate::ports::format_time(call.core.clock.now());
    let decide = |pod: &Value| bound(call, pod, binding, &node, &wanted_uid, &now);
    call.modify(Part::Other("binding"), &decide, &Writer::untracked(call))
        .await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::json(StatusCode::CREATED, &status))
}

/// The pod after it is bound.
fn bound(
    call: &Call,
    pod: &Value,
    binding: &Value,
    node: &str,
    wanted_uid: &str,
    now: &str,
) -> Result<Value, ApiError> {
    let refuse = |why: String| {
        Err(ApiError::conflict(
            About {
                group: "",
                resource: "pods/binding",
            },
            &call.path.name,
            &why,
        ))
    };
    if !wanted_uid.is_empty() && wanted_uid != meta_text(pod, "uid") {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {}",
            call.key(),
            meta_text(pod, "uid")
        );
        return Err(ApiError::conflict(
            About {
                group: "",
                resource: "pods",
            },
            &call.path.name,
            &why,
        ));
    }
    let name = &call.path.name;
    if is_deleting(pod) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let assigned = pod
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !assigned.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {assigned:?}"));
    }
    if pod
        .pointer("/spec/schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = json!(node);
    if let Some(annotations) = meta(binding, "annotations").and_then(Value::as_object) {
        let mut merged = meta(&pod, "annotations")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        merged.extend(annotations.clone());
        meta_mut(&mut pod).insert("annotations".into(), Value::Object(merged));
    }
    set_scheduled(&mut pod, now);
    Ok(pod)
}

/// Turns the condition PodScheduled to true.
fn set_scheduled(pod: &mut Value, now: &str) {
    if !pod["status"].is_object() {
        pod["status"] = json!({});
    }
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let conditions = pod["status"]["conditions"].as_array_mut().expect("made an array above");
    match conditions.iter_mut().find(|one| one["type"] == "PodScheduled") {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}
