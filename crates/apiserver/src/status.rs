//! Errors as clients see them: Kubernetes `Status` objects.
//!
//! Both client libraries branch on `code`, `reason` and `details`, and people read `message`, so all four follow the
//! real server to the letter. Constructors carry the situation in their name.

use http::StatusCode;
use serde_json::{Value, json};

use coppice_schema::{FieldError, aggregate};

/// The resource an error is about: its plural name and group.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The group, empty for the core group.
    pub group: &'a str,
    /// The plural resource name (or the kind, where the real server says so).
    pub resource: &'a str,
}

impl About<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

/// One reason inside an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// A machine-readable word.
    pub reason: String,
    /// What is wrong.
    pub message: String,
    /// Where, as a path; may be empty.
    pub field: String,
}

impl Cause {
    fn of(error: &FieldError) -> Self {
        Self {
            reason: error.kind.reason().to_owned(),
            message: error.message(),
            field: error.path.clone(),
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    code: u16,
    reason: &'static str,
    message: String,
    details: Box<Details>,
}

/// The rarer parts of an error.
#[derive(Clone, Debug, Default, PartialEq)]
struct Details {
    about: Option<(String, String)>,
    name: String,
    uid: String,
    causes: Vec<Cause>,
    retry_after_seconds: Option<u32>,
    continue_token: Option<String>,
    shown: bool,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: code.as_u16(),
            reason,
            message: message.into(),
            details: Box::default(),
        }
    }

    fn about(mut self, about: About<'_>, name: &str) -> Self {
        self.details.about = Some((about.group.to_owned(), about.resource.to_owned()));
        name.clone_into(&mut self.details.name);
        self
    }

    /// The object does not exist.
    pub fn not_found(about: About<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} not found", about.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(about, name)
    }

    /// An object of that name exists.
    pub fn already_exists(about: About<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", about.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(about, name)
    }

    /// The object is in another state than the request says; `why` follows the colon.
    pub fn conflict(about: About<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", about.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(about, name)
    }

    /// The usual lost update.
    pub fn modified(about: About<'_>, name: &str) -> Self {
        Self::conflict(
            about,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Server-side apply met other owners; `causes` name them.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message);
        error.details.causes = causes;
        error
    }

    /// Not allowed; `why` follows the colon.
    pub fn forbidden(about: About<'_>, name: &str, why: &str) -> Self {
        let message = match (about.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{} is forbidden: {why}", about.qualified()),
            (false, false) => format!("{} {name:?} is forbidden: {why}", about.qualified()),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(about, name)
    }

    /// The object breaks rules of its kind. `about.resource` is the kind here, as in the real server.
    pub fn invalid(about: About<'_>, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{} {name:?} is invalid: {}", about.qualified(), aggregate(errors));
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(about, name);
        error.details.causes = errors.iter().map(Cause::of).collect();
        error
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The wanted past is forgotten.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// A list cannot be continued at its revision; `token` continues it inconsistently.
    pub fn continue_expired(token: String) -> Self {
        let mut error = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        error.details.continue_token = Some(token);
        error
    }

    /// The verb does not exist for the resource.
    pub fn method_not_supported(about: About<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", about.qualified());
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).about(about, "")
    }

    /// The HTTP method does not exist for the path.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// The path leads nowhere.
    pub fn unknown_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// The body's media type is not served.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The patch's media type is not served.
    pub fn unsupported_patch_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            "415: Unsupported Media Type",
        )
        .with_details()
    }

    /// The patch does not fit the object.
    pub fn patch_refused() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details()
    }

    /// A JSON patch has too many operations.
    pub fn too_many_operations(limit: usize, found: usize) -> Self {
        let message = format!("The allowed maximum operations in a JSON patch is {limit}, got {found}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The copies of a JSON patch add too much.
    pub fn copied_too_much(copied: usize, limit: usize) -> Self {
        let message = format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {limit}"
        );
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details()
    }

    /// What a patch leaves cannot be read as an object of the kind.
    pub fn unreadable_patch(object: &str, problem: &str) -> Self {
        let nothing = About {
            group: "",
            resource: "",
        };
        let error = FieldError::invalid("patch", object.into(), problem);
        Self::invalid(nothing, "", &[error])
    }

    /// Shows details even when there are none.
    fn with_details(mut self) -> Self {
        self.details.shown = true;
        self
    }

    /// None of the wanted media types is served.
    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {accepted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The body is too long.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The wanted revision has not happened.
    pub fn revision_too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        let text = "Too large resource version".to_owned();
        error.details.causes = vec![Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: text,
            field: String::new(),
        }];
        error.details.retry_after_seconds = Some(1);
        error
    }

    /// Too many requests at once, or an eviction that must wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.details.retry_after_seconds = Some(retry_after_seconds);
        error
    }

    /// Something went wrong inside.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {text}"),
        );
        error.details.causes = vec![Cause {
            reason: String::new(),
            message: text,
            field: String::new(),
        }];
        error
    }

    /// This server leaves the operation out on purpose.
    pub fn not_implemented(what: &str) -> Self {
        let message = format!("{what} is not served by the embedded API server");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// Who calls is not known.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        self.details.causes.push(Cause {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        });
        self
    }

    /// Puts something in front of the message.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.message.insert_str(0, prefix);
        self
    }

    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Builds an error from a status that someone else (a webhook) decided on.
    pub fn from_parts(code: u16, reason: &str, message: String, causes: Vec<Cause>) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
        let mut error = Self::new(code, known_reason(reason), message);
        error.details.causes = causes;
        error
    }

    /// The reason word.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The seconds to wait before the next try, for the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u32> {
        self.details.retry_after_seconds
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.details.continue_token {
            metadata["continue"] = json!(token);
        }
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code});
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = self.details_value() {
            status["details"] = details;
        }
        status
    }

    fn details_value(&self) -> Option<Value> {
        let bare = self.details.about.is_none()
            && self.details.causes.is_empty()
            && self.details.retry_after_seconds.is_none();
        if bare && !matches!(self.reason, "MethodNotAllowed" | "NotFound" | "NotAcceptable") && !self.details.shown {
            return None;
        }
        let mut details = serde_json::Map::new();
        let mut set = |name: &str, text: &str| {
            if !text.is_empty() {
                details.insert(name.into(), json!(text));
            }
        };
        set("name", &self.details.name);
        if let Some((group, kind)) = &self.details.about {
            set("group", group);
            set("kind", kind);
        }
        set("uid", &self.details.uid);
        if !self.details.causes.is_empty() {
            let causes: Vec<Value> = self.details.causes.iter().map(cause_value).collect();
            details.insert("causes".into(), json!(causes));
        }
        if let Some(seconds) = self.details.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), json!(seconds));
        }
        Some(Value::Object(details))
    }
}

