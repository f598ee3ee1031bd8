//! The rules of built-in kinds, except where a kind has a file of its own.

use coppice_schema::{
    Cursor, FieldError, GroupVersionKind, PatchError, Root, apply_defaults, drop_nulls, kubernetes, prune,
    strategic_merge,
};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::OnceLock;

use crate::go_form::Form;
use crate::registry::join_api_version;
use crate::status::ApiError;

use super::{
    Facts, Kind, NameRule, Part, ScalePaths, World, decoding, defaults, quantity, service, service_ip, validation,
};

/// A built-in kind that differs from others only in the facts of this table.
pub(crate) struct Plain {
    kind: String,
    schema: GroupVersionKind,
    /// Found when the first object is written: finding it is not free, and most kinds are never used.
    form: OnceLock<Form>,
    facts: Facts,
}

impl Plain {
    pub(crate) fn new(group: &str, version: &str, kind: &str, facts: Facts) -> Self {
        let schema = GroupVersionKind::new(group, version, kind);
        Self {
            kind: kind.to_owned(),
            schema,
            form: OnceLock::new(),
            facts,
        }
    }
}

impl Plain {
    /// The schema of the kind, if the schema crate has one.
    pub(super) fn cursor(&self) -> Option<Cursor<'static>> {
        kubernetes().kind(&self.schema)
    }

    fn go_form(&self) -> Form {
        let find = || Form::of(&join_api_version(&self.schema.group, &self.schema.version), &self.kind);
        *self.form.get_or_init(find)
    }
}

impl Kind for Plain {
    fn schema(&self) -> Option<Cursor<'_>> {
        self.cursor()
    }

    fn form(&self, object: &mut Value) {
        self.go_form().bring(object);
    }

    fn default(&self, object: &mut Value) {
        self.form(object);
        if let Some(at) = self.cursor() {
            apply_defaults(at, object);
            quantity::canonicalise(at, object);
        }
        defaults::fill(&self.schema.group, &self.kind, object);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        validation::validate(&self.schema.group, &self.kind, object)
    }

    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if part == Part::Main {
            let (group, kind) = (&*self.schema.group, self.kind.as_str());
            errors.extend(validation::validate_update(group, kind, object, old));
            if kind == "ControllerRevision" {
                return errors;
            }
            // What was wrong before may stay.
            let known = validation::validate(group, kind, old);
            errors.extend(
                validation::validate(group, kind, object)
                    .into_iter()
                    .filter(|error| !known.contains(error)),
            );
        }
        errors
    }

    fn prepare_create(&self, object: &mut Value, world: &World<'_>) {
        defaults::prepare_new(&self.schema.group, &self.kind, object);
        if self.kind == "Service" {
            service_ip::allocate(object, world.store);
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        if self.kind == "Service" && part == Part::Main {
            service_ip::keep(object, old);
        }
        if self.kind == "Namespace" {
            if part == Part::Other("finalize") {
                crate::tree::carry("status", old, object);
            } else {
                crate::tree::carry("spec", old, object);
            }
            let empty = object
                .pointer("/spec/finalizers")
                .and_then(Value::as_array)
                .is_some_and(Vec::is_empty);
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| empty) {
                spec.remove("finalizers");
            }
        }
    }

    fn mark_deleting(&self, object: &mut Value) {
        if self.kind == "Namespace" {
            object["status"]["phase"] = json!("Terminating");
            crate::tree::meta_mut(object).remove("deletionGracePeriodSeconds");
        }
    }

    fn has_dependents(&self) -> bool {
        self.kind != "Event"
    }

    fn refuses_deletion(&self, object: &Value) -> Option<String> {
        let kept = ["default", "kube-system", "kube-public"];
        let name = crate::tree::meta_text(object, "name");
        (self.kind == "Namespace" && kept.contains(&name)).then(|| "this namespace may not be deleted".to_owned())
    }

    fn strategic_merge(&self, object: Value, patch: &Value) -> Result<Value, ApiError> {
        let Some(at) = self.cursor() else {
            return Err(ApiError::bad_request(
                "strategic merge patches are not supported for this kind",
            ));
        };
        strategic_merge(at, object, patch.clone()).map_err(|error| match error {
            // A real server did not expect these.
            PatchError::MergeInList | PatchError::NoMergeKey { .. } | PatchError::BadDirective { .. } => {
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string())
            }
            error => ApiError::bad_request(error.to_string()),
        })
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        let Some(at) = self.cursor() else { return Vec::new() };
        drop_nulls(at, object);
        prune(at, object, Root::Object)
    }

    fn check_types(&self, object: &mut Value) -> Result<(), String> {
        let Some(at) = self.cursor() else { return Ok(()) };
        drop_nulls(at, object);
        let problem = decoding::first_problem(at, &self.kind, object);
        problem
            .or_else(|| self.go_form().time_problem(object))
            .map_or(Ok(()), Err)
    }

    fn has_status(&self) -> bool {
        self.facts.status
    }

    fn has_generation(&self) -> bool {
        self.facts.generation
    }

    fn counts_as_generation(&self, object: &Value, old: &Value) -> bool {
        // What a priority class means cannot change.
        self.kind != "PriorityClass" && super::content_differs(object, old, self.facts.status)
    }

    fn name_rule(&self) -> NameRule {
        self.facts.name_rule
    }

    fn allows_unconditional_update(&self) -> bool {
        self.facts.unconditional_update
    }

    fn allows_create_on_update(&self) -> bool {
        self.facts.create_on_update
    }

    fn status_write_keeps_metadata(&self) -> bool {
        true
    }

    fn scale_paths(&self) -> Option<ScalePaths> {
        self.facts.scale.then(|| ScalePaths {
            spec: "spec.replicas".into(),
            status: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        match self.kind.as_str() {
            "Service" => service::warnings(object),
            _ => Vec::new(),
        }
    }

    fn selectable_fields(&self) -> Vec<&str> {
        match self.kind.as_str() {
            "Event" => vec![
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            "Namespace" => vec!["status.phase"],
            "Node" => vec!["spec.unschedulable"],
            "Secret" => vec!["type"],
            "ReplicaSet" | "ReplicationController" => vec!["status.replicas"],
            "Job" => vec!["status.successful"],
            "ResourceSlice" => vec!["spec.nodeName", "spec.driver"],
            "Service" => vec!["spec.clusterIP", "spec.type"],
            _ => vec![],
        }
    }
}
