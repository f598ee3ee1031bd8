//! The rules of built-in kinds, except where a kind has a file of its own.

use std::sync::Arc;

use super::{Kind, NameRule};

/// A built-in kind that differs from others only in the facts of this table.
pub(super) struct Plain {
    kind: String,
    status: bool,
    generation: bool,
}

impl Plain {
    pub(super) fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), status: has_status(kind), generation: has_generation(kind) }
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

impl Kind for Plain {
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
            "Lease" | "CustomResourceDefinition" | "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"
                | "PodDisruptionBudget" | "EndpointSlice"
        )
    }

    fn allows_create_on_update(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "Lease" | "Event" | "Endpoints" | "LimitRange" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding"
        )
    }

    fn status_write_keeps_metadata(&self) -> bool {
        true
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

pub(super) fn rules_for(_group: &str, _version: &str, kind: &str) -> Arc<dyn Kind> {
    Arc::new(Plain::new(kind))
}
