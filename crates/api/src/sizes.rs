//! How large sets, groups, cliques and gangs may be.
//!
//! The bounds are far above what is in use, and there for one reason: a number in a field costs nothing to write, and must
//! not decide how much an operator works. Those of single fields are in the CRDs, so they hold for `kubectl scale` and for
//! autoscalers too; those of products are checked by admission. The operator holds to all of them for objects that
//! neither has checked.

/// `spec.replicas` of a PodCliqueSet.
pub const MOST_REPLICAS: i32 = 10_000;
/// `spec.replicas` of a PodCliqueScalingGroup.
pub const MOST_COPIES: i32 = 5_000;
/// `spec.replicas` of a PodClique.
pub const MOST_PODS: i32 = 5_000;
/// Pods of one gang. A PodGang lists them by namespace and name, and this many fit into one object whatever their names.
pub const MOST_PODS_IN_GANG: u64 = 5_000;
/// Pods of a whole set: what a Kubernetes cluster is built for.
pub const MOST_PODS_IN_SET: u64 = 150_000;
/// Temporary gangs of one coherent update.
pub const MOST_SURGE_UNITS: i32 = 100;
/// ControllerRevisions that a set keeps besides those in use.
pub const MOST_REVISIONS: i32 = 1_000;
/// Entries of `startsAfter` of all PodCliques in the base gang of one replica.
pub const MOST_PREDECESSORS: u64 = 250_000;
