//! The facts in the crate: they round-trip through every form, and say what they should about well-known types.

use coppice_schema::{Definitions, GroupVersionKind, ListType, MapType, Type, facts, kubernetes, pod_template};
use serde_json::{Value, json};

const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";

fn without_comments(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn facts_round_trip_as_text() {
    let kubernetes_text = include_str!("../facts/kubernetes.facts");
    assert_eq!(
        facts::write(kubernetes(), kubernetes().names()).unwrap(),
        without_comments(kubernetes_text)
    );
    let template_text = include_str!("../facts/pod-template-1.35.facts");
    assert_eq!(
        facts::write(pod_template(), pod_template().names()).unwrap(),
        without_comments(template_text)
    );
}

#[test]
fn facts_round_trip_as_openapi() {
    let set = kubernetes();
    let published = set.openapi_components(set.names());
    let mut again = Definitions::default();
    again.add_openapi(&published).unwrap();
    assert_eq!(again.names(), set.names());
    for (name, schema) in &published {
        assert_eq!(
            Value::Object(again.definition(name).unwrap().openapi()),
            *schema,
            "{name}"
        );
    }
}

#[test]
fn structural_schemas_round_trip() {
    for name in [
        POD_SPEC,
        "io.k8s.api.autoscaling.v2.MetricSpec",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
    ] {
        let schema = pod_template().definition(name).unwrap().to_structural();
        let (set, root) = Definitions::from_structural(&schema).unwrap();
        assert_eq!(set.cursor(root).to_structural(), schema, "{name}");
    }
}

#[test]
fn every_root_is_in_the_facts() {
    let roots = [
        (include_str!("../facts/kubernetes.roots"), kubernetes()),
        (include_str!("../facts/pod-template-1.35.roots"), pod_template()),
    ];
    for (list, set) in roots {
        for name in list.lines().filter(|line| line.starts_with("io.")) {
            assert!(set.definition(name).is_some(), "{name}");
        }
    }
}

#[test]
fn kinds_are_found_by_group_version_kind() {
    let pod = kubernetes()
        .kind(&GroupVersionKind::from_api_version("v1", "Pod"))
        .unwrap();
    assert_eq!(pod.node().name.as_deref(), Some("io.k8s.api.core.v1.Pod"));
    let event = kubernetes()
        .kind(&GroupVersionKind::from_api_version("events.k8s.io/v1", "Event"))
        .unwrap();
    assert_eq!(event.node().name.as_deref(), Some("io.k8s.api.events.v1.Event"));
    assert!(kubernetes().kind(&GroupVersionKind::new("", "v1", "Nothing")).is_none());
}

#[test]
fn container_ports_are_a_keyed_list() {
    let container = kubernetes().definition("io.k8s.api.core.v1.Container").unwrap();
    let ports = container.field("ports").unwrap();
    assert_eq!(
        ports.node().list,
        ListType::Map(vec!["containerPort".into(), "protocol".into()])
    );
    let patch = container.field_slot("ports").unwrap().patch.as_ref().unwrap();
    assert!(patch.merge);
    assert_eq!(patch.merge_key.as_deref(), Some("containerPort"));
    assert!(ports.items().unwrap().node().requires("containerPort"));
}

#[test]
fn selectors_are_atomic() {
    let spec = kubernetes().definition(POD_SPEC).unwrap();
    assert_eq!(spec.field("nodeSelector").unwrap().node().map, MapType::Atomic);
    assert_eq!(
        kubernetes()
            .definition("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")
            .unwrap()
            .node()
            .map,
        MapType::Atomic
    );
}

#[test]
fn structural_pod_spec_says_what_generators_say() {
    let schema = pod_template().definition(POD_SPEC).unwrap().to_structural();
    let at = |pointer: &str| schema.pointer(pointer).cloned().unwrap_or(Value::Null);
    let container = "/properties/containers/items/properties";
    assert_eq!(at("/required"), json!(["containers"]));
    assert_eq!(at("/properties/containers/x-kubernetes-list-map-keys"), json!(["name"]));
    assert_eq!(at(&format!("{container}/name")), json!({"type": "string"}));
    assert_eq!(
        at(&format!("{container}/ports/items/properties/protocol")),
        json!({"type": "string", "default": "TCP"})
    );
    assert_eq!(
        at(&format!("{container}/livenessProbe/properties/httpGet/properties/port")),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    );
    let limit = at(&format!("{container}/resources/properties/limits/additionalProperties"));
    assert_eq!(limit["x-kubernetes-int-or-string"], json!(true));
    assert!(limit["pattern"].as_str().unwrap().starts_with(r"^(\+|-)?"));
    assert_eq!(
        at("/properties/volumes/items/properties/ephemeral/properties/volumeClaimTemplate/properties/metadata"),
        json!({"type": "object"})
    );
    assert_eq!(
        at("/properties/terminationGracePeriodSeconds"),
        json!({"type": "integer", "format": "int64"})
    );
}

#[test]
fn components_hold_the_closure_and_nothing_else() {
    let components = kubernetes().openapi_components(["io.k8s.api.coordination.v1.Lease"]);
    assert!(components.contains_key("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    assert!(!components.contains_key("io.k8s.api.core.v1.Pod"));
    assert_eq!(
        components["io.k8s.api.coordination.v1.Lease"]["x-kubernetes-group-version-kind"],
        json!([{"group": "coordination.k8s.io", "kind": "Lease", "version": "v1"}])
    );
    assert_eq!(
        components["io.k8s.api.coordination.v1.Lease"]["properties"]["spec"],
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.api.coordination.v1.LeaseSpec"}], "default": {}})
    );
}

#[test]
fn malformed_facts_are_refused() {
    let errors = [
        ("  name string", "line 1: field outside a definition"),
        ("def a.b\n  name text", "line 2: unknown type text"),
        ("def a.b\n  name string shiny", "line 2: unknown word shiny"),
        ("def a.b\n  name c.d", ": c.d is referred to but not defined"),
        ("def a.b\ndef a.b", "line 2: defined twice"),
        ("name string", "line 1: expected `def`"),
    ];
    for (text, expected) in errors {
        assert_eq!(facts::read(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn recursive_types_end_in_a_free_form_object() {
    let set = facts::read("def a.Tree\n  child a.Tree\n  label string").unwrap();
    let tree = set.definition("a.Tree").unwrap();
    assert_eq!(tree.field("child").unwrap().id, tree.id);
    assert_eq!(
        tree.to_structural()["properties"]["child"],
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    );
    assert_eq!(tree.field("label").unwrap().node().ty, Type::String);
}
