//! JSON patches as the library behind a real API server carries them out.
//!
//! It differs from RFC 6902 where an object lacks a member: replacing it adds it, and copying it copies null.

use json_patch::{AddOperation, Patch, PatchError, PatchOperation};
use serde_json::Value;

/// Carries out all operations in order; the object is of no use when one of them fails.
pub(crate) fn carry_out(object: &mut Value, patch: &Patch) -> Result<(), PatchError> {
    for operation in &patch.0 {
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
        json_patch::patch_unsafe(object, std::slice::from_ref(&operation))?;
    }
    Ok(())
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
    fn operations_build_on_each_other() {
        let patch = json!([
            {"op": "add", "path": "/labels", "value": {}},
            {"op": "replace", "path": "/labels/a", "value": "1"},
            {"op": "test", "path": "/labels/a", "value": "1"},
        ]);
        assert_eq!(patched(json!({}), patch), Some(json!({"labels": {"a": "1"}})));
    }
}
