//! What an error of the API server means for the caller. Pure.
//!
//! Each variant says what may be done. The hardest distinction is the most important one: whether the write certainly
//! had no effect, or may have had one.

use std::{io, time::Duration};

use kube::core::{Status, response::StatusCause};

use crate::lease::Fenced;

/// One field that the server rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The path of the field.
    pub field: String,
    /// What kind of error it is, such as `FieldValueInvalid`.
    pub reason: String,
    /// What is wrong with it.
    pub message: String,
}

/// Why a write failed, by what the caller may do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object is not as the write assumed (version, uid, field owner): look again and decide anew.
    #[error("conflict: {0}")]
    Conflict(String),
    /// An object of that name is there already: look at it; it may be our own from a lost answer.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// The object, or what it belongs to, is not there: decide anew.
    #[error("not found: {0}")]
    NotFound(String),
    /// The server will never take this object: report it, do not retry until something changes.
    #[error("invalid: {message}")]
    Invalid {
        /// The server's message.
        message: String,
        /// The fields, when the server named them.
        causes: Vec<Cause>,
    },
    /// We may not: report it, retry slowly.
    #[error("forbidden: {message}")]
    Forbidden {
        /// The server's message.
        message: String,
        /// Whether the reason is that the namespace is being deleted: nothing can be created there again.
        namespace_terminating: bool,
    },
    /// The server has too much to do: retry after the time it gave.
    #[error("throttled: {message}")]
    Throttled {
        /// The server's message.
        message: String,
        /// How long to wait, when the server said so.
        retry_after: Option<Duration>,
    },
    /// The server was not reached or refused to work: nothing has happened; retry.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// No answer, or one that does not tell: the write may have had its effect. Look before writing again.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The request itself is wrong: a defect of ours.
    #[error("bad request ({code}): {message}")]
    BadRequest {
        /// The HTTP status; 0 when the request was not sent.
        code: u16,
        /// The message.
        message: String,
    },
    /// We no longer lead: nothing has happened; stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
}

impl WriteError {
    /// Whether the write may have had an effect that is not known.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::OutcomeUnknown(_))
    }

    /// How long to wait before trying again, when the server said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// A short name for metrics and condition reasons.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "Conflict",
            Self::AlreadyExists(_) => "AlreadyExists",
            Self::NotFound(_) => "NotFound",
            Self::Invalid { .. } => "Invalid",
            Self::Forbidden { .. } => "Forbidden",
            Self::Throttled { .. } => "Throttled",
            Self::Unavailable(_) => "Unavailable",
            Self::OutcomeUnknown(_) => "OutcomeUnknown",
            Self::BadRequest { .. } => "BadRequest",
            Self::Fenced(_) => "Fenced",
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => of_status(&status),
            kube::Error::Service(source) if never_sent(&*source) => Self::Unavailable(source.to_string()),
            kube::Error::Auth(source) => Self::Unavailable(source.to_string()),
            error @ (kube::Error::BuildRequest(_) | kube::Error::HttpError(_)) => Self::BadRequest {
                code: 0,
                message: error.to_string(),
            },
            other => Self::OutcomeUnknown(other.to_string()),
        }
    }
}

fn of_status(status: &Status) -> WriteError {
    let message = status.message.clone();
    let causes: &[StatusCause] = status.details.as_ref().map_or(&[], |details| &details.causes);
    match (status.code, status.reason.as_str()) {
        (409, "AlreadyExists") => WriteError::AlreadyExists(message),
        (409, _) => WriteError::Conflict(message),
        (404, _) => WriteError::NotFound(message),
        // This is how a server answers a patch that demands another uid than it finds.
        (422, _) if causes.iter().any(|cause| cause.field == "metadata.uid") => WriteError::Conflict(message),
        (422, _) => {
            let cause = |cause: &StatusCause| Cause {
                field: cause.field.clone(),
                reason: cause.reason.clone(),
                message: cause.message.clone(),
            };
            WriteError::Invalid {
                message,
                causes: causes.iter().map(cause).collect(),
            }
        }
        (401 | 403, _) => {
            let namespace_terminating = causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
            WriteError::Forbidden {
                message,
                namespace_terminating,
            }
        }
        (429, _) => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            let retry_after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
            WriteError::Throttled { message, retry_after }
        }
        (503, _) => WriteError::Unavailable(message),
        (code @ 400..=499, _) => WriteError::BadRequest { code, message },
        // A gateway or a webhook may have failed after the effect.
        (code, reason) => WriteError::OutcomeUnknown(format!("{code} {reason}: {message}")),
    }
}

/// Whether the request certainly did not reach the server.
fn never_sent(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>()
            && error.is_connect()
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: &serde_json::Value) -> WriteError {
        kube::Error::Api(Box::new(serde_json::from_value(status.clone()).unwrap())).into()
    }

    #[test]
    fn statuses_say_what_may_be_done() {
        let simple = |code: u16, reason: &str| of(&serde_json::json!({"code": code, "reason": reason, "message": "m"}));
        assert_eq!(simple(409, "Conflict"), WriteError::Conflict("m".into()));
        assert_eq!(simple(409, "AlreadyExists"), WriteError::AlreadyExists("m".into()));
        assert_eq!(simple(404, "NotFound"), WriteError::NotFound("m".into()));
        assert_eq!(simple(503, "ServiceUnavailable"), WriteError::Unavailable("m".into()));
        assert!(simple(500, "InternalError").may_have_happened());
        assert!(simple(504, "Timeout").may_have_happened());
        assert_eq!(simple(413, "RequestEntityTooLarge").class(), "BadRequest");
    }

    #[test]
    fn details_are_kept() {
        let invalid = of(&serde_json::json!({
            "code": 422, "reason": "Invalid", "message": "m",
            "details": {"causes": [{"field": "spec.replicas", "reason": "FieldValueInvalid", "message": "negative"}]},
        }));
        let WriteError::Invalid { causes, .. } = invalid else {
            panic!("{invalid:?}")
        };
        assert_eq!(causes[0].field, "spec.replicas");
        let other_uid = of(&serde_json::json!({
            "code": 422, "reason": "Invalid",
            "details": {"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid", "message": "immutable"}]},
        }));
        assert_eq!(other_uid.class(), "Conflict");
        let throttled = of(&serde_json::json!({"code": 429, "details": {"retryAfterSeconds": 4}}));
        assert_eq!(throttled.retry_after(), Some(Duration::from_secs(4)));
        let terminating =
            of(&serde_json::json!({"code": 403, "details": {"causes": [{"reason": "NamespaceTerminating"}]}}));
        assert!(matches!(
            terminating,
            WriteError::Forbidden {
                namespace_terminating: true,
                ..
            }
        ));
    }

    #[test]
    fn a_refused_connection_had_no_effect_and_a_broken_one_may_have() {
        let service = |kind: io::ErrorKind| WriteError::from(kube::Error::Service(io::Error::from(kind).into()));
        assert_eq!(service(io::ErrorKind::ConnectionRefused).class(), "Unavailable");
        assert_eq!(service(io::ErrorKind::ConnectionReset).class(), "OutcomeUnknown");
    }
}
