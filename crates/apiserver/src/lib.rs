//! An embedded Kubernetes API server.

pub mod ports;
pub mod selector;
pub mod store;
