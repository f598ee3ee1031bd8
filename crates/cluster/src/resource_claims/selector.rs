//! Device selectors: CEL expressions about one device.
//!
//! Owns how a device looks to CEL: `device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name`; names
//! without a domain belong to the domain of the driver. An expression that fails does not select.

use super::view::Device;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, Program};
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
    context.add_variable("device", device.clone()).ok()?;
    match program.execute(&context).ok()? {
        kube_cel::cel::Value::Bool(selected) => Some(selected),
        _ => None,
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
