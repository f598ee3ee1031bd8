//! A small stand-in for the default scheduler, so that plain pods run in an embedded cluster.
//!
//! Owns pods whose scheduler name is `default-scheduler`: it binds each to the first node, by name, that has room, in
//! the order in which pods arrive. It looks at resources (extended ones too), node selectors, required node affinity,
//! taints and cordons. It knows no gangs, priorities, preemption, spreading, pod affinity, volumes, host ports or claims, and
//! never takes part in placing gangs: that is the work of the gang scheduler. Do not run it beside a kube-scheduler.
//!
//! Pods with scheduling gates are left alone; their condition is set by the API server.

mod controller;
mod fit;
mod pod;
mod quantity;

pub(crate) use controller::run;
