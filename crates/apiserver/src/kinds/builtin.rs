//! The rules of built-in kinds, except where a kind has a file of its own.

use coppice_schema::{Cursor, ErrorKind, GroupVersionKind, Root, drop_nulls, kubernetes, prune, validate_schema};
use serde_json::Value;

use super::{Kind, NameRule, ScalePaths};

/// A built-in kind that differs from others only in the facts of this table.
pub(super) struct Plain {
    kind: String,
    schema: GroupVersionKind,
    status: bool,
    generation: bool,
}

impl Plain {
    pub(super) fn new(group: &str, version: &str, kind: &str) -> Self {
        let schema = GroupVersionKind::new(group, version, kind);
        Self {
            kind: kind.to_owned(),
            schema,
            status: has_status(kind),
            generation: has_generation(kind),
        }
    }
}

fn has_status(kind: &str) -> bool {
    matches!(
        kind,
        "Namespace"
            | "Node"
            | "PersistentVolumeClaim"
            | "PersistentVolume"
            | "Pod"
            | "ReplicationController"
            | "ResourceQuota"
            | "Service"
            | "CustomResourceDefinition"
            | "DaemonSet"
            | "Deployment"
            | "ReplicaSet"
            | "StatefulSet"
            | "HorizontalPodAutoscaler"
            | "CronJob"
            | "Job"
            | "Ingress"
            | "PodDisruptionBudget"
            | "ResourceClaim"
            | "VolumeAttachment"
    )
}

fn has_generation(kind: &str) -> bool {
    matches!(
        kind,
        "Pod"
            | "PriorityClass"
            | "IngressClass"
            | "NetworkPolicy"
            | "Ingress"
            | "EndpointSlice"
            | "PodDisruptionBudget"
            | "ResourceSlice"
            | "DeviceClass"
            | "DaemonSet"
            | "StatefulSet"
            | "Deployment"
            | "ReplicaSet"
            | "Job"
            | "CronJob"
            | "PodTemplate"
            | "ReplicationController"
            | "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration"
            | "CustomResourceDefinition"
    )
}

impl Plain {
    /// The schema of the kind, if the crate has one.
    pub(super) fn cursor(&self) -> Option<Cursor<'static>> {
        kubernetes().kind(&self.schema)
    }
}

impl Kind for Plain {
    fn prune(&self, object: &mut Value) -> Vec<String> {
        let Some(at) = self.cursor() else { return Vec::new() };
        drop_nulls(at, object);
        prune(at, object, Root::Object)
    }

    fn check_types(&self, object: &Value) -> Result<(), String> {
        let Some(at) = self.cursor() else { return Ok(()) };
        let mut object = object.clone();
        drop_nulls(at, &mut object);
        let errors = validate_schema(at, &object, None);
        match errors.into_iter().find(|error| error.kind == ErrorKind::TypeInvalid) {
            Some(error) => Err(format!(
                "{} into Go struct field {}.{}: {}",
                found(error.value.as_ref()),
                self.kind,
                error.path,
                error.detail
            )),
            None => Ok(()),
        }
    }

    fn has_status(&self) -> bool {
        self.status
    }

    fn has_generation(&self) -> bool {
        self.generation
    }

    fn name_rule(&self) -> NameRule {
        match self.kind.as_str() {
            "Namespace" => NameRule::Label,
            "Service" => NameRule::Label1035,
            "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => NameRule::PathSegment,
            _ => NameRule::Subdomain,
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        !matches!(
            self.kind.as_str(),
            "Lease"
                | "CustomResourceDefinition"
                | "MutatingWebhookConfiguration"
                | "ValidatingWebhookConfiguration"
                | "PodDisruptionBudget"
                | "EndpointSlice"
        )
    }

    fn allows_create_on_update(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "Lease"
                | "Event"
                | "Endpoints"
                | "LimitRange"
                | "Role"
                | "RoleBinding"
                | "ClusterRole"
                | "ClusterRoleBinding"
        )
    }

    fn status_write_keeps_metadata(&self) -> bool {
        true
    }

    fn scale_paths(&self) -> Option<ScalePaths> {
        let scalable = matches!(
            self.kind.as_str(),
            "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController"
        );
        scalable.then(|| ScalePaths {
            spec: "spec.replicas".into(),
            status: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
    }

    fn selectable_fields(&self) -> &[&str] {
        match self.kind.as_str() {
            "Event" => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            "Namespace" => &["status.phase"],
            "Node" => &["spec.unschedulable"],
            "Secret" => &["type"],
            "ReplicaSet" | "ReplicationController" => &["status.replicas"],
            "Job" => &["status.successful"],
            "ResourceSlice" => &["spec.nodeName", "spec.driver"],
            "Service" => &["spec.clusterIP", "spec.type"],
            _ => &[],
        }
    }
}

/// What Go calls a JSON value.
fn found(value: Option<&Value>) -> &'static str {
    match value {
        Some(Value::String(_)) => "string",
        Some(Value::Number(_)) => "number",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Array(_)) => "array",
        _ => "object",
    }
}
