//! The table of built-in resources, the only one: names, scope, parts, and how writes differ.

use super::{Served, Subresource};
use crate::kinds::{self, Facts, NameRule};

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

/// One row of the table: everything in which built-in kinds differ, as long as it can be said in a word.
struct Row {
    api: (&'static str, &'static str),
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
    categories: &'static str,
    scope: Scope,
    /// Parts that are read and written on their own: `status`, `scale` and special ones; or `create-only`.
    parts: &'static str,
    /// `generation` (counted), `label-name` and `path-name` (how names look), `versioned-put` (PUT needs a version),
    /// `put-creates` (PUT creates what is not there).
    traits: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}

macro_rules! table {
    ($($api:expr, $plural:literal, $kind:literal, $short:literal, $categories:literal, $scope:ident,
       $parts:literal, $traits:literal;)*) => {
        &[$(Row {
            api: $api,
            plural: $plural,
            kind: $kind,
            short: $short,
            categories: $categories,
            scope: Scope::$scope,
            parts: $parts,
            traits: $traits,
        }),*]
    };
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

// Group and version; plural, kind; short names, categories; scope; parts; traits.
const TABLE: &[Row] = table! {
    CORE, "bindings", "Binding", "", "", Namespaced, "create-only", "";
    CORE, "configmaps", "ConfigMap", "cm", "", Namespaced, "", "";
    CORE, "endpoints", "Endpoints", "ep", "", Namespaced, "", "put-creates";
    CORE, "events", "Event", "ev", "", Namespaced, "", "put-creates";
    CORE, "limitranges", "LimitRange", "limits", "", Namespaced, "", "put-creates";
    CORE, "namespaces", "Namespace", "ns", "", Cluster, "status finalize", "label-name";
    CORE, "nodes", "Node", "no", "", Cluster, "status", "";
    CORE, "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "", Namespaced, "status", "";
    CORE, "persistentvolumes", "PersistentVolume", "pv", "", Cluster, "status", "";
    CORE, "pods", "Pod", "po", "all", Namespaced, "status binding eviction log exec attach portforward resize ephemeralcontainers", "generation";
    CORE, "podtemplates", "PodTemplate", "", "", Namespaced, "", "generation";
    CORE, "replicationcontrollers", "ReplicationController", "rc", "all", Namespaced, "status scale", "generation";
    CORE, "resourcequotas", "ResourceQuota", "quota", "", Namespaced, "status", "";
    CORE, "secrets", "Secret", "", "", Namespaced, "", "";
    CORE, "serviceaccounts", "ServiceAccount", "sa", "", Namespaced, "token", "";
    CORE, "services", "Service", "svc", "all", Namespaced, "status", "label-name put-creates";
    ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "api-extensions", Cluster, "", "generation versioned-put";
    ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "api-extensions", Cluster, "", "generation versioned-put";
    ("apiextensions.k8s.io", "v1"), "customresourcedefinitions", "CustomResourceDefinition", "crd crds", "api-extensions", Cluster, "status", "generation versioned-put";
    APPS, "controllerrevisions", "ControllerRevision", "", "", Namespaced, "", "";
    APPS, "daemonsets", "DaemonSet", "ds", "all", Namespaced, "status", "generation";
    APPS, "deployments", "Deployment", "deploy", "all", Namespaced, "status scale", "generation";
    APPS, "replicasets", "ReplicaSet", "rs", "all", Namespaced, "status scale", "generation";
    APPS, "statefulsets", "StatefulSet", "sts", "all", Namespaced, "status scale", "generation";
    ("authentication.k8s.io", "v1"), "selfsubjectreviews", "SelfSubjectReview", "", "", Cluster, "create-only", "";
    AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", "", Cluster, "create-only", "";
    AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", "", "", Cluster, "create-only", "";
    ("autoscaling", "v2"), "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "all", Namespaced, "status", "";
    ("autoscaling", "v1"), "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "all", Namespaced, "status", "";
    BATCH, "cronjobs", "CronJob", "cj", "all", Namespaced, "status", "generation";
    BATCH, "jobs", "Job", "", "all", Namespaced, "status", "generation";
    ("coordination.k8s.io", "v1"), "leases", "Lease", "", "", Namespaced, "", "versioned-put put-creates";
    ("discovery.k8s.io", "v1"), "endpointslices", "EndpointSlice", "", "", Namespaced, "", "generation versioned-put";
    ("events.k8s.io", "v1"), "events", "Event", "ev", "", Namespaced, "", "put-creates";
    NETWORKING, "ingressclasses", "IngressClass", "", "", Cluster, "", "generation";
    NETWORKING, "ingresses", "Ingress", "ing", "", Namespaced, "status", "generation";
    NETWORKING, "networkpolicies", "NetworkPolicy", "netpol", "", Namespaced, "", "generation";
    ("node.k8s.io", "v1"), "runtimeclasses", "RuntimeClass", "", "", Cluster, "", "";
    ("policy", "v1"), "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "", Namespaced, "status", "generation versioned-put";
    RBAC, "clusterrolebindings", "ClusterRoleBinding", "", "", Cluster, "", "path-name put-creates";
    RBAC, "clusterroles", "ClusterRole", "", "", Cluster, "", "path-name put-creates";
    RBAC, "rolebindings", "RoleBinding", "", "", Namespaced, "", "path-name put-creates";
    RBAC, "roles", "Role", "", "", Namespaced, "", "path-name put-creates";
    RESOURCE, "deviceclasses", "DeviceClass", "", "", Cluster, "", "generation";
    RESOURCE, "resourceclaims", "ResourceClaim", "", "", Namespaced, "status", "";
    RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate", "", "", Namespaced, "", "";
    RESOURCE, "resourceslices", "ResourceSlice", "", "", Cluster, "", "generation";
    ("scheduling.k8s.io", "v1"), "priorityclasses", "PriorityClass", "pc", "", Cluster, "", "generation";
    STORAGE, "csidrivers", "CSIDriver", "", "", Cluster, "", "";
    STORAGE, "csinodes", "CSINode", "", "", Cluster, "", "";
    STORAGE, "csistoragecapacities", "CSIStorageCapacity", "", "", Namespaced, "", "";
    STORAGE, "storageclasses", "StorageClass", "sc", "", Cluster, "", "";
    STORAGE, "volumeattachments", "VolumeAttachment", "", "", Cluster, "status", "";
};

/// The built-in resources, groups in the order a real server prefers them (core first, then by name).
pub(crate) fn builtin_resources() -> Vec<Served> {
    TABLE.iter().map(Row::served).collect()
}

impl Row {
    fn served(&self) -> Served {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (group, version) = self.api;
        let id = match group {
            // One storage, two views.
            "events.k8s.io" => EVENTS.to_owned(),
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        };
        Served {
            group: group.into(),
            version: version.into(),
            storage_api_version: match group {
                "events.k8s.io" => "v1".into(),
                "autoscaling" => "autoscaling/v2".into(),
                group => super::join_api_version(group, version).into(),
            },
            plural: self.plural.into(),
            singular: self.kind.to_lowercase().into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: words(self.short),
            categories: words(self.categories),
            namespaced: self.scope == Scope::Namespaced,
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
            rules: kinds::rules_for(group, version, self.kind, self.facts()),
        }
    }

    fn facts(&self) -> Facts {
        let part = |name: &str| self.parts.split_whitespace().any(|part| part == name);
        let has = |name: &str| self.traits.split_whitespace().any(|word| word == name);
        Facts {
            status: part("status"),
            scale: part("scale"),
            generation: has("generation"),
            name_rule: match () {
                () if has("label-name") => NameRule::Label,
                () if has("path-name") => NameRule::PathSegment,
                () => NameRule::Subdomain,
            },
            unconditional_update: !has("versioned-put"),
            create_on_update: has("put-creates"),
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
    fn every_word_of_the_table_is_a_known_one() {
        let known = ["generation", "label-name", "path-name", "versioned-put", "put-creates"];
        let mut words = TABLE.iter().flat_map(|row| row.traits.split_whitespace());
        assert_eq!(words.find(|word| !known.contains(word)), None);
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
