//! Finalizers and the scheduling gate.

/// Holds a PodCliqueSet until its children are gone.
pub const POD_CLIQUE_SET: &str = "grove.io/podcliqueset.grove.io";
/// Holds a PodClique until its pods are gone.
pub const POD_CLIQUE: &str = "grove.io/podclique.grove.io";
/// Holds a PodCliqueScalingGroup until its cliques are gone.
pub const POD_CLIQUE_SCALING_GROUP: &str = "grove.io/podcliquescalinggroup.grove.io";
/// Holds a ComputeDomain while pods may use it.
pub const COMPUTE_DOMAIN: &str = "grove.io/computedomain-finalizer";

/// Holds a pod back until its gang may be scheduled.
pub const SCHEDULING_GATE: &str = "grove.io/podgang-pending-creation";
