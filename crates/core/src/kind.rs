//! The kinds that planners touch: one row for each, which says everything that is true of the kind itself.
//!
//! The API version, plural, scope and status of every kind are read from here. Nothing in this module
//! depends on an object.

/// One row of the table.
struct Row {
    name: &'static str,
    api_version: &'static str,
    plural: &'static str,
    scope: Scope,
    status: Status,
    code: &'static str,
}

/// Where the objects of a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// How the status of a kind is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Through the status subresource.
    Subresource,
    /// There is none.
    Absent,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $variant:ident: $name:literal, $api_version:expr, $plural:literal, $scope:ident, $status:ident, $code:literal;)*) => {
        /// The kinds that planners touch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            fn row(self) -> Row {
                match self {
                    $(Self::$variant => Row {
                        name: $name,
                        api_version: $api_version,
                        plural: $plural,
                        scope: Scope::$scope,
                        status: Status::$status,
                        code: $code,
                    },)*
                }
            }
        }
    };
}

const GROVE: &str = "grove.io/v1alpha1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

// Kind; its name, API version and plural; its scope and status; how error codes name it.
kinds! {
    /// PodCliqueSet.
    PodCliqueSet: "PodCliqueSet", GROVE, "podcliquesets", Namespaced, Subresource, "PODCLIQUESET";
    /// PodCliqueScalingGroup.
    PodCliqueScalingGroup: "PodCliqueScalingGroup", GROVE, "podcliquescalinggroups", Namespaced, Subresource, "PODCLIQUESCALINGGROUP";
    /// PodClique.
    PodClique: "PodClique", GROVE, "podcliques", Namespaced, Subresource, "PODCLIQUE";
    /// PodGang.
    PodGang: "PodGang", "scheduler.grove.io/v1alpha1", "podgangs", Namespaced, Subresource, "PODGANG";
    /// PodGangMap.
    PodGangMap: "PodGangMap", GROVE, "podgangmaps", Namespaced, Subresource, "PODGANGMAP";
    /// Pod.
    Pod: "Pod", "v1", "pods", Namespaced, Subresource, "POD";
    /// Service.
    Service: "Service", "v1", "services", Namespaced, Subresource, "PODCLIQUESET_SERVICE";
    /// HorizontalPodAutoscaler.
    HorizontalPodAutoscaler: "HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers", Namespaced, Subresource, "HPA";
    /// Role.
    Role: "Role", RBAC, "roles", Namespaced, Absent, "ROLE";
    /// RoleBinding.
    RoleBinding: "RoleBinding", RBAC, "rolebindings", Namespaced, Absent, "ROLEBINDING";
    /// ControllerRevision.
    ControllerRevision: "ControllerRevision", "apps/v1", "controllerrevisions", Namespaced, Absent, "CONTROLLERREVISION";
    /// ResourceClaim.
    ResourceClaim: "ResourceClaim", "resource.k8s.io/v1", "resourceclaims", Namespaced, Subresource, "RESOURCE_CLAIM";
    /// ComputeDomain.
    ComputeDomain: "ComputeDomain", "resource.nvidia.com/v1beta1", "computedomains", Namespaced, Subresource, "COMPUTEDOMAIN";
    /// ClusterTopologyBinding.
    ClusterTopologyBinding: "ClusterTopologyBinding", GROVE, "clustertopologybindings", Cluster, Subresource, "CLUSTERTOPOLOGYBINDING";
    /// Topology of KAI.
    KaiTopology: "Topology", "kai.scheduler/v1alpha1", "topologies", Cluster, Absent, "TOPOLOGY";
    /// PodGroup of KAI.
    KaiPodGroup: "PodGroup", "scheduling.run.ai/v2alpha2", "podgroups", Namespaced, Subresource, "PODGROUP";
    /// PodGroup of Volcano.
    VolcanoPodGroup: "PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups", Namespaced, Subresource, "PODGROUP";
    /// PodGroup of Kubernetes itself.
    NativePodGroup: "PodGroup", "scheduling.k8s.io/v1alpha2", "podgroups", Namespaced, Subresource, "PODGROUP";
}

impl Kind {
    /// Its name, as objects carry it. Several schedulers have a PodGroup: only the API version tells them apart.
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The API version of its objects.
    pub fn api_version(self) -> &'static str {
        self.row().api_version
    }

    /// The API group and the version in it; the core group is empty.
    pub fn group_and_version(self) -> (&'static str, &'static str) {
        let version = self.api_version();
        version.split_once('/').unwrap_or(("", version))
    }

    /// The name of the resource, as paths carry it.
    pub fn plural(self) -> &'static str {
        self.row().plural
    }

    /// Where its objects are.
    pub fn scope(self) -> Scope {
        self.row().scope
    }

    /// How its status is written.
    pub fn status(self) -> Status {
        self.row().status
    }

    /// How codes of errors name it.
    pub fn code(self) -> &'static str {
        self.row().code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_our_kinds_agree_with_their_definitions() {
        for definition in coppice_api::crd::all() {
            let spec = &definition["spec"];
            let (group, plural) = (&spec["group"], &spec["names"]["plural"]);
            let mut kinds = Kind::ALL.iter();
            let kind = kinds.find(|kind| *group == kind.group_and_version().0 && *plural == kind.plural());
            let kind = kind.unwrap_or_else(|| panic!("no row for {plural} of {group}"));
            assert_eq!(spec["names"]["kind"], kind.as_str());
            let version = &spec["versions"][0];
            assert_eq!(version["name"], kind.group_and_version().1, "{kind:?}");
            assert_eq!(spec["scope"] == "Cluster", kind.scope() == Scope::Cluster, "{kind:?}");
            let has_status = version["subresources"]["status"].is_object();
            assert_eq!(has_status, kind.status() == Status::Subresource, "{kind:?}");
        }
    }

    #[test]
    fn no_two_kinds_share_a_resource() {
        let resources: std::collections::BTreeSet<_> = Kind::ALL
            .iter()
            .map(|kind| (kind.api_version(), kind.plural()))
            .collect();
        assert_eq!(resources.len(), Kind::ALL.len());
    }
}
