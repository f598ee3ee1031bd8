//! Admission reviews: the question and what an answer to it means.

use base64::Engine as _;
use serde_json::{Value, json};

use super::Operation;
use super::matching::Subject;
use crate::status::{ApiError, Cause};
use crate::tree::meta_text;

/// The question about a write.
pub(super) fn request(subject: &Subject<'_>, uid: &str) -> Value {
    let call = subject.call;
    let served = &call.served;
    let kind = json!({"group": &*served.group, "version": &*served.version, "kind": &*served.kind});
    let resource = json!({"group": &*served.group, "version": &*served.version, "resource": &*served.plural});
    let name = match subject.object.or(subject.old).map(|object| meta_text(object, "name")) {
        Some(name) if !name.is_empty() => name,
        _ => call.path.name.as_str(),
    };
    let options = match subject.operation {
        Operation::Create => "CreateOptions",
        Operation::Update if call.verb == crate::rest::Verb::Patch => "PatchOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut request = json!({
        "uid": uid, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource, "name": name,
        "operation": subject.operation.as_str(), "userInfo": {"username": call.user.name, "groups": call.user.groups},
        "object": subject.object, "oldObject": subject.old, "dryRun": call.options.dry_run,
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
    });
    if !call.path.namespace.is_empty() {
        request["namespace"] = json!(call.path.namespace);
    }
    if !call.path.subresource.is_empty() {
        request["subResource"] = json!(call.path.subresource);
        request["requestSubResource"] = json!(call.path.subresource);
    }
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}

/// What a webhook said.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The changes it wants.
    pub(super) patch: Option<json_patch::Patch>,
    /// Why it refuses, as a Status; absent when it admits.
    pub(super) refusal: Option<Value>,
    /// What it wants the person to know.
    pub(super) warnings: Vec<String>,
}

/// Reads an answer; an error says why it is none.
pub(super) fn verdict(answer: &Value, request: &Value) -> Result<Verdict, String> {
    let response = answer
        .get("response")
        .filter(|response| response.is_object())
        .ok_or("the answer has no response")?;
    let (given, expected) = (
        response["uid"].as_str().unwrap_or_default(),
        request["request"]["uid"].as_str().unwrap_or_default(),
    );
    if given != expected {
        return Err(format!("expected response.uid={expected:?}, got {given:?}"));
    }
    let warnings = response["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if response["allowed"] != true {
        let refusal = response.get("status").cloned().unwrap_or_else(|| json!({}));
        return Ok(Verdict {
            patch: None,
            refusal: Some(refusal),
            warnings,
        });
    }
    let patch = match response
        .get("patch")
        .and_then(Value::as_str)
        .filter(|patch| !patch.is_empty())
    {
        None => None,
        Some(_) if response["patchType"] != "JSONPatch" => return Err("the patch is not a JSONPatch".to_owned()),
        Some(encoded) => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .map_err(|error| format!("the patch is not base64: {error}"))?;
            Some(serde_json::from_slice(&bytes).map_err(|error| format!("the patch is not a JSONPatch: {error}"))?)
        }
    };
    Ok(Verdict {
        patch,
        refusal: None,
        warnings,
    })
}

/// The error of a refused request.
pub(super) fn refusal(webhook: &str, status: &Value) -> ApiError {
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status
        .get("code")
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok())
        .unwrap_or(0);
    let causes = status
        .pointer("/details/causes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            Cause {
                reason: text("reason"),
                message: text("message"),
                field: text("field"),
            }
        });
    ApiError::from_parts(code.max(400), text("reason"), message, causes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: &Value) -> Result<Verdict, String> {
        verdict(&json!({"response": response}), &json!({"request": {"uid": "u"}}))
    }

    #[test]
    fn answers_admit_change_or_refuse() {
        assert!(answer(&json!({"uid": "u", "allowed": true})).unwrap().refusal.is_none());
        let encoded = base64::engine::general_purpose::STANDARD.encode(r#"[{"op":"add","path":"/a","value":1}]"#);
        let verdict =
            answer(&json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": encoded})).unwrap();
        assert!(verdict.patch.is_some());
        assert!(answer(&json!({"uid": "other", "allowed": true})).is_err());
        assert!(answer(&json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "?"})).is_err());
        assert!(
            answer(&json!({"uid": "u", "allowed": false}))
                .unwrap()
                .refusal
                .is_some()
        );
    }

    #[test]
    fn refusals_read_as_the_real_ones() {
        let error = refusal("a.b", &json!({"message": "no", "code": 403, "reason": "Forbidden"}));
        let status = error.to_value();
        assert_eq!(status["message"], "admission webhook \"a.b\" denied the request: no");
        assert_eq!(
            (status["code"].as_u64(), status["reason"].as_str()),
            (Some(403), Some("Forbidden"))
        );
        let error = refusal("a.b", &json!({})).to_value();
        assert_eq!(
            error["message"],
            "admission webhook \"a.b\" denied the request without explanation"
        );
        assert_eq!(error["code"], 400);
    }
}
