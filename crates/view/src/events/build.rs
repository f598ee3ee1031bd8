//! From events as they are stored to what happened: the same thing counted together, the newest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::{Entry, EventsView};
use crate::API_VERSION;

impl Entry {
    /// What makes two events the same.
    pub fn key(&self) -> [String; 5] {
        let parts = [
            &self.severity,
            &self.reason,
            &self.object_kind,
            &self.object_name,
            &self.message,
        ];
        parts.map(Clone::clone)
    }

    pub fn is_warning(&self) -> bool {
        self.severity != "Normal"
    }
}

/// The events about these objects, or about all; the newest first.
pub fn entries(events: &[Event], owned: Option<&BTreeSet<String>>) -> Vec<Entry> {
    let mut merged: BTreeMap<[String; 5], Entry> = BTreeMap::new();
    let ours = |event: &&Event| match owned {
        Some(owned) => event
            .involved_object
            .uid
            .as_ref()
            .is_some_and(|uid| owned.contains(uid)),
        None => true,
    };
    for event in events.iter().filter(ours) {
        let entry = entry(event);
        match merged.get_mut(&entry.key()) {
            Some(known) => {
                known.count += entry.count;
                known.first = [known.first, entry.first].into_iter().flatten().min();
                known.last = known.last.max(entry.last);
            }
            None => {
                merged.insert(entry.key(), entry);
            }
        }
    }
    let mut entries: Vec<Entry> = merged.into_values().collect();
    entries.sort_by_key(|entry| Reverse(entry.last));
    entries
}

/// Both ways of writing events: the old one with counts, and the new one with series.
fn entry(event: &Event) -> Entry {
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let single = event.event_time.as_ref().map(|time| time.0);
    let series = event.series.as_ref();
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    let last: [Option<Timestamp>; 2] = [
        event.last_timestamp.as_ref().map(|time| time.0),
        series.and_then(|series| series.last_observed_time.as_ref().map(|time| time.0)),
    ];
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    Entry {
        severity: event.type_.clone().unwrap_or_else(|| "Normal".to_owned()),
        reason: event.reason.clone().unwrap_or_default(),
        object_kind: event.involved_object.kind.clone().unwrap_or_default(),
        object_name: event.involved_object.name.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default().trim().replace('\n', " "),
        count: i64::from(count.max(1)),
        first: first.or(single).or(created),
        last: last.into_iter().flatten().max().or(single).or(first).or(created),
    }
}

/// Warnings and the rest.
pub fn view(namespace: &str, set: Option<&str>, entries: Vec<Entry>) -> EventsView {
    let (warnings, normal) = entries.into_iter().partition(Entry::is_warning);
    EventsView {
        api_version: API_VERSION,
        kind: "EventsView",
        namespace: namespace.to_owned(),
        set: set.map(str::to_owned),
        warnings,
        normal,
    }
}
