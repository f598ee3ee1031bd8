//! Complaints about single fields, worded as the real server words them.

use serde_json::Value;

use crate::status::Cause;

/// What kind of complaint it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A value is missing.
    Required,
    /// A value is malformed.
    Invalid,
    /// A value has the wrong type.
    TypeInvalid,
    /// A value is none of the known ones.
    NotSupported,
    /// A value may not be given, or not changed.
    Forbidden,
    /// A value appears twice.
    Duplicate,
    /// A value is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// A reference leads nowhere.
    NotFound,
    /// The check itself failed.
    Internal,
}

impl FieldErrorKind {
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooMany | Self::Internal)
    }
}

/// A complaint about one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The kind of complaint.
    pub kind: FieldErrorKind,
    /// The path of the field; `<nil>` when there is none.
    pub field: String,
    /// The value found.
    pub value: Value,
    /// What to do about it; may be empty.
    pub detail: String,
}

impl FieldError {
    fn new(kind: FieldErrorKind, field: &str, value: Value, detail: impl Into<String>) -> Self {
        Self { kind, field: field.to_owned(), value, detail: detail.into() }
    }

    /// A value is missing.
    pub fn required(field: &str, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, Value::Null, detail)
    }

    /// A value is malformed.
    pub fn invalid(field: &str, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, value.into(), detail)
    }

    /// A value may not be given or changed.
    pub fn forbidden(field: &str, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, Value::Null, detail)
    }

    /// A value appears twice.
    pub fn duplicate(field: &str, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, value.into(), "")
    }

    /// A value is none of `supported`.
    pub fn not_supported(field: &str, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self::new(FieldErrorKind::NotSupported, field, value.into(), detail)
    }

    /// A value is too long.
    pub fn too_long(field: &str, limit: usize) -> Self {
        Self::new(FieldErrorKind::TooLong, field, Value::Null, format!("may not be more than {limit} bytes"))
    }

    /// A reference leads nowhere.
    pub fn not_found(field: &str, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, field, value.into(), "")
    }

    /// Another kind of complaint.
    pub fn other(kind: FieldErrorKind, field: &str, value: Value, detail: impl Into<String>) -> Self {
        Self::new(kind, field, value, detail)
    }

    /// The complaint without the field.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if self.kind.shows_value() {
            text.push_str(": ");
            text.push_str(&match &self.value {
                Value::Null => "null".to_owned(),
                other => other.to_string(),
            });
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The complaint as a cause in a Status.
    pub fn cause(&self) -> Cause {
        Cause { reason: self.kind.reason().into(), message: self.body(), field: self.field.clone() }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_json() {
        let error = FieldError::invalid("spec.name", "A_b", "must be lower case");
        assert_eq!(error.to_string(), "spec.name: Invalid value: \"A_b\": must be lower case");
        let error = FieldError::not_supported("spec.type", "X", &["A", "B"]);
        assert_eq!(error.to_string(), "spec.type: Unsupported value: \"X\": supported values: \"A\", \"B\"");
        assert_eq!(FieldError::invalid("n", -1, "no").to_string(), "n: Invalid value: -1: no");
    }
}
