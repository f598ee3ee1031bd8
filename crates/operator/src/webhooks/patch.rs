//! The JSON patch that turns an object as it was sent into the object with its defaults. Pure.

use json_patch::Patch;
use serde_json::Value;

/// A patch for `sent` with every difference between `before` and `after`, and nothing else.
///
/// `before` is what our types read from `sent`; it may lack what they do not keep (nulls) and have what they add (empty
/// structures). Only what differs from it is carried over, so a patch never touches what was not filled in.
pub(super) fn minimal(sent: &Value, before: &Value, after: &Value) -> Patch {
    let mut wanted = sent.clone();
    carry_over(&mut wanted, before, after);
    json_patch::diff(sent, &wanted)
}

fn carry_over(target: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (&mut *target, before, after) {
        (Value::Object(fields), Value::Object(before), Value::Object(after)) => {
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                fields.remove(key);
            }
            for (key, new) in after {
                let old = before.get(key);
                if old == Some(new) {
                    continue;
                }
                let field = fields.entry(key.clone()).or_insert(Value::Null);
                carry_over(field, old.unwrap_or(&Value::Null), new);
            }
        }
        (Value::Array(items), Value::Array(before), Value::Array(after))
            if items.len() == before.len() && items.len() == after.len() =>
        {
            for ((item, before), after) in items.iter_mut().zip(before).zip(after) {
                carry_over(item, before, after);
            }
        }
        _ => *target = after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_filled_in_is_in_the_patch_and_it_always_applies() {
        let sent = json!({"spec": {"cliques": [{"name": "a", "later": 1, "none": null}, {"name": "b"}]}});
        let before = json!({"spec": {"cliques": [{"name": "a", "spec": {}}, {"name": "b", "spec": {}}], "groups": []}});
        let mut after = before.clone();
        after["spec"]["cliques"][1]["spec"]["replicas"] = json!(1);
        after["spec"]["delay"] = json!("4h");
        let patch = minimal(&sent, &before, &after);
        let mut patched = sent.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        let expected = json!({"spec": {"delay": "4h", "cliques": [
            {"name": "a", "later": 1, "none": null},
            {"name": "b", "spec": {"replicas": 1}},
        ]}});
        assert_eq!(
            patched, expected,
            "a missing parent is added whole, the rest is untouched"
        );
        assert_eq!(patch.0.len(), 2, "{patch:?}");
        assert!(minimal(&sent, &before, &before).0.is_empty());
    }
}
