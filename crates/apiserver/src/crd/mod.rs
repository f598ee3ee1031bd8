//! Custom resources: from CustomResourceDefinitions to served resources.
//!
//! A definition takes effect with the write that makes it: names are accepted and the resource is established before
//! the writer gets its answer (a real server does so moments later). A definition that is deleted takes its objects
//! with it, and leaves when the last of them has left.

mod cel;
mod definition;
mod kind;

use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use cel::evaluate_condition;
pub(crate) use definition::Definition;

use crate::core::Core;
use crate::kinds::selectable_values;
use crate::ports::format_time;
use crate::registry::{Served, Subresource, join_api_version};
use crate::rest::{DeleteOptions, Deletion, decide_deletion};
use crate::store::{Draft, Expect, Key, Object, Store, Texts};
use crate::tree::{finalizers, is_deleting, meta_mut, meta_text};

use kind::CustomKind;

/// The store's name for definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Holds a definition while its objects go.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const ALL_VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const READ_WRITE: &[&str] = &["get", "patch", "update"];

/// The resources that the definitions in the store describe.
pub(crate) fn served_resources(store: &Store) -> Vec<Served> {
    let (_, definitions) = store.current(DEFINITIONS);
    definitions.iter().flat_map(served_versions).collect()
}

fn served_versions(object: &Arc<Object>) -> Vec<Served> {
    let definition = object.value();
    let spec = &definition["spec"];
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let words = |path: &str| -> Vec<String> {
        let list = definition.pointer(path).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let group = text("/spec/group");
    let mut versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version["name"].as_str().unwrap_or_default())));
    let storage = versions.iter().find(|version| version["storage"] == true);
    let storage_name = storage.and_then(|version| version["name"].as_str()).unwrap_or_default();
    let storage_api_version: Arc<str> = join_api_version(group, storage_name).into();
    versions
        .into_iter()
        .filter(|version| version["served"] == true)
        .filter_map(|version| {
            let rules = CustomKind::new(version, object.revision()).ok()?;
            let mut subresources = Vec::new();
            if version.pointer("/subresources/status").is_some() {
                subresources.push(Subresource {
                    name: "status".into(),
                    speaks: None,
                    verbs: READ_WRITE,
                });
            }
            if version.pointer("/subresources/scale").is_some() {
                let speaks = Some(("autoscaling", "v1", "Scale"));
                subresources.push(Subresource {
                    name: "scale".into(),
                    speaks,
                    verbs: READ_WRITE,
                });
            }
            Some(Served {
                id: resource_id(&definition).into(),
                group: group.into(),
                version: version["name"].as_str()?.into(),
                storage_api_version: storage_api_version.clone(),
                plural: text("/spec/names/plural").into(),
                singular: text("/spec/names/singular").into(),
                kind: text("/spec/names/kind").into(),
                list_kind: text("/spec/names/listKind").into(),
                short_names: words("/spec/names/shortNames"),
                categories: words("/spec/names/categories"),
                namespaced: text("/spec/scope") == "Namespaced",
                verbs: ALL_VERBS,
                subresources,
                custom: true,
                rules: Arc::new(rules),
            })
        })
        .collect()
}

fn resource_id(definition: &Value) -> String {
    meta_text(definition, "name").to_owned()
}

/// Versions as clients prefer them: stable before beta before alpha, higher numbers first, others last.
fn version_priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            beta if beta.starts_with("beta") => Some((2, major, beta[4..].parse().ok()?)),
            alpha if alpha.starts_with("alpha") => Some((1, major, alpha[5..].parse().ok()?)),
            _ => None,
        }
    };
    parse().unwrap_or((0, 0, 0))
}

/// Follows a write of a definition.
pub(crate) fn after_write(core: &Core, written: &Value) {
    let key = Key::new("", meta_text(written, "name"));
    if let Some(current) = core.store.get(DEFINITIONS, &key) {
        if is_deleting(&current.value()) {
            remove_instances(core, &current);
        } else {
            establish(core, &current);
        }
    }
    core.reload_custom_resources();
}

/// Follows a write of a custom object: the last one to leave frees its definition.
pub(crate) fn after_instance_write(core: &Core, served: &Served) {
    let key = Key::new("", &served.id);
    if core.store.count(&served.id) > 0 {
        return;
    }
    if let Some(definition) = core
        .store
        .get(DEFINITIONS, &key)
        .filter(|found| is_deleting(&found.value()))
    {
        release(core, &definition);
        core.reload_custom_resources();
    }
}

/// Accepts the names of a definition and says that it is established.
fn establish(core: &Core, current: &Arc<Object>) {
    let mut object = current.value();
    let now = format_time(core.clock.now());
    definition::establish(&mut object, &now);
    if object != current.value() {
        commit(core, &object, current);
    }
}

fn remove_instances(core: &Core, definition: &Arc<Object>) {
    let value = definition.value();
    let id = resource_id(&value);
    let Some(served) = served_versions(definition).into_iter().next() else {
        return release(core, definition);
    };
    for instance in core.store.all(&id, "") {
        let value = instance.value();
        match decide_deletion(&*served.rules, &value, &DeleteOptions::default(), core.clock.now()) {
            Deletion::Remove => {
                // Whoever changed it meanwhile is not waited for: the resource is no longer served.
                let _ = core.store.remove(&id, instance.key(), instance.revision());
            }
            Deletion::Mark { object, .. } => {
                let draft = Draft::new(&object, selectable_values(&*served.rules, &object));
                let _ = core
                    .store
                    .put(&id, instance.key(), Expect::Revision(instance.revision()), draft);
            }
            Deletion::Pending => {}
        }
    }
    if core.store.count(&id) == 0 {
        release(core, definition);
    }
}

fn release(core: &Core, definition: &Arc<Object>) {
    let mut object = definition.value();
    let mut rest = finalizers(&object);
    rest.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
    if rest.is_empty() {
        let _ = core.store.remove(DEFINITIONS, definition.key(), definition.revision());
    } else {
        meta_mut(&mut object).insert("finalizers".into(), json!(rest));
        commit(core, &object, definition);
    }
}

fn commit(core: &Core, object: &Value, current: &Arc<Object>) {
    let draft = Draft::new(object, Texts::default());
    if core
        .store
        .put(DEFINITIONS, current.key(), Expect::Revision(current.revision()), draft)
        .is_err()
    {
        tracing::debug!(definition = %current.key(), "changed meanwhile; its own writer follows up");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_stability() {
        let mut versions = vec!["v1alpha1", "foo", "v1", "v2beta1", "v10", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
