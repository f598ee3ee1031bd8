//! Every reason that planners write into conditions, events and waits, with what it means.
//!
//! `docs/reasons.md` is made from this list and from that of the condition types; a test compares, and rewrites it.

use std::fmt;

macro_rules! reasons {
    ($($reason:ident: $meaning:literal;)+) => {
        /// A reason in a condition, an event or a wait. The name of a variant is the reason as it is written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason {
            $(#[doc = $meaning] $reason,)+
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$reason,)+];

            /// The reason, as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)+
                }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$reason => $meaning,)+
                }
            }
        }
    };
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl PartialEq<Reason> for String {
    fn eq(&self, other: &Reason) -> bool {
        self == other.as_str()
    }
}

reasons! {
    SufficientScheduledPods: "At least minAvailable pods of the clique have a node.";
    InsufficientScheduledPods: "Fewer than minAvailable pods of the clique have a node.";
    SufficientReadyPods: "At least minAvailable pods of the clique are ready.";
    InsufficientReadyPods: "The clique had its minimum ready and has fallen below it.";
    ScheduledReplicasBelowMinAvailable: "The clique had its minimum ready; now some pods have a node, but fewer than minAvailable.";
    PartlyScheduled: "Some pods of the clique have a node, but fewer than minAvailable; its minimum was not ready before.";
    WaitingForScheduling: "No pod of the clique has a node yet.";
    WaitingForReadiness: "Pods of the clique are starting; its minimum was not ready before.";
    AllScheduledReplicasLost: "The last scheduled pod of the clique is gone. By default its gang is not replaced for that; `gangTermination.whenAllLost: Terminate` in the operator's configuration changes it.";
    UpdateInProgress: "The clique or group is being updated; too few pods are expected now.";
    NoActiveUpdate: "No update is in progress.";
    Progressing: "An update is in progress.";
    ProgressDeadlineExceeded: "An update is in progress, and nothing was updated for longer than progressDeadline. A coherent update stops then (or is taken back, by onFailure); with RollingRecreate it goes on when it can. Look at the pods that are not ready.";
    SufficientAvailablePodCliqueScalingGroupReplicas: "At least minAvailable copies of the group are healthy.";
    InsufficientAvailablePodCliqueScalingGroupReplicas: "The group had its minimum of copies and has fallen below it.";
    GrowingToMinAvailable: "The clique was scaled up past its minimum and has never had the new minimum ready: no breach, whatever the new pods wait for.";
    GangTerminationActive: "Too few pods for longer than terminationDelay: all pods of the gang are being replaced.";
    GangTerminated: "The pods of the clique are being or were replaced as a whole. If it breaks again soon, it is given twice the terminationDelay.";
    GangTerminatedTwice: "The clique broke again soon after it was replaced. If that happens once more, it is given four times the terminationDelay.";
    GangTerminatedRepeatedly: "The clique broke soon after it was replaced, several times in a row. It is given eight times the terminationDelay until it holds for that long.";
    PodGangPodsCreationPending: "Not all pods of the gang exist yet.";
    PodGangPodsCreated: "All pods of the gang exist.";
    GangScheduled: "Every clique of the gang has its minimum scheduled.";
    GangNotScheduled: "Some clique of the gang does not have its minimum scheduled.";
    GangReady: "Every clique of the gang has its minimum ready.";
    GangNotReady: "Some clique of the gang does not have its minimum ready.";
    WaitingForBaseGang: "The pods stay gated until the base gang of the replica is scheduled.";
    WaitingForOldPods: "New pods are created when the old ones of the same gang are gone.";
    WaitingForTerminationDelay: "A clique has fewer pods than minAvailable. All pods of its replica, or of its copy of a scaling group, are replaced at the time that the message names unless enough are ready before.";
    WaitingForUpdateTurn: "Another replica of the set is being updated first.";
    GangUnschedulable: "A coherent update waits: a gang with the new template is not scheduled. Nothing else is taken down for it.";
    SurgeCapacityUnavailable: "A coherent update waits: there is no room for the temporary gang that maxSurgeUnits asks for.";
    UnitsNotReady: "A coherent update waits: pods with the new template are scheduled and not ready yet, or not for minReadySeconds.";
    BudgetExhausted: "A coherent update waits: one more unavailable unit would be more than maxUnavailable allows.";
    RevisionMissing: "The ControllerRevision with the template of a pod or of an update does not exist or cannot be read. It is not guessed.";
    UpdateRolledBack: "A coherent update was taken back by onFailure: Rollback: its pods were scheduled and did not get ready in time. A new template ends that.";
    UpdatePaused: "updateStrategy.paused is set: no pod is replaced for a new template. Sizes and lost pods are still reconciled.";
    AllReplicasAvailable: "Every replica of the set is available.";
    ReplicasUnavailable: "Some replica of the set is not available.";
    BelowMinAvailable: "Some replica of the set has fallen below its minimum.";
    TopologyAwareSchedulingDisabled: "The set asks for packing, but the operator's configuration switches it off.";
    TopologyNameMissing: "The set asks for packing, but names no topology.";
    ClusterTopologyNotFound: "The ClusterTopologyBinding that the set names does not exist.";
    AllClusterTopologyLevelsAvailable: "Every level that the set names exists in its topology, or it names none.";
    ClusterTopologyLevelsUnavailable: "A level that the set names does not exist in its topology.";
    InSync: "Every scheduler's own topology object that the binding names agrees with it.";
    Drift: "A scheduler's own topology object that the binding names is not known to agree with it; schedulerTopologyStatuses says which and why.";
    TopologyNotFound: "The API server does not have the topology objects of a scheduler of the operator's configuration, so nothing can be compared.";
    TopologyDriftDetected: "A scheduler's own topology object stopped agreeing with the ClusterTopologyBinding, or never did.";
    TopologyInSync: "All schedulers' own topology objects agree with the ClusterTopologyBinding again.";
    PodCliqueSetReplicaDeleteSuccessful: "All pods of a replica of the set are being replaced, because its gang had too few for longer than terminationDelay.";
    PodCliqueScalingGroupReplicaDeleteSuccessful: "All pods of a copy of a scaling group are being replaced, because it had too few for longer than terminationDelay.";
    PodsPlacedOneByOne: "The scheduler of the set places pods one by one: gangs are not guaranteed, and required packing is not enforced.";
    NotExpressible: "The objects of the gang's scheduler do not say everything that the gang asks for; the message lists what is lost, and what to do about it.";
    KAIBackendMappingFailed: "The API server refused to create or change KAI's PodGroup for the gang.";
    PodCliqueCreateOrUpdateSuccessful: "PodCliques of the set were created or changed.";
    PodCliqueCreateOrUpdateFailed: "The API server refused to create or change a PodClique of the set.";
    PodCliqueCreateSuccessful: "PodCliques of the scaling group were created.";
    PodCliqueCreateFailed: "The API server refused to create a PodClique of the scaling group.";
    PodCliqueDeleteSuccessful: "PodCliques that are no longer wanted were deleted.";
    PodCliqueDeleteFailed: "The API server refused to delete a PodClique.";
    PodCliqueScalingGroupCreateSuccessful: "PodCliqueScalingGroups of the set were created.";
    PodCliqueScalingGroupCreateOrUpdateFailed: "The API server refused to create or change a PodCliqueScalingGroup.";
    PodCliqueScalingGroupDeleteSuccessful: "PodCliqueScalingGroups that are no longer wanted were deleted.";
    PodCliqueScalingGroupDeleteFailed: "The API server refused to delete a PodCliqueScalingGroup.";
    PodGangCreateOrUpdateSuccessful: "PodGangs of the set were created or changed.";
    PodGangCreateOrUpdateFailed: "The API server refused to create or change a PodGang; its pods are not created before it.";
    PodGangDeleteSuccessful: "PodGangs that are no longer wanted were deleted.";
    PodGangDeleteFailed: "The API server refused to delete a PodGang.";
    PodCreateSuccessful: "Pods of the clique were created.";
    PodCreateFailed: "The API server refused a pod of the clique, for example because of a quota or an invalid template.";
    PodDeleteSuccessful: "Pods of the clique were deleted by the operator.";
    PodDeleteFailed: "The API server refused to delete a pod of the clique.";
    TooLarge: "A size is beyond the bounds of docs/compatibility-admission.md, or a gang would be too large to be stored. What exists is kept, and nothing is added until the size is lowered.";
    WriteRefused: "The API server refused a write; status.lastErrors says which and why. It is tried again, less and less often.";
    ReconcilePanicked: "The operator panicked while it worked on the set, one of its replicas or the topology. The rest goes on; this is tried again, less and less often. Please report it with the operator's log.";
    ResourceClaimTemplateNotFound: "A ResourceClaimTemplate that the set shares claims from does not exist; pods that need it wait.";
    WaitingForResourceClaimTemplate: "New pods of the clique are created when the ResourceClaimTemplate of a claim they share exists.";
    WaitingForResourceClaim: "New pods of the clique are created when the old claim of the same name is gone and the new one is there.";
    ComputeDomainCreateSuccessful: "ComputeDomains for the NVLink groups of the set were created.";
    ComputeDomainCreateFailed: "The API server refused a ComputeDomain; without the ComputeDomain CustomResourceDefinition it is not found.";
    ComputeDomainDeleteSuccessful: "ComputeDomains that no pod uses any more were deleted.";
    ComputeDomainDeleteFailed: "The API server refused to delete a ComputeDomain.";
    ManagedFieldsRestored: "Another client changed a PodClique or PodCliqueScalingGroup. What follows from the PodCliqueSet was restored; sizes are left to whoever scales.";
    TerminationNotConfirmed: "A status said that the pods of the gang are being replaced, although every clique had its minimum ready. No pod was deleted, and the condition was corrected.";
    PodReplaced: "A pod that ended is replaced at its index. The message says until when it is kept, so that its logs can be read (`endedPods` in the operator's configuration).";
}
