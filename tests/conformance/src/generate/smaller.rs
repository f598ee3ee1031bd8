//! Cases that are a little smaller than a given one.

use serde_json::Value;

use crate::corpus::Case;

/// Every case that is this one without one step, or without one member of one body; the largest cuts first.
pub fn smaller(case: &Case) -> Vec<Case> {
    let mut found = Vec::new();
    for index in (0..case.steps.len()).rev() {
        let mut without = case.clone();
        without.steps.remove(index);
        found.push(without);
    }
    for (index, step) in case.steps.iter().enumerate() {
        // A body without a name or a type is another mistake than the one that is looked for.
        let named =
            |body: &Value| ["/apiVersion", "/kind", "/metadata/name"].map(|place| body.pointer(place).is_some());
        let whole = step.body.as_ref().map(named);
        for body in step
            .body
            .iter()
            .flat_map(cuts)
            .filter(|body| Some(named(body)) == whole)
        {
            let mut with = case.clone();
            with.steps[index].body = Some(body);
            found.push(with);
        }
    }
    found
}

/// A value without one member or item, at any depth.
fn cuts(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(map) => {
            let without = map.keys().map(|key| {
                let mut map = map.clone();
                map.remove(key);
                Value::Object(map)
            });
            let within = map.iter().flat_map(|(key, item)| {
                cuts(item).into_iter().map(|cut| {
                    let mut map = map.clone();
                    map.insert(key.clone(), cut);
                    Value::Object(map)
                })
            });
            without.chain(within).collect()
        }
        Value::Array(items) => {
            let without = (0..items.len()).map(|index| {
                let mut items = items.clone();
                items.remove(index);
                Value::Array(items)
            });
            let within = items.iter().enumerate().flat_map(|(index, item)| {
                cuts(item).into_iter().map(move |cut| {
                    let mut items = items.clone();
                    items[index] = cut;
                    Value::Array(items)
                })
            });
            without.chain(within).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::corpus::Step;

    #[test]
    fn a_case_is_cut_by_steps_and_by_what_they_say() {
        let step = |body: Value| Step {
            body: Some(body),
            ..Step::default()
        };
        let case = Case {
            case: "c".to_owned(),
            steps: vec![step(json!({"a": [{"b": 1}], "c": 2})), step(json!(5))],
        };
        let bodies: Vec<Vec<Value>> = smaller(&case)
            .into_iter()
            .map(|case| case.steps.into_iter().filter_map(|step| step.body).collect())
            .collect();
        let five = json!(5);
        assert_eq!(
            bodies,
            [
                vec![json!({"a": [{"b": 1}], "c": 2})],
                vec![five.clone()],
                vec![json!({"c": 2}), five.clone()],
                vec![json!({"a": [{"b": 1}]}), five.clone()],
                vec![json!({"a": [], "c": 2}), five.clone()],
                vec![json!({"a": [{}], "c": 2}), five.clone()],
            ]
        );
    }
}
