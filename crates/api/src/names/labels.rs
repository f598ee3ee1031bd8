//! Label keys and the fixed label values.

/// Who manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on every object of ours. It is the Go operator's, because caches, webhooks and the
/// users' own selectors filter by it.
pub const MANAGED_BY_VALUE: &str = "grove-operator";
/// The PodCliqueSet that an object belongs to.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The object's own name.
pub const NAME: &str = "app.kubernetes.io/name";
/// What the object is for; see [`Component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// The PodClique of a pod or claim, by object name.
pub const POD_CLIQUE: &str = "grove.io/podclique";
/// The PodGang of a pod, or of a clique in a scaling group.
pub const POD_GANG: &str = "grove.io/podgang";
/// The gang that a scaled gang waited for, in versions without PodGangMaps. It is removed wherever it is found.
pub const BASE_POD_GANG: &str = "grove.io/base-podgang";
/// The epoch of a gang, as the PodGangMap of its replica has it.
pub const EPOCH: &str = "grove.io/epoch";
/// What a gang is for, as the PodGangMap of its replica has it.
pub const POD_GANG_ROLE: &str = "grove.io/podgang-role";
/// The templates of the set that a gang was last given.
pub const SET_GENERATION_HASH: &str = "grove.io/podcliqueset-generation-hash";
/// The copy of the set.
pub const SET_REPLICA_INDEX: &str = "grove.io/podcliqueset-replica-index";
/// The PodCliqueScalingGroup, by object name.
pub const SCALING_GROUP: &str = "grove.io/podcliquescalinggroup";
/// The copy of the scaling group.
pub const SCALING_GROUP_REPLICA_INDEX: &str = "grove.io/podcliquescalinggroup-replica-index";
/// The pod's index in its clique; also the number in its host name.
pub const POD_INDEX: &str = "grove.io/podclique-pod-index";
/// On pods of a scaling group: the index among all pods of the copy, in the order of the group's cliques.
pub const SCALING_GROUP_POD_INDEX: &str = "grove.io/podcliquescalinggroup-pod-index";
/// Identity of the pod template.
pub const POD_TEMPLATE_HASH: &str = "grove.io/pod-template-hash";
/// On pods of a coherently updated set: the templates of their component, which is a standalone clique or a scaling group.
/// Pods of two components serve together when no update concerns both, or when they have the same [`UPDATE_EPOCH`].
pub const COMPONENT_REVISION: &str = "grove.io/component-revision";
/// On pods of a coherently updated set: the epoch of the anchor that they serve with. Every update of a replica has its
/// own.
pub const UPDATE_EPOCH: &str = "grove.io/update-epoch";
/// The scheduler that a gang is meant for.
pub const SCHEDULER_NAME: &str = "grove.io/scheduler-name";
/// The NVLink group of a ComputeDomain.
pub const MNNVL_GROUP: &str = "grove.io/mnnvl-group";

/// KAI's queue: a label here, an annotation of the same key as second choice.
pub const KAI_QUEUE: &str = "kai.scheduler/queue";
/// KAI's name for the part of a pod group that a pod belongs to.
pub const KAI_SUBGROUP_NAME: &str = "kai.scheduler/subgroup-name";

/// Keys with this prefix are ours and never mirrored from a set to its gangs.
pub const RESERVED_PREFIX: &str = "grove.io/";

/// What a managed object is for: the values of [`COMPONENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// A clique that belongs to no scaling group.
    StandaloneClique,
    /// A clique in a scaling group.
    MemberClique,
    /// A scaling group.
    ScalingGroup,
    /// A gang.
    PodGang,
    /// The map of the gangs of one copy.
    PodGangMap,
    /// The headless service of one copy.
    HeadlessService,
    /// The service account of the init containers.
    ServiceAccount,
    /// What that account may do.
    Role,
    /// The binding of the two.
    RoleBinding,
    /// The token of that account.
    TokenSecret,
    /// An autoscaler.
    Autoscaler,
    /// A shared resource claim.
    ResourceClaim,
    /// A ComputeDomain.
    ComputeDomain,
}

impl Component {
    /// The value as it stands in the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StandaloneClique => "pcs-podclique",
            Self::MemberClique => "pcsg-podclique",
            Self::ScalingGroup => "pcs-podcliquescalinggroup",
            Self::PodGang => "podgang",
            Self::PodGangMap => "pcs-podgangmap",
            Self::HeadlessService => "pcs-headless-service",
            Self::ServiceAccount => "pod-service-account",
            Self::Role => "pod-role",
            Self::RoleBinding => "pod-role-binding",
            Self::TokenSecret => "pod-sa-token-secret",
            Self::Autoscaler => "pcs-hpa",
            Self::ResourceClaim => "resource-claim",
            Self::ComputeDomain => "pcs-computedomain",
        }
    }
}

/// Whether a label or annotation key is ours.
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED_PREFIX)
}
