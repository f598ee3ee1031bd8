//! The objects and patches that are sent: a pod of a GPU fleet as an operator creates it (about 4 KB), a node with labels
//! and capacity, a service's endpoints, and status patches in the words of a kubelet. Pure, and the same for every server.

use serde_json::{Value, json};

const TIME: &str = "2026-01-01T00:00:00Z";

/// One worker of a multi-node model server, bound to a node.
pub(crate) fn pod(namespace: &str, name: &str, index: usize) -> Value {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let resources = json!({
        "requests": {"cpu": "32", "memory": "480Gi", "nvidia.com/gpu": "8"},
        "limits": {"cpu": "64", "memory": "960Gi", "nvidia.com/gpu": "8"},
    });
    let probe = |path: &str, period: u32, failures: u32| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": period, "failureThreshold": failures});
    let clique = format!("serving-{}-decode", index / 32);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/name": name,
                "app.kubernetes.io/part-of": "serving",
                "app.kubernetes.io/component": "pcs-podclique",
                "app.kubernetes.io/managed-by": "grove-operator",
                "grove.io/podclique": clique,
                "grove.io/podgang": format!("serving-{}", index / 32),
                "grove.io/pod-index": (index % 32).to_string(),
                "grove.io/pod-template-hash": "7c9d5f8b64",
                "grove.io/podcliqueset-replica-index": (index / 32).to_string(),
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "example.com/model": "llama-405b-instruct-fp8",
            },
            "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": clique,
                "uid": "5e1f7c0a-54b6-4ef3-9a53-3f6c1f0f9a11", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": node_name(index),
            "hostname": name,
            "subdomain": "serving-headless",
            "schedulerName": "coppice-scheduler",
            "serviceAccountName": "serving",
            "terminationGracePeriodSeconds": 120,
            "initContainers": [{
                "name": "wait-for-leader",
                "image": "registry.example.com/serving/init:1.4.2",
                "args": ["--podcliques=serving-leader:1"],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "model-config", "mountPath": "/etc/model", "readOnly": true}],
            }],
            "containers": [{
                "name": "worker",
                "image": "registry.example.com/serving/worker:2026.1.0",
                "command": ["python3", "-m", "serving.worker"],
                "args": ["--model=/models/llama-405b", "--tensor-parallel-size=8", "--pipeline-parallel-size=4",
                    "--kv-transfer=nixl", "--max-num-seqs=512"],
                "env": [
                    field("POD_NAME", "metadata.name"),
                    field("POD_NAMESPACE", "metadata.namespace"),
                    field("POD_IP", "status.podIP"),
                    variable("GROVE_PCS_NAME", "serving"),
                    variable("GROVE_PCLQ_NAME", &clique),
                    variable("GROVE_PCLQ_POD_INDEX", &(index % 32).to_string()),
                    variable("GROVE_HEADLESS_SERVICE", "serving-headless.default.svc.cluster.local"),
                    variable("NCCL_DEBUG", "WARN"),
                    variable("NCCL_SOCKET_IFNAME", "eth0"),
                    variable("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
                ],
                "ports": [
                    {"name": "http", "containerPort": 8000, "protocol": "TCP"},
                    {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
                ],
                "resources": resources,
                "startupProbe": probe("/health", 10, 180),
                "readinessProbe": probe("/ready", 5, 3),
                "livenessProbe": probe("/live", 10, 6),
                "volumeMounts": [
                    {"name": "model-config", "mountPath": "/etc/model", "readOnly": true},
                    {"name": "models", "mountPath": "/models", "readOnly": true},
                    {"name": "shared-memory", "mountPath": "/dev/shm"},
                ],
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
            }],
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}]},
            ]}}},
            "volumes": [
                {"name": "model-config", "configMap": {"name": "serving-model-config"}},
                {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": true}},
                {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            ],
        },
    })
}

/// A GPU node.
pub(crate) fn node(index: usize) -> Value {
    let capacity = json!({"cpu": "192", "memory": "2113563332Ki", "pods": "110", "nvidia.com/gpu": "8",
        "ephemeral-storage": "3748905484Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": TIME, "lastTransitionTime": TIME})
    };
    let name = node_name(index);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "gpu-h100-8",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.count": "8",
                "topology.kubernetes.io/zone": format!("zone-{}", index / 1000),
                "topology.example.com/block": format!("block-{}", index / 200),
                "topology.example.com/rack": format!("rack-{}", index / 20),
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": format!("10.{}.{}.0/24", index / 256, index % 256),
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [{"type": "InternalIP", "address": address(index)}, {"type": "Hostname", "address": name}],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "nodeInfo": {"machineID": "5f0c5f6a3e1d4d1f8a53", "systemUUID": "5f0c5f6a-3e1d", "bootID": "b1d6-4f4d",
                "kernelVersion": "6.12.0", "osImage": "Debian GNU/Linux 13", "containerRuntimeVersion": "containerd://2.1.0",
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64"},
        },
    })
}

