//! Admission: defaults, validation and the guard of managed objects, as pure functions.
//!
//! A webhook decodes the objects of a request and asks here; so do `coppice plan`, the simulator and the tests. What the
//! decision depends on besides the objects is in a [`Context`].
//!
//! # How an update is judged
//!
//! There are rules about one object and rules about a change. An update is judged by both, but of the first kind only
//! *new* findings count: the same rules are run on the old object, and what they already find there is not held
//! against the update. So a part that nobody touched is never re-judged (the scheduler may have been disabled since, or a
//! rule may be newer than the object), and whatever was refused on creation is also refused when an update brings it
//! in. An object that is being deleted is never judged, and neither is an update that changes nothing that is judged
//! (finalizers, labels, status).
//!
//! # What `replicas: 0` means
//!
//! On the set: no copies. On a clique or scaling group of the template: idle until it is scaled up; absent means one. The
//! `replicas` of cliques and scaling groups in a template are initial values: live sizes are changed through `scale`, which admits any size and warns of one below the minimum (see [`scale`]).
//!
//! This module never reads a cluster, and never repairs what it does not understand: unknown fields pass.

pub mod authorizer;
mod autoscaling;
mod cliques;
mod cluster_topology_binding;
mod coherent_update;
mod context;
mod defaulting;
mod extent;
mod field_error;
mod field_path;
mod immutability;
mod metadata;
mod mnnvl;
mod name_collisions;
mod native_gangs;
mod pod_template;
mod ratchet;
mod resource_sharing;
mod rolling_update;
pub mod scale;
mod scaling_groups;
mod scheduler_backend;
mod sizes;
mod spread;
mod startup_order;
mod subject;
mod topology;
mod topology_changes;
mod validation;

pub use cluster_topology_binding::validate_cluster_topology_binding;
pub use coherent_update::DEFAULT_COHERENT_PROGRESS_DEADLINE;
pub use context::{Context, DEFAULT_SCHEDULER, QueueState, SchedulerBackend, SchedulerProfile, Schedulers};
pub use defaulting::{DEFAULT_MAX_UNAVAILABLE, DEFAULT_TERMINATION_DELAY, default_pod_clique_set};
pub use field_error::{ErrorKind, FieldError, Outcome};
pub use field_path::FieldPath;
pub use scheduler_backend::not_guaranteed;
pub use validation::validate_pod_clique_set;
