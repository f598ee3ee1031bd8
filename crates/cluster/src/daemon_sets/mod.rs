//! DaemonSets: one pod on every eligible node.
//!
//! Owns the pods of a DaemonSet: which nodes need one, which pods go, in which order pods of an older template are replaced,
//! and the counts in its status. It stands in for the DaemonSet controller of kube-controller-manager and must not run beside
//! it. Pods are placed by a scheduler, through an affinity to their node. Left out: ControllerRevisions (the revision is
//! a hash of the template), adoption of pods without an owner, and `maxSurge` (pods are replaced in place, one at a time).

mod controller;
mod decide;
mod pod;
mod template;
mod view;

pub(crate) use controller::run;
