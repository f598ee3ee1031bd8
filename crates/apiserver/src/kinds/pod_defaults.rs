//! What the API fills into pod specs, in pods and in templates alike.

use serde_json::{Map, Value, json};

/// Fills in what a pod spec leaves out.
pub(super) fn default_pod_spec(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    set(spec, "restartPolicy", "Always");
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "schedulerName", "default-scheduler");
    spec.entry("terminationGracePeriodSeconds").or_insert(json!(30));
    spec.entry("securityContext").or_insert(json!({}));
    name_service_account_twice(spec);
    let host_network = spec.get("hostNetwork") == Some(&json!(true));
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(container, host_network);
        }
    }
    for volume in spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        default_volume(volume);
    }
}

fn set(map: &mut Map<String, Value>, name: &str, value: &str) {
    let absent = map.get(name).is_none_or(|found| found.is_null() || found == "");
    if absent {
        map.insert(name.to_owned(), json!(value));
    }
}

/// An account has an old name for its field as well, and both say the same; the newer one counts.
fn name_service_account_twice(spec: &mut Map<String, Value>) {
    const NAMES: [&str; 2] = ["serviceAccountName", "serviceAccount"];
    let named = |name: &&str| {
        spec.get(*name)
            .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
    };
    if let Some(account) = NAMES.iter().find_map(named).cloned() {
        spec.extend(NAMES.map(|name| (name.to_owned(), account.clone())));
    }
}

fn default_container(container: &mut Value, host_network: bool) {
    let Some(container) = container.as_object_mut() else {
        return;
    };
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    set(
        container,
        "imagePullPolicy",
        if is_latest(image) { "Always" } else { "IfNotPresent" },
    );
    container.entry("resources").or_insert(json!({}));
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            set(port, "protocol", "TCP");
            if host_network && port.get("hostPort").is_none_or(|found| found == 0) {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                port.insert("hostPort".into(), number);
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        default_probe(container.get_mut(probe));
    }
    for hook in ["postStart", "preStop"] {
        let handler = container
            .get_mut("lifecycle")
            .and_then(|lifecycle| lifecycle.get_mut(hook));
        default_handler(handler.and_then(Value::as_object_mut));
    }
    for variable in container
        .get_mut("env")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let reference = variable
            .pointer_mut("/valueFrom/fieldRef")
            .and_then(Value::as_object_mut);
        if let Some(reference) = reference {
            set(reference, "apiVersion", "v1");
        }
    }
}

/// Whether an image reference without digest names no tag, or the tag `latest`.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// What has a limit and no request requests its limit.
fn default_requests(resources: Option<&mut Value>) {
    let Some(resources) = resources.and_then(Value::as_object_mut) else {
        return;
    };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert(json!({}));
    let Some(requests) = requests.as_object_mut() else {
        return;
    };
    for (name, quantity) in limits {
        requests.entry(name).or_insert(quantity);
    }
}

fn default_probe(probe: Option<&mut Value>) {
    let Some(probe) = probe.and_then(Value::as_object_mut) else {
        return;
    };
    for (name, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        let absent = probe.get(name).is_none_or(|found| found.is_null() || found == 0);
        if absent {
            probe.insert(name.to_owned(), json!(value));
        }
    }
    default_handler(Some(probe));
}

fn default_handler(handler: Option<&mut Map<String, Value>>) {
    let Some(handler) = handler else { return };
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc").and_then(Value::as_object_mut) {
        grpc.entry("service").or_insert(json!(""));
    }
}

fn default_volume(volume: &mut Value) {
    let Some(volume) = volume.as_object_mut() else { return };
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            source.entry("defaultMode").or_insert(json!(420));
        }
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        path.entry("type").or_insert(json!(""));
    }
    let sources = volume
        .get_mut("projected")
        .and_then(|projected| projected.get_mut("sources"));
    for source in sources.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
            token.entry("expirationSeconds").or_insert(json!(3600));
        }
        default_downward(source.get_mut("downwardAPI"));
    }
    default_downward(volume.get_mut("downwardAPI"));
}

fn default_downward(downward: Option<&mut Value>) {
    let items = downward.and_then(|downward| downward.get_mut("items"));
    for item in items.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = item.get_mut("fieldRef").and_then(Value::as_object_mut) {
            set(reference, "apiVersion", "v1");
        }
    }
}

/// Fills in what pods have and templates do not.
pub(super) fn default_pod(spec: &mut Value) {
    default_pod_spec(spec);
    if let Some(spec) = spec.as_object_mut() {
        spec.entry("enableServiceLinks").or_insert(json!(true));
        default_requests(spec.get_mut("resources"));
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                default_requests(container.get_mut("resources"));
            }
        }
    }
}

/// Fills in what a pod status leaves out: the addresses are a list and, for old clients, its first entry, which counts when
/// both are given.
pub(super) fn default_pod_status(status: &mut Value) {
    let address = status
        .get("podIP")
        .and_then(Value::as_str)
        .filter(|address| !address.is_empty())
        .map(str::to_owned);
    let listed = status.pointer("/podIPs/0/ip").cloned();
    match (address, listed) {
        (Some(address), listed) if listed != Some(json!(address)) => status["podIPs"] = json!([{"ip": address}]),
        (None, Some(listed)) => status["podIP"] = listed,
        _ => {}
    }
}

/// The quality of service that requests and limits of CPU and memory amount to.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.get(list).and_then(Value::as_array).into_iter().flatten());
    let (mut any, mut guaranteed, mut seen) = (false, true, false);
    for container in containers {
        seen = true;
        for name in ["cpu", "memory"] {
            let quantity = |kind: &str| {
                container
                    .pointer(&format!("/resources/{kind}/{name}"))
                    .filter(|found| !is_zero(found))
            };
            let (request, limit) = (quantity("requests"), quantity("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed && seen) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn is_zero(quantity: &Value) -> bool {
    match quantity {
        Value::String(text) => {
            text.trim_start_matches(['0', '.'])
                .chars()
                .next()
                .is_none_or(|first| !first.is_ascii_digit())
                && text.starts_with('0')
        }
        other => other.as_f64() == Some(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_get_their_defaults() {
        let mut spec = json!({"containers": [{"name": "c", "image": "registry:5000/a/b", "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}}, "resources": {"limits": {"cpu": "1"}}}]});
        default_pod_spec(&mut spec);
        let container = &spec["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert_eq!(container["readinessProbe"]["failureThreshold"], 3);
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/");
        assert_eq!(container["resources"].get("requests"), None, "templates are not pods");
        let once = spec.clone();
        default_pod_spec(&mut spec);
        assert_eq!(spec, once);
        default_pod(&mut spec);
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert_eq!(spec["enableServiceLinks"], true);
    }

    #[test]
    fn tags_decide_the_pull_policy() {
        assert!(is_latest("nginx") && is_latest("a/b:latest") && is_latest("host:5000/a"));
        assert!(!is_latest("nginx:1.2") && !is_latest("nginx@sha256:00"));
    }

    #[test]
    fn quality_of_service_follows_the_resources() {
        let class = |resources: Value| qos_class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(class(json!({"requests": both, "limits": both})), "Guaranteed");
        assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
    }
}
