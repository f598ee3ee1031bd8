//! Annotation keys and their fixed values.

/// On a set: `"true"` (exactly) lets anybody change its managed objects.
pub const DISABLE_PROTECTION: &str = "grove.io/disable-managed-resource-protection";
/// The value that makes [`DISABLE_PROTECTION`] count.
pub const DISABLE_PROTECTION_VALUE: &str = "true";
/// On a set: any change of it asks for a reconcile.
pub const RECONCILE_TRIGGER: &str = "grove.io/reconcile-trigger";
/// On a gang: the ClusterTopologyBinding that its constraints were translated with.
pub const TOPOLOGY_NAME: &str = "grove.io/topology-name";
/// On a set: its replicas are rather not placed in the same domain of this level. On its gangs: the label key of it.
pub const SPREAD_PREFERRED: &str = "grove.io/spread-preferred";
/// On a set: no two of its replicas are placed in the same domain of this level. On its gangs: the label key of it.
pub const SPREAD_REQUIRED: &str = "grove.io/spread-required";
/// On a set, scaling group or clique: the NVLink group, or [`MNNVL_NONE`].
pub const MNNVL_GROUP: &str = "grove.io/mnnvl-group";
/// The value of [`MNNVL_GROUP`] that opts out and stops inheritance.
pub const MNNVL_NONE: &str = "none";

/// On a clique of a scaling group: how many pods the cliques before it have in the same copy. Not part of its template, and
/// not copied to pods.
pub const POD_INDEX_OFFSET: &str = "grove.io/podcliquescalinggroup-pod-index-offset";

/// On a set or clique: the Volcano queue.
pub const VOLCANO_QUEUE: &str = "scheduling.grove.io/volcano-queue";
/// The Volcano queue when none is named.
pub const VOLCANO_DEFAULT_QUEUE: &str = "default";
/// On pods under Volcano: their group.
pub const VOLCANO_GROUP_NAME: &str = "scheduling.volcano.sh/group-name";
/// On pods under Volcano: their group, under the key of its predecessor.
pub const KUBE_BATCH_GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// KAI's queue as an annotation; the label of the same key is preferred.
pub const KAI_QUEUE: &str = super::labels::KAI_QUEUE;
/// Tells KAI not to group pods itself.
pub const KAI_SKIP_POD_GROUPER: &str = "kai.scheduler/skip-podgrouper";
/// On pods under KAI: their group.
pub const KAI_POD_GROUP_NAME: &str = "pod-group-name";

/// On a ResourceClaimTemplate: the other namespaces whose sets may share claims made from it, separated by commas, or
/// [`EVERY_NAMESPACE`]. Without it only sets of its own namespace may.
pub const SHARED_WITH_NAMESPACES: &str = "grove.io/shared-with-namespaces";
/// The value of [`SHARED_WITH_NAMESPACES`] for all.
pub const EVERY_NAMESPACE: &str = "*";

/// On a token secret: the service account it is for.
pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// Written by client-side `kubectl apply`; a copy of it on another object would lie.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// On a ControllerRevision: the hash under which its templates are known to clients, when another operator wrote it.
pub const ADOPTED_GENERATION_HASH: &str = "grove.io/adopted-generation-hash";

/// On a set: why its template is as it is, in the words of its author. It is copied to the ControllerRevision of the template.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// On the template of a clique: when its pods were asked to restart.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// On a PodGangMap: the generations of the objects that it was made from, by uid, as a JSON object.
pub const MADE_FROM_GENERATIONS: &str = "grove.io/made-from-generations";

/// On a gang: where Coppice's scheduler means to place its pods, written before the first of them is bound. Under our
/// own prefix, because operators keep such keys on gangs and take all others away.
pub const PLACEMENT_PLAN: &str = "grove.io/placement-plan";
