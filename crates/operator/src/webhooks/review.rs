//! Admission reviews: reading the question, and answering it with the rules. Pure.
//!
//! A refusal carries what the rules said: status 422 with one cause for each field, as from the API server itself. A
//! review that is none is [`Malformed`]: whoever sent it, it was no API server with our configurations.

use std::collections::BTreeMap;

use base64::Engine as _;
use coppice_api::admission::authorizer::{self, Decision, Operation, Owner, Trusted};
use coppice_api::admission::scale::Resize;
use coppice_api::admission::{
    Context, Outcome, default_pod_clique_set, validate_cluster_topology_binding, validate_pod_clique_set,
};
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::patch;

const API_VERSION: &str = "admission.k8s.io/v1";
const GROUP: &str = "grove.io";

/// A review that cannot be answered, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a review that this webhook can answer: {0}")]
pub struct Malformed(pub(crate) String);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<Request>,
}

/// What an API server asks about.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names the question; the answer repeats it.
    pub uid: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The kind of the object.
    #[serde(default)]
    pub kind: Kind,
    /// The name of the object; empty when it is yet to be generated.
    #[serde(default)]
    pub name: String,
    /// The namespace of the object.
    #[serde(default)]
    pub namespace: String,
    /// `status`, `scale`, ...
    #[serde(default)]
    pub sub_resource: String,
    /// Who asks.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it is to be.
    #[serde(default)]
    pub object: Value,
    /// The object as it is.
    #[serde(default)]
    pub old_object: Value,
}

/// A kind.
#[derive(Debug, Default, Deserialize)]
pub struct Kind {
    /// The group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
}

/// A user.
#[derive(Debug, Default, Deserialize)]
pub struct UserInfo {
    /// The full name.
    #[serde(default)]
    pub username: String,
}

/// The answer to a request.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Answer {
    /// Why the request is refused, as a Status; none when it is admitted.
    pub refusal: Option<Value>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// What to change.
    pub patch: Option<json_patch::Patch>,
}

impl Request {
    /// Reads the request of a review.
    ///
    /// # Errors
    /// When it is no review of `admission.k8s.io/v1`.
    pub fn read(review: &Value) -> Result<Self, Malformed> {
        let review = Review::deserialize(review).map_err(|error| Malformed(error.to_string()))?;
        let (version, kind) = (review.api_version.as_deref(), review.kind.as_deref());
        if version != Some(API_VERSION) || kind != Some("AdmissionReview") {
            return Err(Malformed(format!(
                "expected an AdmissionReview of {API_VERSION}, got {} of {}",
                kind.unwrap_or("no kind"),
                version.unwrap_or("no version")
            )));
        }
        let request = review
            .request
            .ok_or_else(|| Malformed("it has no request".to_owned()))?;
        if request.uid.is_empty() {
            return Err(Malformed("request.uid is empty".to_owned()));
        }
        Ok(request)
    }

    fn operation(&self) -> Result<Operation, Malformed> {
        match self.operation.as_str() {
            "CREATE" => Ok(Operation::Create),
            "UPDATE" => Ok(Operation::Update),
            "DELETE" => Ok(Operation::Delete),
            "CONNECT" => Ok(Operation::Connect),
            other => Err(Malformed(format!("request.operation {other:?} is unknown"))),
        }
    }

    fn expect_kind(&self, kind: &str) -> Result<(), Malformed> {
        if (self.kind.group.as_str(), self.kind.kind.as_str()) == (GROUP, kind) {
            return Ok(());
        }
        Err(Malformed(format!(
            "this webhook judges {kind}s of {GROUP}, not {}s of {:?}; correct the rules of its configuration",
            self.kind.kind, self.kind.group
        )))
    }

    /// Whether there is something to judge: objects that go, or are being taken apart, are not.
    fn is_judged(&self) -> Result<bool, Malformed> {
        let written = matches!(self.operation()?, Operation::Create | Operation::Update);
        let deleted = !self.object["metadata"]["deletionTimestamp"].is_null();
        Ok(written && self.sub_resource.is_empty() && !deleted)
    }

    /// The change of size that the request asks for, of an object of this kind or of its `scale`.
    ///
    /// # Errors
    /// When it is about something else.
    pub(crate) fn resize(&self, kind: &str) -> Result<Resize, Malformed> {
        let of_scale = self.sub_resource == "scale" && self.kind.kind == "Scale";
        if !of_scale {
            self.expect_kind(kind)?;
        }
        let number = |object: &Value, path: &str| {
            let number = object.pointer(path).and_then(Value::as_i64);
            number.map(|number| i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX }))
        };
        let size = |object: &Value| number(object, "/spec/replicas").unwrap_or(0);
        let deleted = !self.object["metadata"]["deletionTimestamp"].is_null();
        let judged = self.operation()? == Operation::Update && !deleted;
        let to = size(&self.object);
        Ok(Resize {
            from: if judged { size(&self.old_object) } else { to },
            to,
            min_available: number(&self.object, "/spec/minAvailable"),
        })
    }

    /// The set of the request, if it has the shape of one.
    pub(crate) fn set(&self) -> Option<PodCliqueSet> {
        PodCliqueSet::deserialize(&self.object).ok()
    }

    /// The labels that decide who guards the object: the old ones, if there are any.
    fn guarding_labels(&self) -> Result<Option<BTreeMap<String, String>>, Malformed> {
        let (object, field) = match self.operation()? {
            Operation::Create => (&self.object, "object"),
            _ => (&self.old_object, "oldObject"),
        };
        if !object.is_object() {
            return Err(Malformed(format!("request.{field} is not an object")));
        }
        Option::<BTreeMap<String, String>>::deserialize(&object["metadata"]["labels"])
            .map_err(|error| Malformed(format!("request.{field}.metadata.labels: {error}")))
    }

    /// The set that guards the object, if one is to be looked up.
    ///
    /// # Errors
    /// When the object is not readable.
    pub(crate) fn guarding_set(&self) -> Result<Option<String>, Malformed> {
        self.guarded(|request| request.owner().map(str::to_owned), None)
    }

    fn guarded<T>(&self, ask: impl FnOnce(&authorizer::Request<'_>) -> T, connecting: T) -> Result<T, Malformed> {
        let operation = self.operation()?;
        if operation == Operation::Connect {
            return Ok(connecting);
        }
        let labels = self.guarding_labels()?;
        Ok(ask(&authorizer::Request {
            operation,
            kind: &self.kind.kind,
            subresource: &self.sub_resource,
            name: &self.name,
            user: &self.user_info.username,
            labels: labels.as_ref(),
        }))
    }
}

