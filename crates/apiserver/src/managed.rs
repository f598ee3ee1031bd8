//! Who wrote which fields: the link between writes and the managed fields that `coppice-schema` computes.

use std::sync::OnceLock;

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
    /// What an object of the kind has without anybody writing it; made when it is asked for.
    blank: OnceLock<Value>,
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
            "status" if &*call.served.kind == "Pod" => Reach::Except(FieldSet::of_fields(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ])),
            "status" => Reach::Except(FieldSet::of_fields(&[&["spec"]])),
            _ if rules.has_status() => Reach::without_status(),
            _ => Reach::everything(),
        };
        // Who scales custom resources leaves no time behind.
        let timeless = call.served.custom && call.path.subresource == "scale";
        Self {
            manager: call.field_manager(),
            subresource: call.path.subresource.clone(),
            reach,
            api_version: call.served.api_version(),
            now: if timeless {
                String::new()
            } else {
                format_time(call.core.clock.now())
            },
            blank: OnceLock::new(),
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
            blank: matches!(self.mode, Mode::Apply { .. }).then(|| self.blank(call)),
            now: &self.now,
        }
    }

    /// The state after applying to `current`.
    pub(crate) fn merge(&self, call: &Call, current: &Value) -> Result<Value, ApiError> {
        match &self.mode {
            Mode::Apply { config, force } => {
                let applied = apply::apply(&self.write(call), current, config, *force);
                let mut object = applied.map_err(|error| apply_error(&error))?;
                match call.served.rules.check_types(&mut object) {
                    Err(problem) if !call.served.custom => Err(self.unreadable(call, config, &problem)),
                    _ => Ok(object),
                }
            }
            Mode::Update | Mode::Untracked => Ok(current.clone()),
        }
    }

    /// What is applied fits the schema, but cannot be read as an object of the kind.
    fn unreadable(&self, call: &Call, config: &Value, problem: &str) -> ApiError {
        let (namespace, name) = (meta_text(config, "namespace"), meta_text(config, "name"));
        let (group, version, kind) = (&call.served.group, &call.served.version, &call.served.kind);
        let kind = format!("{group}/{version}, Kind={kind}");
        let message = format!(
            "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {problem}"
        );
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// Records the writer of a new object.
    pub(crate) fn on_create(&self, call: &Call, object: &mut Value) {
        if matches!(self.mode, Mode::Update) {
            *object = apply::update(&self.write(call), self.blank(call), std::mem::take(object));
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

    /// The object that a write starts from when there is none.
    pub(crate) fn blank(&self, call: &Call) -> &Value {
        self.blank.get_or_init(|| {
            let kind = &*call.served.kind;
            let mut blank = json!({"apiVersion": call.served.api_version(), "kind": kind, "metadata": {}});
            call.served.rules.form(&mut blank);
            blank
        })
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
