//! What the API fills into built-in objects other than pods.

use serde_json::{Map, Value, json};

use super::decoding::rewrite_base64;
use super::pod_defaults::default_pod_spec;
use super::{node, role, service};
use crate::tree::{meta, object_mut};

/// Fills in what an object of a built-in kind leaves out, beyond what its schema says.
pub(super) fn fill(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Service") => service::fill(object),
        ("", "Secret") => secret(object),
        ("", "ConfigMap") => rewrite_base64(object, "binaryData"),
        ("", "Node") => node::fill(object),
        ("", "Namespace") => namespace_label(object),
        ("apps" | "batch", _) | ("", "ReplicationController" | "PodTemplate") => workload(kind, object),
        ("autoscaling", _) => autoscaler(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => role::fill_binding(object),
        ("admissionregistration.k8s.io", _) => webhooks(kind, object),
        ("scheduling.k8s.io", _) => set(object, "preemptionPolicy", json!("PreemptLowerPriority")),
        ("resource.k8s.io", "ResourceClaim") => claim(object.pointer_mut("/spec")),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            claim(object.pointer_mut("/spec/spec"));
            if let Some(spec) = object.get_mut("spec") {
                set(spec, "metadata", json!({}));
            }
        }
        _ => {}
    }
}

/// Sets a member that is absent, null or an empty text.
pub(super) fn set(object: &mut Value, name: &str, value: Value) {
    let Some(members) = object.as_object_mut() else { return };
    if members.get(name).is_none_or(|found| found.is_null() || found == "") {
        members.insert(name.to_owned(), value);
    }
}

fn spec(object: &mut Value) -> &mut Map<String, Value> {
    object_mut(object, "spec")
}

fn secret(object: &mut Value) {
    set(object, "type", json!("Opaque"));
    rewrite_base64(object, "data");
    // What is given as plain text is stored encoded, and wins.
    let Some(plain) = object.as_object_mut().and_then(|members| members.remove("stringData")) else {
        return;
    };
    use base64::Engine as _;
    for (key, value) in plain.as_object().into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        object_mut(object, "data").insert(key.clone(), json!(encoded));
    }
}

fn workload(kind: &str, object: &mut Value) {
    let is_cron = kind == "CronJob";
    let template = if is_cron {
        "/spec/jobTemplate/spec/template/spec"
    } else {
        "/spec/template/spec"
    };
    if let Some(spec) = object.pointer_mut(template) {
        default_pod_spec(spec);
    }
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    let spec = spec(object);
    let mut value = Value::Object(std::mem::take(spec));
    match kind {
        "Deployment" => {
            set(&mut value, "replicas", json!(1));
            set(&mut value, "revisionHistoryLimit", json!(10));
            set(&mut value, "progressDeadlineSeconds", json!(600));
            strategy(
                &mut value,
                "strategy",
                &json!({"maxUnavailable": "25%", "maxSurge": "25%"}),
            );
        }
        "ReplicaSet" => set(&mut value, "replicas", json!(1)),
        "ReplicationController" => {
            set(&mut value, "replicas", json!(1));
            if let Some(labels) = labels {
                set(&mut value, "selector", labels);
            }
        }
        "StatefulSet" => {
            set(&mut value, "replicas", json!(1));
            set(&mut value, "revisionHistoryLimit", json!(10));
            set(&mut value, "podManagementPolicy", json!("OrderedReady"));
            strategy(&mut value, "updateStrategy", &json!({"partition": 0}));
            set(
                &mut value,
                "persistentVolumeClaimRetentionPolicy",
                json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
            );
        }
        "DaemonSet" => {
            set(&mut value, "revisionHistoryLimit", json!(10));
            strategy(
                &mut value,
                "updateStrategy",
                &json!({"maxUnavailable": 1, "maxSurge": 0}),
            );
        }
        "Job" => job(&mut value),
        "CronJob" => {
            set(&mut value, "concurrencyPolicy", json!("Allow"));
            set(&mut value, "suspend", json!(false));
            set(&mut value, "successfulJobsHistoryLimit", json!(3));
            set(&mut value, "failedJobsHistoryLimit", json!(1));
        }
        _ => {}
    }
    if kind != "ControllerRevision" && kind != "PodTemplate" {
        object["spec"] = value;
    } else if let Some(members) = object.as_object_mut() {
        members.remove("spec");
    }
}

fn strategy(spec: &mut Value, name: &str, rolling: &Value) {
    set(spec, name, json!({}));
    set(&mut spec[name], "type", json!("RollingUpdate"));
    if spec[name]["type"] != "RollingUpdate" {
        return;
    }
    set(&mut spec[name], "rollingUpdate", json!({}));
    for (field, value) in rolling.as_object().into_iter().flatten() {
        set(&mut spec[name]["rollingUpdate"], field, value.clone());
    }
}

fn job(spec: &mut Value) {
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        set(spec, "completions", json!(1));
    }
    set(spec, "parallelism", json!(1));
    set(spec, "backoffLimit", json!(6));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    set(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
    set(spec, "manualSelector", json!(false));
}

