//! Creating objects.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, Reply, metadata, view};
use crate::admission::{self, Operation};
use crate::kinds::{AdmissionRefusal, selectable_values};
use crate::managed;
use crate::status::ApiError;
use crate::store::{Draft, Expect, Key, Object};
use crate::tree::{is_deleting, meta_mut, meta_text, tidy_meta};

/// A generated name is tried this often before the client is told to try again.
const NAME_TRIES: usize = 8;
/// The longest prefix of a generated name.
const NAME_PREFIX_LIMIT: usize = 58;

impl Call {
    /// POST on a collection.
    pub(super) async fn create(&self) -> Result<Reply, ApiError> {
        let object = self.object_from_body()?;
        let created = self.create_object(object, &managed::Writer::update(self)).await?;
        self.show(StatusCode::CREATED, &created)
    }

    /// Creates an object that has been read; `Outcome::Stored` unless this is a dry run.
    pub(super) async fn create_object(&self, mut object: Value, writer: &managed::Writer) -> Result<Outcome, ApiError> {
        self.settle_namespace(&mut object)?;
        if !meta_text(&object, "resourceVersion").is_empty() {
            return Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.check_namespace(meta_text(&object, "name"))?;
        if !self.needs_name(&object) {
            return self.try_create(object, writer).await;
        }
        for attempt in 1..=NAME_TRIES {
            let mut object = object.clone();
            let prefix: String = meta_text(&object, "generateName")
                .chars()
                .take(NAME_PREFIX_LIMIT)
                .collect();
            let name = format!("{prefix}{}", self.core.identities.suffix());
            meta_mut(&mut object).insert("name".into(), json!(name));
            match self.try_create(object, writer).await {
                Err(error) if error.reason() == "AlreadyExists" && attempt < NAME_TRIES => {}
                other => return other,
            }
        }
        unreachable!("the last attempt returns")
    }

    fn needs_name(&self, object: &Value) -> bool {
        meta_text(object, "name").is_empty() && !meta_text(object, "generateName").is_empty()
    }

    async fn try_create(&self, mut object: Value, writer: &managed::Writer) -> Result<Outcome, ApiError> {
        let rules = &self.served.rules;
        rules.default(&mut object);
        writer.on_create(self, &mut object);
        let world = self.world();
        rules
            .admit_create(&mut object, &world)
            .map_err(|AdmissionRefusal(why)| {
                ApiError::forbidden(self.served.about(), meta_text(&object, "name"), &why)
            })?;
        metadata::stamp_new(
            &mut object,
            &self.core.identities.uid(),
            world.now,
            rules.has_generation(),
        );
        admission::mutate(self, Operation::Create, &mut object, None).await?;
        rules.prepare_create(&mut object, &world);
        if !rules.has_generation() {
            meta_mut(&mut object).remove("generation");
        }
        tidy_meta(&mut object);
        self.validate_new(&object)?;
        admission::validate(self, Operation::Create, Some(&object), None).await?;
        rules
            .warnings(&object)
            .into_iter()
            .for_each(|warning| self.warn(warning));
        self.commit_new(object)
    }

    fn validate_new(&self, object: &Value) -> Result<(), ApiError> {
        let mut errors = metadata::validate(object, self.served.rules.name_rule());
        errors.extend(self.served.rules.validate(object));
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(
            self.served.about_kind(),
            meta_text(object, "name"),
            &errors,
        ))
    }

    fn commit_new(&self, mut object: Value) -> Result<Outcome, ApiError> {
        let key = Key::new(meta_text(&object, "namespace"), meta_text(&object, "name"));
        if self.options.dry_run {
            return match self.core.store.get(&self.served.id, &key) {
                Some(_) => Err(self.already_exists(&key)),
                None => Ok(Outcome::Imagined(object)),
            };
        }
        let fields = {
            view::to_storage(&self.served, &mut object);
            selectable_values(&*self.served.rules, &object)
        };
        let draft = Draft::new(&object, fields);
        let stored = self
            .core
            .store
            .put(&self.served.id, &key, Expect::Absent, draft)
            .map_err(|_| self.already_exists(&key))?;
        self.core.after_write(&self.served, &object);
        Ok(Outcome::Stored(stored))
    }

    fn already_exists(&self, key: &Key) -> ApiError {
        let error = ApiError::already_exists(self.served.about(), key.name());
        let found = self.core.store.get(&self.served.id, key);
        if found.is_some_and(|found| is_deleting(&found.value())) {
            return error.with_prefix("object is being deleted: ");
        }
        error
    }

    /// New content needs a namespace that exists and stays.
    fn check_namespace(&self, name: &str) -> Result<(), ApiError> {
        if !self.served.namespaced {
            return Ok(());
        }
        let namespace = &self.path.namespace;
        let about = crate::status::About {
            group: "",
            resource: "namespaces",
        };
        let Some(found) = self.core.store.get("namespaces", &Key::new("", namespace)) else {
            return Err(ApiError::not_found(about, namespace));
        };
        if is_deleting(&found.value()) {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let message = format!("namespace {namespace} is being terminated");
            return Err(ApiError::forbidden(self.served.about(), name, &why).with_cause(
                "NamespaceTerminating",
                message,
                "metadata.namespace",
            ));
        }
        Ok(())
    }
}

/// The result of a write.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is in the store (or was there already, unchanged).
    Stored(Arc<Object>),
    /// A dry run: what would have been stored, in the request's view.
    Imagined(Value),
}

impl Outcome {
    /// The object in the view of `call`.
    pub(crate) fn value(&self, call: &Call) -> Value {
        match self {
            Self::Stored(object) => view::shown_value(&call.served, object),
            Self::Imagined(value) => value.clone(),
        }
    }
}
