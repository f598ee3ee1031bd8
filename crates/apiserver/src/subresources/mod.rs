//! Parts of objects that are read and written by rules of their own, and reviews, which are never stored.

use crate::rest::{Call, Reply};
use crate::status::ApiError;

/// A request on a part of an object, other than its status.
pub(crate) async fn run(call: &Call) -> Result<Reply, ApiError> {
    Err(ApiError::not_implemented(&format!("{}/{}", call.served.plural, call.path.subresource)))
}

/// A POST of something that is answered and forgotten.
pub(crate) async fn create_virtual(call: &Call) -> Result<Reply, ApiError> {
    Err(ApiError::not_implemented(&call.served.plural))
}
