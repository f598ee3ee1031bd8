//! The table of built-in resources: names, scope, parts.

use super::{Served, Subresource};
use crate::kinds;

/// The store's name for events, which two groups serve.
pub(crate) const EVENTS: &str = "events";

const ALL_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const CREATE_ONLY: &[&str] = &["create"];
const READ_WRITE: &[&str] = &["get", "patch", "update"];
const UPDATE_ONLY: &[&str] = &["update"];
const READ_ONLY: &[&str] = &["get"];

const SCALE: (&str, &str, &str) = ("autoscaling", "v1", "Scale");

/// One line of the table. `parts` lists `status`, `scale` and special parts, separated by blanks.
struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    short: &'static str,
    categories: &'static str,
    namespaced: bool,
    parts: &'static str,
}

const fn row(
    api: (&'static str, &'static str),
    names: (&'static str, &'static str, &'static str),
    hints: (&'static str, &'static str),
    namespaced: bool,
    parts: &'static str,
) -> Row {
    Row {
        group: api.0,
        version: api.1,
        plural: names.0,
        singular: names.1,
        kind: names.2,
        short: hints.0,
        categories: hints.1,
        namespaced,
        parts,
    }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const RESOURCE: (&str, &str) = ("resource.k8s.io", "v1");
const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const AUTHORIZATION: (&str, &str) = ("authorization.k8s.io", "v1");
const NONE: (&str, &str) = ("", "");

const TABLE: &[Row] = &[
    row(CORE, ("bindings", "binding", "Binding"), NONE, true, "create-only"),
    row(CORE, ("configmaps", "configmap", "ConfigMap"), ("cm", ""), true, ""),
    row(CORE, ("endpoints", "endpoints", "Endpoints"), ("ep", ""), true, ""),
    row(CORE, ("events", "event", "Event"), ("ev", ""), true, ""),
    row(
        CORE,
        ("limitranges", "limitrange", "LimitRange"),
        ("limits", ""),
        true,
        "",
    ),
    row(
        CORE,
        ("namespaces", "namespace", "Namespace"),
        ("ns", ""),
        false,
        "status finalize",
    ),
    row(CORE, ("nodes", "node", "Node"), ("no", ""), false, "status"),
    row(
        CORE,
        (
            "persistentvolumeclaims",
            "persistentvolumeclaim",
            "PersistentVolumeClaim",
        ),
        ("pvc", ""),
        true,
        "status",
    ),
    row(
        CORE,
        ("persistentvolumes", "persistentvolume", "PersistentVolume"),
        ("pv", ""),
        false,
        "status",
    ),
    row(
        CORE,
        ("pods", "pod", "Pod"),
        ("po", "all"),
        true,
        "status binding eviction log exec attach portforward resize ephemeralcontainers",
    ),
    row(CORE, ("podtemplates", "podtemplate", "PodTemplate"), NONE, true, ""),
    row(
        CORE,
        (
            "replicationcontrollers",
            "replicationcontroller",
            "ReplicationController",
        ),
        ("rc", "all"),
        true,
        "status scale",
    ),
    row(
        CORE,
        ("resourcequotas", "resourcequota", "ResourceQuota"),
        ("quota", ""),
        true,
        "status",
    ),
    row(CORE, ("secrets", "secret", "Secret"), NONE, true, ""),
    row(
        CORE,
        ("serviceaccounts", "serviceaccount", "ServiceAccount"),
        ("sa", ""),
        true,
        "token",
    ),
    row(CORE, ("services", "service", "Service"), ("svc", "all"), true, "status"),
    row(
        ADMISSION,
        (
            "mutatingwebhookconfigurations",
            "mutatingwebhookconfiguration",
            "MutatingWebhookConfiguration",
        ),
        ("", "api-extensions"),
        false,
        "",
    ),
    row(
        ADMISSION,
        (
            "validatingwebhookconfigurations",
            "validatingwebhookconfiguration",
            "ValidatingWebhookConfiguration",
        ),
        ("", "api-extensions"),
        false,
        "",
    ),
    row(
        ("apiextensions.k8s.io", "v1"),
        (
            "customresourcedefinitions",
            "customresourcedefinition",
            "CustomResourceDefinition",
        ),
        ("crd crds", "api-extensions"),
        false,
        "status",
    ),
    row(
        APPS,
        ("controllerrevisions", "controllerrevision", "ControllerRevision"),
        NONE,
        true,
        "",
    ),
    row(
        APPS,
        ("daemonsets", "daemonset", "DaemonSet"),
        ("ds", "all"),
        true,
        "status",
    ),
    row(
        APPS,
        ("deployments", "deployment", "Deployment"),
        ("deploy", "all"),
        true,
        "status scale",
    ),
    row(
        APPS,
        ("replicasets", "replicaset", "ReplicaSet"),
        ("rs", "all"),
        true,
        "status scale",
    ),
    row(
        APPS,
        ("statefulsets", "statefulset", "StatefulSet"),
        ("sts", "all"),
        true,
        "status scale",
    ),
    row(
        ("authentication.k8s.io", "v1"),
        ("selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
        NONE,
        false,
        "create-only",
    ),
    row(
        AUTHORIZATION,
        (
            "selfsubjectaccessreviews",
            "selfsubjectaccessreview",
            "SelfSubjectAccessReview",
        ),
        NONE,
        false,
        "create-only",
    ),
    row(
        AUTHORIZATION,
        ("subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview"),
        NONE,
        false,
        "create-only",
    ),
    row(
        ("autoscaling", "v2"),
        (
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
            "HorizontalPodAutoscaler",
        ),
        ("hpa", "all"),
        true,
        "status",
    ),
    row(
        ("autoscaling", "v1"),
        (
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
            "HorizontalPodAutoscaler",
        ),
        ("hpa", "all"),
        true,
        "status",
    ),
    row(BATCH, ("cronjobs", "cronjob", "CronJob"), ("cj", "all"), true, "status"),
    row(BATCH, ("jobs", "job", "Job"), ("", "all"), true, "status"),
    row(
        ("coordination.k8s.io", "v1"),
        ("leases", "lease", "Lease"),
        NONE,
        true,
        "",
    ),
    row(
        ("discovery.k8s.io", "v1"),
        ("endpointslices", "endpointslice", "EndpointSlice"),
        NONE,
        true,
        "",
    ),
    row(
        ("events.k8s.io", "v1"),
        ("events", "event", "Event"),
        ("ev", ""),
        true,
        "",
    ),
    row(
        NETWORKING,
        ("ingressclasses", "ingressclass", "IngressClass"),
        NONE,
        false,
        "",
    ),
    row(
        NETWORKING,
        ("ingresses", "ingress", "Ingress"),
        ("ing", ""),
        true,
        "status",
    ),
    row(
        NETWORKING,
        ("networkpolicies", "networkpolicy", "NetworkPolicy"),
        ("netpol", ""),
        true,
        "",
    ),
    row(
        ("node.k8s.io", "v1"),
        ("runtimeclasses", "runtimeclass", "RuntimeClass"),
        NONE,
        false,
        "",
    ),
    row(
        ("policy", "v1"),
        ("poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget"),
        ("pdb", ""),
        true,
        "status",
    ),
    row(
        RBAC,
        ("clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding"),
        NONE,
        false,
        "",
    ),
    row(RBAC, ("clusterroles", "clusterrole", "ClusterRole"), NONE, false, ""),
    row(RBAC, ("rolebindings", "rolebinding", "RoleBinding"), NONE, true, ""),
    row(RBAC, ("roles", "role", "Role"), NONE, true, ""),
    row(
        RESOURCE,
        ("deviceclasses", "deviceclass", "DeviceClass"),
        NONE,
        false,
        "",
    ),
    row(
        RESOURCE,
        ("resourceclaims", "resourceclaim", "ResourceClaim"),
        NONE,
        true,
        "status",
    ),
    row(
        RESOURCE,
        (
            "resourceclaimtemplates",
            "resourceclaimtemplate",
            "ResourceClaimTemplate",
        ),
        NONE,
        true,
        "",
    ),
    row(
        RESOURCE,
        ("resourceslices", "resourceslice", "ResourceSlice"),
        NONE,
        false,
        "",
    ),
    row(
        ("scheduling.k8s.io", "v1"),
        ("priorityclasses", "priorityclass", "PriorityClass"),
        ("pc", ""),
        false,
        "",
    ),
    row(STORAGE, ("csidrivers", "csidriver", "CSIDriver"), NONE, false, ""),
    row(STORAGE, ("csinodes", "csinode", "CSINode"), NONE, false, ""),
    row(
        STORAGE,
        ("storageclasses", "storageclass", "StorageClass"),
        ("sc", ""),
        false,
        "",
    ),
    row(
        STORAGE,
        ("volumeattachments", "volumeattachment", "VolumeAttachment"),
        NONE,
        false,
        "status",
    ),
];

/// The built-in resources, groups in the order a real server prefers them (core first, then by name).
pub(crate) fn builtin_resources() -> Vec<Served> {
    TABLE.iter().map(Row::served).collect()
}

impl Row {
    fn served(&self) -> Served {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let id = match self.group {
            // One storage, two views.
            "events.k8s.io" => EVENTS.to_owned(),
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        };
        Served {
            group: self.group.into(),
            version: self.version.into(),
            storage_api_version: match self.group {
                "events.k8s.io" => "v1".into(),
                "autoscaling" => "autoscaling/v2".into(),
                group => super::join_api_version(group, self.version).into(),
            },
            plural: self.plural.into(),
            singular: self.singular.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: words(self.short),
            categories: words(self.categories),
            namespaced: self.namespaced,
            verbs: if self.parts == "create-only" {
                CREATE_ONLY
            } else {
                ALL_VERBS
            },
            subresources: self
                .parts
                .split_whitespace()
                .filter_map(|part| self.subresource(part))
                .collect(),
            custom: false,
            id: id.into(),
            rules: kinds::rules_for(self.group, self.version, self.kind),
        }
    }

    fn subresource(&self, name: &str) -> Option<Subresource> {
        let (speaks, verbs) = match name {
            "create-only" => return None,
            "status" | "resize" | "ephemeralcontainers" => (None, READ_WRITE),
            "scale" => (Some(SCALE), READ_WRITE),
            "binding" => (Some(("", "v1", "Binding")), CREATE_ONLY),
            "eviction" => (Some(("policy", "v1", "Eviction")), CREATE_ONLY),
            "token" => (Some(("authentication.k8s.io", "v1", "TokenRequest")), CREATE_ONLY),
            "finalize" => (None, UPDATE_ONLY),
            "log" => (None, READ_ONLY),
            _ => (Some(("", "v1", "PodExecOptions")), &["create", "get"][..]),
        };
        Some(Subresource {
            name: name.to_owned(),
            speaks,
            verbs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::*;

    #[test]
    fn the_table_has_no_two_lines_for_one_resource() {
        let resources = builtin_resources();
        let registry = Registry::new(resources.clone());
        let found = |served: &&Served| {
            registry
                .find(&served.group, &served.version, &served.plural)
                .is_some_and(|found| found.kind == served.kind)
        };
        assert_eq!(resources.iter().filter(found).count(), resources.len());
        assert_eq!(registry.groups().next().map(|(group, _)| &**group), Some(""));
    }

    #[test]
    fn lookups_work_by_resource_and_by_kind() {
        let registry = Registry::new(builtin_resources());
        let pods = registry.find("", "v1", "pods").unwrap();
        assert_eq!((&*pods.kind, &*pods.id, pods.namespaced), ("Pod", "pods", true));
        assert!(pods.subresource("binding").is_some());
        assert_eq!(
            &*registry.find("apps", "v1", "deployments").unwrap().id,
            "deployments.apps"
        );
        assert!(registry.find("apps", "v2", "deployments").is_none());
    }
}
