//! A small stand-in for the default scheduler, so that plain pods run in an embedded cluster.
//!
//! Owns pods whose scheduler name is `default-scheduler`: it binds each to the first node, by name, that has room, in
//! the order in which pods arrive. It looks at resources (extended ones too), node selectors, required node affinity,
//! taints, cordons and device claims. It knows no gangs, priorities, preemption, spreading, pod affinity, volumes or host
//! ports, and never takes part in placing gangs: that is the work of the gang scheduler. It also allocates the claims of pods
//! that another scheduler bound without doing so. Do not run it beside a kube-scheduler.
//!
//! Pods with scheduling gates are left alone; their condition is set by the API server.

mod claims;
mod controller;
pub(crate) mod fit;
pub(crate) mod pod;
pub(crate) mod quantity;

pub(crate) use controller::run;
