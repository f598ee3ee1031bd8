//! Values of the wrong type, in the words of Go's decoder.

use coppice_schema::{Cursor, ErrorKind, Type, validate_schema};
use serde_json::Value;

/// The first value of an object that its kind cannot hold, if any.
pub(super) fn first_problem(at: Cursor<'_>, kind: &str, object: &Value) -> Option<String> {
    for error in validate_schema(at, object, None) {
        match error.kind {
            ErrorKind::TypeInvalid if error.detail.contains("must be of type byte") => {
                return Some(illegal_base64(error.value.as_ref()));
            }
            ErrorKind::TypeInvalid => return Some(describe(at, kind, &error.path, error.value.as_ref())),
            ErrorKind::Invalid if error.detail.starts_with("quantities must match") => return Some(error.detail),
            _ => {}
        }
    }
    None
}

/// Go names the first byte that cannot be there.
fn illegal_base64(value: Option<&Value>) -> String {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let at = text.bytes().position(|byte| !legal(byte)).unwrap_or(text.len());
    format!("illegal base64 data at input byte {at}")
}

/// `json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string`.
fn describe(root: Cursor<'_>, kind: &str, path: &str, found: Option<&Value>) -> String {
    let found = match found.and_then(Value::as_str).unwrap_or_default() {
        "boolean" => "bool",
        "integer" | "number" => "number",
        other => other,
    };
    let mut owner = kind.to_owned();
    let mut fields: Vec<&str> = Vec::new();
    let mut at = Some(root);
    for step in path.split('.') {
        let name = step.split('[').next().unwrap_or_default();
        let Some(current) = at else { break };
        let declared = current.node().field(name).is_some();
        if declared {
            if let Some(definition) = current.node().name.as_deref().and_then(|name| name.rsplit('.').next()) {
                definition.clone_into(&mut owner);
            }
            fields.push(name);
        }
        at = current.field(name);
        if step.contains('[') {
            at = at.and_then(Cursor::items);
        }
    }
    let wanted = at.map_or("object", go_type);
    format!(
        "json: cannot unmarshal {found} into Go struct field {owner}.{} of type {wanted}",
        fields.join(".")
    )
}

fn go_type(at: Cursor<'_>) -> &'static str {
    let node = at.node();
    match (node.ty, node.format.as_deref()) {
        (Type::Integer, Some("int64")) => "int64",
        (Type::Integer, _) => "int32",
        (Type::Number, _) => "float64",
        (Type::Boolean, _) => "bool",
        (Type::Object, _) if node.fields.is_empty() => "map[string]string",
        (Type::Object, _) => "object",
        (Type::Array, _) => "array",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use coppice_schema::{GroupVersionKind, kubernetes};
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_name_the_go_field() {
        let problem = |object: Value| {
            let at = kubernetes()
                .kind(&GroupVersionKind::new("", "v1", "ConfigMap"))
                .unwrap();
            first_problem(at, "ConfigMap", &object)
        };
        let text = |object| problem(object).unwrap_or_default();
        assert_eq!(
            text(json!({"metadata": {"name": true}})),
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string"
        );
        assert_eq!(
            text(json!({"data": {"a": 1}})),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        );
        assert_eq!(
            text(json!({"metadata": {"labels": []}})),
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string"
        );
        assert_eq!(problem(json!({"data": {"a": "b"}})), None);
    }
}
