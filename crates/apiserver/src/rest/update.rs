//! Changing objects: the one path that PUT, PATCH and the parts of objects share.

use http::StatusCode;
use serde_json::{Value, json};

use super::create::Outcome;
use super::{Call, Reply, metadata, view};
use crate::admission::{self, Operation};
use crate::kinds::{Part, selectable_values};
use crate::managed::Writer;
use crate::status::ApiError;
use crate::store::{Draft, Expect, Key, Object};
use crate::tree::{
    carry, carry_meta, finalizers, generation, is_deleting, meta, meta_mut, meta_text, restore, same_content, tidy_meta,
};
use coppice_schema::FieldError;

/// Decides the wanted state from the current one, both in the request's view.
pub(crate) type Decide<'a> = &'a (dyn Fn(&Value) -> Result<Value, ApiError> + Send + Sync);

impl Call {
    /// PUT on an object or its status.
    pub(crate) async fn update(&self, part: Part) -> Result<Reply, ApiError> {
        let mut wanted = self.object_from_body()?;
        self.check_name(&wanted)?;
        self.settle_namespace(&mut wanted)?;
        let absent = self.core.store.get(&self.served.id, &self.key()).is_none();
        if absent && part == Part::Main && self.served.rules.allows_create_on_update() {
            self.check_uid(&wanted, &Value::Null)?;
            let version = meta_mut(&mut wanted).remove("resourceVersion");
            let mut created = self.create_object(wanted, &Writer::update(self)).await?;
            // Only storing gives a new version.
            if let (Outcome::Imagined(object), Some(version)) = (&mut created, version) {
                meta_mut(object).insert("resourceVersion".into(), version);
            }
            return self.show(StatusCode::CREATED, &created);
        }
        if absent {
            return Err(self.not_found());
        }
        if meta_text(&wanted, "resourceVersion").is_empty() && !self.served.rules.allows_unconditional_update() {
            let error = FieldError::invalid("metadata.resourceVersion", json!(0), "must be specified for an update");
            return Err(ApiError::invalid(self.served.about(), &self.path.name, &[error]));
        }
        let outcome = self
            .modify(part, &|_| Ok(wanted.clone()), &Writer::update(self))
            .await?;
        self.show(StatusCode::OK, &outcome)
    }

