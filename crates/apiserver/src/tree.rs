//! Small helpers to read and write object trees.

use serde_json::{Map, Value};

/// A text inside `metadata`, empty when absent.
pub(crate) fn meta_text<'a>(object: &'a Value, name: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(name))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A value inside `metadata`.
pub(crate) fn meta<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(name))
        .filter(|value| !value.is_null())
}

/// `metadata`, made when absent.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    object_mut(object, "metadata")
}

/// The object at `name`, made when absent or something else.
pub(crate) fn object_mut<'a>(parent: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    members_mut(members_mut(parent).entry(name).or_insert(Value::Null))
}

/// The members of an object, which anything else becomes.
pub(crate) fn members_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut().expect("made an object above")
}

/// Takes out the members that are the same in another object.
pub(crate) fn set_aside_same(object: &mut Value, other: &Value) -> Map<String, Value> {
    let (members, mut same) = (members_mut(object), Map::new());
    for (name, value) in other.as_object().into_iter().flatten() {
        if members.get(name) == Some(value) {
            same.extend(members.remove_entry(name));
        }
    }
    same
}

/// Copies a member from one tree to another, or removes it there when the source has none.
pub(crate) fn carry(name: &str, from: &Value, to: &mut Value) {
    let Some(to) = to.as_object_mut() else { return };
    place(name, from.get(name), to);
}

/// Copies a member of `metadata`, or removes it when the source has none.
pub(crate) fn carry_meta(name: &str, from: &Value, to: &mut Value) {
    place(name, meta(from, name), meta_mut(to));
}

/// Undoes all changes but those of the members named.
pub(crate) fn restore(from: &Map<String, Value>, to: &mut Map<String, Value>, except: &[&str]) {
    let changeable = |name: &str| except.contains(&name);
    to.retain(|name, _| changeable(name) || from.contains_key(name));
    for (name, value) in from.iter().filter(|(name, _)| !changeable(name)) {
        place(name, Some(value), to);
    }
}

/// Gives a member its value, or removes it. What is the same already is not copied: most of what a write may not
/// change, it did not change.
fn place(name: &str, value: Option<&Value>, to: &mut Map<String, Value>) {
    match (value, to.get_mut(name)) {
        (Some(value), Some(present)) if value == present => {}
        (Some(value), Some(present)) => *present = value.clone(),
        (Some(value), None) => {
            to.insert(name.to_owned(), value.clone());
        }
        (None, Some(_)) => {
            to.remove(name);
        }
        (None, None) => {}
    }
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = meta(object, "finalizers").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Whether the object waits for its removal.
pub(crate) fn is_deleting(object: &Value) -> bool {
    meta(object, "deletionTimestamp").is_some()
}

/// `metadata.generation`, 0 when absent.
pub(crate) fn generation(object: &Value) -> i64 {
    meta(object, "generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Whether two states are the same but for the resourceVersion.
pub(crate) fn same_content(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        return false;
    };
    fn without_revision(metadata: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let members = metadata.as_object().into_iter().flatten();
        members.filter(|(name, _)| *name != "resourceVersion")
    }
    left.len() == right.len()
        && left.iter().zip(right).all(|((name, value), (other_name, other))| {
            name == other_name
                && if name == "metadata" {
                    without_revision(value).eq(without_revision(other))
                } else {
                    value == other
                }
        })
}

/// Removes empty objects, arrays and nulls from `metadata`, as the typed metadata of the real server does.
pub(crate) fn tidy_meta(object: &mut Value) {
    meta_mut(object).retain(|name, value| match value {
        Value::Null => false,
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty() || name == "creationTimestamp",
        Value::Number(number) => name != "generation" || number.as_i64() != Some(0),
        Value::Bool(_) => true,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_ignores_only_the_revision() {
        let left = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": 1});
        assert!(same_content(
            &left,
            &json!({"metadata": {"name": "a", "resourceVersion": "2"}, "spec": 1})
        ));
        assert!(!same_content(&left, &json!({"metadata": {"name": "b"}, "spec": 1})));
        assert!(!same_content(&left, &json!({"metadata": {"name": "a"}, "spec": 2})));
        assert!(!same_content(&left, &json!({"metadata": {"name": "a"}})));
    }

    #[test]
    fn everything_but_the_exceptions_is_restored() {
        let from = json!({"a": 1, "b": {"c": 2}, "status": 1});
        let mut to = json!({"a": 2, "d": 3, "status": 2, "more": 4});
        restore(
            from.as_object().unwrap(),
            to.as_object_mut().unwrap(),
            &["status", "more"],
        );
        assert_eq!(to, json!({"a": 1, "b": {"c": 2}, "status": 2, "more": 4}));
    }

    #[test]
    fn members_that_are_the_same_are_set_aside() {
        let mut object = json!({"a": {"b": 1}, "c": 2, "d": 3});
        let same = set_aside_same(&mut object, &json!({"a": {"b": 1}, "c": 3, "e": 4}));
        assert_eq!((object, same.into()), (json!({"c": 2, "d": 3}), json!({"a": {"b": 1}})));
    }

    #[test]
    fn metadata_is_tidied() {
        let mut object =
            json!({"metadata": {"name": "a", "labels": {}, "finalizers": [], "selfLink": "", "uid": null}});
        tidy_meta(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
    }
}
