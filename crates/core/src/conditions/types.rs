//! Every condition type that planners write, on which objects, and what it means when it is True.

use crate::kind::Kind;

macro_rules! types {
    ($($kind:ident of $($object:ident)|+: $meaning:literal;)+) => {
        /// The type of a condition. The name of a variant is the type as it is written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ConditionType {
            $(#[doc = $meaning] $kind,)+
        }

        impl ConditionType {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The type, as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)+
                }
            }

            /// The kinds of the objects that have it.
            pub const fn objects(self) -> &'static [Kind] {
                match self {
                    $(Self::$kind => &[$(Kind::$object),+],)+
                }
            }

            /// What it means when it is True.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => $meaning,)+
                }
            }
        }
    };
}

types! {
    Ready of PodCliqueSet | PodGang: "Every replica of the set is available and no update is in progress; every clique of the gang has its minimum ready.";
    Progressing of PodCliqueSet: "An update is in progress, or replicas are not available yet.";
    Degraded of PodCliqueSet: "A replica has fallen below its minimum, or a write was refused.";
    TopologyLevelsUnavailable of PodCliqueSet: "A topology level that the set names does not exist. Unknown where that cannot be said.";
    GangsNotGuaranteed of PodCliqueSet: "The scheduler of the set does not give what the set asks for. Absent when it does.";
    PodGangMigrationInProgress of PodCliqueSet: "An operator of Grove alpha.12 or later stopped itself while it gives gangs their epochs. Never set here; one that was left is removed when there is nothing left to migrate.";
    PodCliqueScheduled of PodClique: "At least minAvailable pods have a node.";
    MinAvailableBreached of PodClique | PodCliqueScalingGroup: "It had its minimum, or a part of it, and has fallen below; after terminationDelay its gang is replaced. Unknown during an update.";
    GangTerminationInProgress of PodClique | PodCliqueScalingGroup: "All pods of the gang are being replaced; no new pod is created before the old ones are gone.";
    Waiting of PodClique | PodGang: "Something keeps it from going on; the message says what, and until when if that is known. Absent when nothing does.";
    Initialized of PodGang: "All pods of the gang exist. Stays True once it was.";
    Scheduled of PodGang: "Every clique of the gang has its minimum on nodes.";
    SchedulerBackendLimited of PodGang: "The scheduler of the gang cannot express everything that the gang asks for. Absent when it can.";
    SchedulerTopologyDrift of ClusterTopologyBinding: "A scheduler's own topology object is not known to agree with the binding.";
}
