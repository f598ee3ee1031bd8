//! The objects that exist in every cluster from the start.

use serde_json::{Value, json};

use crate::core::Core;
use crate::kinds::{API_SERVER_ADDRESS, selectable_values};
use crate::ports::format_time;
use crate::store::{Draft, Expect, Key};
use crate::tree::{meta_mut, meta_text};

/// Namespaces of every cluster.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Writes the initial objects into an empty store.
pub(crate) fn create_initial_objects(core: &Core) {
    for name in NAMESPACES {
        create(core, "", "namespaces", namespace(name));
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1}, "value": value, "description": description,
            "preemptionPolicy": "PreemptLowerPriority"});
        create(core, "scheduling.k8s.io", "priorityclasses", class);
    }
    create(core, "", "services", service_of_the_server());
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

/// Where pods find the API server. Nothing answers at the address: pods are simulated.
fn service_of_the_server() -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": API_SERVER_ADDRESS, "clusterIPs": [API_SERVER_ADDRESS], "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
        "status": {"loadBalancer": {}}})
}

fn create(core: &Core, group: &str, plural: &str, mut object: Value) {
    let registry = core.registry();
    let served = registry
        .find_resource(group, plural)
        .expect("initial objects are of built-in kinds");
    let metadata = meta_mut(&mut object);
    metadata.insert("uid".into(), json!(core.identities.uid()));
    metadata.insert("creationTimestamp".into(), json!(format_time(core.clock.now())));
    let key = Key::new(meta_text(&object, "namespace"), meta_text(&object, "name"));
    let draft = Draft::new(&object, selectable_values(&*served.rules, &object));
    core.store
        .put(&served.id, &key, Expect::Absent, draft)
        .expect("the store is empty at the start");
}
