//! Permission for waiting pods to watch the pods they wait for.
//!
//! Only sets with a start-up order need it. The waiting container uses a projected token of the pod's own service
//! account, so the binding names the service accounts of the waiting cliques; no token outlives its pod.

use std::collections::BTreeSet;

use coppice_api::names::label_sets::{role_binding_labels, role_labels};
use coppice_api::names::object_names::{role_binding_name, role_name};
use serde_json::{Value, json};

use super::Owner;
use crate::facts::SetFacts;

/// The Role that lets pods be read; none when nobody waits.
pub fn reader_role(facts: &SetFacts<'_>) -> Option<Value> {
    facts.has_startup_order().then(|| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {
                "name": role_name(facts.name()),
                "namespace": facts.namespace(),
                "labels": role_labels(facts.name()),
                "ownerReferences": Owner::set(facts.set).reference(),
            },
            "rules": [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}],
        })
    })
}

/// The RoleBinding that gives it to the service accounts of waiting pods; none when nobody waits.
pub fn reader_role_binding(facts: &SetFacts<'_>) -> Option<Value> {
    let accounts: BTreeSet<&str> = facts
        .cliques
        .iter()
        .filter(|clique| !clique.parents.is_empty())
        .map(|clique| {
            clique
                .template
                .spec
                .pod_spec
                .text("serviceAccountName")
                .unwrap_or("default")
        })
        .collect();
    (!accounts.is_empty()).then(|| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {
                "name": role_binding_name(facts.name()),
                "namespace": facts.namespace(),
                "labels": role_binding_labels(facts.name()),
                "ownerReferences": Owner::set(facts.set).reference(),
            },
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role_name(facts.name())},
            "subjects": accounts
                .iter()
                .map(|name| json!({"kind": "ServiceAccount", "name": name, "namespace": facts.namespace()}))
                .collect::<Vec<_>>(),
        })
    })
}
