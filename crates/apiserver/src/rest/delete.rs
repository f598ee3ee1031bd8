//! Deleting objects: at once, after a grace period, or when the last finalizer is gone.
//!
//! [`decide`] is the whole of it; the handlers only carry out what it says.

use std::sync::Arc;

use coppice_schema::FieldError;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Call, Reply, view};
use crate::admission;
use crate::kinds::Kind;
use crate::ports::format_time;
use crate::registry::Served;
use crate::selector::Selection;
use crate::status::ApiError;
use crate::store::{Object, PageRequest};
use crate::tree::{finalizers, generation, is_deleting, meta, meta_mut, meta_text};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How a deletion is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
    /// Whether `orphanDependents: false` was said in words; such a deletion is answered with 202 while it waits.
    pub(crate) explicitly_cascading: bool,
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// What a deletion does now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deletion {
    /// Remove the object.
    Remove,
    /// Write this state; then remove it if `remove` says so.
    Mark { object: Value, remove: bool },
    /// Nothing: it is being deleted already.
    Pending,
}

/// Decides on a deletion.
pub(crate) fn decide(rules: &dyn Kind, object: &Value, options: &DeleteOptions, now: Timestamp) -> Deletion {
    let mut marked = object.clone();
    let graceful = match graceful(rules, &mut marked, options, now) {
        Grace::Pending => return Deletion::Pending,
        Grace::None => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let old_finalizers = finalizers(object);
    let mut new_finalizers = collector_finalizers(&old_finalizers, options.propagation);
    if let Some(own) = rules
        .deletion_finalizer()
        .filter(|own| !is_deleting(object) && !old_finalizers.iter().any(|one| one == own))
    {
        new_finalizers.push(own.to_owned());
    }
    if new_finalizers != old_finalizers {
        meta_mut(&mut marked).insert("finalizers".into(), json!(new_finalizers));
    }
    let waits = !new_finalizers.is_empty() || super::update::has_namespace_finalizers(object);
    match graceful {
        Some(seconds) => Deletion::Mark {
            object: marked,
            remove: seconds == 0 && !waits,
        },
        None if waits => {
            mark_now(&mut marked, now);
            rules.mark_deleting(&mut marked);
            if marked == *object {
                Deletion::Pending
            } else {
                Deletion::Mark {
                    object: marked,
                    remove: false,
                }
            }
        }
        None => Deletion::Remove,
    }
}

enum Grace {
    None,
    Pending,
    Seconds(i64),
}

fn graceful(rules: &dyn Kind, marked: &mut Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    let requested = options
        .grace_period_seconds
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(period) = rules.grace_period(marked, requested) else {
        return Grace::None;
    };
    if is_deleting(marked) {
        let left = meta(marked, "deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        return match requested {
            _ if left == 0 => Grace::None,
            Some(wanted) if wanted < left => Grace::Seconds(shorten(marked, wanted, left, now)),
            _ => Grace::Pending,
        };
    }
    let count = generation(marked);
    let metadata = meta_mut(marked);
    metadata.insert("deletionTimestamp".into(), json!(format_time(later(now, period))));
    metadata.insert("deletionGracePeriodSeconds".into(), json!(period));
    if count > 0 {
        metadata.insert("generation".into(), json!(count + 1));
    }
    Grace::Seconds(period)
}

/// A second deletion may only shorten the grace period, and never moves the end into the past.
fn shorten(marked: &mut Value, wanted: i64, left: i64, now: Timestamp) -> i64 {
    let end: Timestamp = meta_text(marked, "deletionTimestamp").parse().unwrap_or(now);
    let new_end = later(end, wanted - left);
    let (new_end, period) = if new_end < now {
        (now, wanted.min(1))
    } else {
        (new_end, wanted)
    };
    let metadata = meta_mut(marked);
    metadata.insert("deletionTimestamp".into(), json!(format_time(new_end)));
    metadata.insert("deletionGracePeriodSeconds".into(), json!(period));
    period
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(time)
}

fn mark_now(marked: &mut Value, now: Timestamp) {
    let count = generation(marked);
    let first = !is_deleting(marked);
    let metadata = meta_mut(marked);
    if first {
        metadata.insert("deletionTimestamp".into(), json!(format_time(now)));
        if count > 0 {
            metadata.insert("generation".into(), json!(count + 1));
        }
    }
    metadata.insert("deletionGracePeriodSeconds".into(), json!(0));
}

/// The finalizers by which the garbage collector learns what to do with dependents.
fn collector_finalizers(old: &[String], propagation: Option<Propagation>) -> Vec<String> {
    let has = |name: &str| old.iter().any(|one| one == name);
    let (orphan, foreground) = match propagation {
        Some(propagation) => (
            propagation == Propagation::Orphan,
            propagation == Propagation::Foreground,
        ),
        None => (has(ORPHAN), has(FOREGROUND)),
    };
    let wanted = |name: &str| (name == ORPHAN && orphan) || (name == FOREGROUND && foreground);
    let mut new: Vec<String> = old
        .iter()
        .filter(|name| !matches!(name.as_str(), ORPHAN | FOREGROUND) || wanted(name))
        .cloned()
        .collect();
    for name in [ORPHAN, FOREGROUND] {
        if wanted(name) && !has(name) {
            new.push(name.to_owned());
        }
    }
    new
}

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
        let page_revision = page.revision;
        let mut items = Vec::with_capacity(page.objects.len());
        for object in page.objects {
            let call = self.on_object(object.key());
            let mut shown = view::shown_value(&self.served, &object);
            if let Some(members) = shown.as_object_mut().filter(|_| !self.served.custom) {
                members.remove("kind");
                members.remove("apiVersion");
            }
            match call.delete_named(&options).await {
                Ok(_) => items.push(shown),
                Err(error) if error.reason() == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        let revision = page_revision.to_string();
        let list = json!({"kind": &*self.served.list_kind, "apiVersion": self.served.api_version(),
            "metadata": {"resourceVersion": revision}, "items": items});
        Ok(Reply::json(StatusCode::OK, &list))
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
            if options.dry_run || self.options.dry_run {
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
                if remove && store.remove(id, current.key(), marked.revision()).is_ok() {
                    self.core.after_write(&self.served, &object);
                    return Some(Deleted {
                        object: view::shown_value(&self.served, &marked),
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

    /// The options of body and query; the query wins only where the body is silent.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let body = self.plain_body()?;
        read_options(&body, &self.options)
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

pub(crate) fn read_options(body: &Value, query: &super::Options) -> Result<DeleteOptions, ApiError> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let precondition = |name: &str| {
        body.get("preconditions")
            .and_then(|preconditions| preconditions.get(name))
            .and_then(Value::as_str)
    };
    let orphan = body
        .get("orphanDependents")
        .and_then(Value::as_bool)
        .or(query.orphan_dependents);
    let propagation = match text("propagationPolicy")
        .or_else(|| query.propagation_policy.clone())
        .as_deref()
    {
        None | Some("") => match orphan {
            Some(true) => Some(Propagation::Orphan),
            Some(false) => Some(Propagation::Background),
            None => None,
        },
        Some("Orphan") => Some(Propagation::Orphan),
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some(other) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"].map(|one| json!(one));
            let error = FieldError::not_supported("propagationPolicy", json!(other), &supported);
            let about = crate::status::About {
                group: "meta.k8s.io",
                resource: "DeleteOptions",
            };
            return Err(ApiError::invalid(about, "", &[error]));
        }
    };
    let dry_run = body
        .get("dryRun")
        .and_then(Value::as_array)
        .is_some_and(|values| values.contains(&json!("All")));
    Ok(DeleteOptions {
        grace_period_seconds: body
            .get("gracePeriodSeconds")
            .and_then(Value::as_i64)
            .or(query.grace_period_seconds),
        propagation,
        uid: precondition("uid").map(str::to_owned),
        resource_version: precondition("resourceVersion").map(str::to_owned),
        dry_run: dry_run || query.dry_run,
        explicitly_cascading: orphan == Some(false),
    })
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
