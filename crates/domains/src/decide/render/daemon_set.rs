//! The DaemonSet whose pods run one `nvidia-imex` on each node of a domain.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::RenderSettings;
use crate::api::{ComputeDomain, names};

/// Annotation with a hash of the pod template: tells whether it is current without comparing what the server filled in.
pub const TEMPLATE_HASH: &str = "compute-domains.coppice.dev/template-hash";

/// The DaemonSet of a domain. No node matches until a kubelet plugin labels one.
pub fn daemon_set(domain: &ComputeDomain, settings: &RenderSettings) -> Value {
    let template = pod_template(domain.uid(), settings);
    let hash: String = Sha256::digest(template.to_string())[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "namespace": settings.namespace,
            "name": names::daemon_set(domain.uid()),
            "finalizers": [names::FINALIZER],
            "labels": {names::DOMAIN_LABEL: domain.uid()},
            "annotations": {TEMPLATE_HASH: hash},
        },
        "spec": {
            "selector": {"matchLabels": {names::DOMAIN_LABEL: domain.uid()}},
            "template": template,
        },
    })
}

fn pod_template(domain_uid: &str, settings: &RenderSettings) -> Value {
    let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
    let tolerations = effects.map(|effect| json!({"operator": "Exists", "effect": effect}));
    let mut spec = json!({
        "serviceAccountName": names::DAEMON_SERVICE_ACCOUNT,
        "nodeSelector": {names::DOMAIN_LABEL: domain_uid},
        // Names of the domain are in the hosts file; without this each one is tried with every search domain.
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "tolerations": tolerations,
        "resourceClaims": [{
            "name": names::DAEMON_CONTAINER,
            "resourceClaimTemplateName": names::daemon_set(domain_uid),
        }],
        "containers": [container(settings)],
    });
    if !settings.image_pull_secrets.is_empty() {
        spec["imagePullSecrets"] = settings
            .image_pull_secrets
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
    }
    if !settings.priority_class.is_empty() {
        spec["priorityClassName"] = json!(settings.priority_class);
    }
    json!({
        "metadata": {"labels": {
            names::DOMAIN_LABEL: domain_uid,
            names::MANAGED_ROWS_LABEL: names::MANAGED_ROWS,
        }},
        "spec": spec,
    })
}

fn container(settings: &RenderSettings) -> Value {
    let command = |verb: &str| json!(["compute-domain-daemon", "-v", "$(LOG_VERBOSITY)", verb]);
    let probe = |period: u32, failures: u32| {
        json!({
            "exec": {"command": command("check")},
            "periodSeconds": period,
            "timeoutSeconds": 10,
            "failureThreshold": failures,
            "successThreshold": 1,
        })
    };
    let mut resources = json!({"claims": [{"name": names::DAEMON_CONTAINER}]});
    let (cpu, memory) = &settings.requests;
    for (resource, quantity) in [("cpu", cpu), ("memory", memory)] {
        if !quantity.is_empty() {
            resources["requests"][resource] = json!(quantity);
        }
    }
    json!({
        "name": names::DAEMON_CONTAINER,
        "image": settings.image,
        "command": command("run"),
        "env": environment(settings),
        "resources": resources,
        // Every second for up to twenty minutes: a daemon that is slow to start is not killed for it.
        "startupProbe": probe(1, 1_200),
        "livenessProbe": probe(60, 20),
        "readinessProbe": probe(10, 1),
    })
}

fn environment(settings: &RenderSettings) -> Value {
    let value = |name: &str, value: String| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    json!([
        value("LOG_VERBOSITY", settings.log_verbosity.to_string()),
        value("MAX_NODES_PER_IMEX_DOMAIN", settings.max_nodes.to_string()),
        field("NODE_NAME", "spec.nodeName"),
        field("POD_IP", "status.podIP"),
        field("POD_UID", "metadata.uid"),
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        value("NVIDIA_VISIBLE_DEVICES", "void".to_owned()),
        value("FEATURE_GATES", settings.gates.to_environment()),
    ])
}

/// The `FEATURE_GATES` that the daemons of a stored DaemonSet were born with.
pub fn gates_of(daemon_set: &Value) -> Option<&str> {
    let containers = daemon_set["spec"]["template"]["spec"]["containers"].as_array()?;
    let daemon = containers
        .iter()
        .find(|container| container["name"] == names::DAEMON_CONTAINER)?;
    let variables = daemon["env"].as_array()?;
    let gates = variables.iter().find(|variable| variable["name"] == "FEATURE_GATES")?;
    gates["value"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(settings: &RenderSettings) -> Value {
        let object = json!({"metadata": {"uid": "0b5e-1"}, "spec": {}});
        daemon_set(&serde_json::from_value(object).unwrap(), settings)
    }

    #[test]
    fn environment_probes_and_selectors_are_those_of_the_driver() {
        let set = rendered(&RenderSettings {
            image: "img".into(),
            ..RenderSettings::default()
        });
        assert_eq!(set["metadata"]["name"], "computedomain-daemon-0b5e-1");
        let spec = &set["spec"]["template"]["spec"];
        assert_eq!(
            spec["nodeSelector"],
            json!({"resource.nvidia.com/computeDomain": "0b5e-1"})
        );
        let container = &spec["containers"][0];
        assert_eq!(
            container["command"],
            json!(["compute-domain-daemon", "-v", "$(LOG_VERBOSITY)", "run"])
        );
        let names: Vec<&str> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| variable["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "LOG_VERBOSITY",
                "MAX_NODES_PER_IMEX_DOMAIN",
                "NODE_NAME",
                "POD_IP",
                "POD_UID",
                "POD_NAME",
                "POD_NAMESPACE",
                "NVIDIA_VISIBLE_DEVICES",
                "FEATURE_GATES",
            ]
        );
        assert_eq!(container["startupProbe"]["failureThreshold"], 1_200);
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 3);
        assert_eq!(spec["dnsConfig"]["options"][0], json!({"name": "ndots", "value": "1"}));
        assert!(gates_of(&set).unwrap().contains("ComputeDomainCliques=true,"));
    }

    /// §9.21: the daemon does not queue behind the workload that waits for it.
    #[test]
    fn daemons_have_a_priority_and_requests() {
        let set = rendered(&RenderSettings::default());
        let spec = &set["spec"]["template"]["spec"];
        assert_eq!(spec["priorityClassName"], "system-node-critical");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "10m");
        let bare = rendered(&RenderSettings {
            priority_class: String::new(),
            requests: (String::new(), String::new()),
            ..RenderSettings::default()
        });
        let spec = &bare["spec"]["template"]["spec"];
        assert!(spec.get("priorityClassName").is_none());
        assert!(spec["containers"][0]["resources"].get("requests").is_none());
    }

    #[test]
    fn the_hash_follows_the_template() {
        let hash = |settings: &RenderSettings| rendered(settings)["metadata"]["annotations"][TEMPLATE_HASH].clone();
        let first = hash(&RenderSettings::default());
        assert_eq!(hash(&RenderSettings::default()), first);
        assert_ne!(
            hash(&RenderSettings {
                image: "other".into(),
                ..RenderSettings::default()
            }),
            first
        );
    }
}
