//! JSON patches as the library behind a real API server carries them out.
//!
//! It differs from RFC 6902 where an object lacks a member: replacing it adds it, and copying it copies null. The number of
//! operations is limited, and so is what they copy: a few copies of copies would otherwise double the object each time.

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::Value;

use crate::status::ApiError;

/// Operations of one patch.
const MOST_OPERATIONS: usize = 10_000;
/// Bytes of JSON that all copies of one patch add.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Carries out all operations in order; the object is of no use when one of them fails.
pub(crate) fn carry_out(object: &mut Value, patch: &Patch) -> Result<(), ApiError> {
    if patch.0.len() > MOST_OPERATIONS {
        return Err(ApiError::too_many_operations(MOST_OPERATIONS, patch.0.len()));
    }
    let mut copied = 0;
    for operation in &patch.0 {
        if let PatchOperation::Copy(copy) = operation
            && let Some(value) = object.pointer(copy.from.as_str())
        {
            copied += size(value);
            if copied > MOST_COPIED {
                return Err(ApiError::copied_too_much(copied, MOST_COPIED));
            }
        }
        let operation = match operation {
            PatchOperation::Replace(replace) if lacks_member(object, replace.path.as_str()) => {
                PatchOperation::Add(AddOperation {
                    path: replace.path.clone(),
                    value: replace.value.clone(),
                })
            }
            PatchOperation::Copy(copy) if lacks_member(object, copy.from.as_str()) => {
                PatchOperation::Add(AddOperation {
                    path: copy.path.clone(),
                    value: Value::Null,
                })
            }
            other => other.clone(),
        };
        json_patch::patch_unsafe(object, std::slice::from_ref(&operation)).map_err(|_| ApiError::patch_refused())?;
    }
    Ok(())
}

/// Bytes of a value as JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    drop(serde_json::to_writer(&mut count, value));
    count.0
}

/// Whether the path leads to an object, but not to one of its members.
fn lacks_member(object: &Value, path: &str) -> bool {
    let parent = path.rsplit_once('/').and_then(|(parent, _)| object.pointer(parent));
    parent.is_some_and(Value::is_object) && object.pointer(path).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut object: Value, patch: Value) -> Option<Value> {
        let patch: Patch = serde_json::from_value(patch).unwrap();
        carry_out(&mut object, &patch).ok().map(|()| object)
    }

    #[test]
    fn replacing_adds_members_but_neither_items_nor_parents() {
        let replace = |path: &str| json!([{"op": "replace", "path": path, "value": "v"}]);
        let object = json!({"labels": {"a": "b"}, "list": ["x"]});
        assert_eq!(
            patched(object.clone(), replace("/labels/c")),
            Some(json!({"labels": {"a": "b", "c": "v"}, "list": ["x"]}))
        );
        assert_eq!(
            patched(object.clone(), replace("/list/0")),
            Some(json!({"labels": {"a": "b"}, "list": ["v"]}))
        );
        assert_eq!(patched(object.clone(), replace("/list/1")), None);
        assert_eq!(patched(object, replace("/absent/c")), None);
    }

    #[test]
    fn what_is_not_there_is_copied_as_null() {
        let copy = json!([{"op": "copy", "from": "/a", "path": "/b"}]);
        assert_eq!(patched(json!({}), copy), Some(json!({"b": null})));
    }

    #[test]
    fn copies_are_limited_in_sum() {
        let copy = |number: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/c{number}")});
        let mut object = json!({"data": {"a": "x".repeat(1000)}});
        let patch = |copies: usize| serde_json::from_value(Value::Array((0..copies).map(copy).collect())).unwrap();
        carry_out(&mut object.clone(), &patch(11)).unwrap();
        let error = carry_out(&mut object, &patch(40)).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("Unable to complete the copy, the accumulated size increase of copy is"),
            "{message}"
        );
        assert!(size(&object) < 2 * MOST_COPIED);
    }

    #[test]
    fn operations_are_limited_in_number() {
        let test = json!({"op": "test", "path": "/a", "value": 1});
        let patch = |number: usize| serde_json::from_value(Value::Array(vec![test.clone(); number])).unwrap();
        carry_out(&mut json!({"a": 1}), &patch(MOST_OPERATIONS)).unwrap();
        let error = carry_out(&mut json!({"a": 1}), &patch(MOST_OPERATIONS + 1)).unwrap_err();
        let expected = "The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn operations_build_on_each_other() {
        let patch = json!([
            {"op": "add", "path": "/labels", "value": {}},
            {"op": "replace", "path": "/labels/a", "value": "1"},
            {"op": "test", "path": "/labels/a", "value": "1"},
        ]);
        assert_eq!(patched(json!({}), patch), Some(json!({"labels": {"a": "1"}})));
    }
}
