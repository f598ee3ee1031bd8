//! Tracking a write by reading only those entries of `metadata.managedFields` that it concerns.
//!
//! Most writes change fields of one manager (a kubelet reports a status, and whoever wrote the spec keeps what it had), so
//! the other entries are kept as they are stored. It assumes entries that this crate wrote under the same schema, which
//! holds for stored objects of built-in kinds, and that are too few to be put together.

use serde_json::Value;

use super::compare::Comparison;
use super::managed::{self, ManagerKey, Operation};
use super::set::FieldSet;
use super::{Write, updater};
use crate::assets::kubernetes;

/// Whether entries stored for this kind may be kept unread.
pub(super) fn applies(write: &Write<'_>, entries: &[Value]) -> bool {
    let is_builtin = write
        .schema
        .is_some_and(|at| std::ptr::eq(at.set, &raw const **kubernetes()));
    is_builtin && entries.len() < managed::MOST_UPDATE_MANAGERS
}

/// The entries after the changes.
pub(super) fn update(write: &Write<'_>, changes: Comparison, entries: Vec<Value>) -> Vec<Value> {
    let writer = ManagerKey::new(write.manager, Operation::Update, write.api_version, write.subresource);
    let (read, mut kept): (Vec<Value>, Vec<Value>) = entries.into_iter().partition(|entry| {
        let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
        managed::is_entry_of(&writer, entry)
            || [&changes.added, &changes.modified, &changes.removed]
                .into_iter()
                .any(|set| overlaps(set, fields))
    });
    let mut managed = managed::decode(&read).unwrap_or_default();
    updater::transfer(write, changes, &mut managed);
    kept.extend(managed::encode(&managed));
    kept.sort_by(|left, right| managed::stored_order(left).cmp(&managed::stored_order(right)));
    kept
}

/// Whether a path of the set is a member of the stored set.
fn overlaps(set: &FieldSet, fields: &Value) -> bool {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else {
        return false;
    };
    set.entries.iter().any(|(element, entry)| {
        let Some(stored) = fields.get(&element.encode()) else {
            return false;
        };
        let is_member = || {
            let below = stored.as_object();
            below.is_none_or(|below| below.is_empty() || below.contains_key("."))
        };
        (entry.member && is_member()) || overlaps(&entry.below, stored)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Reach, encode, managed_entries, update as track};
    use super::*;
    use crate::model::GroupVersionKind;

    #[test]
    fn unread_entries_end_up_as_if_they_had_been_read() {
        let reach = Reach::everything();
        let write = |manager: &'static str, subresource: &'static str, now: &'static str| Write {
            schema: kubernetes().kind(&GroupVersionKind::new("", "v1", "Pod")),
            api_version: "v1",
            manager,
            subresource,
            reach: &reach,
            blank: None,
            now,
        };
        let condition = |status: &str| json!({"type": "Ready", "status": status});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u", "labels": {"a": "1", "b": "2"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}});
        let mut running = pod.clone();
        running["status"] = json!({"phase": "Running", "conditions": [condition("True")]});
        let mut unready = running.clone();
        unready["status"]["conditions"] = json!([condition("False")]);
        let mut relabelled = unready.clone();
        relabelled["metadata"]["labels"] = json!({"a": "3", "c": "4"});
        let mut reduced = relabelled.clone();
        reduced["spec"]["containers"][0]["ports"] = json!([]);
        reduced.as_object_mut().unwrap().remove("status");

        let mut live = track(
            &write("creator", "", "2026-01-01T00:00:00Z"),
            &json!({"metadata": {}}),
            pod,
        );
        let steps = [
            (write("kubelet", "status", "2026-01-01T00:00:01Z"), running),
            (write("prober", "status", "2026-01-01T00:00:02Z"), unready),
            (write("kubelet", "", "2026-01-01T00:00:03Z"), relabelled.clone()),
            (write("creator", "", "2026-01-01T00:00:04Z"), reduced),
            (write("creator", "", "2026-01-01T00:00:05Z"), relabelled),
        ];
        for (write, new) in steps {
            let entries = managed_entries(&live).to_vec();
            assert!(applies(&write, &entries));
            let all = managed::decode(&entries).unwrap();
            let expected = encode(&updater::update(&write, &live, &new, all));
            let changes = updater::changes(&write, &live, &new);
            assert_eq!(update(&write, changes, entries), expected, "{}", write.now);
            live = track(&write, &live, new);
        }
        assert_eq!(managed_entries(&live).len(), 2, "what only the status had is gone");
    }
}
