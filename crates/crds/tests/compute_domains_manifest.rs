//! The manifest of ComputeDomains gives each program the rights that it uses, and no others.
//!
//! That it is what the chart renders is checked by `make e2e`, which has helm.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

const CONTROLLER: &str = "compute-domain-controller";
const DAEMON: &str = "compute-domain-daemon-service-account";
const PLUGIN: &str = "compute-domain-kubelet-plugin";

fn installed() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compute-domains/install.yaml");
    let text = std::fs::read_to_string(path).expect("the manifest is there");
    serde_saphyr::from_multiple(&text).expect("the manifest is YAML")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// What an account may do, as `verb resource`: in the namespace of the driver, or with `everywhere`.
fn rights(objects: &[Value], account: &str, everywhere: bool) -> BTreeSet<String> {
    let (role_kind, binding_kind) = if everywhere {
        ("ClusterRole", "ClusterRoleBinding")
    } else {
        ("Role", "RoleBinding")
    };
    let bound = of_kind(objects, binding_kind).filter(|binding| {
        list(&binding["subjects"]).any(|subject| subject["name"] == account && subject["kind"] == "ServiceAccount")
    });
    let names: Vec<&Value> = bound.map(|binding| &binding["roleRef"]["name"]).collect();
    let mut rights = BTreeSet::new();
    for role in of_kind(objects, role_kind).filter(|role| names.contains(&&role["metadata"]["name"])) {
        for rule in list(&role["rules"]) {
            for (resource, verb) in
                list(&rule["resources"]).flat_map(|resource| list(&rule["verbs"]).map(move |verb| (resource, verb)))
            {
                rights.insert(format!("{} {}", verb.as_str().unwrap(), resource.as_str().unwrap()));
            }
        }
    }
    rights
}

fn set(rights: &[&str]) -> BTreeSet<String> {
    rights.iter().map(|right| (*right).to_owned()).collect()
}

/// §9.18: a daemon may read and, where no controller is, write cliques in one namespace. Nothing else.
#[test]
fn a_daemon_reaches_cliques_in_its_namespace_only() {
    let objects = installed();
    assert_eq!(rights(&objects, DAEMON, true), BTreeSet::new());
    let cliques = ["get", "list", "watch", "create", "update"].map(|verb| format!("{verb} computedomaincliques"));
    assert_eq!(rights(&objects, DAEMON, false), cliques.into());
}

#[test]
fn a_plugin_writes_its_slices_and_its_node() {
    let objects = installed();
    let expected = set(&[
        "get computedomains",
        "list computedomains",
        "get resourceclaims",
        "get resourceslices",
        "list resourceslices",
        "watch resourceslices",
        "create resourceslices",
        "patch resourceslices",
        "delete resourceslices",
        "get nodes",
        "list nodes",
        "watch nodes",
        "patch nodes",
    ]);
    assert_eq!(rights(&objects, PLUGIN, true), expected);
    let cliques = ["get", "list", "watch"].map(|verb| format!("{verb} computedomaincliques"));
    assert_eq!(rights(&objects, PLUGIN, false), cliques.into());
    let policy = of_kind(&objects, "ValidatingAdmissionPolicy").next().unwrap();
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    let condition = policy["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
    assert!(condition.contains(&format!("system:serviceaccount:nvidia-dra-driver-gpu:{PLUGIN}")));
    let binding = of_kind(&objects, "ValidatingAdmissionPolicyBinding").next().unwrap();
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
}

#[test]
fn no_right_is_a_wildcard_and_no_account_reads_secrets() {
    let objects = installed();
    for account in [CONTROLLER, DAEMON, PLUGIN] {
        for everywhere in [true, false] {
            for right in rights(&objects, account, everywhere) {
                let forbidden = ["*", "secrets", "escalate", "bind", "impersonate", "pods/exec"];
                assert!(!forbidden.iter().any(|word| right.contains(word)), "{account}: {right}");
            }
        }
    }
    let plugin = rights(&objects, CONTROLLER, true);
    assert!(
        !plugin.contains("update nodes") && plugin.contains("patch nodes"),
        "§9.10: nodes are patched"
    );
}

/// §9.21, and the classes that claims name.
#[test]
fn programs_do_not_queue_behind_the_workload_and_the_classes_are_those_of_the_driver() {
    let objects = installed();
    let plugin = of_kind(&objects, "DaemonSet").next().unwrap();
    let spec = &plugin["spec"]["template"]["spec"];
    assert_eq!(spec["priorityClassName"], "system-node-critical");
    let container = &spec["containers"][0];
    assert!(container["resources"]["requests"]["cpu"].is_string());
    let mounted = |path: &str| list(&container["volumeMounts"]).any(|mount| mount["mountPath"] == path);
    for path in [
        "/var/lib/kubelet/plugins",
        "/var/lib/kubelet/plugins_registry",
        "/var/run/cdi",
        "/driver-root",
    ] {
        assert!(mounted(path), "{path}");
    }
    let controller = of_kind(&objects, "Deployment").next().unwrap();
    let arguments = &controller["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(list(arguments).any(|argument| argument == "--daemon-priority-class=system-node-critical"));
    let classes: Vec<&Value> = of_kind(&objects, "DeviceClass")
        .map(|class| &class["metadata"]["name"])
        .collect();
    assert_eq!(
        classes,
        [
            "compute-domain-daemon.nvidia.com",
            "compute-domain-default-channel.nvidia.com"
        ]
    );
}
