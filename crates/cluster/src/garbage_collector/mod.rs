//! The garbage collector: objects go when their owners have gone.
//!
//! Owns background, foreground and orphaning deletion over every kind the API server serves, by the UIDs in owner
//! references. It holds metadata only. Before it deletes because an owner is missing, it asks the API server whether
//! that very owner (kind, namespace of the dependent, name, UID) exists. It stands in for the garbage collector of
//! Kubernetes and must not run beside it.
//!
//! Left out: the warning event for references to owners of an impossible scope; such objects are just kept.

mod controller;
mod decide;
mod graph;
mod requests;

pub(crate) use controller::run;
