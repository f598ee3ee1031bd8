//! Questions about users: who am I, may I do this.

use http::StatusCode;
use serde_json::{Value, json};

use crate::auth::{Action, User};
use crate::rest::{Call, Reply};
use crate::status::ApiError;

/// POST on one of the review resources.
pub(super) fn create(call: &Call) -> Result<Reply, ApiError> {
    let mut review = call.plain_body()?;
    review["kind"] = json!(&*call.served.kind);
    review["apiVersion"] = json!(call.served.api_version());
    if review.get("metadata").is_none() {
        review["metadata"] = json!({"creationTimestamp": null});
    }
    review["status"] = match &*call.served.plural {
        "selfsubjectreviews" => json!({"userInfo": {"username": call.user.name, "groups": call.user.groups}}),
        "selfsubjectaccessreviews" => access(call, &call.user, &review),
        _ => {
            let text = |path: &str| {
                review
                    .pointer(path)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let groups = review.pointer("/spec/groups").and_then(Value::as_array);
            let groups = groups
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let user = User {
                name: text("/spec/user"),
                uid: text("/spec/uid"),
                groups,
            };
            access(call, &user, &review)
        }
    };
    Ok(Reply::json(StatusCode::CREATED, &review))
}

fn access(call: &Call, user: &User, review: &Value) -> Value {
    let text = |name: &str| {
        review
            .pointer(&format!("/spec/resourceAttributes/{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let resource = match text("subresource") {
        "" => text("resource").to_owned(),
        part => format!("{}/{part}", text("resource")),
    };
    let action = Action {
        verb: text("verb"),
        group: text("group"),
        resource: &resource,
        namespace: text("namespace"),
        name: text("name"),
    };
    match call.core.authorizer.authorize(user, &action) {
        Ok(()) => json!({"allowed": true}),
        Err(why) => json!({"allowed": false, "reason": why}),
    }
}
