//! What happened, from events as they are stored: the same thing counted together, warnings apart from the rest.

pub mod build;
pub mod text;

use jiff::Timestamp;
use serde::Serialize;

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsView {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    /// The set; none when it is about the whole namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The newest first.
    pub warnings: Vec<Entry>,
    /// The newest first.
    pub normal: Vec<Entry>,
}

/// The same thing that happened to an object, once or several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    #[serde(rename = "type")]
    pub severity: String,
    pub reason: String,
    pub object_kind: String,
    pub object_name: String,
    pub message: String,
    pub count: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
}
