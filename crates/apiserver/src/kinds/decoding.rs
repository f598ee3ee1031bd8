//! Values of the wrong type, in the words of Go's decoder.

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use coppice_schema::{Cursor, ErrorKind, GroupVersionKind, Type, drop_nulls, kubernetes, validate_schema};
use serde_json::Value;

/// The first value of an object that its kind cannot hold, if any.
pub(super) fn first_problem(at: Cursor<'_>, kind: &str, object: &Value) -> Option<String> {
    for error in validate_schema(at, object, None) {
        match error.kind {
            // The schema's idea of base64 is that of custom resources, which takes no empty text; Go's decoder does.
            ErrorKind::TypeInvalid if error.detail.contains("must be of type byte") => {
                let text = error.value.as_ref().and_then(Value::as_str).unwrap_or_default();
                if let Some(at) = illegal_base64(text) {
                    return Some(format!("illegal base64 data at input byte {at}"));
                }
            }
            ErrorKind::TypeInvalid => return Some(describe(at, kind, &error.path, error.value.as_ref())),
            ErrorKind::Invalid if error.detail.starts_with("quantities must match") => return Some(error.detail),
            _ => {}
        }
    }
    None
}

/// The first value in the metadata of an object of any kind that cannot be there, if any. Drops nulls that mean nothing.
pub(crate) fn metadata_problem(object: &mut Value) -> Option<String> {
    let metadata = object.get_mut("metadata")?;
    let at = kubernetes()
        .kind(&GroupVersionKind::new("", "v1", "ConfigMap"))?
        .field("metadata")?;
    drop_nulls(at, metadata);
    first_problem(at, "ObjectMeta", metadata)
}

/// Writes the base64 texts in a member as Go does, which keeps only what they stand for.
pub(super) fn rewrite_base64(object: &mut Value, member: &str) {
    const TOLERANT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let texts = object.get_mut(member).and_then(Value::as_object_mut);
    for value in texts.into_iter().flat_map(|texts| texts.values_mut()) {
        let Some(text) = value.as_str() else { continue };
        let one_line: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
        if let Ok(bytes) = TOLERANT.decode(one_line) {
            *value = TOLERANT.encode(bytes).into();
        }
    }
}

/// Where Go's decoder gives up on a text, if it does. Line ends may be anywhere; padding is required.
fn illegal_base64(text: &str) -> Option<usize> {
    let mut bytes = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut in_group = 0;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'=' if in_group < 2 => return Some(at),
            b'=' if in_group == 2 => match bytes.next() {
                Some((_, b'=')) => return bytes.next().map(|(at, _)| at),
                Some((at, _)) => return Some(at),
                None => return Some(text.len()),
            },
            b'=' => return bytes.next().map(|(at, _)| at),
            b'+' | b'/' => {}
            _ if byte.is_ascii_alphanumeric() => {}
            _ => return Some(at),
        }
        in_group = (in_group + 1) % 4;
    }
    (in_group > 0).then(|| text.len() - in_group)
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

    #[test]
    fn base64_is_rewritten_as_go_does() {
        let mut object =
            json!({"data": {"lines": "YWRt\naW4=\n", "bits": "YR==", "empty": "", "bad": "%", "number": 1}});
        rewrite_base64(&mut object, "data");
        rewrite_base64(&mut object, "absent");
        assert_eq!(
            object,
            json!({"data": {"lines": "YWRtaW4=", "bits": "YQ==", "empty": "", "bad": "%", "number": 1}})
        );
    }

    #[test]
    fn base64_is_judged_as_go_does() {
        for (text, problem) in [
            ("", None),
            ("YWRtaW4=", None),
            ("YWRt\naW4=\r\n", None),
            ("YQ==", None),
            ("not base64!", Some(3)),
            ("YWRtaW4", Some(4)),
            ("YWRtaW4=x", Some(8)),
            ("YQ=", Some(3)),
            ("YQ=x", Some(3)),
            ("=", Some(0)),
            ("Y", Some(0)),
        ] {
            assert_eq!(illegal_base64(text), problem, "{text:?}");
        }
    }
}
