//! Webhook configurations, read.

use std::time::Duration;

use serde_json::Value;

/// One webhook of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    /// Its name.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) client: Value,
    /// What it wants to see.
    pub(super) rules: Vec<Value>,
    /// Which namespaces.
    pub(super) namespace_selector: Value,
    /// Which objects.
    pub(super) object_selector: Value,
    /// Further conditions: name and expression.
    pub(super) conditions: Vec<(String, String)>,
    /// Whether other versions of a resource count as the same.
    pub(super) equivalent: bool,
    /// Whether a failure to reach it admits the request.
    pub(super) ignores_failure: bool,
    /// Whether it may be asked about a dry run.
    pub(super) safe_for_dry_run: bool,
    /// Whether it wants to see changes that later webhooks made.
    pub(super) reinvoke: bool,
    /// How long it may take.
    pub(crate) timeout: Duration,
}

/// The webhooks of a configuration, in order.
pub(super) fn read(configuration: &Value) -> Vec<Webhook> {
    configuration["webhooks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(read_one)
        .collect()
}

fn read_one(webhook: &Value) -> Webhook {
    let text = |name: &str| webhook.get(name).and_then(Value::as_str).unwrap_or_default();
    let list = |name: &str| webhook.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let condition = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        (text("name"), text("expression"))
    };
    Webhook {
        name: text("name").to_owned(),
        client: webhook["clientConfig"].clone(),
        rules: list("rules"),
        namespace_selector: webhook["namespaceSelector"].clone(),
        object_selector: webhook["objectSelector"].clone(),
        conditions: list("matchConditions").iter().map(condition).collect(),
        equivalent: text("matchPolicy") != "Exact",
        ignores_failure: text("failurePolicy") == "Ignore",
        safe_for_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
        reinvoke: text("reinvocationPolicy") == "IfNeeded",
        timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
    }
}
