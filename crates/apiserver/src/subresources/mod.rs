//! Parts of objects that are read and written by rules of their own, and reviews, which are never stored.

mod binding;
mod eviction;
mod reviews;
mod scale;
mod token;

use crate::kinds::Part;
use crate::rest::{Call, Reply, Verb};
use crate::status::ApiError;

/// A request on a part of an object, other than its status.
pub(crate) async fn run(call: &Call) -> Result<Reply, ApiError> {
    match (call.path.subresource.as_str(), call.verb) {
        ("scale", Verb::Get) => scale::get(call),
        ("scale", Verb::Update) => scale::update(call).await,
        ("scale", Verb::Patch) => scale::patch(call).await,
        ("binding", Verb::Create) => binding::create(call).await,
        ("eviction", Verb::Create) => eviction::create(call).await,
        ("token", Verb::Create) => token::create(call),
        ("finalize", Verb::Update) => call.update(Part::Other("finalize")).await,
        ("resize", Verb::Get) => call.get(),
        ("resize", Verb::Update) => call.update(Part::Other("resize")).await,
        ("resize", Verb::Patch) => call.patch(Part::Other("resize")).await,
        _ => Err(ApiError::not_implemented(&format!(
            "{}/{}",
            call.served.plural, call.path.subresource
        ))),
    }
}

/// A POST of something that is answered and forgotten.
pub(crate) async fn create_virtual(call: &Call) -> Result<Reply, ApiError> {
    match &*call.served.plural {
        "bindings" => binding::create_by_collection(call).await,
        _ => reviews::create(call),
    }
}
