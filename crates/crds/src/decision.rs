//! What the installer decides, without a client: whether a definition may be applied, what an apply has changed, and
//! whether the cluster serves the kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part of a CustomResourceDefinition that decisions need; the schemas, which are large, are never decoded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, kube::Resource)]
#[resource(inherit = "CustomResourceDefinition")]
pub struct Definition {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: DefinitionSpec,
    /// What the cluster made of it.
    #[serde(default)]
    pub status: DefinitionStatus,
}

/// See [`Definition`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct DefinitionSpec {
    /// The versions.
    #[serde(default)]
    pub versions: Vec<Version>,
}

/// One version of a kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Version {
    /// Its name.
    pub name: String,
}

/// See [`Definition`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionStatus {
    /// `Established`, `NamesAccepted`, `Terminating`. The server answers a creation with null.
    pub conditions: Option<Vec<CustomResourceDefinitionCondition>>,
    /// Versions in which objects may be stored.
    pub stored_versions: Option<Vec<String>>,
}

impl Definition {
    fn condition(&self, kind: &str) -> Option<&CustomResourceDefinitionCondition> {
        self.status
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == kind)
    }
}

/// Why a definition must not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Objects may be stored in versions that the new definition does not have.
    #[error(
        "{name} has objects stored in {}, which this version of Coppice does not know (it has {}): \
         use a version of Coppice that knows {}, or migrate the objects first and remove the old versions from \
         the definition's status.storedVersions",
        stored.join(", "), known.join(", "), stored.join(", ")
    )]
    StoredVersions {
        /// The definition.
        name: String,
        /// The stored versions that would be dropped.
        stored: Vec<String>,
        /// The versions of the new definition.
        known: Vec<String>,
    },
    /// The definition in the cluster is being deleted, and all its objects with it.
    #[error("{name} is being deleted from the cluster: wait until it is gone, then install again")]
    BeingDeleted {
        /// The definition.
        name: String,
    },
}

/// Whether `desired` may be applied over what the cluster has.
pub fn may_apply(existing: Option<&Definition>, desired: &Value) -> Result<(), Refusal> {
    let Some(existing) = existing else { return Ok(()) };
    let name = || existing.metadata.name.clone().unwrap_or_default();
    if existing.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::BeingDeleted { name: name() });
    }
    let versions = desired["spec"]["versions"].as_array().into_iter().flatten();
    let known: Vec<String> = versions
        .filter_map(|version| version["name"].as_str().map(str::to_owned))
        .collect();
    let stored = existing.status.stored_versions.iter().flatten();
    let lost: Vec<String> = stored.filter(|version| !known.contains(version)).cloned().collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(Refusal::StoredVersions {
        name: name(),
        stored: lost,
        known,
    })
}

/// What an apply has done to a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It was not there.
    Created,
    /// It was there and is different now.
    Configured,
    /// It was already as wanted.
    Unchanged,
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        })
    }
}

/// What an apply has changed, from the definition before it (if there was one), the definition that the server answered
/// with, and whether the server said that it created it.
///
/// The resource version says nothing: the server's own controllers write the status at the same time. The generation
/// counts changes of the spec. Where another installer created the definition between our look and our apply, a first
/// generation means that we found what we wanted.
pub fn change(before: Option<&Definition>, after: &Definition, created: bool) -> Change {
    if created {
        return Change::Created;
    }
    let same = match before {
        Some(before) => {
            before.metadata.uid == after.metadata.uid
                && before.metadata.generation == after.metadata.generation
                && before.metadata.labels == after.metadata.labels
                && before.metadata.annotations == after.metadata.annotations
        }
        None => after.metadata.generation == Some(1),
    };
    if same { Change::Unchanged } else { Change::Configured }
}

/// How far the cluster is with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It serves the kind.
    Established,
    /// It does not yet.
    Pending,
    /// It will not, until somebody changes something; the text says what is in the way.
    Blocked(String),
}

