//! Which part of the old object corresponds to a part of the new one.

use serde_json::Value;

use crate::model::{ListType, Node};

/// The old element with the same keys, if the list is keyed and every key is stated. Elements of other lists correspond
/// to nothing.
pub(crate) fn element<'v>(node: &Node, old: &'v Value, element: &Value) -> Option<&'v Value> {
    let ListType::Map(keys) = &node.list else { return None };
    let old_list = old.as_array()?;
    let wanted = element.as_object()?;
    let stated = |value: &&Value| !matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
    if keys.is_empty() || keys.iter().any(|key| wanted.get(&**key).filter(stated).is_none()) {
        return None;
    }
    old_list
        .iter()
        .find(|candidate| candidate.is_object() && keys.iter().all(|key| candidate.get(&**key) == wanted.get(&**key)))
}
