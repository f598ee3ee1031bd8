//! Every reason code that planners write into conditions, events and waits, in one list.
//!
//! `docs/reasons.md` documents them; a test keeps the two in step.

/// A reason and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The code, as it stands in a condition or event.
    pub code: &'static str,
    /// What it means, for the reference page.
    pub meaning: &'static str,
}

macro_rules! reasons {
    ($($name:ident = $code:literal : $meaning:literal;)+) => {
        $(#[doc = $meaning] pub const $name: &str = $code;)+
        /// All reasons.
        pub const ALL: &[Reason] = &[$(Reason { code: $code, meaning: $meaning }),+];
    };
}

reasons! {
    SUFFICIENT_SCHEDULED = "SufficientScheduledPods": "At least minAvailable pods of the clique have a node.";
    INSUFFICIENT_SCHEDULED = "InsufficientScheduledPods": "Fewer than minAvailable pods of the clique have a node.";
    SUFFICIENT_READY = "SufficientReadyPods": "At least minAvailable pods of the clique are ready.";
    INSUFFICIENT_READY = "InsufficientReadyPods": "The clique had its minimum ready and has fallen below it.";
    SCHEDULED_BELOW_MINIMUM = "ScheduledReplicasBelowMinAvailable": "The clique had its minimum ready; now some pods have a node, but fewer than minAvailable.";
    PARTLY_SCHEDULED = "PartlyScheduled": "Some pods of the clique have a node, but fewer than minAvailable; its minimum was not ready before.";
    WAITING_FOR_NODES = "WaitingForScheduling": "No pod of the clique has a node yet.";
    WAITING_FOR_READINESS = "WaitingForReadiness": "Pods of the clique are starting; its minimum was not ready before.";
    ALL_LOST = "AllScheduledReplicasLost": "The last scheduled pod of the clique is gone. By default its gang is not replaced for that; `gangTermination.whenAllLost: Terminate` in the operator's configuration changes it.";
    UPDATE_IN_PROGRESS = "UpdateInProgress": "The clique or group is being updated; too few pods are expected now.";
    NO_ACTIVE_UPDATE = "NoActiveUpdate": "No update is in progress.";
    UPDATE_PROGRESSING = "Progressing": "An update is in progress.";
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded": "An update is in progress, and nothing was updated for longer than progressDeadline. Nothing is paused or rolled back; look at the pods that are not ready.";
    SUFFICIENT_COPIES = "SufficientAvailablePodCliqueScalingGroupReplicas": "At least minAvailable copies of the group are healthy.";
    INSUFFICIENT_COPIES = "InsufficientAvailablePodCliqueScalingGroupReplicas": "The group had its minimum of copies and has fallen below it.";
    GROWING = "GrowingToMinAvailable": "The clique was scaled up past its minimum and has never had the new minimum ready: no breach, whatever the new pods wait for.";
    GANG_TERMINATION = "GangTerminationActive": "Too few pods for longer than terminationDelay: all pods of the gang are being replaced.";
    GANG_TERMINATED = "GangTerminated": "The pods of the clique are being or were replaced as a whole. If it breaks again soon, it is given twice the terminationDelay.";
    GANG_TERMINATED_TWICE = "GangTerminatedTwice": "The clique broke again soon after it was replaced. If that happens once more, it is given four times the terminationDelay.";
    GANG_TERMINATED_OFTEN = "GangTerminatedRepeatedly": "The clique broke soon after it was replaced, several times in a row. It is given eight times the terminationDelay until it holds for that long.";
    PODS_PENDING = "PodGangPodsCreationPending": "Not all pods of the gang exist yet.";
    PODS_CREATED = "PodGangPodsCreated": "All pods of the gang exist.";
    GANG_SCHEDULED = "GangScheduled": "Every clique of the gang has its minimum scheduled.";
    GANG_NOT_SCHEDULED = "GangNotScheduled": "Some clique of the gang does not have its minimum scheduled.";
    GANG_READY = "GangReady": "Every clique of the gang has its minimum ready.";
    GANG_NOT_READY = "GangNotReady": "Some clique of the gang does not have its minimum ready.";
    WAITING_FOR_BASE = "WaitingForBaseGang": "The pods stay gated until the base gang of the replica is scheduled.";
    WAITING_FOR_OLD_PODS = "WaitingForOldPods": "New pods are created when the old ones of the same gang are gone.";
    WAITING_FOR_TURN = "WaitingForUpdateTurn": "Another replica of the set is being updated first.";
    ALL_AVAILABLE = "AllReplicasAvailable": "Every replica of the set is available.";
    SOME_UNAVAILABLE = "ReplicasUnavailable": "Some replica of the set is not available.";
    BELOW_MINIMUM = "BelowMinAvailable": "Some replica of the set has fallen below its minimum.";
    TOPOLOGY_DISABLED = "TopologyAwareSchedulingDisabled": "The set asks for packing, but the operator's configuration switches it off.";
    TOPOLOGY_NAME_MISSING = "TopologyNameMissing": "The set asks for packing, but names no topology.";
    TOPOLOGY_NOT_FOUND = "ClusterTopologyNotFound": "The ClusterTopologyBinding that the set names does not exist.";
    LEVELS_AVAILABLE = "AllClusterTopologyLevelsAvailable": "Every level that the set names exists in its topology, or it names none.";
    LEVELS_UNAVAILABLE = "ClusterTopologyLevelsUnavailable": "A level that the set names does not exist in its topology.";
    TOPOLOGY_IN_SYNC = "InSync": "Every scheduler's own topology object that the binding names agrees with it.";
    TOPOLOGY_DRIFT = "Drift": "A scheduler's own topology object that the binding names is not known to agree with it; schedulerTopologyStatuses says which and why.";
    SCHEDULER_TOPOLOGY_NOT_FOUND = "TopologyNotFound": "The API server does not have the topology objects of a scheduler of the operator's configuration, so nothing can be compared.";
    TOPOLOGY_DRIFT_DETECTED = "TopologyDriftDetected": "A scheduler's own topology object stopped agreeing with the ClusterTopologyBinding, or never did.";
    TOPOLOGY_DRIFT_GONE = "TopologyInSync": "All schedulers' own topology objects agree with the ClusterTopologyBinding again.";
    REPLICA_REPLACED = "PodCliqueSetReplicaDeleteSuccessful": "All pods of a replica of the set are being replaced, because its gang had too few for longer than terminationDelay.";
    COPY_REPLACED = "PodCliqueScalingGroupReplicaDeleteSuccessful": "All pods of a copy of a scaling group are being replaced, because it had too few for longer than terminationDelay.";
    PODS_PLACED_SINGLY = "PodsPlacedOneByOne": "The scheduler of the set places pods one by one: gangs are not guaranteed, and required packing is not enforced.";
    NOT_EXPRESSIBLE = "NotExpressible": "The objects of the gang's scheduler do not say everything that the gang asks for; the message lists what is lost, and what to do about it.";
    KAI_MAPPING_FAILED = "KAIBackendMappingFailed": "The API server refused to create or change the PodGroup that stands for the gang at KAI.";
    CLIQUE_WRITTEN = "PodCliqueCreateOrUpdateSuccessful": "PodCliques of the set were created or changed.";
    CLIQUE_NOT_WRITTEN = "PodCliqueCreateOrUpdateFailed": "The API server refused to create or change a PodClique of the set.";
    CLIQUE_CREATED = "PodCliqueCreateSuccessful": "PodCliques of the scaling group were created.";
    CLIQUE_NOT_CREATED = "PodCliqueCreateFailed": "The API server refused to create a PodClique of the scaling group.";
    CLIQUE_DELETED = "PodCliqueDeleteSuccessful": "PodCliques that are no longer wanted were deleted.";
    CLIQUE_NOT_DELETED = "PodCliqueDeleteFailed": "The API server refused to delete a PodClique.";
    GROUP_CREATED = "PodCliqueScalingGroupCreateSuccessful": "PodCliqueScalingGroups of the set were created.";
    GROUP_NOT_WRITTEN = "PodCliqueScalingGroupCreateOrUpdateFailed": "The API server refused to create or change a PodCliqueScalingGroup.";
    GROUP_DELETED = "PodCliqueScalingGroupDeleteSuccessful": "PodCliqueScalingGroups that are no longer wanted were deleted.";
    GROUP_NOT_DELETED = "PodCliqueScalingGroupDeleteFailed": "The API server refused to delete a PodCliqueScalingGroup.";
    GANG_WRITTEN = "PodGangCreateOrUpdateSuccessful": "PodGangs of the set were created or changed.";
    GANG_NOT_WRITTEN = "PodGangCreateOrUpdateFailed": "The API server refused to create or change a PodGang; its pods are not created before it.";
    GANG_DELETED = "PodGangDeleteSuccessful": "PodGangs that are no longer wanted were deleted.";
    GANG_NOT_DELETED = "PodGangDeleteFailed": "The API server refused to delete a PodGang.";
    POD_CREATED = "PodCreateSuccessful": "Pods of the clique were created.";
    POD_NOT_CREATED = "PodCreateFailed": "The API server refused a pod of the clique, for example because of a quota or an invalid template.";
    POD_DELETED = "PodDeleteSuccessful": "Pods of the clique were deleted by the operator.";
    POD_NOT_DELETED = "PodDeleteFailed": "The API server refused to delete a pod of the clique.";
    TOO_LARGE = "TooLarge": "A size is beyond the bounds of docs/compatibility-admission.md, or a gang would be too large to be stored. What exists is kept, and nothing is added until the size is lowered.";
    WRITE_REFUSED = "WriteRefused": "The API server refused a write; status.lastErrors says which and why. It is tried again, less and less often.";
    RECONCILE_PANICKED = "ReconcilePanicked": "The operator panicked while it worked on the set, one of its replicas or the topology. The rest goes on; this is tried again, less and less often. Please report it with the operator's log.";
    TEMPLATE_NOT_FOUND = "ResourceClaimTemplateNotFound": "A ResourceClaimTemplate that the set shares claims from does not exist; pods that need it wait.";
    WAITING_FOR_TEMPLATE = "WaitingForResourceClaimTemplate": "New pods of the clique are created when the ResourceClaimTemplate of a claim they share exists.";
    WAITING_FOR_CLAIM = "WaitingForResourceClaim": "New pods of the clique are created when the old claim of the same name is gone and the new one is there.";
    DOMAIN_CREATED = "ComputeDomainCreateSuccessful": "ComputeDomains for the NVLink groups of the set were created.";
    DOMAIN_NOT_CREATED = "ComputeDomainCreateFailed": "The API server refused a ComputeDomain; without the ComputeDomain CustomResourceDefinition it is not found.";
    DOMAIN_DELETED = "ComputeDomainDeleteSuccessful": "ComputeDomains that no pod uses any more were deleted.";
    DOMAIN_NOT_DELETED = "ComputeDomainDeleteFailed": "The API server refused to delete a ComputeDomain.";
    POD_REPLACED = "PodReplaced": "A pod that ended was deleted and is replaced.";
}
