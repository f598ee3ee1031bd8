//! `metadata.managedFields`: who owns what, as it is stored.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// Update managers beyond this number are put together.
pub(super) const MOST_UPDATE_MANAGERS: usize = 10;
const ANCIENT_MANAGER: &str = "ancient-changes";

/// Whether fields were applied or written in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update or any other patch.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What tells managers apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerKey {
    /// The name the client gave.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// Only for updates: the same name may own fields in several versions.
    pub api_version: Option<String>,
    /// The subresource written through; empty for the object itself.
    pub subresource: String,
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq)]
pub struct Managed {
    /// The paths.
    pub set: FieldSet,
    /// The version their names are from.
    pub api_version: String,
    /// When the manager last changed something, as stored.
    pub time: Option<String>,
}

/// All managers of an object.
pub type ManagedFields = BTreeMap<ManagerKey, Managed>;

impl ManagerKey {
    /// The key of a manager; a nameless one is `unknown`.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: (operation == Operation::Update).then(|| api_version.to_owned()),
            subresource: subresource.to_owned(),
        }
    }

    /// The text by which the reference orders managers that are in the way.
    pub(super) fn identifier(&self) -> String {
        let mut out = format!(
            "{{\"manager\":{:?},\"operation\":{:?}",
            self.manager,
            self.operation.name()
        );
        let version = self.api_version.as_deref().unwrap_or_default();
        for (name, value) in [("apiVersion", version), ("subresource", &self.subresource)] {
            if !value.is_empty() {
                out.push_str(&format!(",\"{name}\":{value:?}"));
            }
        }
        out.push('}');
        out
    }

    /// The manager in a conflict message: `"kubectl" using v1`.
    pub fn describe(&self) -> String {
        let mut out = crate::gotext::quote(&self.manager);
        if !self.subresource.is_empty() {
            out.push_str(" with subresource ");
            out.push_str(&crate::gotext::quote(&self.subresource));
        }
        if let Some(version) = &self.api_version {
            out.push_str(" using ");
            out.push_str(version);
        }
        out
    }
}

/// Reads the entries of `metadata.managedFields`.
pub fn decode(entries: &[Value]) -> Result<ManagedFields, String> {
    let mut managed = ManagedFields::new();
    for (index, entry) in entries.iter().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
        }
        let set = FieldSet::from_fields_v1(entry.get("fieldsV1").unwrap_or(&Value::Null))
            .map_err(|problem| format!("error decoding managed fields entry {index}: {problem}"))?;
        let key = ManagerKey {
            manager: text("manager").to_owned(),
            ..ManagerKey::new("", operation, api_version, text("subresource"))
        };
        let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
        managed.insert(
            key,
            Managed {
                set,
                api_version: api_version.to_owned(),
                time,
            },
        );
    }
    Ok(managed)
}

/// The managers as entries of `metadata.managedFields`, in the order they are stored in: applied before updated, then by
/// time, name, version and subresource.
pub fn encode(managed: &ManagedFields) -> Vec<Value> {
    let mut entries: Vec<(&ManagerKey, &Managed)> = managed.iter().collect();
    entries.sort_by_key(|(key, value)| {
        (
            key.operation,
            seconds(value.time.as_deref()),
            &key.manager,
            &value.api_version,
            &key.subresource,
        )
    });
    entries
        .into_iter()
        .map(|(key, value)| {
            let mut entry = Map::from_iter([
                ("manager".to_owned(), json!(key.manager)),
                ("operation".to_owned(), json!(key.operation.name())),
                ("apiVersion".to_owned(), json!(value.api_version)),
                ("fieldsType".to_owned(), json!("FieldsV1")),
                ("fieldsV1".to_owned(), value.set.to_fields_v1()),
            ]);
            if let Some(time) = &value.time {
                entry.insert("time".to_owned(), json!(time));
            }
            if !key.subresource.is_empty() {
                entry.insert("subresource".to_owned(), json!(key.subresource));
            }
            if key.manager.is_empty() {
                entry.remove("manager");
            }
            Value::Object(entry)
        })
        .collect()
}

/// Whether a stored entry is that of the manager.
pub(super) fn is_entry_of(key: &ManagerKey, entry: &Value) -> bool {
    text(entry, "manager") == key.manager
        && text(entry, "operation") == key.operation.name()
        && text(entry, "subresource") == key.subresource
        && key
            .api_version
            .as_ref()
            .is_none_or(|version| text(entry, "apiVersion") == version)
}

/// What stored entries are sorted by; see [`encode`].
pub(super) fn stored_order(entry: &Value) -> [&str; 5] {
    let time = entry.get("time").and_then(Value::as_str);
    // The names of the operations sort as the operations do.
    [
        text(entry, "operation"),
        seconds(time),
        text(entry, "manager"),
        text(entry, "apiVersion"),
        text(entry, "subresource"),
    ]
}

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Times sort as text to the second; an absent one is the oldest.
fn seconds(time: Option<&str>) -> &str {
    time.map_or("", |time| time.get(..19).unwrap_or(time))
}

/// Puts the oldest update managers together until there are at most ten, per version and under one name.
pub(super) fn compact(managed: &mut ManagedFields) {
    let mut updaters: Vec<ManagerKey> = managed
        .keys()
        .filter(|key| key.operation == Operation::Update)
        .cloned()
        .collect();
    if updaters.len() <= MOST_UPDATE_MANAGERS {
        return;
    }
    updaters.sort_by(|left, right| {
        let time = |key: &ManagerKey| seconds(managed[key].time.as_deref()).to_owned();
        (time(left), left).cmp(&(time(right), right))
    });
    let mut count = updaters.len();
    let mut first_of_version: BTreeMap<String, ManagerKey> = BTreeMap::new();
    for key in updaters {
        if count <= MOST_UPDATE_MANAGERS {
            return;
        }
        let version = managed[&key].api_version.clone();
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, key);
            continue;
        };
        let bucket = ManagerKey::new(ANCIENT_MANAGER, Operation::Update, &version, "");
        if !managed.contains_key(&bucket)
            && let Some(oldest) = managed.remove(first)
        {
            managed.insert(bucket.clone(), oldest);
        }
        if key == bucket {
            continue;
        }
        if let Some(taken) = managed.remove(&key)
            && let Some(kept) = managed.get_mut(&bucket)
        {
            kept.set.extend(taken.set);
            kept.time = taken.time;
            count -= 1;
        }
    }
}