fn autoscaler(object: &mut Value) {
    let old_version = object.get("apiVersion").and_then(Value::as_str) == Some("autoscaling/v1");
    let spec = spec(object);
    spec.entry("minReplicas").or_insert(json!(1));
    if old_version {
        return;
    }
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        spec.insert("metrics".into(), json!([cpu]));
    }
    if let Some(behaviour) = spec.get_mut("behavior").filter(|behaviour| behaviour.is_object()) {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        scaling_rules(behaviour, "scaleUp", json!([pods, percent]));
        scaling_rules(behaviour, "scaleDown", json!([percent]));
        set(&mut behaviour["scaleUp"], "stabilizationWindowSeconds", json!(0));
    }
}

fn scaling_rules(behaviour: &mut Value, direction: &str, policies: Value) {
    set(behaviour, direction, json!({}));
    set(&mut behaviour[direction], "selectPolicy", json!("Max"));
    set(&mut behaviour[direction], "policies", policies);
}

fn webhooks(kind: &str, object: &mut Value) {
    for webhook in object
        .get_mut("webhooks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        set(webhook, "failurePolicy", json!("Fail"));
        set(webhook, "matchPolicy", json!("Equivalent"));
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", json!(10));
        if kind == "MutatingWebhookConfiguration" {
            set(webhook, "reinvocationPolicy", json!("Never"));
        }
        if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
            set(service, "port", json!(443));
        }
        for rule in webhook
            .get_mut("rules")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            set(rule, "scope", json!("*"));
        }
    }
}

fn claim(spec: Option<&mut Value>) {
    let requests = spec
        .and_then(|spec| spec.pointer_mut("/devices/requests"))
        .and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if request.get("exactly").is_some() {
            exact(&mut request["exactly"]);
        }
        for option in request
            .get_mut("firstAvailable")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            exact(option);
        }
    }
}

fn exact(request: &mut Value) {
    set(request, "allocationMode", json!("ExactCount"));
    if request["allocationMode"] == "ExactCount" {
        set(request, "count", json!(1));
    }
}

/// What the server adds to a new object of a built-in kind.
pub(super) fn prepare_new(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Namespace") => namespace(object),
        ("", "Node") => node::prepare_new(object),
        ("policy", "PodDisruptionBudget") => {
            object["status"] =
                json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        }
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("batch", _) | ("", "ReplicationController") => {
            object["status"] = if kind == "ReplicaSet" || kind == "StatefulSet" || kind == "ReplicationController" {
                json!({"replicas": 0})
            } else {
                json!({})
            };
        }
        ("apps", "DaemonSet") => {
            object["status"] = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
        }
        ("autoscaling", _) => object["status"] = json!({"currentMetrics": null, "desiredReplicas": 0}),
        ("resource.k8s.io", "ResourceClaim") => object["status"] = json!({}),
        ("", "Service") => object["status"] = json!({"loadBalancer": {}}),
        _ => {}
    }
}

/// Namespaces carry their name as a label, so that selectors can find them.
fn namespace_label(object: &mut Value) {
    let Some(name) = meta(object, "name").cloned() else {
        return;
    };
    let mut metadata = object["metadata"].take();
    object_mut(&mut metadata, "labels").insert("kubernetes.io/metadata.name".into(), name);
    object["metadata"] = metadata;
}

fn namespace(object: &mut Value) {
    object["status"] = json!({"phase": "Active"});
    let finalizers = spec(object).entry("finalizers").or_insert(json!([]));
    if let Some(list) = finalizers
        .as_array_mut()
        .filter(|list| !list.contains(&json!("kubernetes")))
    {
        list.push(json!("kubernetes"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(group: &str, kind: &str, mut object: Value) -> Value {
        fill(group, kind, &mut object);
        let once = object.clone();
        fill(group, kind, &mut object);
        assert_eq!(object, once, "filling in twice changes nothing");
        object
    }

    #[test]
    fn deployments_roll() {
        let object = filled(
            "apps",
            "Deployment",
            json!({"spec": {"template": {"spec": {"containers": []}}}}),
        );
        assert_eq!(object["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
        assert_eq!(object["spec"]["replicas"], 1);
        assert_eq!(object["spec"]["template"]["spec"]["restartPolicy"], "Always");
        let object = filled(
            "apps",
            "Deployment",
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        );
        assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn services_and_secrets() {
        let object = filled("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
        assert_eq!(
            object["spec"]["ports"][0],
            json!({"port": 80, "protocol": "TCP", "targetPort": 80})
        );
        let object = filled("", "Secret", json!({"stringData": {"a": "b"}}));
        assert_eq!(object, json!({"type": "Opaque", "data": {"a": "Yg=="}}));
    }

    #[test]
    fn revisions_get_no_spec() {
        assert_eq!(
            filled("apps", "ControllerRevision", json!({"revision": 1})),
            json!({"revision": 1})
        );
    }

    #[test]
    fn new_namespaces_are_active() {
        let mut object = json!({"metadata": {"name": "a"}});
        fill("", "Namespace", &mut object);
        prepare_new("", "Namespace", &mut object);
        assert_eq!(object["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(object["metadata"]["labels"]["kubernetes.io/metadata.name"], "a");
    }
}
