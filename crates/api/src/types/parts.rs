//! Pieces of schema that the types cannot derive: Kubernetes' own types, patterns, CEL rules.
//!
//! The types name these functions in their attributes. A piece of a Kubernetes type is only a
//! marker here; `crd::structural` replaces it. Nothing here knows where it will be used.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Marks a place where the structural schema of a Kubernetes definition belongs.
pub(crate) const KUBERNETES_TYPE: &str = "x-kubernetes-type";
/// Marks a property that its object must have.
pub(crate) const REQUIRED: &str = "x-required";
/// The default that the API server fills in.
pub(crate) const DEFAULT: &str = "x-default";
/// Property paths of a shared type that do not exist at this place.
pub(crate) const WITHOUT: &str = "x-without";

const DOMAIN_NAME: &str = "^[a-z][a-z0-9-]*$";
const LABEL_KEY: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
);

/// A Kubernetes type, by the name of its definition.
pub(crate) fn kubernetes_type(definition: &str) -> Schema {
    json_schema!({ KUBERNETES_TYPE: definition })
}

/// `autoscaling/v2` metrics.
pub(crate) fn metrics(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": kubernetes_type("io.k8s.api.autoscaling.v2.MetricSpec"),
        "x-kubernetes-list-type": "atomic",
    })
}

/// A `resource.k8s.io/v1` ResourceClaimTemplateSpec.
pub(crate) fn claim_template_spec(_: &mut SchemaGenerator) -> Schema {
    kubernetes_type("io.k8s.api.resource.v1.ResourceClaimTemplateSpec")
}

/// A point in time.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// The name of a topology level.
pub(crate) fn domain_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": DOMAIN_NAME })
}

/// The key of a node label, prefix included.
pub(crate) fn label_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": LABEL_KEY })
}

/// Standard conditions. A plain list, as in every kind of this API: writers replace it as a whole.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time", REQUIRED: true },
                "message": { "type": "string", "maxLength": 32768, REQUIRED: true },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024, "pattern": CONDITION_REASON, REQUIRED: true,
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"], REQUIRED: true },
                "type": { "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE, REQUIRED: true },
            },
        },
    })
}

/// What a topology constraint must and must not hold.
pub(crate) fn topology_constraint_rules() -> Value {
    json!([
        {
            "rule": "has(self.pack) || has(self.packDomain)",
            "message": "topologyConstraint must specify pack or deprecated packDomain; set pack.required or pack.preferred, or leave the constraint out",
            "reason": "FieldValueRequired",
            "fieldPath": ".pack",
        },
        {
            "rule": "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
            "message": "topologyConstraint must not set both pack.required and deprecated packDomain; remove packDomain",
            "fieldPath": ".pack.required",
        },
    ])
}

/// What `pack` must hold.
pub(crate) fn pack_rules() -> Value {
    json!([{
        "rule": "has(self.required) || has(self.preferred)",
        "message": "pack must specify at least one of required or preferred",
        "reason": "FieldValueRequired",
    }])
}

/// New sets must not use the old name of `pack.required`; existing ones may keep it.
pub(crate) fn pack_domain_rules() -> Value {
    let rule = |field_path: &str, rule: &str| {
        json!({
            "rule": format!("oldSelf.hasValue() || {rule}"),
            "message": "packDomain is deprecated and cannot be used on new workloads; use pack.required",
            "reason": "FieldValueForbidden",
            "fieldPath": field_path,
            "optionalOldSelf": true,
        })
    };
    json!([
        rule(
            ".spec.template.topologyConstraint.packDomain",
            "!has(self.spec.template.topologyConstraint) || !has(self.spec.template.topologyConstraint.packDomain)",
        ),
        rule(
            ".spec.template.cliques",
            "!has(self.spec.template.cliques) || self.spec.template.cliques.all(c, \
             !has(c.topologyConstraint) || !has(c.topologyConstraint.packDomain))",
        ),
        rule(
            ".spec.template.podCliqueScalingGroups",
            "!has(self.spec.template.podCliqueScalingGroups) || self.spec.template.podCliqueScalingGroups.all(g, \
             !has(g.topologyConstraint) || !has(g.topologyConstraint.packDomain))",
        ),
    ])
}
