//! The kinds that cases are made of.

use serde_json::{Value, json};

use super::content;
use super::dice::Dice;
use super::pods;
use crate::corpus::{Case, Step};

/// A kind, where its objects are, and what they may contain.
#[derive(Debug)]
pub(super) struct Kind {
    /// The path of its objects.
    pub(super) collection: &'static str,
    /// Its group and version.
    pub(super) api_version: &'static str,
    /// Its name.
    pub(super) kind: &'static str,
    /// Fields other than metadata and status; with all that an object needs when the second argument is true.
    pub(super) content: fn(&mut Dice, bool) -> Value,
    /// The least that an object needs.
    pub(super) least: &'static str,
    /// What its status may be; absent when it has no such subresource.
    pub(super) status: Option<fn(&mut Dice) -> Value>,
    /// Whether it can be scaled.
    pub(super) scale: bool,
}

impl Kind {
    /// Whether its objects are in namespaces. Objects of other kinds carry the name of the case in theirs.
    pub(super) fn is_namespaced(&self) -> bool {
        self.collection.contains("$NS")
    }
}

const GADGET_VERSION: &str = "generated.example.com/v1";

macro_rules! kind {
    ($collection:literal, $api_version:expr, $kind:literal, $content:expr, $least:literal) => {
        kind!($collection, $api_version, $kind, $content, $least, None)
    };
    ($collection:literal, $api_version:expr, $kind:literal, $content:expr, $least:literal, $status:expr) => {
        &Kind {
            collection: $collection,
            api_version: $api_version,
            kind: $kind,
            content: $content,
            least: $least,
            status: $status,
            scale: false,
        }
    };
}

/// All of them; pods and the custom kind, which have most rules, more than once. Without daemon sets, of which a real server
/// keeps a field of an older version in an annotation.
pub(super) static KINDS: [&Kind; 24] = [
    kind!(
        "/api/v1/namespaces/$NS/configmaps",
        "v1",
        "ConfigMap",
        content::config_map,
        r#"{}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/secrets",
        "v1",
        "Secret",
        content::secret,
        r#"{}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/services",
        "v1",
        "Service",
        content::service,
        r#"{"spec": {"clusterIP": "None", "selector": {"app": "a"}}}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/serviceaccounts",
        "v1",
        "ServiceAccount",
        content::service_account,
        r#"{}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/events",
        "v1",
        "Event",
        content::event,
        r#"{"involvedObject": {"namespace": "$NS"}}"#
    ),
    kind!(
        "/api/v1/nodes",
        "v1",
        "Node",
        content::node,
        r#"{}"#,
        Some(content::node_status)
    ),
    POD,
    POD,
    POD,
    POD,
    kind!(
        "/apis/coordination.k8s.io/v1/namespaces/$NS/leases",
        "coordination.k8s.io/v1",
        "Lease",
        content::lease,
        r#"{}"#
    ),
    kind!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/roles",
        "rbac.authorization.k8s.io/v1",
        "Role",
        content::role,
        r#"{}"#
    ),
    kind!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        content::role_binding,
        r#"{"roleRef": {"kind": "Role", "name": "r"}}"#
    ),
    kind!(
        "/apis/autoscaling/v2/namespaces/$NS/horizontalpodautoscalers",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        content::autoscaler,
        r#"{"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "a/v1", "kind": "K", "name": "n"}}}"#,
        Some(content::autoscaler_status)
    ),
    kind!(
        "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets",
        "policy/v1",
        "PodDisruptionBudget",
        content::disruption_budget,
        r#"{}"#,
        Some(content::disruption_budget_status)
    ),
    kind!(
        "/apis/apps/v1/namespaces/$NS/controllerrevisions",
        "apps/v1",
        "ControllerRevision",
        content::controller_revision,
        r#"{"data": {}}"#
    ),
    kind!(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "scheduling.k8s.io/v1",
        "PriorityClass",
        content::priority_class,
        r#"{}"#
    ),
    kind!(
        "/apis/resource.k8s.io/v1/namespaces/$NS/resourceclaims",
        "resource.k8s.io/v1",
        "ResourceClaim",
        content::claim,
        r#"{}"#
    ),
    kind!(
        "/apis/resource.k8s.io/v1/namespaces/$NS/resourceclaimtemplates",
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        content::claim_template,
        r#"{}"#
    ),
    GADGET,
    GADGET,
    GADGET,
    GADGET,
    GADGET,
];

const POD: &Kind = kind!(
    "/api/v1/namespaces/$NS/pods",
    "v1",
    "Pod",
    pods::pod,
    r#"{"spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
    Some(pods::pod_status)
);

const GADGET: &Kind = &Kind {
    collection: "/apis/generated.example.com/v1/namespaces/$NS/gadgets",
    api_version: GADGET_VERSION,
    kind: "Gadget",
    content: content::gadget,
    least: r#"{"spec": {"colour": "red"}}"#,
    status: Some(content::gadget_status),
    scale: true,
};

/// What both servers need before the first case: the definition of the custom kind, served.
pub fn definition() -> Case {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = "gadgets.generated.example.com";
    let step = |request: String| Step {
        request,
        silent: true,
        ..Step::default()
    };
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["colour"],
                "x-kubernetes-validations": [
                    {"rule": "!has(self.max) || self.size <= self.max", "message": "size must not exceed max"},
                    {"rule": "!has(oldSelf.port) || has(self.port)", "message": "a port stays", "fieldPath": ".port", "reason": "FieldValueForbidden"},
                ],
                "properties": {
                    "size": {"type": "integer", "format": "int32", "default": 1, "minimum": 0, "maximum": 10},
                    "max": {"type": "integer"},
                    "colour": {"type": "string", "enum": ["red", "green"],
                               "x-kubernetes-validations": [{"rule": "self == oldSelf", "messageExpression": "'colour is ' + oldSelf"}]},
                    "note": {"type": "string", "nullable": true, "maxLength": 8},
                    "ratio": {"type": "number"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "since": {"type": "string", "format": "date-time"},
                    "flags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "parts": {
                        "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"},
                            "weight": {"type": "integer", "default": 5},
                            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        }},
                    },
                    "pairs": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"],
                        "items": {"type": "object", "required": ["host"], "properties": {
                            "host": {"type": "string"}, "port": {"type": "integer", "default": 80}, "path": {"type": "string"},
                        }},
                    },
                    "rows": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {"v": {"type": "integer", "default": 7}}}},
                    "words": {"type": "object", "additionalProperties": {"type": "string"}},
                    "limits": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "nested": {"type": "object", "default": {}, "properties": {
                        "leaf": {"type": "string"}, "count": {"type": "integer", "default": 3},
                    }},
                },
            },
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"}, "size": {"type": "integer"}, "selector": {"type": "string"},
                "conditions": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "required": ["type", "status"], "properties": {
                        "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
                        "message": {"type": "string"}, "lastTransitionTime": {"type": "string", "format": "date-time"},
                    }},
                },
            }},
        },
    });
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "generated.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"},
                },
            }],
        },
    });
    Case {
        case: "generated".to_owned(),
        steps: vec![
            Step {
                body: Some(object),
                keep: Some("definition".to_owned()),
                ..step(format!("POST {definitions}"))
            },
            Step {
                events: Some(2),
                ..step(format!(
                    "GET {definitions}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion=$definition.metadata.resourceVersion&timeoutSeconds=30"
                ))
            },
        ],
    }
}
