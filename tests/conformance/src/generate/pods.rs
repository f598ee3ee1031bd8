//! The contents of generated pods.

use serde_json::{Map, Value, json};

use super::content::{conditions, map, maybe};
use super::dice::Dice;

/// A pod's `spec`, with at least one container when it must be complete.
pub(super) fn pod(dice: &mut Dice, complete: bool) -> Value {
    let mut spec = Map::new();
    maybe!(dice, spec, if complete { 98 } else { 35 }, "containers", {
        let mut names = dice.some(&["a", "b"]);
        if complete && names.is_empty() {
            names.push("a");
        }
        Value::Array(names.into_iter().map(|name| container(dice, name, complete)).collect())
    });
    maybe!(dice, spec, 8, "initContainers", json!([container(dice, "i", complete)]));
    maybe!(
        dice,
        spec,
        12,
        "nodeSelector",
        map(dice, &["disk", "zone"], &["x", "y"])
    );
    maybe!(
        dice,
        spec,
        15,
        "tolerations",
        json!(dice.some(&[
            json!({"key": "gpu", "operator": "Exists"}),
            json!({"key": "k", "value": "v", "effect": "NoSchedule"}),
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}),
        ]))
    );
    maybe!(
        dice,
        spec,
        12,
        "volumes",
        json!(dice.some(&[
            json!({"name": "v", "emptyDir": {}}),
            json!({"name": "c", "configMap": {"name": "x"}}),
            json!({"name": "s", "secret": {"secretName": "x"}}),
            json!({"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
        ]))
    );
    maybe!(
        dice,
        spec,
        10,
        "schedulingGates",
        json!(dice.some(&[json!({"name": "example.com/wait"}), json!({"name": "example.com/more"})]))
    );
    maybe!(
        dice,
        spec,
        10,
        "restartPolicy",
        dice.one(&["Always", "Never", "OnFailure", "Sometimes"])
    );
    maybe!(dice, spec, 8, "terminationGracePeriodSeconds", dice.one(&[0, 1, 60]));
    maybe!(dice, spec, 8, "activeDeadlineSeconds", dice.one(&[10, 20]));
    maybe!(dice, spec, 15, "nodeName", dice.one(&["n1", "n1", "n2"]));
    maybe!(dice, spec, 8, "hostname", dice.one(&["host", "Bad_Host"]));
    maybe!(dice, spec, 8, "subdomain", "sub");
    maybe!(
        dice,
        spec,
        6,
        "securityContext",
        json!({"runAsNonRoot": true, "fsGroup": dice.one(&[1, 2])})
    );
    maybe!(
        dice,
        spec,
        6,
        "imagePullSecrets",
        json!(dice.some(&[json!({"name": "x"}), json!({"name": "y"})]))
    );
    maybe!(
        dice,
        spec,
        6,
        "readinessGates",
        json!([{"conditionType": "example.com/ok"}])
    );
    maybe!(dice, spec, 6, "hostNetwork", dice.chance(50));
    maybe!(
        dice,
        spec,
        6,
        "dnsPolicy",
        dice.one(&["Default", "ClusterFirst", "Odd"])
    );
    maybe!(
        dice,
        spec,
        6,
        "resourceClaims",
        json!([{"name": "gpu", "resourceClaimName": "x"}])
    );
    maybe!(
        dice,
        spec,
        6,
        "topologySpreadConstraints",
        json!([
            {"maxSkew": dice.one(&[1, 0]), "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}
        ])
    );
    maybe!(
        dice,
        spec,
        8,
        "affinity",
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": dice.one(&["kubernetes.io/hostname", "zone"]), "labelSelector": {"matchLabels": {"app": "a"}}}
        ]}})
    );
    json!({"spec": spec})
}

fn container(dice: &mut Dice, name: &str, complete: bool) -> Value {
    let mut container = Map::from_iter([("name".to_owned(), json!(name))]);
    maybe!(
        dice,
        container,
        if complete { 97 } else { 50 },
        "image",
        dice.one(&["a:1", "a:2", "b", "b:latest"])
    );
    maybe!(dice, container, 8, "command", json!(dice.some(&["sh", "-c"])));
    let value = dice.one(&["1", "2"]);
    maybe!(
        dice,
        container,
        20,
        "env",
        json!(dice.some(&[
            json!({"name": "A", "value": value}),
            json!({"name": "B"}),
            json!({"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        ]))
    );
    maybe!(
        dice,
        container,
        15,
        "ports",
        json!(dice.some(&[
            json!({"containerPort": 80}),
            json!({"containerPort": 80, "protocol": "UDP"}),
            json!({"containerPort": 90, "name": "http"}),
        ]))
    );
    maybe!(
        dice,
        container,
        20,
        "resources",
        dice.one(&[
            json!({"requests": {"cpu": "100m"}}),
            json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
            json!({"limits": {"nvidia.com/gpu": 1}}),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            json!({"requests": {"memory": "1024Mi", "cpu": 0.5}}),
        ])
    );
    maybe!(
        dice,
        container,
        8,
        "volumeMounts",
        json!([{"name": dice.one(&["v", "absent"]), "mountPath": "/v"}])
    );
    maybe!(
        dice,
        container,
        8,
        "imagePullPolicy",
        dice.one(&["Always", "IfNotPresent", "Odd"])
    );
    maybe!(
        dice,
        container,
        6,
        "livenessProbe",
        dice.one(&[
            json!({"httpGet": {"path": "/", "port": 80}}),
            json!({"tcpSocket": {"port": "http"}, "periodSeconds": 3}),
            json!({"exec": {"command": ["true"]}, "failureThreshold": 0}),
        ])
    );
    maybe!(
        dice,
        container,
        6,
        "securityContext",
        json!({"allowPrivilegeEscalation": dice.chance(50), "capabilities": {"drop": ["ALL"]}})
    );
    Value::Object(container)
}

/// A pod's status, as a kubelet reports it.
pub(super) fn pod_status(dice: &mut Dice) -> Value {
    let mut status = Map::new();
    maybe!(
        dice,
        status,
        50,
        "phase",
        dice.one(&["Pending", "Running", "Failed", "Succeeded"])
    );
    maybe!(
        dice,
        status,
        50,
        "conditions",
        conditions(dice, &["Ready", "PodScheduled", "ContainersReady"])
    );
    maybe!(dice, status, 20, "reason", dice.one(&["Evicted", "Lost"]));
    maybe!(dice, status, 20, "message", "something");
    maybe!(dice, status, 20, "startTime", "2026-01-01T00:00:00Z");
    maybe!(
        dice,
        status,
        30,
        "podIPs",
        json!([{"ip": dice.one(&["10.1.1.1", "10.1.1.2"])}])
    );
    maybe!(dice, status, 20, "podIP", "10.1.1.1");
    maybe!(
        dice,
        status,
        30,
        "containerStatuses",
        json!([{
            "name": "a", "image": "a:1", "imageID": "", "ready": dice.chance(50), "restartCount": dice.one(&[0, 1]),
            "state": dice.one(&[json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), json!({"waiting": {"reason": "CrashLoopBackOff"}})]),
        }])
    );
    Value::Object(status)
}
