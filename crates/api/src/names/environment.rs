//! Environment variables of the pods, and the names inside the init container that waits for other cliques.

/// The set.
pub const SET_NAME: &str = "GROVE_PCS_NAME";
/// The copy of the set.
pub const SET_INDEX: &str = "GROVE_PCS_INDEX";
/// The PodClique object.
pub const CLIQUE_NAME: &str = "GROVE_PCLQ_NAME";
/// The address of the copy's headless service.
pub const HEADLESS_SERVICE: &str = "GROVE_HEADLESS_SERVICE";
/// The pod's index in its clique.
pub const POD_INDEX: &str = "GROVE_PCLQ_POD_INDEX";
/// The PodCliqueScalingGroup object; members only.
pub const SCALING_GROUP_NAME: &str = "GROVE_PCSG_NAME";
/// The number of pods in one copy of the group, by the template; members only.
pub const SCALING_GROUP_TEMPLATE_PODS: &str = "GROVE_PCSG_TEMPLATE_NUM_PODS";
/// The copy of the group; members only.
pub const SCALING_GROUP_INDEX: &str = "GROVE_PCSG_INDEX";
/// The pod's index among all pods of its copy of the group; members only.
pub const SCALING_GROUP_POD_INDEX: &str = "GROVE_PCSG_POD_INDEX";

/// Variables of every pod, in the order in which they stand before the user's own.
pub const EVERY_POD: &[&str] = &[SET_NAME, SET_INDEX, CLIQUE_NAME, HEADLESS_SERVICE, POD_INDEX];
/// Variables of pods in a scaling group, in order.
pub const SCALING_GROUP_POD: &[&str] = &[
    SCALING_GROUP_POD_INDEX,
    SCALING_GROUP_NAME,
    SCALING_GROUP_TEMPLATE_PODS,
    SCALING_GROUP_INDEX,
];
/// The templates of the pod's component; only with coherent updates.
pub const COMPONENT_REVISION: &str = "GROVE_COMPONENT_REVISION";
/// The epoch of the anchor that the pod serves with; only with coherent updates.
pub const UPDATE_EPOCH: &str = "GROVE_UPDATE_EPOCH";
/// Variables of pods of a coherently updated set, in order.
pub const COHERENT_POD: &[&str] = &[COMPONENT_REVISION, UPDATE_EPOCH];

/// Whether a user's variable of this name is replaced by ours.
pub fn is_reserved(name: &str) -> bool {
    EVERY_POD.contains(&name) || SCALING_GROUP_POD.contains(&name) || COHERENT_POD.contains(&name)
}

/// The init container that waits for other cliques.
pub const WAITER_CONTAINER: &str = "grove-initc";
/// Its flag: `--podcliques=<clique>:<count>`, once for each clique to wait for.
pub const WAITER_FLAG: &str = "--podcliques";
/// Its volume with the pod's namespace and gang.
pub const POD_INFO_VOLUME: &str = "pod-info-vol";
/// Where that volume is mounted.
pub const POD_INFO_PATH: &str = "/var/grove/pod-info";
/// File in that volume: the namespace.
pub const POD_INFO_NAMESPACE_FILE: &str = "namespace";
/// File in that volume: the gang.
pub const POD_INFO_GANG_FILE: &str = "podgangname";
/// Its volume with a service account token.
pub const TOKEN_VOLUME: &str = "sa-token-secret-vol";
/// Where that volume is mounted.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The pod's claim on its NVLink channel.
pub const MNNVL_CLAIM: &str = "mnnvl-claim";

/// Argument of the waiting container for one clique.
pub fn waiter_argument(clique: &str, count: u32) -> String {
    format!("{WAITER_FLAG}={clique}:{count}")
}
