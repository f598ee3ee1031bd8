//! Errors about a field, rendered as Kubernetes renders its own, and the outcome of a validation.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde_json::Value;

use super::FieldPath;

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// It must be there.
    Required,
    /// Its value breaks a rule.
    Invalid,
    /// Its value is none of a fixed list.
    NotSupported,
    /// It may not be there, or not change.
    Forbidden,
    /// Its value is there twice.
    Duplicate,
    /// Its value is too long.
    TooLong,
    /// Its value names something that does not exist.
    NotFound,
}

impl ErrorKind {
    /// The words with which Kubernetes begins such an error.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::NotFound => "Not found",
        }
    }

    /// The reason of a status cause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    /// Whether the value is part of the message. Long values are not repeated.
    const fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong)
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where.
    pub path: FieldPath,
    /// What.
    pub kind: ErrorKind,
    /// The value found, where it helps.
    pub bad_value: Option<Value>,
    /// What to do about it.
    pub detail: String,
}

impl FieldError {
    fn new(path: FieldPath, kind: ErrorKind, bad_value: Option<Value>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            path,
            kind,
            bad_value,
            detail,
        }
    }

    /// The field must be there.
    pub fn required(path: FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Required, None, detail)
    }

    /// The value breaks a rule.
    pub fn invalid(path: FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Invalid, Some(value.into()), detail)
    }

    /// The value is none of `supported`.
    pub fn not_supported<'a>(path: FieldPath, value: &str, supported: impl IntoIterator<Item = &'a str>) -> Self {
        let supported: Vec<String> = supported.into_iter().map(|text| format!("{text:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(path, ErrorKind::NotSupported, Some(value.into()), detail)
    }

    /// The field may not be there, or not change.
    pub fn forbidden(path: FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Forbidden, None, detail)
    }

    /// The value is there twice.
    pub fn duplicate(path: FieldPath, value: &str, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Duplicate, Some(value.into()), detail)
    }

    /// The value is too long.
    pub fn too_long(path: FieldPath, value: &str, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::TooLong, Some(value.into()), detail)
    }

    /// The value names something that does not exist.
    pub fn not_found(path: FieldPath, value: &str, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::NotFound, Some(value.into()), detail)
    }

    /// The message without the path.
    pub fn body(&self) -> String {
        let mut body = self.kind.title().to_owned();
        if let Some(value) = self.bad_value.as_ref().filter(|_| self.kind.shows_value()) {
            body.push_str(&format!(": {value}"));
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.body())
    }
}

/// What validation says of a request: admitted when there are no errors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What is wrong, in the order of the object.
    pub errors: Vec<FieldError>,
    /// What is admitted but probably not meant.
    pub warnings: Vec<String>,
}

/// More causes than this make an answer that nobody reads.
const MOST_CAUSES: usize = 100;

impl Outcome {
    /// Whether the request is admitted.
    pub fn is_admitted(&self) -> bool {
        self.errors.is_empty()
    }

    /// The refusal as the API server itself would write it: code 422, reason `Invalid`, one cause for each error.
    /// None when the request is admitted.
    pub fn to_status(&self, group: &str, kind: &str, name: &str) -> Option<Status> {
        if self.is_admitted() {
            return None;
        }
        let shown = &self.errors[..self.errors.len().min(MOST_CAUSES)];
        let mut messages: Vec<String> = shown.iter().map(ToString::to_string).collect();
        if shown.len() < self.errors.len() {
            messages.push(format!("and {} more errors", self.errors.len() - shown.len()));
        }
        let summary = match messages.as_slice() {
            [only] => only.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let cause = |error: &FieldError| StatusCause {
            field: Some(error.path.to_string()),
            message: Some(error.body()),
            reason: Some(error.kind.reason().to_owned()),
        };
        Some(Status {
            status: Some("Failure".to_owned()),
            code: Some(422),
            reason: Some("Invalid".to_owned()),
            message: Some(format!("{kind}.{group} {name:?} is invalid: {summary}")),
            details: Some(StatusDetails {
                group: Some(group.to_owned()),
                kind: Some(kind.to_owned()),
                name: Some(name.to_owned()),
                causes: Some(shown.iter().map(cause).collect()),
                ..StatusDetails::default()
            }),
            ..Status::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> FieldPath {
        FieldPath::root("spec").field("cliques").index(0).field("name")
    }

    #[test]
    fn errors_read_like_those_of_kubernetes() {
        let cases = [
            (
                FieldError::invalid(path(), "x", "must y"),
                "Invalid value: \"x\": must y",
            ),
            (
                FieldError::invalid(path(), 3, "must be 4"),
                "Invalid value: 3: must be 4",
            ),
            (
                FieldError::required(path(), "say something"),
                "Required value: say something",
            ),
            (FieldError::forbidden(path(), "no"), "Forbidden: no"),
            (FieldError::duplicate(path(), "x", ""), "Duplicate value: \"x\""),
            (
                FieldError::too_long(path(), "xxxx", "may have at most 3"),
                "Too long: may have at most 3",
            ),
            (FieldError::not_found(path(), "x", "add it"), "Not found: \"x\": add it"),
            (
                FieldError::not_supported(path(), "x", ["a", "b"]),
                "Unsupported value: \"x\": supported values: \"a\", \"b\"",
            ),
        ];
        for (error, body) in cases {
            assert_eq!(error.body(), body);
            assert_eq!(error.to_string(), format!("spec.cliques[0].name: {body}"));
        }
    }

    #[test]
    fn a_refusal_is_an_invalid_status_with_causes() {
        let mut outcome = Outcome::default();
        assert_eq!(outcome.to_status("grove.io", "PodCliqueSet", "web"), None);
        outcome.errors.push(FieldError::required(path(), "say something"));
        let status = outcome.to_status("grove.io", "PodCliqueSet", "web").expect("refused");
        assert_eq!(status.code, Some(422));
        assert_eq!(
            status.message.as_deref(),
            Some("PodCliqueSet.grove.io \"web\" is invalid: spec.cliques[0].name: Required value: say something")
        );
        let causes = status.details.and_then(|details| details.causes).expect("causes");
        assert_eq!(causes[0].field.as_deref(), Some("spec.cliques[0].name"));
        assert_eq!(causes[0].reason.as_deref(), Some("FieldValueRequired"));
        assert_eq!(causes[0].message.as_deref(), Some("Required value: say something"));
        outcome.errors = vec![FieldError::required(path(), "x"); 250];
        let status = outcome.to_status("grove.io", "PodCliqueSet", "web").expect("refused");
        assert!(
            status
                .message
                .is_some_and(|message| message.ends_with("and 150 more errors]"))
        );
    }
}
