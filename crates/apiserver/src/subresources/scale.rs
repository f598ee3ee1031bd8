//! The scale of an object: its wanted and its actual number of replicas, in one shape for all kinds.

use http::StatusCode;
use serde_json::{Value, json};

use crate::kinds::{Part, ScalePaths};
use crate::managed::Writer;
use crate::rest::{Call, Reply, carry_out};
use crate::status::ApiError;
use crate::tree::{meta_mut, meta_text};

fn paths(call: &Call) -> Result<ScalePaths, ApiError> {
    call.served.rules.scale_paths().ok_or_else(ApiError::unknown_path)
}

/// GET.
pub(super) fn get(call: &Call) -> Result<Reply, ApiError> {
    let paths = paths(call)?;
    let object = call
        .core
        .store
        .get(&call.served.id, &call.key())
        .ok_or_else(|| call.not_found())?;
    Ok(Reply::json(StatusCode::OK, &scale_of(&object.value(), &paths)))
}

/// PUT.
pub(super) async fn update(call: &Call) -> Result<Reply, ApiError> {
    let scale = call.plain_body()?;
    if let Some(problem) = wrong_type(&scale) {
        let message = format!("Scale in version \"v1\" cannot be handled as a Scale: {problem}");
        return Err(ApiError::bad_request(message));
    }
    write(call, &|_| Ok(scale.clone())).await
}

/// PATCH.
pub(super) async fn patch(call: &Call) -> Result<Reply, ApiError> {
    let patch = call.plain_body()?;
    write(call, &|current| {
        let mut scale = current.clone();
        if patch.is_array() {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
            carry_out(&mut scale, &patch)?;
        } else {
            json_patch::merge(&mut scale, &patch);
        }
        let text = scale.to_string();
        wrong_type(&scale).map_or(Ok(scale), |problem| Err(ApiError::unreadable_patch(&text, &problem)))
    })
    .await
}

/// What is wrong with the type of the number, in the words of Go's decoder.
fn wrong_type(scale: &Value) -> Option<String> {
    let found = match scale.pointer("/spec/replicas")? {
        Value::Null => return None,
        Value::Number(number) if number.is_i64() => return None,
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    Some(format!(
        "json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"
    ))
}

type Decide<'a> = &'a (dyn Fn(&Value) -> Result<Value, ApiError> + Send + Sync);

async fn write(call: &Call, decide: Decide<'_>) -> Result<Reply, ApiError> {
    let paths = paths(call)?;
    let change = |object: &Value| {
        let scale = decide(&scale_of(object, &paths))?;
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 && !call.served.custom {
            let error = coppice_schema::FieldError::invalid(
                "spec.replicas",
                json!(replicas),
                "must be greater than or equal to 0",
            );
            let about = crate::status::About {
                group: "autoscaling",
                resource: "Scale",
            };
            return Err(ApiError::invalid(about, &call.path.name, &[error]));
        }
        let mut changed = object.clone();
        set(&mut changed, &paths.spec, json!(replicas));
        let revision = meta_text(&scale, "resourceVersion");
        if !revision.is_empty() {
            meta_mut(&mut changed).insert("resourceVersion".into(), json!(revision));
        }
        Ok(changed)
    };
    let outcome = call.modify(Part::Main, &change, &Writer::update(call)).await?;
    Ok(Reply::json(StatusCode::OK, &scale_of(&outcome.value(call), &paths)))
}

/// The scale of an object.
fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let mut metadata = serde_json::Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let text = meta_text(object, name);
        if !text.is_empty() {
            metadata.insert(name.into(), json!(text));
        }
    }
    let number = |path: &str| lookup(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut status = json!({"replicas": number(&paths.status)});
    let selector = paths
        .selector
        .as_deref()
        .and_then(|path| lookup(object, path))
        .map(selector_text);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = json!(selector);
    }
    let mut spec = json!({});
    if number(&paths.spec) != 0 {
        spec["replicas"] = json!(number(&paths.spec));
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// A selector as text, whether it is text already or a structured one.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object();
    let mut terms: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        terms.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('.')
        .split('.')
        .try_fold(object, |value, step| value.get(step))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    let steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    for step in &steps {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[*step];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_read_from_paths() {
        let paths = ScalePaths {
            spec: ".spec.replicas".into(),
            status: ".status.replicas".into(),
            selector: Some(".spec.selector".into()),
        };
        let object = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"replicas": 3,
            "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]}},
            "status": {"replicas": 2}});
        let scale = scale_of(&object, &paths);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b,c in (d,e)"}));
        let mut empty = json!({});
        set(&mut empty, ".spec.replicas", json!(4));
        assert_eq!(empty, json!({"spec": {"replicas": 4}}));
    }
}
