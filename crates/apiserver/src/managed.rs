//! Who wrote which fields: the link between writes and the managed fields that `coppice-schema` computes.

use coppice_schema::apply::{self, ApplyError, FieldSet, Reach, Write};
use http::StatusCode;
use serde_json::{Value, json};

use crate::ports::format_time;
use crate::rest::Call;
use crate::status::{ApiError, Cause};
use crate::tree::{carry_meta, meta_text};

/// How a request writes: as an update of whatever differs, or as an apply of exactly what it names.
pub(crate) struct Writer {
    manager: String,
    subresource: String,
    reach: Reach,
    api_version: String,
    now: String,
    mode: Mode,
}

enum Mode {
    Update,
    Apply { config: Value, force: bool },
    Untracked,
}

impl Writer {
    /// A create, update or patch.
    pub(crate) fn update(call: &Call) -> Self {
        Self::new(call, Mode::Update)
    }

    /// A server-side apply of `config`.
    pub(crate) fn apply(call: &Call, config: Value) -> Self {
        let mode = Mode::Apply {
            config,
            force: call.options.force,
        };
        Self::new(call, mode)
    }

    /// A write by the server itself, which owns no fields.
    pub(crate) fn untracked(call: &Call) -> Self {
        Self::new(call, Mode::Untracked)
    }

    fn new(call: &Call, mode: Mode) -> Self {
        let rules = &call.served.rules;
        let reach = match call.path.subresource.as_str() {
            "status" if call.served.custom => Reach::custom_status(),
            "status" => Reach::Except(FieldSet::of_fields(&[&["spec"]])),
            _ if rules.has_status() => Reach::without_status(),
            _ => Reach::everything(),
        };
        Self {
            manager: call.field_manager(),
            subresource: call.path.subresource.clone(),
            reach,
            api_version: call.served.api_version(),
            now: format_time(call.core.clock.now()),
            mode,
        }
    }

    fn write<'a>(&'a self, call: &'a Call) -> Write<'a> {
        Write {
            schema: call.served.rules.schema(),
            api_version: &self.api_version,
            manager: &self.manager,
            subresource: &self.subresource,
            reach: &self.reach,
            now: &self.now,
        }
    }

    /// The state after applying to `current`.
    pub(crate) fn merge(&self, call: &Call, current: &Value) -> Result<Value, ApiError> {
        match &self.mode {
            Mode::Apply { config, force } => {
                apply::apply(&self.write(call), current, config, *force).map_err(|error| apply_error(&error))
            }
            Mode::Update | Mode::Untracked => Ok(current.clone()),
        }
    }

    /// Records the writer of a new object.
    pub(crate) fn on_create(&self, call: &Call, object: &mut Value) {
        if matches!(self.mode, Mode::Update) {
            // What is there without anybody writing it belongs to nobody.
            let mut empty = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {}});
            call.served.rules.form(&mut empty);
            *object = apply::update(&self.write(call), &empty, std::mem::take(object));
        }
    }

    /// Records the writer of a change.
    pub(crate) fn on_update(&self, call: &Call, object: &mut Value, old: &Value) {
        match self.mode {
            Mode::Update => *object = apply::update(&self.write(call), old, std::mem::take(object)),
            Mode::Apply { .. } => {}
            Mode::Untracked => carry_meta("managedFields", old, object),
        }
    }

    /// Keeps the times of managed fields when nothing else changes, so that a write without effect is none.
    pub(crate) fn settle_times(object: &mut Value, old: &Value) {
        apply::keep_times_if_unchanged(old, object);
    }

    /// The object that an apply starts from when there is none.
    pub(crate) fn blank(call: &Call, config: &Value) -> Value {
        let mut metadata = json!({"name": meta_text(config, "name")});
        let namespace = meta_text(config, "namespace");
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let mut blank = json!({"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": metadata});
        call.served.rules.form(&mut blank);
        blank
    }
}

fn apply_error(error: &ApplyError) -> ApiError {
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    match error {
        ApplyError::Conflicts(_) => {
            let causes = error.causes();
            let causes = causes.iter().map(|cause| Cause {
                reason: text(cause, "reason"),
                message: text(cause, "message"),
                field: text(cause, "field"),
            });
            ApiError::apply_conflict(error.to_string(), causes.collect())
        }
        ApplyError::ManagedFieldsStated => ApiError::bad_request(error.to_string()),
        ApplyError::Untyped { .. } | ApplyError::ManagedFields(_) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string())
        }
    }
}
