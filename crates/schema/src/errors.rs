//! Field errors: what is wrong with which field, in the shape and words of Kubernetes Status causes.

use std::fmt;

use serde_json::{Value, json};

use crate::gotext;

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A required value is absent.
    Required,
    /// The value is malformed.
    Invalid,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The value is none of the allowed ones.
    NotSupported,
    /// The value occurs twice.
    Duplicate,
    /// The text is too long.
    TooLong,
    /// There are too many elements.
    TooMany,
    /// There are too few elements.
    TooFew,
    /// The value is not allowed here.
    Forbidden,
    /// Something the value refers to does not exist.
    NotFound,
    /// Not the caller's mistake.
    Internal,
}

impl ErrorKind {
    /// The `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Internal => "InternalError",
        }
    }

    /// The kind behind a `reason`, as CEL rules state it.
    pub fn from_reason(reason: &str) -> Option<Self> {
        let all = [
            Self::Required,
            Self::Invalid,
            Self::TypeInvalid,
            Self::NotSupported,
            Self::Duplicate,
            Self::TooLong,
            Self::TooMany,
            Self::TooFew,
            Self::Forbidden,
            Self::NotFound,
            Self::Internal,
        ];
        all.into_iter().find(|kind| kind.reason() == reason)
    }

    fn words(self) -> &'static str {
        match self {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::NotFound => "Not found",
            ErrorKind::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal
        )
    }
}

/// One mistake in one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What kind of mistake.
    pub kind: ErrorKind,
    /// The field, `<nil>` where the mistake belongs to none.
    pub path: String,
    /// The value found; `None` leaves it out of the message.
    pub value: Option<Value>,
    /// What is expected.
    pub detail: String,
}

impl FieldError {
    /// An error with the given value and detail.
    pub fn new(kind: ErrorKind, path: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        let path = path.into();
        let path = if path.is_empty() { "<nil>".to_owned() } else { path };
        Self {
            kind,
            path,
            value: Some(value),
            detail: detail.into(),
        }
    }

    /// A missing value.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, path, json!(""), detail)
    }

    /// A malformed value.
    pub fn invalid(path: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, path, value, detail)
    }

    /// A value that may not be there.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, path, json!(""), detail)
    }

    /// A value that occurs twice.
    pub fn duplicate(path: impl Into<String>, value: Value) -> Self {
        Self::new(ErrorKind::Duplicate, path, value, "")
    }

    /// A value outside an enumeration.
    pub fn not_supported<'v>(
        path: impl Into<String>,
        value: Value,
        allowed: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let quoted = allowed.into_iter().map(|value| match value {
            Value::String(text) => gotext::quote(text),
            other => gotext::quote(&gotext::json(other)),
        });
        let list = quoted.collect::<Vec<_>>().join(", ");
        let detail = if list.is_empty() {
            String::new()
        } else {
            format!("supported values: {list}")
        };
        Self::new(ErrorKind::NotSupported, path, value, detail)
    }

    /// A text that is too long.
    pub fn too_long(path: impl Into<String>, most: u64) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        Self::new(
            ErrorKind::TooLong,
            path,
            json!("<value omitted>"),
            format!("may not be more than {most} {unit}"),
        )
    }

    /// Too many elements or fields.
    pub fn too_many(path: impl Into<String>, actual: usize, most: u64) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self::new(
            ErrorKind::TooMany,
            path,
            json!(actual),
            format!("must have at most {most} {unit}"),
        )
    }

    /// The message of a Status cause: everything but the field.
    pub fn message(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            out.push_str(": ");
            match value {
                Value::String(text) => out.push_str(&gotext::quote(text)),
                other => out.push_str(&gotext::json(other)),
            }
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    /// The error as an entry of `status.details.causes`.
    pub fn cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.message(), "field": self.path})
    }

    /// Whether CEL rules cannot be trusted to run on an object with this error.
    pub fn blocks_rules(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.message())
    }
}

/// The one line Kubernetes makes of several errors: a single error as it is, more than one in brackets. Equal messages
/// are named once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut messages: Vec<String> = Vec::new();
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_like_kubernetes() {
        let cases = [
            (FieldError::required("spec.a", ""), "spec.a: Required value"),
            (
                FieldError::invalid("spec.a", json!("x"), "no"),
                "spec.a: Invalid value: \"x\": no",
            ),
            (
                FieldError::invalid("", Value::Null, "no"),
                "<nil>: Invalid value: null: no",
            ),
            (
                FieldError::too_long("spec.a", 3),
                "spec.a: Too long: may not be more than 3 bytes",
            ),
            (
                FieldError::too_many("spec.a", 4, 1),
                "spec.a: Too many: 4: must have at most 1 item",
            ),
            (
                FieldError::duplicate("spec.a[1]", json!({"name": "x"})),
                r#"spec.a[1]: Duplicate value: {"name":"x"}"#,
            ),
            (
                FieldError::not_supported("spec.a", json!("x"), &[json!("A"), json!(1)]),
                r#"spec.a: Unsupported value: "x": supported values: "A", "1""#,
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn several_errors_share_a_line() {
        let errors = [
            FieldError::required("a", ""),
            FieldError::required("b", ""),
            FieldError::required("a", ""),
        ];
        assert_eq!(aggregate(&errors), "[a: Required value, b: Required value]");
        assert_eq!(aggregate(&errors[..1]), "a: Required value");
    }

    #[test]
    fn causes_carry_reason_message_and_field() {
        assert_eq!(
            FieldError::required("spec.a", "").cause(),
            json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"})
        );
        assert_eq!(
            ErrorKind::from_reason("FieldValueForbidden"),
            Some(ErrorKind::Forbidden)
        );
    }
}
