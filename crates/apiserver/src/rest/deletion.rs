//! Deciding deletions: at once, after a grace period, or when the last finalizer is gone.
//!
//! Pure: what a deletion does now follows from the object, the options and the time.

use coppice_schema::FieldError;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::update::has_namespace_finalizers;
use crate::kinds::Kind;
use crate::ports::format_time;
use crate::status::{About, ApiError};
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
    let propagation = options.propagation.filter(|_| rules.has_dependents());
    let mut new_finalizers = collector_finalizers(&old_finalizers, propagation);
    if let Some(own) = rules
        .deletion_finalizer()
        .filter(|own| !is_deleting(object) && !old_finalizers.iter().any(|one| one == own))
    {
        new_finalizers.push(own.to_owned());
    }
    if new_finalizers != old_finalizers {
        meta_mut(&mut marked).insert("finalizers".into(), json!(new_finalizers));
    }
    let waits = !new_finalizers.is_empty() || has_namespace_finalizers(object);
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
            let about = About {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::builtin_resources;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn decided(kind: &str, object: &Value, options: &DeleteOptions) -> Deletion {
        let mut served = builtin_resources().into_iter();
        let rules = served.find(|served| &*served.kind == kind).unwrap().rules;
        decide(&*rules, object, options, NOW.parse().unwrap())
    }

    fn bound(metadata: &Value) -> Value {
        json!({"metadata": metadata, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}})
    }

    #[test]
    fn plain_objects_go_at_once() {
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(
            decided("ConfigMap", &object, &DeleteOptions::default()),
            Deletion::Remove
        );
    }

    #[test]
    fn finalizers_hold_and_are_marked_once() {
        let object = json!({"metadata": {"name": "a", "generation": 2, "finalizers": ["a/b"]}});
        let Deletion::Mark { object: marked, remove } = decided("ConfigMap", &object, &DeleteOptions::default()) else {
            panic!("not marked");
        };
        assert!(!remove);
        assert_eq!(
            marked["metadata"],
            json!({"name": "a", "generation": 3, "finalizers": ["a/b"], "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0})
        );
        assert_eq!(
            decided("ConfigMap", &marked, &DeleteOptions::default()),
            Deletion::Pending
        );
    }

    #[test]
    fn propagation_becomes_a_finalizer() {
        let object = json!({"metadata": {"name": "a"}});
        for (propagation, expected) in [
            (Propagation::Foreground, Some("foregroundDeletion")),
            (Propagation::Orphan, Some("orphan")),
            (Propagation::Background, None),
        ] {
            let options = DeleteOptions {
                propagation: Some(propagation),
                ..DeleteOptions::default()
            };
            match (decided("ConfigMap", &object, &options), expected) {
                (Deletion::Mark { object, .. }, Some(expected)) => {
                    assert_eq!(object["metadata"]["finalizers"], json!([expected]));
                }
                (Deletion::Remove, None) => {}
                (other, _) => panic!("{other:?}"),
            }
        }
        let waiting = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        assert_eq!(decided("ConfigMap", &waiting, &options), Deletion::Remove);
    }

    #[test]
    fn bound_pods_get_their_grace_which_only_shrinks() {
        let first = decided("Pod", &bound(&json!({"generation": 1})), &DeleteOptions::default());
        let Deletion::Mark { object, remove: false } = first else {
            panic!("{first:?}")
        };
        assert_eq!(object["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
        let options = |seconds| DeleteOptions {
            grace_period_seconds: Some(seconds),
            ..DeleteOptions::default()
        };
        assert_eq!(decided("Pod", &object, &options(60)), Deletion::Pending);
        assert_eq!(decided("Pod", &object, &DeleteOptions::default()), Deletion::Pending);
        let Deletion::Mark {
            object: shorter,
            remove: false,
        } = decided("Pod", &object, &options(10))
        else {
            panic!("not shortened");
        };
        assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-01T00:00:10Z");
        assert!(matches!(
            decided("Pod", &object, &options(0)),
            Deletion::Mark { remove: true, .. }
        ));
    }

    #[test]
    fn options_come_from_body_and_query() {
        let query = super::super::Options::parse("gracePeriodSeconds=5&propagationPolicy=Orphan").unwrap();
        let options = read_options(&json!({"preconditions": {"uid": "u"}, "dryRun": ["All"]}), &query).unwrap();
        assert_eq!(options.grace_period_seconds, Some(5));
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert_eq!((options.uid.as_deref(), options.dry_run), (Some("u"), true));
        assert!(read_options(&json!({"propagationPolicy": "Sideways"}), &query).is_err());
    }
}
