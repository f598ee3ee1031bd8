//! Rules that depend on more than one field, and examples worth reading.

mod canonical_support;

use std::collections::BTreeMap;

use canonical_support::{NOTHING, identity, view};
use coppice_api::canonical::{TemplateView, canonical_value};
use serde_json::{Value, json};

fn same(one: &Value, other: &Value) {
    assert_eq!(identity(one), identity(other), "{one} and {other}");
}

fn different(one: &Value, other: &Value) {
    assert_ne!(identity(one), identity(other), "{one} and {other}");
}

fn container(container: &Value) -> Value {
    json!({"containers": [container]})
}

#[test]
fn the_pull_policy_follows_the_tag() {
    for (image, policy, other) in [
        ("x", "Always", "IfNotPresent"),
        ("x:latest", "Always", "IfNotPresent"),
        ("x:1", "IfNotPresent", "Always"),
        ("x@sha256:00", "IfNotPresent", "Always"),
        ("", "IfNotPresent", "Always"),
    ] {
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            let plain = json!({list: [{"image": image}]});
            same(&plain, &json!({list: [{"image": image, "imagePullPolicy": policy}]}));
            different(&plain, &json!({list: [{"image": image, "imagePullPolicy": other}]}));
        }
        let plain = json!({"volumes": [{"name": "v", "image": {"reference": image}}]});
        same(
            &plain,
            &json!({"volumes": [{"name": "v", "image": {"reference": image, "pullPolicy": policy}}]}),
        );
        different(
            &plain,
            &json!({"volumes": [{"name": "v", "image": {"reference": image, "pullPolicy": other}}]}),
        );
    }
}

#[test]
fn each_limit_stands_for_a_request() {
    let spec = |resources: Value| container(&json!({"resources": resources}));
    let limited = spec(json!({"limits": {"cpu": "1", "memory": "1Gi"}}));
    same(
        &limited,
        &spec(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}})),
    );
    same(
        &limited,
        &spec(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": 1, "memory": "1024Mi"}})),
    );
    different(
        &limited,
        &spec(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})),
    );
    different(
        &limited,
        &spec(json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}})),
    );
    different(
        &spec(json!({"limits": {"cpu": "1"}})),
        &spec(json!({"requests": {"cpu": "1"}})),
    );

    // The API server fills in requests of containers and init containers only.
    let limits = json!({"limits": {"cpu": "1"}});
    let both = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
    same(
        &json!({"initContainers": [{"resources": limits}]}),
        &json!({"initContainers": [{"resources": both}]}),
    );
    different(
        &json!({"ephemeralContainers": [{"resources": limits}]}),
        &json!({"ephemeralContainers": [{"resources": both}]}),
    );
    different(&json!({"resources": limits}), &json!({"resources": both}));
}

#[test]
fn in_the_hosts_network_a_port_is_a_host_port() {
    let spec =
        |host_network: bool, port: Value| json!({"hostNetwork": host_network, "containers": [{"ports": [port]}]});
    let plain = json!({"containerPort": 80});
    same(
        &spec(true, plain.clone()),
        &spec(true, json!({"containerPort": 80, "hostPort": 80})),
    );
    same(
        &spec(true, plain.clone()),
        &spec(true, json!({"containerPort": 80, "hostPort": 0})),
    );
    different(
        &spec(true, plain.clone()),
        &spec(true, json!({"containerPort": 80, "hostPort": 81})),
    );
    different(
        &spec(false, plain.clone()),
        &spec(false, json!({"containerPort": 80, "hostPort": 80})),
    );
    different(&spec(true, plain.clone()), &spec(false, plain));
}

#[test]
fn ports_are_keyed_by_number_and_protocol() {
    let spec = |ports: Value| container(&json!({"ports": ports}));
    let (tcp, udp, other) = (
        json!({"containerPort": 53}),
        json!({"containerPort": 53, "protocol": "UDP"}),
        json!({"containerPort": 9, "protocol": "TCP"}),
    );
    same(&spec(json!([tcp, udp, other])), &spec(json!([other, udp, tcp])));
    same(
        &spec(json!([udp, {"containerPort": 53, "protocol": "TCP"}])),
        &spec(json!([tcp, udp])),
    );
}

#[test]
fn elements_that_share_a_key_keep_their_order() {
    let spec = |names: [&str; 2]| {
        let mounts = names.map(|name| json!({"mountPath": "/data", "name": name}));
        container(&json!({"volumeMounts": mounts}))
    };
    different(&spec(["a", "b"]), &spec(["b", "a"]));
}

/// Of the tolerations that match a taint, the first says for how long the pod stays on its node: two orders can mean
/// two things, so they are never compared as a set.
#[test]
fn tolerations_have_an_order() {
    let brief = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 5});
    let long = json!({"operator": "Exists", "tolerationSeconds": 3600});
    different(
        &json!({"tolerations": [brief, long]}),
        &json!({"tolerations": [long, brief]}),
    );
}

