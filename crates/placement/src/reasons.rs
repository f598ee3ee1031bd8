//! The stable list of reason codes.
//!
//! Conditions, events, `explain` and tests name reasons by these codes; a code once released keeps its meaning. Messages
//! beside them are for people and may change.

use serde::Serialize;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Why a gang is not placed, or what was noticed while placing it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub enum ReasonCode { $($(#[$doc])* $name),* }

        impl ReasonCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code as written into conditions and events.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

codes! {
    /// A pod asks for something the scheduler does not do.
    Unsupported,
    /// The topology, or one of its label keys, does not exist.
    UnknownTopology,
    /// No domain of the required level has the resources.
    InsufficientResources,
    /// Resources would do, but the nodes that have them are ruled out.
    NoEligibleNodes,
    /// A pod asks for more than any node could give if it were empty.
    PodExceedsEveryNode,
    /// Each group fits somewhere, but not all of them together where they must be.
    DoesNotFitTogether,
    /// The domain chosen by a sibling gang, or by pods already bound, has no room.
    PinnedDomainFull,
    /// The domain chosen by a sibling gang no longer exists.
    PinnedDomainGone,
    /// Pods already bound sit in several domains of a required level; the rest is placed as near as possible.
    SplitAcrossDomains,
    /// The placement group's domain was full and its policy allows another one.
    SpilledOver,
    /// Where the gang was placed there is no room for all other gangs of its replica, and there is none elsewhere.
    ReplicaFitsInPart,
    /// The search was cut off by its budget; nothing is proven.
    BudgetExhausted,
    /// Another gang must be scheduled first.
    WaitingForGang,
    /// Too few pods of a group exist and are free of gates.
    WaitingForPods,
    /// A node is not ready.
    NodeNotReady,
    /// A node is cordoned.
    NodeUnschedulable,
    /// A taint is not tolerated.
    UntoleratedTaint,
    /// A node selector does not match.
    NodeSelectorMismatch,
    /// Required node affinity does not match.
    NodeAffinityMismatch,
    /// A volume of a pod cannot be used on the node, or no one place has it in reach of all pods that share it.
    VolumeOutOfReach,
    /// The node cannot take any more volumes of a storage driver.
    AttachLimit,
    /// A volume claim does not exist, is not bound yet, or is in use by a pod that does not share it.
    VolumeNotReady,
    /// The node is held for another gang or taken by another replica.
    DomainExcluded,
    /// A pod that may not share the node runs there (host port or anti-affinity).
    NodeConflict,
    /// No domain of the required level is large enough, even if it were empty.
    PackingTooNarrow,
    /// A domain has the resources in sum, but not enough of them on single nodes.
    Scattered,
    /// The room is held by gangs that this one may not evict.
    Outranked,
    /// There is room, and it is held for gangs that came first or have waited for long.
    RoomHeld,
    /// The scheduler panicked while deciding about the gang; it is set aside and tried again later.
    InternalError,
}

/// A code with its message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    /// What kind of reason.
    pub code: ReasonCode,
    /// The details.
    pub message: String,
}

impl Reason {
    /// A reason.
    #[must_use]
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_words() {
        let mut names: Vec<_> = ReasonCode::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ReasonCode::ALL.len());
        assert!(names.iter().all(|name| name.chars().all(char::is_alphanumeric)));
    }
}
