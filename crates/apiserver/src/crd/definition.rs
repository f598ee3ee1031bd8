//! The rules of CustomResourceDefinitions themselves.

use coppice_schema::{Cursor, Definitions, FieldError};
use serde_json::{Value, json};

use super::CLEANUP_FINALIZER;
use crate::go_form::bring_metadata;
use crate::kinds::{Kind, Part, Plain, World};
use crate::status::ApiError;
use crate::tree::{meta_text, object_mut};

/// The rules of definitions.
pub(crate) struct Definition(Plain);

impl Definition {
    /// Definitions, with what all built-in kinds have in common.
    pub(crate) fn new(plain: Plain) -> Self {
        Self(plain)
    }
}

impl Kind for Definition {
    fn has_status(&self) -> bool {
        self.0.has_status()
    }

    fn has_generation(&self) -> bool {
        self.0.has_generation()
    }

    fn allows_unconditional_update(&self) -> bool {
        self.0.allows_unconditional_update()
    }

    fn status_write_keeps_metadata(&self) -> bool {
        true
    }

    fn schema(&self) -> Option<Cursor<'_>> {
        self.0.schema()
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        self.0.prune(object)
    }

    fn check_types(&self, object: &mut Value) -> Result<(), String> {
        self.0.check_types(object)
    }

    fn strategic_merge(&self, object: Value, patch: &Value) -> Result<Value, ApiError> {
        self.0.strategic_merge(object, patch)
    }

    fn form(&self, object: &mut Value) {
        object.as_object_mut().map(bring_metadata);
    }

    fn default(&self, object: &mut Value) {
        self.form(object);
        let spec = object_mut(object, "spec");
        spec.entry("conversion").or_insert(json!({"strategy": "None"}));
        let mut spec = Value::Object(std::mem::take(spec));
        let names = object_mut(&mut spec, "names");
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let absent = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().is_empty();
        if absent(names.get("singular")) {
            names.insert("singular".into(), json!(kind.to_lowercase()));
        }
        if absent(names.get("listKind")) {
            names.insert("listKind".into(), json!(format!("{kind}List")));
        }
        object["spec"] = spec;
    }

    fn prepare_create(&self, object: &mut Value, _world: &World<'_>) {
        let stored = storage_version(object).unwrap_or_default();
        object["status"] =
            json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": [stored]});
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, part: Part) {
        let Some(storage) = storage_version(object).filter(|_| part == Part::Main) else {
            return;
        };
        let stored = object
            .pointer_mut("/status/storedVersions")
            .and_then(Value::as_array_mut);
        if let Some(stored) = stored.filter(|stored| !stored.contains(&json!(storage))) {
            stored.push(json!(storage));
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let mut errors = Vec::new();
        let (plural, group) = (text("/spec/names/plural"), text("/spec/group"));
        for (path, value) in [
            ("spec.group", group),
            ("spec.names.plural", plural),
            ("spec.names.kind", text("/spec/names/kind")),
        ] {
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            }
        }
        let name = meta_text(object, "name");
        if !plural.is_empty() && name != format!("{plural}.{group}") {
            errors.push(FieldError::invalid(
                "metadata.name",
                json!(name),
                "must be spec.names.plural+\".\"+spec.group",
            ));
        }
        let scope = text("/spec/scope");
        match scope {
            "Namespaced" | "Cluster" => {}
            "" => errors.push(FieldError::required("spec.scope", "")),
            _ => {
                let allowed = [json!("Cluster"), json!("Namespaced")];
                errors.push(FieldError::not_supported("spec.scope", json!(scope), &allowed));
            }
        }
        validate_versions(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        let mut errors = if part == Part::Main {
            self.validate(object)
        } else {
            Vec::new()
        };
        for path in ["/spec/group", "/spec/scope", "/spec/names/plural", "/spec/names/kind"] {
            let (new, old) = (object.pointer(path), old.pointer(path));
            if new != old {
                let field = path.trim_start_matches('/').replace('/', ".");
                errors.push(FieldError::invalid(
                    field,
                    new.cloned().unwrap_or_default(),
                    "field is immutable",
                ));
            }
        }
        errors
    }

    fn deletion_finalizer(&self) -> Option<&'static str> {
        Some(CLEANUP_FINALIZER)
    }
}

fn validate_versions(object: &Value, errors: &mut Vec<FieldError>) {
    let versions: Vec<&Value> = object
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    if versions.is_empty() {
        errors.push(FieldError::required(
            "spec.versions",
            "must have exactly one version marked as storage version",
        ));
        return;
    }
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", json!(versions), detail));
    }
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None => errors.push(FieldError::required(at, "")),
            Some(schema) => {
                if schema["type"] != "object" {
                    let detail = "must be object at the root";
                    errors.push(FieldError::invalid(
                        format!("{at}.type"),
                        schema["type"].clone(),
                        detail,
                    ));
                } else if let Err(error) = Definitions::from_structural(schema) {
                    errors.push(FieldError::invalid(
                        format!("{at}.{}", error.path),
                        json!("schema"),
                        error.message,
                    ));
                }
            }
        }
    }
}

fn storage_version(definition: &Value) -> Option<String> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array)?;
    let storage = versions.iter().find(|version| version["storage"] == true)?;
    Some(storage["name"].as_str()?.to_owned())
}

/// Accepts the names and establishes the resource.
pub(super) fn establish(definition: &mut Value, now: &str) {
    let names = definition["spec"]["names"].clone();
    let status = object_mut(definition, "status");
    status.insert("acceptedNames".into(), names);
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        if !conditions
            .iter()
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
        {
            conditions.retain(|condition| condition["type"] != kind);
            conditions.push(
                json!({"type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": now}),
            );
        }
    }
}