#[test]
fn a_volume_without_a_source_is_an_empty_directory() {
    let spec = |volume: Value| json!({"volumes": [volume]});
    same(&spec(json!({"name": "v"})), &spec(json!({"name": "v", "emptyDir": {}})));
    same(
        &spec(json!({"name": "v", "secret": null})),
        &spec(json!({"name": "v", "emptyDir": {"sizeLimit": null}})),
    );
    different(
        &spec(json!({"name": "v"})),
        &spec(json!({"name": "v", "emptyDir": {"medium": "Memory"}})),
    );
    different(
        &spec(json!({"name": "v", "newer": {}})),
        &spec(json!({"name": "v", "newer": {}, "emptyDir": {}})),
    );
}

#[test]
fn the_older_name_of_the_service_account_is_read_where_the_newer_is_silent() {
    same(&json!({"serviceAccount": "a"}), &json!({"serviceAccountName": "a"}));
    same(
        &json!({"serviceAccount": "b", "serviceAccountName": "a"}),
        &json!({"serviceAccountName": "a"}),
    );
    same(
        &json!({"serviceAccount": "a", "serviceAccountName": ""}),
        &json!({"serviceAccountName": "a"}),
    );
    different(&json!({"serviceAccount": "a"}), &json!({"serviceAccount": "b"}));
    different(&json!({"serviceAccount": "a"}), &json!({}));
}

#[test]
fn the_sets_priority_class_wins_and_counts_once() {
    let plain = json!({"containers": []});
    let own = json!({"containers": [], "priorityClassName": "low"});
    let with = |spec: &Value, priority_class| {
        let spec = spec.as_object().expect("an object");
        TemplateView {
            priority_class,
            ..view(spec)
        }
        .identity()
    };
    assert_eq!(with(&plain, Some("low")), with(&own, None));
    assert_eq!(with(&own, Some("low")), with(&own, None));
    assert_eq!(with(&own, Some("")), with(&own, None));
    assert_eq!(with(&own, Some("high")), with(&plain, Some("high")));
    assert_ne!(with(&own, Some("high")), with(&own, None));
    assert_ne!(with(&plain, Some("low")), with(&plain, None));
}

#[test]
fn the_empty_scheduler_name_is_not_the_default_scheduler() {
    different(&json!({"schedulerName": "default-scheduler"}), &json!({}));
}

#[test]
fn presence_is_a_statement_where_the_api_says_so() {
    let affinity = |selector: Value| {
        let term = json!({"topologyKey": "zone", "labelSelector": selector});
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    different(&affinity(json!({})), &affinity(Value::Null));
    same(
        &affinity(json!({})),
        &affinity(json!({"matchLabels": {}, "matchExpressions": []})),
    );
    let class = |class: Value| json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": class}}}}]});
    different(&class(json!("")), &class(Value::Null));
    different(
        &container(&json!({"securityContext": {"runAsUser": 0}})),
        &container(&json!({})),
    );
    different(
        &container(&json!({"securityContext": {"seLinuxOptions": {}}})),
        &container(&json!({})),
    );
}

#[test]
fn whole_numbers_are_one_value_however_spelled() {
    same(
        &json!({"activeDeadlineSeconds": 60}),
        &json!({"activeDeadlineSeconds": 60.0}),
    );
    same(&json!({"terminationGracePeriodSeconds": 30.0}), &json!({}));
    different(
        &json!({"activeDeadlineSeconds": 60}),
        &json!({"activeDeadlineSeconds": "60"}),
    );
}

#[test]
fn the_canonical_form_is_sorted_and_complete() {
    let labels = BTreeMap::from([("role".to_owned(), "decode".to_owned())]);
    let spec = json!({
        "volumes": [{"name": "z"}, {"name": "a", "secret": {"secretName": "s"}}],
        "containers": [{
            "name": "main", "image": "server:1", "args": ["--b", "--a"],
            "resources": {"limits": {"nvidia.com/gpu": 8, "memory": "0.5Gi"}},
            "ports": [{"containerPort": 9090}, {"containerPort": 80}],
        }],
    });
    let template = TemplateView {
        labels: &labels,
        annotations: &NOTHING,
        priority_class: Some("high"),
        spec: spec.as_object().expect("an object"),
    };
    assert_eq!(
        canonical_value(&template),
        json!({
            "metadata": {"labels": {"role": "decode"}},
            "spec": {
                "containers": [{
                    "args": ["--b", "--a"],
                    "image": "server:1",
                    "imagePullPolicy": "IfNotPresent",
                    "name": "main",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 9090, "protocol": "TCP"}],
                    "resources": {
                        "limits": {"memory": "512Mi", "nvidia.com/gpu": "8"},
                        "requests": {"memory": "512Mi", "nvidia.com/gpu": "8"},
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                "priorityClassName": "high",
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "volumes": [{"name": "a", "secret": {"secretName": "s", "defaultMode": 420}}, {"name": "z", "emptyDir": {}}],
            },
        })
    );
}
