//! The rules that all objects share: names, labels, owners, finalizers, and what of `metadata` belongs to the server.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::NameRule;
use crate::ports::format_time;
use crate::tree::{carry_meta, finalizers, is_deleting, meta, meta_mut, meta_text};
use coppice_schema::FieldError;

const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_TEXT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// All annotations of an object together may be this long.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Sets what the server decides about a new object.
pub(super) fn stamp_new(object: &mut Value, uid: &str, now: Timestamp, generation: bool) {
    let metadata = meta_mut(object);
    for name in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
        "generation",
    ] {
        metadata.remove(name);
    }
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(format_time(now)));
    if generation {
        metadata.insert("generation".into(), json!(1));
    }
}

/// Restores what a write may not change.
pub(super) fn keep_server_fields(object: &mut Value, old: &Value) {
    meta_mut(object).remove("selfLink");
    for name in ["generation", "creationTimestamp"] {
        carry_meta(name, old, object);
    }
    for name in ["uid", "namespace"] {
        if meta_text(object, name).is_empty() {
            carry_meta(name, old, object);
        }
    }
    if is_deleting(old) {
        carry_meta("deletionTimestamp", old, object);
        carry_meta("deletionGracePeriodSeconds", old, object);
    } else {
        meta_mut(object).remove("deletionTimestamp");
        meta_mut(object).remove("deletionGracePeriodSeconds");
    }
}

/// Complaints about the metadata of any object.
pub(super) fn validate(object: &Value, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = meta_text(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        errors
            .extend(validate_name(name, rule).map(|detail| FieldError::invalid("metadata.name", json!(name), detail)));
    }
    validate_labels(meta(object, "labels"), "metadata.labels", &mut errors);
    validate_annotations(object, &mut errors);
    validate_owners(object, &mut errors);
    for (index, finalizer) in finalizers(object).into_iter().enumerate() {
        let at = format!("metadata.finalizers[{index}]");
        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer.as_str());
        if let Some(detail) = validate_qualified(&finalizer) {
            errors.push(FieldError::invalid(at, json!(finalizer), detail));
        } else if !finalizer.contains('/') && !standard {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(at, json!(finalizer), detail));
        }
    }
    errors
}

/// What is wrong with a name, if anything.
pub(crate) fn validate_name(name: &str, rule: NameRule) -> Option<String> {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |part: &str| {
        let bytes = part.as_bytes();
        !part.is_empty()
            && lower(bytes[0])
            && lower(bytes[bytes.len() - 1])
            && bytes.iter().all(|byte| lower(*byte) || *byte == b'-')
    };
    let (limit, good, text) = match rule {
        NameRule::Subdomain => (253, name.split('.').all(is_label), SUBDOMAIN_TEXT),
        NameRule::Label => (63, is_label(name), LABEL_TEXT),
        NameRule::PathSegment => {
            let bad = ["/", "%"].into_iter().find(|bad| name.contains(bad));
            return match (name, bad) {
                ("." | "..", _) => Some(format!("may not be '{name}'")),
                (_, Some(bad)) => Some(format!("may not contain '{bad}'")),
                _ => None,
            };
        }
    };
    if name.len() > limit {
        return Some(format!("must be no more than {limit} bytes"));
    }
    (!good).then(|| text.to_owned())
}

/// Complaints about a map of labels.
pub(crate) fn validate_labels(labels: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if let Some(detail) = validate_qualified(key) {
            errors.push(FieldError::invalid(path, json!(key), detail));
        }
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            errors.push(FieldError::invalid(path, json!(value), "must be no more than 63 bytes"));
        } else if !value.is_empty() && !is_label_text(value) {
            errors.push(FieldError::invalid(path, json!(value), LABEL_VALUE_TEXT));
        }
    }
}

fn validate_qualified(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix == Some("") {
        return Some("prefix part must be non-empty".to_owned());
    }
    if let Some(detail) = prefix.and_then(|prefix| validate_name(prefix, NameRule::Subdomain)) {
        return Some(format!("prefix part {detail}"));
    }
    match name {
        "" => Some("name part must be non-empty".to_owned()),
        long if long.len() > 63 => Some("name part must be no more than 63 bytes".to_owned()),
        text if !is_label_text(text) => Some(QUALIFIED_TEXT.to_owned()),
        _ => None,
    }
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn validate_annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let Some(annotations) = meta(object, "annotations").and_then(Value::as_object) else {
        return;
    };
    let mut total = 0;
    for (key, value) in annotations {
        if let Some(detail) = validate_qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", json!(key), detail));
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT as u64));
    }
}

fn validate_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let Some(owners) = meta(object, "ownerReferences").and_then(Value::as_array) else {
        return;
    };
    let mut controllers = 0;
    for owner in owners {
        let path = "metadata.ownerReferences";
        for name in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
                errors.push(FieldError::invalid(
                    format!("{path}.{name}"),
                    json!(""),
                    "must not be empty",
                ));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let detail =
            "Only one reference can have Controller set to true. Found \"true\" in references for several owners";
        errors.push(FieldError::invalid("metadata.ownerReferences", json!(owners), detail));
    }
}

/// Complaints about a change of metadata.
pub(super) fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in ["name", "namespace", "uid"] {
        let (new, old) = (meta_text(object, name), meta_text(old, name));
        if new != old {
            errors.push(FieldError::invalid(
                format!("metadata.{name}"),
                json!(new),
                "field is immutable",
            ));
        }
    }
    if is_deleting(old) {
        let known = finalizers(old);
        let added: Vec<String> = finalizers(object)
            .into_iter()
            .filter(|one| !known.contains(one))
            .collect();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|one| format!("{one:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rule() {
        assert_eq!(validate_name("a-b.c", NameRule::Subdomain), None);
        assert!(validate_name("a_b", NameRule::Subdomain).is_some());
        assert!(validate_name("a.b", NameRule::Label).is_some());
        assert!(validate_name(&"a".repeat(64), NameRule::Label).is_some());
        assert_eq!(validate_name("system:admin", NameRule::PathSegment), None);
        assert!(validate_name("a/b", NameRule::PathSegment).is_some());
    }

    #[test]
    fn labels_and_owners_are_checked() {
        let object = json!({"metadata": {"name": "a", "labels": {"ok/a": "b", "-bad": "b", "c": "not ok"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}});
        let fields: Vec<_> = validate(&object, NameRule::Subdomain)
            .into_iter()
            .map(|error| error.path)
            .collect();
        assert_eq!(
            fields,
            ["metadata.labels", "metadata.labels", "metadata.ownerReferences.uid"]
        );
    }

    #[test]
    fn no_finalizer_after_the_deletion_mark() {
        let old = json!({"metadata": {"name": "a", "deletionTimestamp": "x", "finalizers": ["a/b"]}});
        let new = json!({"metadata": {"name": "a", "deletionTimestamp": "x", "finalizers": ["a/b", "c/d"]}});
        let errors = validate_update(&new, &old);
        assert!(errors[0].to_string().contains("[]string{\"c/d\"}"), "{}", errors[0]);
        assert!(validate_update(&old, &new).is_empty());
    }

    #[test]
    fn the_server_keeps_its_fields() {
        let old = json!({"metadata": {"name": "a", "uid": "u", "generation": 3, "creationTimestamp": "t"}});
        let mut new = json!({"metadata": {"name": "a", "generation": 9, "deletionTimestamp": "x"}});
        keep_server_fields(&mut new, &old);
        assert_eq!(new, old);
    }
}
