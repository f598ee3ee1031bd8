//! From the bytes of a request to a tree that may be worked on.

use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::Call;
use super::query::FieldValidation;
use crate::codec::{self, Parsed};
use crate::protobuf::{self, DecodeError};
use crate::status::ApiError;
use crate::tree::{meta_mut, meta_text};

/// The media types of whole objects.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Call {
    /// The media type of the body, without parameters.
    pub(super) fn content_type(&self) -> &str {
        let value = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim()
    }

    /// The object in the body, in this resource's view, without unknown fields.
    pub(crate) fn object_from_body(&self) -> Result<Value, ApiError> {
        let parsed = self.parse_body()?;
        self.read_object(parsed)
    }

    /// The tree in the body of a request on a part of an object, or of a review; an empty one when there is no body.
    pub(crate) fn plain_body(&self) -> Result<Value, ApiError> {
        if self.is_protobuf() && !self.body.is_empty() {
            return self.parse_protobuf();
        }
        if !matches!(
            self.content_type(),
            "" | "application/json"
                | "application/yaml"
                | protobuf::MEDIA_TYPE
                | "application/merge-patch+json"
                | "application/strategic-merge-patch+json"
                | "application/json-patch+json"
                | "application/apply-patch+yaml"
        ) {
            return Err(ApiError::unsupported_media_type(ACCEPTED));
        }
        if self.body.is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        codec::parse_yaml(&self.body)
            .map(|parsed| parsed.value)
            .map_err(ApiError::bad_request)
    }

    /// Built-in kinds are written in protobuf too; custom resources have no messages.
    fn is_protobuf(&self) -> bool {
        self.content_type() == protobuf::MEDIA_TYPE && (!self.served.custom || self.verb.is_deletion())
    }

    fn parse_protobuf(&self) -> Result<Value, ApiError> {
        protobuf::decode(&self.body).map_err(|error| {
            let wanted = &self.served.kind;
            ApiError::bad_request(match error {
                DecodeError::NoEnvelope(why) => format!(
                    "the object provided is unrecognized (must be of type {wanted}): {why} ({})",
                    excerpt(&self.body)
                ),
                DecodeError::Broken {
                    kind,
                    api_version,
                    reason,
                } => {
                    let version = api_version.rsplit('/').next().unwrap_or_default();
                    format!("{kind} in version {version:?} cannot be handled as a {wanted}: {reason}")
                }
            })
        })
    }

    fn parse_body(&self) -> Result<Parsed, ApiError> {
        if self.is_protobuf() {
            return self.parse_protobuf().map(|value| Parsed {
                value,
                duplicates: Vec::new(),
            });
        }
        let parsed = match self.content_type() {
            "" | "application/json" => codec::parse_json(&self.body),
            "application/yaml" => codec::parse_yaml(&self.body),
            _ => return Err(ApiError::unsupported_media_type(ACCEPTED)),
        };
        parsed.map_err(|error| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {error} ({})",
                self.served.kind,
                excerpt(&self.body)
            ))
        })
    }

    /// Checks a parsed object's type and fields.
    pub(super) fn read_object(&self, parsed: Parsed) -> Result<Value, ApiError> {
        let mut object = parsed.value;
        if !object.is_object() {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): the body is not a JSON object",
                self.served.kind
            )));
        }
        self.check_kind(&mut object)?;
        self.check_types(&mut object)
            .map_err(|problem| self.wrong_type(&problem))?;
        let duplicates: Vec<String> = parsed.duplicates.iter().map(duplicate).collect();
        self.drop_unknown(&mut object, &duplicates)
            .map_err(|error| self.wrong_type(&error))?;
        Ok(object)
    }

    /// Built-in kinds may leave out `apiVersion` and `kind`, custom resources may not; neither may be wrong.
    fn check_kind(&self, object: &mut Value) -> Result<(), ApiError> {
        let expected = self.served.api_version();
        let given = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (given("apiVersion"), given("kind"));
        if self.served.custom {
            for (name, value) in [("Kind", &kind), ("apiVersion", &api_version)] {
                if value.is_empty() {
                    return Err(ApiError::bad_request(format!(
                        "Object '{name}' is missing in '{object}'"
                    )));
                }
            }
        }
        if !api_version.is_empty() && api_version != expected {
            let wanted = &self.served.kind;
            return Err(ApiError::bad_request(if self.served.custom {
                format!(
                    "the API version in the data ({api_version}) does not match the expected API version ({expected})"
                )
            } else {
                format!(
                    "{kind} in version {api_version:?} cannot be handled as a {wanted}: no kind {kind:?} is registered \
                     for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
                )
            }));
        }
        if !kind.is_empty() && kind != *self.served.kind {
            let (wanted, version) = (&self.served.kind, &self.served.version);
            let group = self
                .served
                .group
                .split('.')
                .next()
                .filter(|group| !group.is_empty())
                .unwrap_or("core");
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {wanted}: converting ({version}.{kind}) to \
                 ({group}.{wanted}): unknown conversion"
            )));
        }
        object["apiVersion"] = Value::String(expected);
        object["kind"] = Value::String(self.served.kind.to_string());
        Ok(())
    }

    /// Drops unknown fields, and complains about them and about what was wrong with the text.
    pub(super) fn drop_unknown(&self, object: &mut Value, complaints: &[String]) -> Result<(), String> {
        let unknown = self.served.rules.prune(object);
        self.complain(&unknown, complaints)
    }

    /// The first value that its field cannot hold, if any.
    pub(super) fn check_types(&self, object: &mut Value) -> Result<(), String> {
        let metadata = object.get("metadata");
        if metadata.is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
            return Err("json: cannot unmarshal metadata: an object is needed".to_owned());
        }
        self.served.rules.check_types(object)
    }

    /// Checks a parsed configuration's type, and nothing that server-side apply finds out itself.
    pub(super) fn read_configuration(&self, parsed: Parsed) -> Result<Value, ApiError> {
        let mut object = parsed.value;
        self.check_kind(&mut object)?;
        let duplicates: Vec<String> = parsed.duplicates.iter().map(duplicate).collect();
        self.complain(&[], &duplicates)
            .map_err(|error| self.wrong_type(&error))?;
        Ok(object)
    }

    /// Warns about unknown and duplicate fields, or refuses them, as the client asked.
    fn complain(&self, unknown: &[String], complaints: &[String]) -> Result<(), String> {
        let complaints: Vec<String> = complaints
            .iter()
            .cloned()
            .chain(unknown.iter().map(|path| format!("unknown field {path:?}")))
            .collect();
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => complaints.into_iter().for_each(|complaint| self.warn(complaint)),
            FieldValidation::Strict if complaints.is_empty() => {}
            FieldValidation::Strict => return Err(format!("strict decoding error: {}", complaints.join(", "))),
        }
        Ok(())
    }

    fn wrong_type(&self, error: &str) -> ApiError {
        let kind = &self.served.kind;
        ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {error}",
            self.served.version
        ))
    }

    /// Gives the object the namespace of the path, and refuses another one.
    pub(crate) fn settle_namespace(&self, object: &mut Value) -> Result<(), ApiError> {
        let given = meta_text(object, "namespace").to_owned();
        let expected = if self.served.namespaced {
            self.path.namespace.as_str()
        } else {
            ""
        };
        if !given.is_empty() && given != expected {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if expected.is_empty() {
            meta_mut(object).remove("namespace");
        } else {
            meta_mut(object).insert("namespace".into(), expected.into());
        }
        Ok(())
    }
}

/// What strict validation says about a key that appears more than once.
pub(super) fn duplicate(path: &String) -> String {
    format!("duplicate field {path:?}")
}

/// The beginning of a body, as parse errors quote it: text as it is, anything else in hexadecimal digits.
fn excerpt(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let start = &body[..body.len().min(LIMIT)];
    let more = if body.len() > LIMIT { " ..." } else { "" };
    if body[0] == b'{' {
        format!("{}{more}", String::from_utf8_lossy(start))
    } else {
        let digits: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}{more}")
    }
}
