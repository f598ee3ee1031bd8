//! What each kind shows besides its schema: columns, the scale subresource, rules on the whole object.
//!
//! Names, short names and scopes are on the types; the schemas are derived from them. This module only joins the two.

use kube_core::{CustomResourceExt, Resource};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::structural;
use crate::types::{
    ClusterTopologyBinding, ClusterTopologyBindingSpec, ClusterTopologyBindingStatus, PodClique, PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec, PodCliqueScalingGroupStatus, PodCliqueSet, PodCliqueSetSpec, PodCliqueSetStatus,
    PodCliqueSpec, PodCliqueStatus, PodGang, PodGangMap, PodGangMapSpec, PodGangMapStatus, PodGangSpec, PodGangStatus,
    parts,
};

const MIN_BREACHED: &str = r#".status.conditions[?(@.type=="MinAvailableBreached")].status"#;
const UPDATE: Column = Column(
    "Update",
    "string",
    r#".status.conditions[?(@.type=="UpdateInProgress")].reason"#,
);
const AGE: Column = Column("Age", "date", ".metadata.creationTimestamp");

/// A printer column: name, type, path.
struct Column(&'static str, &'static str, &'static str);

/// A column of numbers.
const fn number(name: &'static str, path: &'static str) -> Column {
    Column(name, "integer", path)
}

struct Extras {
    description: &'static str,
    columns: Vec<Column>,
    /// Names of the columns that only `-o wide` shows.
    wide: &'static [&'static str],
    scale_selector: Option<&'static str>,
    rules: Option<Value>,
}

impl Extras {
    fn new(description: &'static str, columns: Vec<Column>) -> Self {
        Self {
            description,
            columns,
            wide: &[],
            scale_selector: None,
            rules: None,
        }
    }
}

/// One CustomResourceDefinition for each kind, in the order in which Grove's installer applies them.
pub(super) fn all() -> Vec<Value> {
    vec![
        pod_clique(),
        pod_clique_set(),
        pod_clique_scaling_group(),
        cluster_topology_binding(),
        pod_gang_map(),
        pod_gang(),
    ]
}

fn pod_clique_set() -> Value {
    let columns = vec![
        number("Replicas", ".spec.replicas"),
        number("Available", ".status.availableReplicas"),
        number("Updated", ".status.updatedReplicas"),
        number("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount"),
        number("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount"),
        number(
            "PCSGs-Updated",
            ".status.updateProgress.updatedPodCliqueScalingGroupsCount",
        ),
        number("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount"),
        UPDATE,
        AGE,
    ];
    definition::<PodCliqueSet, PodCliqueSetSpec, PodCliqueSetStatus>(Extras {
        wide: &["Update"],
        scale_selector: Some(".status.hpaPodSelector"),
        rules: Some(parts::pack_domain_rules()),
        ..Extras::new("A serving system of cliques and how many copies of it run.", columns)
    })
}

fn pod_clique() -> Value {
    let columns = vec![
        number("MinAvail", ".spec.minAvailable"),
        number("Replicas", ".spec.replicas"),
        number("Ready", ".status.readyReplicas"),
        number("Scheduled", ".status.scheduledReplicas"),
        number("Updated", ".status.updatedReplicas"),
        number("Gated", ".status.scheduleGatedReplicas"),
        Column("MinBreached", "string", MIN_BREACHED),
        UPDATE,
        AGE,
    ];
    definition::<PodClique, PodCliqueSpec, PodCliqueStatus>(Extras {
        wide: &["Gated", "MinBreached", "Update"],
        scale_selector: Some(".status.hpaPodSelector"),
        ..Extras::new("Pods of one role.", columns)
    })
}

fn pod_clique_scaling_group() -> Value {
    let columns = vec![
        number("MinAvail", ".spec.minAvailable"),
        number("Replicas", ".spec.replicas"),
        number("Available", ".status.availableReplicas"),
        number("Scheduled", ".status.scheduledReplicas"),
        number("Updated", ".status.updatedReplicas"),
        number("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount"),
        number("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount"),
        Column("MinBreached", "string", MIN_BREACHED),
        UPDATE,
        AGE,
    ];
    definition::<PodCliqueScalingGroup, PodCliqueScalingGroupSpec, PodCliqueScalingGroupStatus>(Extras {
        wide: &["MinBreached", "Update"],
        scale_selector: Some(".status.selector"),
        ..Extras::new("Cliques that scale together.", columns)
    })
}

fn cluster_topology_binding() -> Value {
    let columns = vec![Column("Domains", "string", ".spec.levels[*].domain"), AGE];
    definition::<ClusterTopologyBinding, ClusterTopologyBindingSpec, ClusterTopologyBindingStatus>(Extras::new(
        "The levels of a cluster's topology, by node label.",
        columns,
    ))
}

fn pod_gang() -> Value {
    let columns = vec![Column("Phase", "string", ".status.phase"), AGE];
    definition::<PodGang, PodGangSpec, PodGangStatus>(Extras::new(
        "Pods that a scheduler places together, all or nothing.",
        columns,
    ))
}

fn pod_gang_map() -> Value {
    let columns = vec![
        number("Replica", ".spec.podCliqueSetReplicaIndex"),
        Column("Roles", "string", ".spec.entries[*].role"),
        AGE,
    ];
    definition::<PodGangMap, PodGangMapSpec, PodGangMapStatus>(Extras::new(
        "Which units of one replica of a set belong to which gang.",
        columns,
    ))
}

fn definition<Kind, Spec, Status>(extras: Extras) -> Value
where
    Kind: Resource<DynamicType = ()> + CustomResourceExt,
    Spec: JsonSchema,
    Status: JsonSchema,
{
    let resource = Kind::api_resource();
    let kubernetes = coppice_schema::pod_template();
    let mut schema = json!({
        "description": extras.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": structural::of::<Spec>(kubernetes),
            "status": structural::of::<Status>(kubernetes),
        },
    });
    if let Some(rules) = extras.rules {
        schema["x-kubernetes-validations"] = rules;
    }
    let mut subresources = json!({ "status": {} });
    if let Some(selector) = extras.scale_selector {
        subresources["scale"] = json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": selector,
        });
    }
    let columns = extras.columns.iter().map(|Column(name, kind, path)| {
        let mut column = json!({ "name": name, "type": kind, "jsonPath": path });
        if extras.wide.contains(name) {
            column["priority"] = json!(1);
        }
        column
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": Kind::crd_name(),
            "labels": { "app.kubernetes.io/part-of": "coppice" },
        },
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": format!("{}List", resource.kind),
                "plural": resource.plural,
                "singular": resource.kind.to_lowercase(),
                "shortNames": Kind::shortnames(),
            },
            "scope": Kind::crd().spec.scope,
            "versions": [{
                "name": resource.version,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns.collect::<Vec<_>>(),
                "schema": { "openAPIV3Schema": schema },
                "subresources": subresources,
            }],
        },
    })
}
