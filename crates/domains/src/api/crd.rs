//! The CustomResourceDefinitions, with the API server's own rules on rows.
//!
//! Schemas are those of NVIDIA's driver, so that both accept the same objects, plus what is additive: bounds, `podUID`,
//! conditions and counts, columns, and the rules that keep indices unique and fixed whoever writes. The rules are a net
//! under all code: no writer, ours or foreign, can store two rows with one index or move a row to another one.

use serde_json::{Value, json};

use super::{limits, names};

/// Both CustomResourceDefinitions, always in the same order and with the same content.
pub fn all() -> Vec<Value> {
    vec![compute_domain(), compute_domain_clique()]
}

fn definition(kind: &str, plural: &str, schema: &Value, columns: &Value, with_status: bool) -> Value {
    let mut version = json!({
        "name": names::VERSION,
        "served": true,
        "storage": true,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    });
    if with_status {
        version["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{}", names::GROUP),
            "labels": {"app.kubernetes.io/part-of": "coppice"},
        },
        "spec": {
            "group": names::GROUP,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

fn readiness(description: &str) -> Value {
    json!({"type": "string", "description": description, "enum": ["Ready", "NotReady"], "default": "NotReady"})
}

fn compute_domain() -> Value {
    let schema = json!({
        "description": "Nodes that run a multi-node NVLink workload.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": domain_spec(),
            "status": domain_status(),
        },
    });
    let columns = json!([
        {"name": "Status", "type": "string", "jsonPath": ".status.status"},
        {"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"},
        {"name": "Template", "type": "string", "jsonPath": ".spec.channel.resourceClaimTemplate.name", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("ComputeDomain", "computedomains", &schema, &columns, true)
}

fn domain_spec() -> Value {
    json!({
        "description": "What the user wants; immutable.",
        "type": "object",
        "required": ["channel"],
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "A computeDomain.spec is immutable"}],
        "properties": {
            "numNodes": {
                "description": "Deprecated: nodes that must have joined before the global status becomes Ready. Zero keeps the domain elastic.",
                "type": "integer", "minimum": 0, "default": 0,
            },
            "channel": {
                "description": "The channel that workloads claim.",
                "type": "object",
                "required": ["resourceClaimTemplate"],
                "properties": {
                    "allocationMode": {
                        "description": "One channel, or all of the domain.",
                        "type": "string", "enum": ["All", "Single"], "default": "Single",
                    },
                    "resourceClaimTemplate": {
                        "description": "The ResourceClaimTemplate to create in the namespace of the domain.",
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string", "description": "Name of the template."}},
                    },
                },
            },
        },
    })
}

fn domain_status() -> Value {
    let node = json!({
        "type": "object",
        "required": ["cliqueID", "ipAddress", "name"],
        "properties": {
            "name": {"type": "string", "description": "Name of the node.", "maxLength": 253},
            "ipAddress": {"type": "string", "description": "Address of its daemon.", "maxLength": 64},
            "cliqueID": {"type": "string", "description": "Its clique; empty without a fabric.", "maxLength": 253},
            "index": {"type": "integer", "description": "Its index in the clique; -1 without a fabric."},
            "status": readiness("Whether its daemon can broker memory."),
        },
    });
    let count = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
    let clique = json!({
        "type": "object",
        "required": ["assigned", "cliqueID", "present", "ready"],
        "properties": {
            "cliqueID": {"type": "string", "description": "The clique.", "maxLength": 253},
            "assigned": count("Nodes with an index."),
            "present": count("Nodes whose daemon has an address."),
            "ready": count("Nodes whose daemon is ready."),
        },
    });
    json!({
        "description": "What the controller reports. Workloads must not wait for it.",
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": readiness("The global status."),
            "nodes": {
                "description": "The nodes that have joined.",
                "type": "array", "items": node,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            },
            "cliques": {
                "description": "How many nodes each clique has.",
                "type": "array", "items": clique, "maxItems": limits::MAX_STATUS_CLIQUES,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["cliqueID"],
            },
            "conditions": conditions(),
        },
    })
}

fn conditions() -> Value {
    json!({
        "description": "What holds of the domain, and why.",
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}

fn compute_domain_clique() -> Value {
    let row = json!({
        "description": "The index of a node, and where its daemon is.",
        "type": "object",
        "required": ["cliqueID", "ipAddress", "nodeName"],
        "properties": {
            "nodeName": {"type": "string", "description": "The node.", "maxLength": 253},
            "ipAddress": {
                "type": "string", "maxLength": 64,
                "description": "Address of the daemon; empty while the node has an index and no daemon.",
            },
            "cliqueID": {"type": "string", "description": "The clique.", "maxLength": 253},
            "index": {
                "type": "integer", "minimum": 0, "maximum": limits::MAX_NODES - 1,
                "description": "Decides the daemon's name in the domain. Unique, and fixed while the row exists.",
            },
            "podUID": {"type": "string", "description": "The pod of the daemon.", "maxLength": 64},
            "status": readiness("Whether the daemon can broker memory."),
        },
        // Items of a list of type map are compared with their old selves by key.
        "x-kubernetes-validations": [{
            "rule": "!has(oldSelf.index) || (has(self.index) && self.index == oldSelf.index)",
            "message": "the index of a node is fixed while its row exists; remove the row first",
            "reason": "FieldValueForbidden",
        }],
    });
    let schema = json!({
        "description": "The daemons of a ComputeDomain within one NVLink clique.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "daemons": {
                "description": "One row for each node.",
                "type": "array", "items": row, "maxItems": limits::MAX_NODES,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["nodeName"],
                "x-kubernetes-validations": [{
                    "rule": "self.all(d, !has(d.index) || self.exists_one(e, has(e.index) && e.index == d.index))",
                    "message": "two rows have the same index",
                }],
            },
        },
    });
    let columns = json!([
        {"name": "Nodes", "type": "string", "jsonPath": ".daemons[*].nodeName", "priority": 1},
        {"name": "Indices", "type": "string", "jsonPath": ".daemons[*].index"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("ComputeDomainClique", "computedomaincliques", &schema, &columns, false)
}
