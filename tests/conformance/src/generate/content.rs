//! The contents of generated objects: metadata, and the fields of all built-in kinds but the pod.

use serde_json::{Map, Value, json};

use super::dice::Dice;

/// Sets a field of a map in so many of a hundred cases; its value is made only then.
macro_rules! maybe {
    ($dice:ident, $map:ident, $percent:expr, $key:expr, $value:expr) => {
        if $dice.chance($percent) {
            let value = $value;
            $map.insert($key.to_owned(), serde_json::Value::from(value));
        }
    };
}
pub(super) use maybe;

/// Labels, annotations, finalizers and owners; empty more often than not.
pub(super) fn metadata(dice: &mut Dice) -> Map<String, Value> {
    let mut metadata = Map::new();
    maybe!(dice, metadata, 40, "labels", map(dice, &["app", "tier"], &["a", "b"]));
    maybe!(
        dice,
        metadata,
        25,
        "annotations",
        map(dice, &["note", "example.com/why"], &["x", "y", ""])
    );
    maybe!(
        dice,
        metadata,
        8,
        "finalizers",
        json!(dice.some(&["example.com/hold", "example.com/more"]))
    );
    maybe!(dice, metadata, 8, "ownerReferences", {
        let owners = [
            ("a", "11111111-1111-4111-8111-111111111111"),
            ("b", "22222222-2222-4222-8222-222222222222"),
        ];
        let controller = dice.one(&[Value::Null, json!(true), json!(false)]);
        let owners = dice.some(&owners).into_iter().map(|(name, uid)| {
            let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
            if !controller.is_null() {
                owner["controller"] = controller.clone();
            }
            owner
        });
        Value::Array(owners.collect())
    });
    metadata
}

/// Some of the keys, each with one of the values.
pub(super) fn map(dice: &mut Dice, keys: &[&str], values: &[&str]) -> Value {
    let keys = dice.some(keys);
    Value::Object(
        keys.into_iter()
            .map(|key| (key.to_owned(), json!(dice.one(values))))
            .collect(),
    )
}

pub(super) fn config_map(dice: &mut Dice, _: bool) -> Value {
    let mut object = Map::new();
    maybe!(dice, object, 80, "data", map(dice, &["x", "y", "z"], &["1", "2", ""]));
    maybe!(dice, object, 10, "binaryData", map(dice, &["p", "q"], &["AAE=", ""]));
    maybe!(dice, object, 4, "immutable", dice.chance(50));
    Value::Object(object)
}

pub(super) fn secret(dice: &mut Dice, _: bool) -> Value {
    let mut object = Map::new();
    maybe!(dice, object, 60, "data", map(dice, &["x", "y"], &["AAE=", "", "eA=="]));
    maybe!(dice, object, 30, "stringData", map(dice, &["y", "z"], &["plain", ""]));
    maybe!(
        dice,
        object,
        15,
        "type",
        dice.one(&["Opaque", "example.com/mine", "kubernetes.io/tls"])
    );
    maybe!(dice, object, 4, "immutable", dice.chance(50));
    Value::Object(object)
}

pub(super) fn service(dice: &mut Dice, complete: bool) -> Value {
    let mut spec = Map::new();
    let ports = [
        json!({"name": "http", "port": 80}),
        json!({"name": "grpc", "port": 90, "targetPort": "grpc"}),
        json!({"name": "dns", "port": 80, "protocol": "UDP", "targetPort": 5353}),
    ];
    maybe!(
        dice,
        spec,
        if complete { 95 } else { 50 },
        "ports",
        json!(dice.some(&ports))
    );
    // Whether an address is given out is not what is compared here.
    maybe!(dice, spec, 100, "clusterIP", "None");
    // Without a selector it would have to be for two address families, on a cluster that has one.
    maybe!(dice, spec, 100, "selector", json!({"app": dice.one(&["a", "b"])}));
    maybe!(dice, spec, 10, "publishNotReadyAddresses", dice.chance(50));
    maybe!(dice, spec, 10, "sessionAffinity", dice.one(&["ClientIP", "None"]));
    json!({"spec": spec})
}

pub(super) fn service_account(dice: &mut Dice, _: bool) -> Value {
    let mut object = Map::new();
    maybe!(dice, object, 40, "automountServiceAccountToken", dice.chance(50));
    maybe!(
        dice,
        object,
        40,
        "imagePullSecrets",
        json!(dice.some(&[json!({"name": "x"}), json!({"name": "y"})]))
    );
    maybe!(
        dice,
        object,
        30,
        "secrets",
        json!(dice.some(&[json!({"name": "x"}), json!({"name": "y"})]))
    );
    Value::Object(object)
}

