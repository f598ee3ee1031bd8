//! Device selectors: CEL expressions about one device.
//!
//! Owns how a device looks to CEL: `device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name`; names
//! without a domain belong to the domain of the driver. An expression that fails does not select.

use super::view::Device;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, Program};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Whether all selectors select a device.
pub(crate) fn selects<'a>(mut selectors: impl Iterator<Item = &'a Value>, driver: &str, device: &Device) -> bool {
    let shown = shown(driver, device);
    selectors.all(|selector| {
        let expression = selector["cel"]["expression"].as_str().unwrap_or_default();
        evaluate(expression, &shown).unwrap_or(false)
    })
}

fn evaluate(expression: &str, device: &Value) -> Option<bool> {
    let program = Program::compile(expression).ok()?;
    let mut context = Context::default();
    context.register_all();
    context.add_variable("device", Signed(device)).ok()?;
    match program.execute(&context).ok()? {
        kube_cel::cel::Value::Bool(selected) => Some(selected),
        _ => None,
    }
}

/// Whole numbers of JSON as CEL's `int`, which attributes are: without this they would be `uint`, which equals no `int`.
struct Signed<'a>(&'a Value);

impl Serialize for Signed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match number.as_i64() {
                Some(number) => serializer.serialize_i64(number),
                None => number.serialize(serializer),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Signed)),
            Value::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, Signed(value)))),
            other => other.serialize(serializer),
        }
    }
}

fn shown(driver: &str, device: &Device) -> Value {
    let attribute = |value: &Value| {
        let members = value.as_object()?;
        members.values().next().cloned()
    };
    json!({
        "driver": driver,
        "attributes": by_domain(driver, &device.attributes, attribute),
        "capacity": by_domain(driver, &device.capacity, |value| value.get("value").cloned()),
    })
}

fn by_domain(driver: &str, values: &BTreeMap<String, Value>, read: impl Fn(&Value) -> Option<Value>) -> Value {
    let mut domains = Map::new();
    for (name, value) in values {
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        let Some(value) = read(value) else { continue };
        let domain = domains.entry(domain.to_owned()).or_insert_with(|| json!({}));
        domain[name] = value;
    }
    Value::Object(domains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_compared_by_their_types() {
        let device: Device = serde_json::from_value(json!({"name": "d", "attributes": {
            "type": {"string": "channel"}, "id": {"int": 0}, "gen": {"int": -3}, "on": {"bool": true},
        }}))
        .unwrap();
        let selected = |condition: &str| {
            let expression = condition.replace("its", "device.attributes['dev.example.com']");
            let selector = json!({"cel": {"expression": expression}});
            selects([&selector].into_iter(), "dev.example.com", &device)
        };
        for condition in [
            "its.type == 'channel' && its.id == 0",
            "its.gen == -3",
            "its.id < 1",
            "its.on",
        ] {
            assert!(selected(condition), "{condition}");
        }
        for condition in ["its.id == 1", "its.type == 'daemon'", "its.absent == 0", "nonsense("] {
            assert!(!selected(condition), "{condition}");
        }
    }
}