/// How far the cluster is with a definition; `None` is one that is not there.
pub fn readiness(definition: Option<&Definition>) -> Readiness {
    let Some(definition) = definition else {
        return Readiness::Blocked("it was deleted while it was being installed; install again".to_owned());
    };
    let is = |kind: &str, status: &str| {
        let condition = definition.condition(kind);
        condition.filter(|condition| condition.status == status)
    };
    if definition.metadata.deletion_timestamp.is_some() {
        return Readiness::Blocked("it is being deleted; wait until it is gone, then install again".to_owned());
    }
    if let Some(refused) = is("NamesAccepted", "False") {
        let message = refused.message.as_deref().unwrap_or("no reason given");
        return Readiness::Blocked(format!(
            "another definition uses its names ({message}); remove that one or rename its kind"
        ));
    }
    match is("Established", "True") {
        Some(_) => Readiness::Established,
        None => Readiness::Pending,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(document: Value) -> Definition {
        serde_json::from_value(document).expect("a definition is decoded")
    }

    fn stored(versions: &[&str]) -> Definition {
        definition(json!({
            "metadata": { "name": "podgangs.scheduler.grove.io" },
            "spec": { "versions": [{ "name": "v1alpha1", "served": true, "storage": true }] },
            "status": { "storedVersions": versions },
        }))
    }

    fn ours() -> Value {
        json!({ "spec": { "versions": [{ "name": "v1alpha1" }, { "name": "v1beta1" }] } })
    }

    #[test]
    fn a_new_definition_and_known_stored_versions_may_be_applied() {
        assert_eq!(may_apply(None, &ours()), Ok(()));
        assert_eq!(may_apply(Some(&stored(&[])), &ours()), Ok(()));
        assert_eq!(may_apply(Some(&stored(&["v1alpha1", "v1beta1"])), &ours()), Ok(()));
    }

    #[test]
    fn a_stored_version_is_never_dropped() {
        let refusal = may_apply(Some(&stored(&["v1alpha1", "v2"])), &ours()).expect_err("v2 would be dropped");
        let text = refusal.to_string();
        assert!(
            text.contains("podgangs.scheduler.grove.io has objects stored in v2"),
            "{text}"
        );
        assert!(text.contains("it has v1alpha1, v1beta1"), "{text}");
    }

    #[test]
    fn a_served_version_without_objects_may_be_dropped() {
        let mut existing = stored(&["v1alpha1"]);
        existing.spec.versions.push(Version { name: "v0".to_owned() });
        assert_eq!(may_apply(Some(&existing), &ours()), Ok(()));
    }

    #[test]
    fn a_definition_that_is_being_deleted_is_left_alone() {
        let existing = definition(json!({
            "metadata": { "name": "x", "deletionTimestamp": "2026-01-02T03:04:05Z" }
        }));
        assert_eq!(
            may_apply(Some(&existing), &ours()),
            Err(Refusal::BeingDeleted { name: "x".to_owned() })
        );
        assert!(matches!(readiness(Some(&existing)), Readiness::Blocked(_)));
    }

    fn generation(uid: &str, generation: i64, label: &str) -> Definition {
        definition(json!({ "metadata": { "uid": uid, "generation": generation, "labels": { "a": label } } }))
    }

    #[test]
    fn changes_are_told_apart() {
        let before = generation("u", 2, "x");
        assert_eq!(change(None, &generation("u", 1, "x"), true), Change::Created);
        assert_eq!(
            change(Some(&before), &generation("u", 2, "x"), false),
            Change::Unchanged
        );
        assert_eq!(
            change(Some(&before), &generation("u", 3, "x"), false),
            Change::Configured
        );
        assert_eq!(
            change(Some(&before), &generation("u", 2, "y"), false),
            Change::Configured
        );
        assert_eq!(
            change(Some(&before), &generation("v", 2, "x"), false),
            Change::Configured
        );
    }

    #[test]
    fn losing_the_race_to_create_is_no_change_of_ours() {
        assert_eq!(change(None, &generation("u", 1, "x"), false), Change::Unchanged);
        assert_eq!(change(None, &generation("u", 2, "x"), false), Change::Configured);
    }

    fn with_condition(kind: &str, status: &str) -> Definition {
        definition(json!({
            "metadata": { "name": "x" },
            "status": { "conditions": [{ "type": kind, "status": status, "reason": "R", "message": "taken by y" }] },
        }))
    }

    #[test]
    fn readiness_follows_the_conditions() {
        assert_eq!(
            readiness(Some(&with_condition("Established", "True"))),
            Readiness::Established
        );
        assert_eq!(
            readiness(Some(&with_condition("Established", "False"))),
            Readiness::Pending
        );
        assert_eq!(
            readiness(Some(&with_condition("NamesAccepted", "True"))),
            Readiness::Pending
        );
        assert_eq!(
            readiness(Some(&definition(json!({ "metadata": {} })))),
            Readiness::Pending
        );
        assert!(matches!(readiness(None), Readiness::Blocked(_)));
        let Readiness::Blocked(text) = readiness(Some(&with_condition("NamesAccepted", "False"))) else {
            panic!("names that are taken block a definition");
        };
        assert!(text.contains("taken by y"), "{text}");
    }
}
