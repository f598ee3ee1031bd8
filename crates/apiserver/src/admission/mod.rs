//! Admission: what others have to say about a write before it is committed.

use serde_json::Value;

use crate::rest::Call;
use crate::status::ApiError;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object.
    Create,
    /// A change.
    Update,
    /// A removal.
    Delete,
}

pub(crate) async fn mutate(
    _call: &Call,
    _operation: Operation,
    _object: &mut Value,
    _old: Option<&Value>,
) -> Result<(), ApiError> {
    Ok(())
}

pub(crate) async fn validate(
    _call: &Call,
    _operation: Operation,
    _object: Option<&Value>,
    _old: Option<&Value>,
) -> Result<(), ApiError> {
    Ok(())
}

pub(crate) async fn validate_delete(
    call: &Call,
    old: &Value,
    _options: &crate::rest::DeleteOptions,
) -> Result<(), ApiError> {
    validate(call, Operation::Delete, None, Some(old)).await
}