/// Fills in the defaults of a set.
///
/// # Errors
/// When the request is about something else.
pub fn default_set(request: &Request) -> Result<Answer, Malformed> {
    request.expect_kind("PodCliqueSet")?;
    if !request.is_judged()? {
        return Ok(Answer::default());
    }
    let mut sent = request.object.clone();
    let Ok(mut set) = PodCliqueSet::deserialize(&sent) else {
        return Ok(Answer::default());
    };
    // Whoever calls a namespaced path has said which namespace.
    if set.metadata.namespace.as_deref().unwrap_or_default().is_empty() && !request.namespace.is_empty() {
        set.metadata.namespace = Some(request.namespace.clone());
        sent["metadata"]["namespace"] = json!(request.namespace);
    }
    let before = to_value(&set)?;
    let old = PodCliqueSet::deserialize(&request.old_object).ok();
    default_pod_clique_set(&mut set, old.as_ref());
    let patch = patch::minimal(&sent, &before, &to_value(&set)?);
    Ok(Answer {
        patch: Some(patch).filter(|patch| !patch.0.is_empty()),
        ..Answer::default()
    })
}

/// Judges a set.
///
/// # Errors
/// When the request is about something else.
pub fn validate_set(request: &Request, context: &Context) -> Result<Answer, Malformed> {
    judge::<PodCliqueSet>(request, "PodCliqueSet", |new, old| {
        validate_pod_clique_set(new, old, context)
    })
}

/// Judges a topology binding.
///
/// # Errors
/// When the request is about something else.
pub fn validate_binding(request: &Request, context: &Context) -> Result<Answer, Malformed> {
    judge::<ClusterTopologyBinding>(request, "ClusterTopologyBinding", |new, old| {
        validate_cluster_topology_binding(new, old, context)
    })
}

fn judge<K: DeserializeOwned>(
    request: &Request,
    kind: &str,
    rules: impl FnOnce(&K, Option<&K>) -> Outcome,
) -> Result<Answer, Malformed> {
    request.expect_kind(kind)?;
    if !request.is_judged()? {
        return Ok(Answer::default());
    }
    let new = match K::deserialize(&request.object) {
        Ok(new) => new,
        Err(error) => return Ok(Answer::shapeless(kind, &request.name, &error.to_string())),
    };
    // A stored object that cannot be read is held against nobody, and excuses nobody.
    let old = K::deserialize(&request.old_object).ok();
    let outcome = rules(&new, old.as_ref());
    let status = outcome.to_status(GROUP, kind, &request.name);
    Ok(Answer {
        refusal: status.map(|status| to_value(&status)).transpose()?,
        warnings: outcome.warnings,
        patch: None,
    })
}

/// Judges a new size.
///
/// # Errors
/// When the outcome cannot be written.
pub fn judge_size(request: &Request, kind: &str, resize: Resize) -> Result<Answer, Malformed> {
    let outcome = resize.judge();
    let status = outcome.to_status(GROUP, kind, &request.name);
    Ok(Answer {
        refusal: status.map(|status| to_value(&status)).transpose()?,
        warnings: outcome.warnings,
        patch: None,
    })
}

/// Guards a managed object, with what the lookup of its set gave.
///
/// # Errors
/// When the object is not readable.
pub fn authorize(request: &Request, owner: Owner<'_>, trusted: Trusted<'_>) -> Result<Answer, Malformed> {
    let decision = request.guarded(|guarded| guarded.decide(owner, trusted), Decision::Allow(None))?;
    Ok(match decision {
        Decision::Allow(warning) => Answer {
            warnings: warning.into_iter().collect(),
            ..Answer::default()
        },
        Decision::Deny(message) => Answer {
            refusal: Some(json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": message})),
            ..Answer::default()
        },
    })
}

impl Answer {
    fn shapeless(kind: &str, name: &str, problem: &str) -> Self {
        let message = format!("{kind}.{GROUP} {name:?} is invalid: it does not have the shape of its kind: {problem}");
        Self {
            refusal: Some(json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": message})),
            ..Self::default()
        }
    }

    /// A refusal because we failed, not the user.
    pub(super) fn failure(message: &str) -> Self {
        Self {
            refusal: Some(json!({"status": "Failure", "code": 500, "reason": "InternalError", "message": message})),
            ..Self::default()
        }
    }

    /// The review that answers the request of this uid.
    #[must_use]
    pub fn to_review(&self, uid: &str) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.refusal.is_none()});
        if let Some(status) = &self.refusal {
            response["status"] = status.clone();
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        if let Some(patch) = &self.patch {
            let text = serde_json::to_string(patch).expect("a patch is JSON");
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(base64::engine::general_purpose::STANDARD.encode(text));
        }
        json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
    }
}

fn to_value(object: &impl serde::Serialize) -> Result<Value, Malformed> {
    serde_json::to_value(object).map_err(|error| Malformed(error.to_string()))
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