    pub(super) fn check_name(&self, wanted: &Value) -> Result<(), ApiError> {
        let name = meta_text(wanted, "name");
        if name == self.path.name {
            return Ok(());
        }
        if name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.path.name
            )));
        }
        Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            self.path.name
        )))
    }

    /// Brings the object to the state that `decide` wants, deciding again when someone else was faster.
    pub(crate) async fn modify(&self, part: Part, decide: Decide<'_>, writer: &Writer) -> Result<Outcome, ApiError> {
        loop {
            let current = self
                .core
                .store
                .get(&self.served.id, &self.key())
                .ok_or_else(|| self.not_found())?;
            if let Some(outcome) = self.try_modify(part, decide, writer, &current).await? {
                return Ok(outcome);
            }
        }
    }

    /// One attempt; `None` when the state changed meanwhile.
    async fn try_modify(
        &self,
        part: Part,
        decide: Decide<'_>,
        writer: &Writer,
        current: &std::sync::Arc<Object>,
    ) -> Result<Option<Outcome>, ApiError> {
        let old = view::shown_value(&self.served, current);
        let mut object = decide(&old)?;
        self.check_preconditions(&object, &old)?;
        self.served.rules.default(&mut object);
        self.undo(&mut object, &old, part);
        writer.on_update(self, &mut object, &old);
        self.served.rules.admit_update(&mut object, part);
        admission::mutate(self, Operation::Update, &mut object, Some(&old)).await?;
        self.settle(&mut object, &old, part);
        tidy_meta(&mut object);
        carry_meta("resourceVersion", &old, &mut object);
        Writer::settle_times(&mut object, &old);
        let counted = part != Part::Other("binding") && self.served.rules.has_generation();
        if counted && self.served.rules.counts_as_generation(&object, &old) {
            meta_mut(&mut object).insert("generation".into(), json!(generation(&old) + 1));
        }
        self.validate_change(&object, &old, part)?;
        admission::validate(self, Operation::Update, Some(&object), Some(&old)).await?;
        self.served
            .rules
            .warnings(&object)
            .into_iter()
            .for_each(|warning| self.warn(warning));
        self.commit_change(object, &old, current)
    }

    /// A write may name the state (`resourceVersion`) and the object (`uid`) it is meant for.
    fn check_preconditions(&self, object: &Value, old: &Value) -> Result<(), ApiError> {
        let (about, name) = (self.served.about(), self.path.name.as_str());
        if self.verb == super::Verb::Update {
            self.check_uid(object, old)?;
        }
        let revision = meta_text(object, "resourceVersion");
        if !revision.is_empty() && revision != meta_text(old, "resourceVersion") {
            super::query::revision(revision)?;
            return Err(ApiError::modified(about, name));
        }
        Ok(())
    }

    fn check_uid(&self, object: &Value, old: &Value) -> Result<(), ApiError> {
        let (uid, old_uid) = (meta_text(object, "uid"), meta_text(old, "uid"));
        if uid.is_empty() || uid == old_uid {
            return Ok(());
        }
        let resource = match (self.served.custom, &*self.served.plural) {
            (true, plural) => format!("{}/{plural}", self.served.group),
            (false, "services") => "services/specs".to_owned(),
            (false, "nodes") => "minions".to_owned(),
            (false, plural) => plural.to_owned(),
        };
        // A dry run fails before it comes to where everything is stored.
        let root = if self.options.dry_run { "" } else { "/registry" };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {root}/{resource}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}",
            self.key()
        );
        Err(ApiError::conflict(self.served.about(), &self.path.name, &why))
    }

    /// Undoes what this part of the object may not change, also by the rules of its kind.
    fn settle(&self, object: &mut Value, old: &Value, part: Part) {
        self.undo(object, old, part);
        self.served.rules.prepare_update(object, old, part);
    }

    /// Undoes what this part of the object may not change.
    fn undo(&self, object: &mut Value, old: &Value, part: Part) {
        let rules = &self.served.rules;
        metadata::keep_server_fields(object, old);
        match part {
            Part::Main if rules.has_status() => carry("status", old, object),
            Part::Main | Part::Other(_) => {}
            Part::Status => {
                let kept: &[&str] = if rules.status_write_keeps_metadata() {
                    &[
                        "labels",
                        "annotations",
                        "finalizers",
                        "ownerReferences",
                        "managedFields",
                    ]
                } else {
                    &["managedFields"]
                };
                if let (Some(old), Some(object)) = (old.as_object(), object.as_object_mut()) {
                    restore(old, object, &["metadata", "status"]);
                }
                if let Some(old) = old.get("metadata").and_then(Value::as_object) {
                    restore(old, meta_mut(object), kept);
                    meta_mut(object).retain(|name, value| !(value.is_null() && kept.contains(&name.as_str())));
                }
            }
        }
    }

    fn validate_change(&self, object: &Value, old: &Value, part: Part) -> Result<(), ApiError> {
        let rules = &self.served.rules;
        let mut errors = metadata::validate(object, rules.name_rule());
        let about_change = metadata::validate_update(object, old);
        if !self.served.custom {
            // Built-in kinds are checked twice, once for all and once by kind, and say so twice.
            errors.extend(about_change.clone());
        }
        errors.extend(about_change);
        errors.extend(rules.validate_update(object, old, part));
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(self.served.about_kind(), &self.path.name, &errors))
    }

    fn commit_change(
        &self,
        mut object: Value,
        old: &Value,
        current: &std::sync::Arc<Object>,
    ) -> Result<Option<Outcome>, ApiError> {
        if same_content(&object, old) {
            return Ok(Some(Outcome::Stored(current.clone())));
        }
        let last_finalizer_gone = is_released(&object, old);
        if self.options.dry_run {
            return Ok(Some(Outcome::Imagined(object)));
        }
        let (store, key) = (&self.core.store, current.key());
        view::to_storage(&self.served, &mut object);
        if last_finalizer_gone {
            let removed = store.remove(&self.served.id, key, current.revision());
            return Ok(removed.ok().map(|_| {
                self.core.after_write(&self.served, &object);
                // Clients get the state they asked for; watchers see the last stored one leave.
                Outcome::Imagined({
                    view::to_view(&self.served, &mut object);
                    object
                })
            }));
        }
        Ok(self.put_change(&object, key, current.revision()).map(Outcome::Stored))
    }

    /// Commits a tree in its stored form; `None` when the state changed meanwhile.
    pub(crate) fn put_change(&self, object: &Value, key: &Key, revision: u64) -> Option<std::sync::Arc<Object>> {
        let draft = Draft::new(object, selectable_values(&*self.served.rules, object));
        let stored = self
            .core
            .store
            .put(&self.served.id, key, Expect::Revision(revision), draft)
            .ok()?;
        self.core.after_write(&self.served, object);
        Some(stored)
    }
}

/// Whether this change lets go of an object that only waited for its finalizers.
fn is_released(object: &Value, old: &Value) -> bool {
    let waiting = meta(old, "deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0)
        > 0;
    is_deleting(old) && finalizers(object).is_empty() && !waiting && !has_namespace_finalizers(object)
}

/// Namespaces carry a second list of finalizers in their spec.
pub(super) fn has_namespace_finalizers(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Namespace")
        && object.get("apiVersion").and_then(Value::as_str) == Some("v1")
        && object
            .get("spec")
            .and_then(|spec| spec.get("finalizers"))
            .and_then(Value::as_array)
            .is_some_and(|finalizers| !finalizers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_released_with_its_last_finalizer() {
        let old =
            json!({"metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"]}});
        let mut new = old.clone();
        assert!(!is_released(&new, &old));
        meta_mut(&mut new).remove("finalizers");
        assert!(is_released(&new, &old));
        let graceful = json!({"metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}});
        assert!(!is_released(&new, &graceful));
        assert!(!is_released(&new, &json!({"metadata": {}})));
    }
}
