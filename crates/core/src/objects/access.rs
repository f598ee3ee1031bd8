//! Permission for waiting pods to watch the pods they wait for.
//!
//! Only sets with a start-up order need it. The waiting container uses a projected token of the pod's own service
//! account, so the binding names the service accounts of the waiting cliques; no token outlives its pod.

use std::collections::BTreeSet;

use coppice_api::names::label_sets::{role_binding_labels, role_labels};
use coppice_api::names::object_names::{role_binding_name, role_name};
use serde_json::{Value, json};

use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The Role that lets pods be read; none when nobody waits.
pub fn reader_role(facts: &SetFacts<'_>) -> Option<NewObject> {
    let rules =
        || json!([{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}]);
    facts.has_startup_order().then(|| NewObject {
        kind: Kind::Role,
        metadata: Metadata {
            name: role_name(facts.name()),
            namespace: facts.namespace().to_owned(),
            labels: role_labels(facts.name()),
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::from_fields([("rules", rules())]),
    })
}

/// The RoleBinding that gives it to the service accounts of waiting pods; none when nobody waits.
pub fn reader_role_binding(facts: &SetFacts<'_>) -> Option<NewObject> {
    let waiting = facts.cliques.iter().filter(|clique| !clique.parents.is_empty());
    let accounts: BTreeSet<&str> = waiting
        .map(|clique| {
            let named = clique.template.spec.pod_spec.text("serviceAccountName");
            named.unwrap_or("default")
        })
        .collect();
    if accounts.is_empty() {
        return None;
    }
    let subject = |name: &&str| json!({"kind": "ServiceAccount", "name": name, "namespace": facts.namespace()});
    let subjects: Vec<Value> = accounts.iter().map(subject).collect();
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role_name(facts.name())});
    Some(NewObject {
        kind: Kind::RoleBinding,
        metadata: Metadata {
            name: role_binding_name(facts.name()),
            namespace: facts.namespace().to_owned(),
            labels: role_binding_labels(facts.name()),
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::from_fields([("roleRef", role), ("subjects", subjects.into())]),
    })
}
