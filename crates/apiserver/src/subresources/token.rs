//! Tokens for service accounts, on request.

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::ports::format_time;
use crate::rest::{Call, Reply};
use crate::status::ApiError;

/// The usual life of a token.
const DEFAULT_SECONDS: i64 = 3600;

/// POST on serviceaccounts/NAME/token.
pub(super) fn create(call: &Call) -> Result<Reply, ApiError> {
    let account = call
        .core
        .store
        .get(&call.served.id, &call.key())
        .ok_or_else(|| call.not_found())?;
    let mut request = call.plain_body()?;
    let seconds = request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(DEFAULT_SECONDS);
    let now = call.core.clock.now();
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let token = call
        .core
        .tokens
        .issue(call.key(), account.uid(), now, end)
        .ok_or_else(|| ApiError::internal("no random numbers for a token"))?;
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["metadata"] =
        json!({"name": call.path.name, "namespace": call.path.namespace, "creationTimestamp": format_time(now)});
    request["spec"]["expirationSeconds"] = json!(seconds);
    request["status"] = json!({"token": token, "expirationTimestamp": format_time(end)});
    Ok(Reply::json(StatusCode::CREATED, &request))
}
