//! The chart's CRDs and the single manifest: current, and no more powerful than they claim.
//!
//! That `deploy/install.yaml` is what the chart renders is checked by `make e2e`, which has helm; what can be checked
//! without it is checked here.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn installed() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("deploy/install.yaml")).expect("the manifest is there");
    serde_saphyr::from_multiple(&text).expect("the manifest is YAML")
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn the_chart_carries_the_current_definitions() {
    let path = root().join("charts/grove-charts/crds/grove.yaml");
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&path, coppice_api::crd::to_yaml()).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == coppice_api::crd::to_yaml(),
        "charts/grove-charts/crds/grove.yaml is stale: run this test with COPPICE_BLESS=1, then `make install-manifest`"
    );
}

#[test]
fn the_single_manifest_carries_the_current_definitions() {
    let objects = installed();
    let definitions: Vec<&Value> = of_kind(&objects, "CustomResourceDefinition").collect();
    let current = coppice_api::crd::all();
    assert_eq!(definitions.len(), current.len());
    for definition in &current {
        let name = &definition["metadata"]["name"];
        let installed = definitions
            .iter()
            .find(|installed| installed["metadata"]["name"] == *name);
        assert_eq!(
            installed,
            Some(&definition),
            "{name} in deploy/install.yaml is stale: run `make install-manifest`"
        );
    }
}

#[test]
fn rights_are_named_one_by_one() {
    let objects = installed();
    let roles: Vec<&Value> = of_kind(&objects, "ClusterRole")
        .chain(of_kind(&objects, "Role"))
        .collect();
    assert_eq!(
        roles.len(),
        4,
        "the operator and the scheduler have a cluster role and a role each"
    );
    for role in roles {
        for rule in role["rules"].as_array().unwrap() {
            for part in ["apiGroups", "resources", "verbs"] {
                let named = strings(&rule[part]);
                assert!(!named.is_empty(), "{part} in {rule}");
                assert!(!named.iter().any(|name| name.contains('*')), "a wildcard in {rule}");
            }
            let verbs = strings(&rule["verbs"]);
            for power in ["escalate", "bind", "impersonate", "deletecollection"] {
                assert!(!verbs.contains(&power), "{power} in {rule}");
            }
        }
    }
}

#[test]
fn secrets_are_reachable_in_one_namespace_and_by_one_name() {
    let objects = installed();
    for role in of_kind(&objects, "ClusterRole") {
        for rule in role["rules"].as_array().unwrap() {
            assert!(!strings(&rule["resources"]).contains(&"secrets"), "{rule}");
        }
    }
    for role in of_kind(&objects, "Role") {
        for rule in role["rules"].as_array().unwrap() {
            if strings(&rule["resources"]).contains(&"secrets") && strings(&rule["verbs"]) != ["create"] {
                assert_eq!(strings(&rule["resourceNames"]), ["grove-webhook-server-cert"]);
            }
        }
    }
    assert_eq!(
        of_kind(&objects, "Secret").count(),
        0,
        "applying an empty Secret again would wipe certificates"
    );
}

#[test]
fn pods_meet_the_restricted_standard_and_hold_short_lived_tokens() {
    let objects = installed();
    let deployments: Vec<&Value> = of_kind(&objects, "Deployment").collect();
    assert_eq!(deployments.len(), 2);
    for deployment in deployments {
        assert!(deployment["spec"]["replicas"].as_i64().unwrap() >= 2);
        let spec = &deployment["spec"]["template"]["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        for container in spec["containers"].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["readOnlyRootFilesystem"], true);
            assert_eq!(strings(&context["capabilities"]["drop"]), ["ALL"]);
        }
        let tokens: Vec<&Value> = spec["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|volume| volume["projected"]["sources"].as_array().into_iter().flatten())
            .filter(|source| !source["serviceAccountToken"].is_null())
            .collect();
        assert_eq!(tokens.len(), 1);
        assert!(tokens[0]["serviceAccountToken"]["expirationSeconds"].as_i64().unwrap() <= 3607);
    }
    assert_eq!(of_kind(&objects, "PodDisruptionBudget").count(), 2);
}
