//! NVLink groups: the annotation on the set, its scaling groups and its cliques.

use std::collections::BTreeMap;

use crate::names::annotations::{MNNVL_GROUP, MNNVL_NONE};
use crate::names::limits::{check_compute_domain, dns_1123_label};

use super::subject::Subject;
use super::{Context, FieldError, FieldPath, Outcome};

/// Every place that may carry the annotation, with its value.
fn places<'a>(subject: &Subject<'a>) -> Vec<(FieldPath, Option<&'a str>)> {
    let value = |annotations: &'a BTreeMap<String, String>| annotations.get(MNNVL_GROUP).map(String::as_str);
    let at = |path: &FieldPath| path.field("annotations").key(MNNVL_GROUP);
    let own = subject.set.metadata.annotations.as_ref().and_then(value);
    let mut all = vec![(at(&FieldPath::root("metadata")), own)];
    all.extend(
        subject
            .cliques()
            .map(|(path, clique)| (at(&path), value(&clique.annotations))),
    );
    all.extend(
        subject
            .groups()
            .map(|(path, group)| (at(&path), value(&group.annotations))),
    );
    all
}

pub(super) fn check(subject: &Subject<'_>, context: &Context, found: &mut Outcome) {
    for (path, value) in places(subject) {
        let Some(value) = value else { continue };
        if value.is_empty() {
            let detail = "name an NVLink group, or \"none\" to opt out";
            found.errors.push(FieldError::invalid(path, value, detail));
        } else if let Err(detail) = dns_1123_label(value) {
            found.errors.push(FieldError::invalid(path, value, detail));
        } else if value == MNNVL_NONE {
            continue;
        } else if !context.auto_mnnvl {
            let detail = "NVLink groups are switched off in this cluster: set network.autoMNNVLEnabled in the operator's \
                          configuration, or remove the annotation";
            found.errors.push(FieldError::invalid(path, value, detail));
        } else if let Some(overrun) = check_compute_domain(&subject.name(), subject.set.spec.replicas, value) {
            found
                .errors
                .push(FieldError::too_long(path, value, overrun.to_string()));
        }
    }
}

/// The annotation cannot change, because pods already hold channels of their domain.
pub(super) fn check_change(old: &Subject<'_>, new: &Subject<'_>, found: &mut Outcome) {
    let old: BTreeMap<String, Option<&str>> = places(old)
        .into_iter()
        .map(|(path, value)| (path.identity(), value))
        .collect();
    for (path, value) in places(new) {
        // A clique or group that was not there has an error of its own.
        let Some(before) = old.get(&path.identity()) else {
            continue;
        };
        let error = match (*before, value) {
            (None, Some(_)) => FieldError::forbidden(
                path,
                "the annotation is immutable and cannot be added to an existing set",
            ),
            (Some(_), None) => FieldError::forbidden(
                path,
                "the annotation is immutable and cannot be removed from an existing set",
            ),
            (Some(before), Some(now)) if before != now => {
                FieldError::invalid(path, now, format!("the annotation is immutable; it was {before:?}"))
            }
            _ => continue,
        };
        found.errors.push(error);
    }
}
