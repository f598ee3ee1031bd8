//! Where the log goes: standard error, for people or for machines. `RUST_LOG` overrides the level.

use std::io::IsTerminal as _;

use coppice_operator::configuration::LogFormat;
use tracing_subscriber::EnvFilter;

/// Starts logging; once in a process.
pub(crate) fn start(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text => log.init(),
    }
}
