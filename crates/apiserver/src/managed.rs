//! Who wrote which fields.

use serde_json::Value;

use crate::rest::Call;
use crate::status::ApiError;
use crate::tree::carry_meta;

/// How a request writes: as an update of whatever differs, or as an apply of exactly what it names.
pub(crate) struct Writer {
    applied: Option<Value>,
}

impl Writer {
    /// A create, update or patch.
    pub(crate) fn update(_call: &Call) -> Self {
        Self { applied: None }
    }

    /// A server-side apply of `applied`.
    pub(crate) fn apply(_call: &Call, applied: Value) -> Self {
        Self { applied: Some(applied) }
    }

    /// The state after applying to `current`.
    pub(crate) fn merge(&self, _call: &Call, _current: &Value) -> Result<Value, ApiError> {
        let _ = &self.applied;
        Err(ApiError::not_implemented("server-side apply"))
    }

    /// Records the writer of a new object.
    pub(crate) fn on_create(&self, _call: &Call, _object: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Records the writer of a change.
    pub(crate) fn on_update(&self, _call: &Call, object: &mut Value, old: &Value) -> Result<(), ApiError> {
        carry_meta("managedFields", old, object);
        Ok(())
    }
}