pub(super) fn lease(dice: &mut Dice, _: bool) -> Value {
    let mut spec = Map::new();
    maybe!(dice, spec, 60, "holderIdentity", dice.one(&["one", "two", ""]));
    maybe!(dice, spec, 50, "leaseDurationSeconds", dice.one(&[15, 30, 0]));
    maybe!(dice, spec, 40, "leaseTransitions", dice.one(&[0, 1, -1]));
    maybe!(
        dice,
        spec,
        40,
        "renewTime",
        dice.one(&["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.5Z"])
    );
    json!({"spec": spec})
}

pub(super) fn role(dice: &mut Dice, _: bool) -> Value {
    let rules = [
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}),
        json!({"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["*"], "resourceNames": ["x"]}),
        json!({"apiGroups": [""], "resources": ["pods"]}),
    ];
    // An empty list is stored as none.
    json!({"rules": [dice.one(&rules), dice.one(&rules)]})
}

pub(super) fn role_binding(dice: &mut Dice, complete: bool) -> Value {
    let mut object = Map::new();
    let subjects = [
        json!({"kind": "ServiceAccount", "name": "x", "namespace": "default"}),
        json!({"kind": "User", "name": "u"}),
        json!({"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}),
    ];
    maybe!(dice, object, 60, "subjects", json!(dice.some(&subjects)));
    maybe!(dice, object, if complete { 95 } else { 15 }, "roleRef", {
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": dice.one(&["a", "a", "a", "b"])})
    });
    Value::Object(object)
}

pub(super) fn autoscaler(dice: &mut Dice, complete: bool) -> Value {
    let mut spec = Map::new();
    maybe!(dice, spec, if complete { 95 } else { 15 }, "scaleTargetRef", {
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": dice.one(&["x", "y"])})
    });
    maybe!(
        dice,
        spec,
        if complete { 95 } else { 30 },
        "maxReplicas",
        dice.one(&[3, 5, 5, 0])
    );
    maybe!(dice, spec, 50, "minReplicas", dice.one(&[1, 2, 4]));
    let metrics = [
        json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}),
        json!({"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1000m"}}}),
    ];
    maybe!(dice, spec, 30, "metrics", json!(dice.some(&metrics)));
    maybe!(
        dice,
        spec,
        10,
        "behavior",
        json!({"scaleDown": {"stabilizationWindowSeconds": dice.one(&[0, 60])}})
    );
    json!({"spec": spec})
}

pub(super) fn autoscaler_status(dice: &mut Dice) -> Value {
    let mut status = Map::new();
    maybe!(dice, status, 80, "currentReplicas", dice.one(&[1, 2]));
    maybe!(dice, status, 80, "desiredReplicas", dice.one(&[1, 2]));
    maybe!(
        dice,
        status,
        30,
        "conditions",
        conditions(dice, &["AbleToScale", "ScalingActive"])
    );
    Value::Object(status)
}

pub(super) fn disruption_budget(dice: &mut Dice, _: bool) -> Value {
    let mut spec = Map::new();
    let amounts = [json!(1), json!("50%"), json!("abc"), json!(0)];
    maybe!(dice, spec, 50, "minAvailable", dice.one(&amounts));
    maybe!(dice, spec, 20, "maxUnavailable", dice.one(&amounts));
    maybe!(
        dice,
        spec,
        50,
        "selector",
        json!({"matchLabels": map(dice, &["app", "tier"], &["a", "b"])})
    );
    maybe!(
        dice,
        spec,
        10,
        "unhealthyPodEvictionPolicy",
        dice.one(&["AlwaysAllow", "IfHealthyBudget"])
    );
    json!({"spec": spec})
}

pub(super) fn disruption_budget_status(dice: &mut Dice) -> Value {
    let mut status = Map::new();
    for key in ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"] {
        maybe!(dice, status, 90, key, dice.one(&[0, 1, 2]));
    }
    maybe!(dice, status, 20, "observedGeneration", dice.one(&[1, 2]));
    Value::Object(status)
}