fn cause_value(cause: &Cause) -> Value {
    let mut value = serde_json::Map::new();
    for (name, text) in [
        ("reason", &cause.reason),
        ("message", &cause.message),
        ("field", &cause.field),
    ] {
        if !text.is_empty() {
            value.insert(name.into(), json!(text));
        }
    }
    Value::Object(value)
}

/// The reasons this server knows; an unknown word becomes none.
fn known_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 14] = [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    REASONS.into_iter().find(|known| *known == reason).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: About<'_> = About {
        group: "",
        resource: "pods",
    };

    #[test]
    fn not_found_names_the_resource() {
        let status = ApiError::not_found(
            About {
                group: "apps",
                resource: "deployments",
            },
            "x",
        )
        .to_value();
        assert_eq!(status["message"], "deployments.apps \"x\" not found");
        assert_eq!(status["reason"], "NotFound");
        assert_eq!(status["code"], 404);
        assert_eq!(
            status["details"],
            json!({"name": "x", "group": "apps", "kind": "deployments"})
        );
    }

    #[test]
    fn conflicts_read_as_the_real_ones() {
        let status = ApiError::modified(PODS, "x").to_value();
        assert_eq!(
            status["message"],
            "Operation cannot be fulfilled on pods \"x\": the object has been modified; please apply your changes to \
             the latest version and try again"
        );
    }

    #[test]
    fn invalid_lists_its_causes() {
        let errors = [
            FieldError::required("spec.a", ""),
            FieldError::forbidden("spec.b", "may not change"),
        ];
        let status = ApiError::invalid(
            About {
                group: "",
                resource: "Pod",
            },
            "x",
            &errors,
        )
        .to_value();
        assert_eq!(
            status["message"],
            "Pod \"x\" is invalid: [spec.a: Required value, spec.b: Forbidden: may not change]"
        );
        assert_eq!(
            status["details"]["causes"][0],
            json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"})
        );
    }

    #[test]
    fn errors_without_details_have_none() {
        assert!(ApiError::bad_request("no").to_value().get("details").is_none());
    }
}
