//! What the daemon of a node decides: which index it serves, what its files say, when `nvidia-imex` is started, signalled
//! and stopped, and whether the node is ready.
//!
//! The daemon writes nothing to the API while a controller is there. It never changes the index of a running child.

pub mod assignment;
pub mod files;
pub mod process;
pub mod readiness;
pub mod signal;