pub(super) fn controller_revision(dice: &mut Dice, complete: bool) -> Value {
    let mut object = Map::new();
    maybe!(
        dice,
        object,
        if complete { 80 } else { 30 },
        "data",
        json!({"spec": {"size": dice.one(&[1, 1, 2])}})
    );
    maybe!(
        dice,
        object,
        if complete { 95 } else { 40 },
        "revision",
        dice.one(&[1, 2, 3])
    );
    Value::Object(object)
}

pub(super) fn priority_class(dice: &mut Dice, complete: bool) -> Value {
    let mut object = Map::new();
    maybe!(
        dice,
        object,
        if complete { 95 } else { 30 },
        "value",
        dice.one(&[10, 10, 10, 20])
    );
    maybe!(dice, object, 30, "description", dice.one(&["one", "two"]));
    maybe!(
        dice,
        object,
        20,
        "preemptionPolicy",
        dice.one(&["Never", "PreemptLowerPriority"])
    );
    Value::Object(object)
}

pub(super) fn node(dice: &mut Dice, _: bool) -> Value {
    let mut spec = Map::new();
    let taints = [
        json!({"key": "gpu", "effect": "NoSchedule"}),
        json!({"key": "gpu", "effect": "NoExecute", "value": "yes"}),
        json!({"key": "bad", "effect": "Sometimes"}),
    ];
    let known = if dice.chance(10) { 3 } else { 2 };
    maybe!(dice, spec, 30, "taints", json!(dice.some(&taints[..known])));
    maybe!(dice, spec, 30, "unschedulable", dice.chance(50));
    maybe!(dice, spec, 15, "podCIDR", "10.1.0.0/24");
    maybe!(dice, spec, 10, "providerID", dice.one(&["one", "two"]));
    json!({"spec": spec})
}

pub(super) fn node_status(dice: &mut Dice) -> Value {
    let mut status = Map::new();
    maybe!(
        dice,
        status,
        60,
        "capacity",
        map(dice, &["cpu", "memory", "nvidia.com/gpu"], &["4", "8"])
    );
    maybe!(
        dice,
        status,
        60,
        "allocatable",
        json!({"cpu": dice.one(&["4", "3000m"]), "memory": "2Gi"})
    );
    maybe!(
        dice,
        status,
        60,
        "conditions",
        conditions(dice, &["Ready", "MemoryPressure"])
    );
    maybe!(
        dice,
        status,
        30,
        "addresses",
        json!([{"type": "InternalIP", "address": dice.one(&["10.0.0.1", "10.0.0.2"])}])
    );
    maybe!(
        dice,
        status,
        20,
        "nodeInfo",
        json!({"kubeletVersion": "v1.36.3", "architecture": "arm64"})
    );
    Value::Object(status)
}

pub(super) fn claim(dice: &mut Dice, complete: bool) -> Value {
    let mut spec = Map::new();
    maybe!(dice, spec, if complete { 95 } else { 30 }, "devices", {
        let count = dice.one(&[1, 1, 1, 2]);
        json!({"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": count}}]})
    });
    json!({"spec": spec})
}

pub(super) fn claim_template(dice: &mut Dice, complete: bool) -> Value {
    json!({"spec": claim(dice, complete)})
}

pub(super) fn event(dice: &mut Dice, complete: bool) -> Value {
    let mut object = Map::new();
    maybe!(dice, object, if complete { 95 } else { 20 }, "involvedObject", {
        json!({"kind": "Pod", "name": dice.one(&["p", "q"]), "namespace": "$NS", "apiVersion": "v1"})
    });
    maybe!(dice, object, 60, "reason", dice.one(&["Started", "Killed"]));
    maybe!(dice, object, 60, "message", dice.one(&["it is so", ""]));
    maybe!(dice, object, 60, "type", dice.one(&["Normal", "Warning"]));
    maybe!(dice, object, 40, "count", dice.one(&[1, 2]));
    maybe!(
        dice,
        object,
        40,
        "source",
        json!({"component": dice.one(&["one", "two"])})
    );
    maybe!(dice, object, 20, "lastTimestamp", "2026-01-01T00:00:00Z");
    Value::Object(object)
}

/// Conditions of some of these types.
pub(super) fn conditions(dice: &mut Dice, types: &[&str]) -> Value {
    let types = dice.some(types);
    let conditions = types.into_iter().map(|name| {
        let status = dice.one(&["True", "False", "Unknown"]);
        json!({"type": name, "status": status, "reason": "Because", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    Value::Array(conditions.collect())
}
