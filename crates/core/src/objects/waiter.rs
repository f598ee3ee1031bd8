//! The init container that holds a pod back until the cliques before it are ready.
//!
//! It runs after the user's own init containers, meets the restricted pod security standard, and reads pods with a
//! projected token of the pod's own service account that expires. Requests equal limits, so it never changes the
//! quality of service of a pod whose own containers are guaranteed.

use coppice_api::names::{environment, labels};
use serde_json::{Map, Value, json};

use crate::layout::Parent;
use crate::settings::Settings;

/// Adds the waiting container and its two volumes to a pod specification.
pub(crate) fn add(spec: &mut Map<String, Value>, settings: &Settings, parents: &[Parent]) {
    let arguments: Vec<String> = parents
        .iter()
        .map(|parent| environment::waiter_argument(&parent.clique, parent.minimum))
        .collect();
    let resources = json!({"cpu": "50m", "memory": "64Mi"});
    push(
        spec,
        "initContainers",
        json!({
            "name": environment::WAITER_CONTAINER,
            "image": settings.waiter_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/coppice", "initc"],
            "args": arguments,
            "resources": {"requests": resources, "limits": resources},
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {"name": environment::POD_INFO_VOLUME, "mountPath": environment::POD_INFO_PATH, "readOnly": true},
                {"name": environment::TOKEN_VOLUME, "mountPath": environment::TOKEN_PATH, "readOnly": true},
            ],
        }),
    );
    let from_field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    push(
        spec,
        "volumes",
        json!({"name": environment::POD_INFO_VOLUME, "downwardAPI": {"items": [
            from_field(environment::POD_INFO_NAMESPACE_FILE, "metadata.namespace"),
            from_field(environment::POD_INFO_GANG_FILE, &format!("metadata.labels['{}']", labels::POD_GANG)),
        ]}}),
    );
    push(
        spec,
        "volumes",
        json!({"name": environment::TOKEN_VOLUME, "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [from_field("namespace", "metadata.namespace")]}},
        ]}}),
    );
}

fn push(spec: &mut Map<String, Value>, list: &str, item: Value) {
    match spec.get_mut(list) {
        Some(Value::Array(items)) => items.push(item),
        _ => drop(spec.insert(list.to_owned(), Value::Array(vec![item]))),
    }
}
