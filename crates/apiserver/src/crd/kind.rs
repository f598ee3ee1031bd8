//! The rules of one version of a custom resource, answered from its schema.

use coppice_schema::rules::rules_not_checked;
use coppice_schema::{
    Cursor, Definitions, FieldError, NodeId, Root, SchemaError, apply_defaults, drop_nulls, prune, validate,
};
use serde_json::Value;

use super::cel::Programs;
use crate::go_form::bring_metadata;
use crate::kinds::{Column, Kind, Part, ScalePaths, World, metadata_problem};

/// The rules of one version.
pub(super) struct CustomKind {
    definitions: Definitions,
    root: NodeId,
    published: Value,
    status: bool,
    scale: Option<ScalePaths>,
    columns: Option<Vec<Column>>,
    selectable: Vec<String>,
    programs: Programs,
    changed_at: u64,
}

impl CustomKind {
    /// The rules of an entry of `spec.versions`; `revision` is that of the definition.
    pub(super) fn new(version: &Value, revision: u64) -> Result<Self, SchemaError> {
        let published = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
        let (definitions, root) = Definitions::from_structural(&published)?;
        let text = |path: &str| version.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let scale = version.pointer("/subresources/scale").map(|_| ScalePaths {
            spec: text("/subresources/scale/specReplicasPath").unwrap_or_default(),
            status: text("/subresources/scale/statusReplicasPath").unwrap_or_default(),
            selector: text("/subresources/scale/labelSelectorPath"),
        });
        let columns = version["additionalPrinterColumns"].as_array();
        let selectable = version["selectableFields"].as_array();
        Ok(Self {
            definitions,
            root,
            status: version.pointer("/subresources/status").is_some(),
            scale,
            columns: columns.map(|columns| columns.iter().map(Column::from_definition).collect()),
            selectable: selectable
                .into_iter()
                .flatten()
                .filter_map(|field| Some(field["jsonPath"].as_str()?.trim_start_matches('.').to_owned()))
                .collect(),
            programs: Programs::default(),
            changed_at: revision,
            published,
        })
    }

    fn cursor(&self) -> Cursor<'_> {
        self.definitions.cursor(self.root)
    }

    fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate(self.cursor(), object, old);
        if errors.iter().any(FieldError::blocks_rules) {
            errors.push(rules_not_checked());
            return errors;
        }
        errors.extend(self.programs.check(self.cursor(), object, old));
        errors
    }
}

impl Kind for CustomKind {
    fn has_status(&self) -> bool {
        self.status
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn schema(&self) -> Option<Cursor<'_>> {
        Some(self.cursor())
    }

    fn published_schema(&self) -> Option<Value> {
        Some(self.published.clone())
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        prune(self.cursor(), object, Root::Object)
    }

    fn check_types(&self, object: &mut Value) -> Result<(), String> {
        metadata_problem(object).map_or(Ok(()), Err)
    }

    fn form(&self, object: &mut Value) {
        object.as_object_mut().map(bring_metadata);
    }

    fn default(&self, object: &mut Value) {
        self.form(object);
        drop_nulls(self.cursor(), object);
        apply_defaults(self.cursor(), object);
    }

    fn defaults_changed_at(&self) -> u64 {
        self.changed_at
    }

    fn prepare_create(&self, object: &mut Value, _world: &World<'_>) {
        if self.status {
            object.as_object_mut().map(|members| members.remove("status"));
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.check(object, None)
    }

    fn validate_update(&self, object: &Value, old: &Value, _part: Part) -> Vec<FieldError> {
        self.check(object, Some(old))
    }

    fn selectable_fields(&self) -> Vec<&str> {
        self.selectable.iter().map(String::as_str).collect()
    }

    fn scale_paths(&self) -> Option<ScalePaths> {
        self.scale.clone()
    }

    fn columns(&self) -> Option<&[Column]> {
        self.columns.as_deref()
    }
}
