//! The opaque parameters of claims: which domain a channel or a daemon belongs to.
//!
//! Decoding is strict for what users write (an unknown field is a permanent error) and lenient for what was checkpointed,
//! perhaps by a newer version. Both refuse a domain ID that could not be a UID: it becomes a path and a label value.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::compute_domain::AllocationMode;
use super::{limits, names};

const CHANNEL_KIND: &str = "ComputeDomainChannelConfig";
const DAEMON_KIND: &str = "ComputeDomainDaemonConfig";

/// Parameters of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimParameters {
    /// Of a workload's claim on a channel.
    Channel {
        /// UID of the domain.
        domain_uid: String,
        /// One channel or all.
        mode: AllocationMode,
    },
    /// Of a daemon's claim.
    Daemon {
        /// UID of the domain.
        domain_uid: String,
    },
}

/// How strictly parameters are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// What a user wrote: unknown fields are refused.
    Strict,
    /// What was checkpointed: unknown fields are ignored.
    Lenient,
}

/// Why parameters cannot be used. The user must change the claim; trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// Not an object of a known kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The `apiVersion` found.
        api_version: String,
        /// The `kind` found.
        kind: String,
    },
    /// A field that the kind does not have.
    #[error("strict decoding error: unknown field {0:?}")]
    UnknownField(String),
    /// A field with a value of another type, or an unknown enum value.
    #[error("{field} has an invalid value")]
    InvalidValue {
        /// The field.
        field: &'static str,
    },
    /// No domain is named.
    #[error("domainID cannot be empty")]
    EmptyDomain,
    /// Longer than any parameters could be.
    #[error(
        "parameters have {bytes} bytes, at most {} are accepted",
        limits::MAX_PARAMETERS_BYTES
    )]
    TooLong {
        /// Bytes found.
        bytes: usize,
    },
    /// Not JSON.
    #[error("parameters are not JSON: {0}")]
    NotJson(String),
}

impl ClaimParameters {
    /// Decodes the JSON text of opaque parameters.
    pub fn decode_text(text: &str, decoding: Decoding) -> Result<Self, ParameterError> {
        if text.len() > limits::MAX_PARAMETERS_BYTES {
            return Err(ParameterError::TooLong { bytes: text.len() });
        }
        let value: Value = serde_json::from_str(text).map_err(|error| ParameterError::NotJson(error.to_string()))?;
        Self::decode(&value, decoding)
    }

    /// Decodes opaque parameters.
    pub fn decode(value: &Value, decoding: Decoding) -> Result<Self, ParameterError> {
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        let text = |field: &'static str| match object.get(field) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(ParameterError::InvalidValue { field }),
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let known = api_version == names::API_VERSION && (kind == CHANNEL_KIND || kind == DAEMON_KIND);
        if !known {
            return Err(ParameterError::UnknownKind {
                api_version: shortened(api_version),
                kind: shortened(kind),
            });
        }
        let fields: &[&str] = if kind == CHANNEL_KIND {
            &["apiVersion", "kind", "domainID", "allocationMode"]
        } else {
            &["apiVersion", "kind", "domainID"]
        };
        if decoding == Decoding::Strict
            && let Some(unknown) = object.keys().find(|key| !fields.contains(&key.as_str()))
        {
            return Err(ParameterError::UnknownField(shortened(unknown)));
        }
        let domain_uid = text("domainID")?;
        if domain_uid.is_empty() {
            return Err(ParameterError::EmptyDomain);
        }
        if !limits::is_uid(domain_uid) {
            return Err(ParameterError::InvalidValue { field: "domainID" });
        }
        let domain_uid = domain_uid.to_owned();
        if kind == DAEMON_KIND {
            return Ok(Self::Daemon { domain_uid });
        }
        let mode = match text("allocationMode")? {
            "" | "Single" => AllocationMode::Single,
            "All" => AllocationMode::All,
            _ if decoding == Decoding::Lenient => AllocationMode::Single,
            _ => {
                return Err(ParameterError::InvalidValue {
                    field: "allocationMode",
                });
            }
        };
        Ok(Self::Channel { domain_uid, mode })
    }

    /// The parameters as they stand in a claim template.
    pub fn encode(&self) -> Value {
        match self {
            Self::Channel { domain_uid, mode } => json!({
                "apiVersion": names::API_VERSION,
                "kind": CHANNEL_KIND,
                "domainID": domain_uid,
                "allocationMode": mode.as_str(),
            }),
            Self::Daemon { domain_uid } => json!({
                "apiVersion": names::API_VERSION,
                "kind": DAEMON_KIND,
                "domainID": domain_uid,
            }),
        }
    }

    /// UID of the domain.
    pub fn domain_uid(&self) -> &str {
        match self {
            Self::Channel { domain_uid, .. } | Self::Daemon { domain_uid } => domain_uid,
        }
    }
}

/// Errors travel into pod events: what a user wrote is quoted, but not at any length.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11";

    fn channel(more: &[(&str, Value)]) -> Value {
        let mut value = json!({"apiVersion": names::API_VERSION, "kind": CHANNEL_KIND, "domainID": UID});
        for (field, content) in more {
            value[field] = content.clone();
        }
        value
    }

    #[test]
    fn unknown_fields_are_refused_from_users_and_ignored_from_checkpoints() {
        let later = channel(&[("domainName", json!("x"))]);
        let strict = ClaimParameters::decode(&later, Decoding::Strict);
        assert_eq!(strict, Err(ParameterError::UnknownField("domainName".into())));
        assert!(ClaimParameters::decode(&later, Decoding::Lenient).is_ok());
        let mode = channel(&[("allocationMode", json!("Some"))]);
        assert!(ClaimParameters::decode(&mode, Decoding::Strict).is_err());
        assert!(ClaimParameters::decode(&mode, Decoding::Lenient).is_ok());
    }

    #[test]
    fn a_domain_must_be_named_by_a_uid() {
        let empty = channel(&[("domainID", json!(""))]);
        assert_eq!(
            ClaimParameters::decode(&empty, Decoding::Strict),
            Err(ParameterError::EmptyDomain)
        );
        for bad in ["../../etc", "a/b", "x\ny", &"a".repeat(100)] {
            for decoding in [Decoding::Strict, Decoding::Lenient] {
                assert!(ClaimParameters::decode(&channel(&[("domainID", json!(bad))]), decoding).is_err());
            }
        }
        assert!(ClaimParameters::decode(&json!([]), Decoding::Lenient).is_err());
        assert!(ClaimParameters::decode_text(&" ".repeat(1_000_000), Decoding::Lenient).is_err());
    }

    #[test]
    fn what_is_rendered_is_accepted() {
        for mode in [AllocationMode::Single, AllocationMode::All] {
            let parameters = ClaimParameters::Channel {
                domain_uid: UID.into(),
                mode,
            };
            assert_eq!(
                ClaimParameters::decode(&parameters.encode(), Decoding::Strict),
                Ok(parameters)
            );
        }
        let daemon = ClaimParameters::Daemon { domain_uid: UID.into() };
        assert_eq!(ClaimParameters::decode(&daemon.encode(), Decoding::Strict), Ok(daemon));
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_or_refused_with_a_short_error(text in ".{0,400}") {
            for decoding in [Decoding::Strict, Decoding::Lenient] {
                if let Err(error) = ClaimParameters::decode_text(&text, decoding) {
                    prop_assert!(error.to_string().len() < 1_000);
                }
            }
        }
    }
}
