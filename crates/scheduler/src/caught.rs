//! Panics as values.
//!
//! What a tenant writes may meet a bug. A panic while an object is taken in, or while one gang is decided about, is caught
//! here, and whoever called leaves that object or gang out. Assumes that the caller repairs what the panic left half
//! changed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use coppice_runtime::supervise::panic_message;

/// The result of some work, or the message of its panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(&*panic).to_owned())
}

/// What was decoded; a panic is an error of the object.
pub(crate) fn decoded<T>(decode: impl FnOnce() -> Result<T, serde_json::Error>) -> Result<T, serde_json::Error> {
    caught(decode).unwrap_or_else(|message| Err(serde::de::Error::custom(format!("decoding panicked: {message}"))))
}
