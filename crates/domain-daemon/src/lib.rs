//! The node daemon of ComputeDomains: a thin shell around `coppice_domains::decide::daemon`.
//!
//! One loop ([`daemon`]) watches the rows of its clique, keeps the files of `nvidia-imex` current, starts, signals and
//! stops that child, and reports whether the node is ready on a Unix socket ([`socket`]). It writes nothing to the API while
//! a controller assigns indices; only when none does for some time does it insert its own row ([`insert`]).

mod child;
pub mod daemon;
mod files;
mod insert;
pub mod settings;
pub mod socket;

pub use daemon::{DaemonError, run};
pub use settings::{Paths, Settings, SettingsError};
