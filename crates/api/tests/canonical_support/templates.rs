//! Templates as they are deployed, for golden identities and for the benchmark.

use serde_json::{Value, json};

/// A pod spec of an inference server with so many containers, and so many variables and mounts in each.
pub(crate) fn inference(containers: usize, variables: usize, mounts: usize) -> Value {
    let containers: Vec<Value> = (0..containers)
        .map(|index| container(index, variables, mounts))
        .collect();
    let volumes: Vec<Value> = (0..mounts)
        .map(|index| match index % 4 {
            0 => json!({"name": format!("volume-{index}"), "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}),
            1 => json!({"name": format!("volume-{index}"), "configMap": {"name": "server-config"}}),
            2 => json!({"name": format!("volume-{index}"), "hostPath": {"path": "/mnt/models", "type": "Directory"}}),
            _ => json!({"name": format!("volume-{index}"), "persistentVolumeClaim": {"claimName": "model-cache"}}),
        })
        .collect();
    json!({
        "containers": containers,
        "volumes": volumes,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 120,
        "serviceAccountName": "inference",
        "nodeSelector": {"node.kubernetes.io/instance-type": "gb200"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    })
}

fn container(index: usize, variables: usize, mounts: usize) -> Value {
    let env: Vec<Value> = (0..variables)
        .map(|variable| match variable % 8 {
            7 => json!({
                "name": format!("POD_FIELD_{variable}"),
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['grove.io/podclique']"}},
            }),
            _ => json!({"name": format!("SERVER_SETTING_{variable}"), "value": format!("some-value-{variable}")}),
        })
        .collect();
    let mounts: Vec<Value> = (0..mounts)
        .rev()
        .map(|mount| json!({"name": format!("volume-{mount}"), "mountPath": format!("/var/data/{mount}"), "readOnly": true}))
        .collect();
    json!({
        "name": format!("container-{index}"),
        "image": format!("registry.example.com/inference/server-{index}:1.4.2"),
        "command": ["python3", "-m", "server"],
        "args": ["--model", "/models/large", "--tensor-parallel-size", "8", "--port", "8000"],
        "env": env,
        "volumeMounts": mounts,
        "ports": [{"name": "http", "containerPort": 8000}, {"name": "metrics", "containerPort": 9090}],
        "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "512Gi"}, "requests": {"cpu": "32", "memory": "256Gi"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "failureThreshold": 60},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    })
}
