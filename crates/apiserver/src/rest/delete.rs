//! DELETE on objects and collections: carries out what `deletion` decides.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::deletion::{DeleteOptions, Deletion, decide, read_options};
use super::list::whole_list;
use super::{Call, Reply, view};
use crate::admission;
use crate::registry::Served;
use crate::selector::Selection;
use crate::status::ApiError;
use crate::store::{Object, PageRequest};
use crate::tree::meta_text;

impl Call {
    /// DELETE on an object.
    pub(super) async fn delete(&self) -> Result<Reply, ApiError> {
        let options = self.delete_options()?;
        let deleted = self.delete_named(&options).await?;
        let status = if deleted.gone || !options.explicitly_cascading {
            StatusCode::OK
        } else {
            StatusCode::ACCEPTED
        };
        if deleted.gone && !returns_deleted_object(&self.served) {
            return Ok(Reply::json(status, &success(&self.served, &deleted.object)));
        }
        self.show_value(status, deleted.object)
    }

    /// DELETE on a collection: every object that the selectors admit.
    pub(super) async fn delete_collection(&self) -> Result<Reply, ApiError> {
        let options = self.delete_options()?;
        let selection = self.selection()?;
        let page = self
            .core
            .store
            .list(&self.served.id, &selection, &PageRequest::default())
            .map_err(|error| ApiError::internal(error.to_string()))?;
        // Kept as they are stored until all are gone: trees of a whole collection would take ten times the memory.
        let mut deleted = Vec::with_capacity(page.objects.len());
        for object in page.objects {
            match self.on_object(object.key()).delete_named(&options).await {
                Ok(_) => deleted.push(object),
                Err(error) if error.reason() == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        let metadata = json!({"resourceVersion": page.revision.to_string()});
        let list = whole_list(&self.served, &metadata, &deleted);
        Ok(Reply::json_bytes(StatusCode::OK, list))
    }

    /// Deletes the object the path names, deciding again when someone else was faster.
    pub(crate) async fn delete_named(&self, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        loop {
            let current = self
                .core
                .store
                .get(&self.served.id, &self.key())
                .ok_or_else(|| self.not_found())?;
            let old = view::shown_value(&self.served, &current);
            self.check_delete_preconditions(&old, options)?;
            if let Some(why) = self.served.rules.refuses_deletion(&old) {
                return Err(ApiError::forbidden(self.served.about(), &self.path.name, &why));
            }
            admission::validate_delete(self, &old, options).await?;
            let decision = decide(&*self.served.rules, &old, options, self.core.clock.now());
            if options.dry_run {
                return Ok(Deleted::imagined(decision, old));
            }
            if let Some(deleted) = self.carry_out(decision, old, &current) {
                return Ok(deleted);
            }
        }
    }

    fn carry_out(&self, decision: Deletion, old: Value, current: &Arc<Object>) -> Option<Deleted> {
        let (store, id) = (&self.core.store, &self.served.id);
        match decision {
            Deletion::Pending => Some(Deleted {
                object: old,
                gone: false,
            }),
            Deletion::Remove => {
                let removed = store.remove(id, current.key(), current.revision()).ok()?;
                self.core.after_write(&self.served, &old);
                Some(Deleted {
                    object: view::shown_value(&self.served, &removed),
                    gone: true,
                })
            }
            Deletion::Mark { mut object, remove } => {
                view::to_storage(&self.served, &mut object);
                let marked = self.put_change(&object, current.key(), current.revision())?;
                if remove && let Ok(removed) = store.remove(id, current.key(), marked.revision()) {
                    self.core.after_write(&self.served, &object);
                    return Some(Deleted {
                        object: view::shown_value(&self.served, &removed),
                        gone: true,
                    });
                }
                Some(Deleted {
                    object: view::shown_value(&self.served, &marked),
                    gone: false,
                })
            }
        }
    }

    fn check_delete_preconditions(&self, old: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
        let (about, name) = (self.served.about_kind(), self.path.name.as_str());
        let (uid, revision) = (meta_text(old, "uid"), meta_text(old, "resourceVersion"));
        if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(about, name, &why));
        }
        if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != revision) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
            );
            return Err(ApiError::conflict(about, name, &why));
        }
        Ok(())
    }

    /// The options of the body or, without one, of the query.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let body = self.plain_body()?;
        if self.body.is_empty() {
            read_options(&body, &self.options)
        } else {
            read_options(&body, &super::Options::default())
        }
    }

    /// The same request on one object of the collection.
    pub(crate) fn on_object(&self, key: &crate::store::Key) -> Self {
        let mut path = self.path.clone();
        path.name = key.name().to_owned();
        path.namespace = key.namespace().to_owned();
        Self {
            core: self.core.clone(),
            registry: self.registry.clone(),
            served: self.served.clone(),
            path,
            options: self.options.clone(),
            verb: self.verb,
            answer: self.answer,
            user: self.user.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            warnings: parking_lot::Mutex::default(),
        }
    }

    /// What the selectors of the query admit, in the path's namespace.
    pub(crate) fn selection(&self) -> Result<Selection, ApiError> {
        for requirement in self.options.field_selector.requirements() {
            let known = matches!(&*requirement.field, "metadata.name" | "metadata.namespace")
                || self.served.rules.selectable_fields().contains(&&*requirement.field);
            if !known {
                let selectable = self.served.rules.selectable_fields();
                return Err(ApiError::bad_request(if selectable.is_empty() && !self.served.custom {
                    let known = "only \"metadata.name\", \"metadata.namespace\"";
                    format!("{:?} is not a known field selector: {known}", requirement.field)
                } else {
                    format!("field label not supported: {}", requirement.field)
                }));
            }
        }
        Ok(Selection {
            namespace: self.path.namespace.as_str().into(),
            labels: self.options.label_selector.clone(),
            fields: self.options.field_selector.clone(),
        })
    }
}

/// What became of a deletion.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The last state, in the request's view.
    pub(crate) object: Value,
    /// Whether the object is gone.
    pub(crate) gone: bool,
}

impl Deleted {
    fn imagined(decision: Deletion, old: Value) -> Self {
        match decision {
            Deletion::Remove => Self {
                object: old,
                gone: true,
            },
            Deletion::Pending => Self {
                object: old,
                gone: false,
            },
            Deletion::Mark { object, remove } => Self { object, gone: remove },
        }
    }
}

/// Some kinds answer a deletion with the object, most with a Status.
fn returns_deleted_object(served: &Served) -> bool {
    !served.custom
        && matches!(
            &*served.plural,
            "namespaces"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "pods"
                | "podtemplates"
                | "resourcequotas"
                | "services"
                | "serviceaccounts"
                | "deviceclasses"
                | "resourceclaims"
                | "resourceclaimtemplates"
                | "resourceslices"
                | "csidrivers"
                | "csinodes"
                | "storageclasses"
                | "volumeattachments"
        )
}

fn success(served: &Served, object: &Value) -> Value {
    let mut details =
        json!({"name": meta_text(object, "name"), "kind": &*served.plural, "uid": meta_text(object, "uid")});
    if !served.group.is_empty() {
        details["group"] = json!(&*served.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
