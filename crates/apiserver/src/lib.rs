//! An embedded Kubernetes API server: in memory, generic, deterministic.
//!
//! The crate is a library without a `main`: [`ApiServer`] is a tower service that `kube::Client` takes directly. It
//! knows the built-in kinds and custom resources, and none of the project's own.
//!
//! What it leaves out, and says so with a Status when asked: logs, exec, attach, port-forward and ephemeral containers
//! (501); answers in protobuf or CBOR (406 for a client that accepts nothing else; those built from client-go also accept
//! JSON) and bodies in CBOR (415); conversion webhooks between versions of a custom resource (versions differ only in
//! `apiVersion`); admission policies; API aggregation; older versions of built-in groups, except `autoscaling/v1`;
//! audit. Over TLS clients need the administrator's certificate or a service account's token; whoever has one may do
//! everything. Within the process users are whoever the [`auth`] port says they are. Descriptions in OpenAPI and in table
//! columns are those of custom resources only.
//!
//! The way of a request: `rest` reads it and finds the resource in the `registry`; the resource's `kinds` rules and
//! `admission` decide what the object becomes; the `store` commits it and tells the watchers. Only `store` has state.

mod admission;
pub mod auth;
mod bootstrap;
mod codec;
mod core;
mod crd;
mod discovery;
mod go_form;
mod go_time;
mod go_types;
mod kinds;
mod managed;
pub mod ports;
mod protobuf;
mod registry;
mod rest;
pub mod selector;
mod serve;
mod server;
mod status;
pub mod store;
mod subresources;
mod table;
mod tokens;
mod tree;

pub use admission::{AdmissionHandler, Review, ServiceResolver};
pub use coppice_schema::{ErrorKind, FieldError};
pub use discovery::KUBERNETES_VERSION;
pub use rest::ApiBody;
pub use serve::{Certificates, Serving, Tls, TlsError};
pub use server::{ApiServer, ApiService, Builder};
pub use status::{About, ApiError, Cause};