/// What a kubelet sends when all containers of the pod run.
pub(crate) fn running(index: usize) -> Value {
    let (host, pod) = (address(index / 20), address(index));
    let types = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let order: Vec<Value> = types.iter().map(|kind| json!({"type": kind})).collect();
    let conditions: Vec<Value> = types.iter().map(|kind| condition(kind, "True")).collect();
    json!({"status": {
        "$setElementOrder/conditions": order,
        "conditions": conditions,
        "containerStatuses": [{
            "name": "worker",
            "image": "registry.example.com/serving/worker:2026.1.0",
            "imageID": "registry.example.com/serving/worker@sha256:0f4d1b9a4c1c57a2f2fd9a4b8d7c6e5f40312c4b5a69788796a5b4c3d2e1f001",
            "containerID": format!("containerd://{index:064x}"),
            "ready": true, "started": true, "restartCount": 0, "lastState": {},
            "state": {"running": {"startedAt": TIME}},
        }],
        "initContainerStatuses": [{
            "name": "wait-for-leader",
            "image": "registry.example.com/serving/init:1.4.2",
            "imageID": "registry.example.com/serving/init@sha256:9d8c7b6a5f4e3d2c1b0a99887766554433221100ffeeddccbbaa99887766aabb",
            "containerID": format!("containerd://{:064x}", index + 1),
            "ready": true, "started": false, "restartCount": 0, "lastState": {},
            "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": TIME, "finishedAt": TIME,
                "containerID": format!("containerd://{:064x}", index + 1)}},
        }],
        "phase": "Running",
        "hostIP": host, "hostIPs": [{"ip": host}],
        "podIP": pod, "podIPs": [{"ip": pod}],
        "startTime": TIME,
    }})
}

/// The endpoints of one replica's service, as every node hears of them.
pub(crate) fn endpoint_slice(namespace: &str, name: &str, index: usize) -> Value {
    let service = format!("serving-{index}");
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generateName": format!("{service}-"),
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "app.kubernetes.io/part-of": "serving",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": service,
                "uid": "0b7d2c7e-98a4-4d0b-8f0e-2d1c53a4f7b2", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}, {"name": "nccl", "port": 29500, "protocol": "TCP"}],
        "endpoints": endpoints(namespace, index, true),
    })
}

/// Four pods behind a service; the first of them is ready or not.
pub(crate) fn endpoints(namespace: &str, index: usize, first_ready: bool) -> Value {
    let endpoint = |number: usize| {
        let (pod, ready) = (4 * index + number, number > 0 || first_ready);
        json!({
            "addresses": [address(pod)],
            "conditions": {"ready": ready, "serving": ready, "terminating": false},
            "nodeName": node_name(pod),
            "zone": "zone-a",
            "targetRef": {
                "kind": "Pod", "namespace": namespace, "name": format!("serving-{index}-decode-{number}"),
                "uid": format!("3c9e1d52-6a0f-4b7c-9d18-{pod:012x}"),
            },
        })
    };
    (0..4).map(endpoint).collect()
}

/// What a kubelet sends when a readiness probe fails.
pub(crate) fn unready() -> Value {
    readiness("False")
}

/// What a kubelet sends when it succeeds again.
pub(crate) fn ready() -> Value {
    readiness("True")
}

fn readiness(status: &str) -> Value {
    json!({"status": {
        "$setElementOrder/conditions": [{"type": "PodReadyToStartContainers"}, {"type": "Initialized"}, {"type": "Ready"},
            {"type": "ContainersReady"}, {"type": "PodScheduled"}],
        "conditions": [condition("Ready", status), condition("ContainersReady", status)],
    }})
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": TIME})
}

fn node_name(index: usize) -> String {
    format!("gpu-node-{:05}", index % 5000)
}

fn address(index: usize) -> String {
    format!("10.{}.{}.{}", index / 65536, index / 256 % 256, index % 256)
}
