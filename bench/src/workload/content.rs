//! The objects that an operator leaves in a namespace: read back as bodies for the floor client, deleted at once, and
//! asked for until nothing is left.

use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The kinds, in the order in which an operator makes them.
const KINDS: [(&str, &str, &str); 13] = [
    ("apps", "v1", "ControllerRevision"),
    ("", "v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("", "v1", "Secret"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("resource.k8s.io", "v1", "ResourceClaim"),
    ("", "v1", "Service"),
    ("grove.io", "v1alpha1", "PodCliqueSet"),
    ("grove.io", "v1alpha1", "PodCliqueScalingGroup"),
    ("grove.io", "v1alpha1", "PodClique"),
    ("scheduler.grove.io", "v1alpha1", "PodGang"),
    ("", "v1", "Pod"),
];

/// How often a namespace that is being emptied is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// The resource of a kind.
pub(crate) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn apis<'a>(client: &'a Client, namespace: &'a str) -> impl Iterator<Item = (&'static str, Api<DynamicObject>)> + 'a {
    KINDS.iter().map(move |(group, version, kind)| {
        let api = Api::namespaced_with(client.clone(), namespace, &resource(group, version, kind));
        (*kind, api)
    })
}

/// What every namespace has.
fn is_everywhere(kind: &str, name: &str) -> bool {
    kind == "ServiceAccount" && name == "default"
}

/// Creates a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    api.create(&PostParams::default(), &namespace)
        .await
        .with_context(|| format!("creating namespace {name}"))?;
    Ok(())
}

/// Everything that an operator made in `from`, the set itself apart, as bodies to create in `to`, in the order of its
/// making. All of them belong to one object of the new namespace, which this creates: without a living owner they would
/// be collected.
pub(crate) async fn bodies(client: &Client, from: &str, to: &str) -> anyhow::Result<Vec<Value>> {
    let mut made = Vec::new();
    for (rank, (kind, api)) in apis(client, from).enumerate() {
        if kind == "PodCliqueSet" {
            continue;
        }
        for object in api.list(&ListParams::default()).await?.items {
            let name = object.metadata.name.clone().unwrap_or_default();
            if !is_everywhere(kind, &name) {
                let (group, version, _) = KINDS[rank];
                let mut body = serde_json::to_value(&object)?;
                let resource = resource(group, version, kind);
                body["apiVersion"] = resource.api_version.into();
                body["kind"] = resource.kind.into();
                let made_at = object.metadata.creation_timestamp.map(|time| time.0);
                made.push(((made_at, rank), body));
            }
        }
    }
    made.sort_by_key(|(order, _)| *order);
    Ok(made.into_iter().map(|(_, body)| stripped(body, to)).collect())
}

/// Gives bodies an owner in their namespace.
pub(crate) async fn own(client: &Client, namespace: &str, bodies: &mut [Value]) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let owner = ConfigMap {
        metadata: ObjectMeta {
            name: Some("owner".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let owner = api.create(&PostParams::default(), &owner).await?;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
        "controller": true, "blockOwnerDeletion": true}]);
    for body in bodies {
        body["metadata"]["ownerReferences"] = reference.clone();
        body["metadata"]["namespace"] = namespace.into();
    }
    Ok(())
}

/// A body without what the API server, the scheduler and kubelets added. Finalizers go too: nobody would remove them.
fn stripped(mut body: Value, namespace: &str) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = body["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    if let Some(metadata) = body["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
            "selfLink",
            "finalizers",
            "ownerReferences",
        ] {
            metadata.remove(field);
        }
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    body
}

/// Deletes everything in a namespace.
pub(crate) async fn delete_all(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let parameters = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    for (kind, api) in apis(client, namespace) {
        if kind == "Service" {
            // Not every API server deletes services as a collection.
            let services = api.list_metadata(&ListParams::default()).await?.items;
            let deletions = services.into_iter().map(|service| {
                let (api, parameters) = (api.clone(), parameters.clone());
                async move {
                    api.delete(&service.metadata.name.unwrap_or_default(), &parameters)
                        .await
                }
            });
            let results: Vec<_> = stream::iter(deletions).buffer_unordered(16).collect().await;
            for result in results {
                result?;
            }
        } else if kind != "ServiceAccount" {
            api.delete_collection(&parameters, &ListParams::default())
                .await
                .with_context(|| format!("deleting all {kind}"))?;
        }
    }
    Ok(())
}

/// Waits until a namespace holds nothing of an operator's any more.
pub(crate) async fn until_empty(client: &Client, namespace: &str, limit: Duration) -> anyhow::Result<()> {
    let mut left = String::new();
    let waited = tokio::time::timeout(limit, async {
        // From what goes first to what goes last: once a kind is empty nothing refills it.
        for (kind, api) in apis(client, namespace).collect::<Vec<_>>().into_iter().rev() {
            loop {
                let some = api.list_metadata(&ListParams::default().limit(2)).await?.items;
                let mut names = some.iter().filter_map(|object| object.metadata.name.as_deref());
                match names.find(|name| !is_everywhere(kind, name)) {
                    None => break,
                    Some(name) => left = format!("{kind} {name}"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        anyhow::Ok(())
    });
    match waited.await {
        Ok(done) => done,
        Err(_) => anyhow::bail!("not empty within {limit:?}: namespace {namespace} still has {left}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_its_maker_sent() {
        let stored = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "one", "uid": "u", "resourceVersion": "1", "labels": {"l": "m"},
                "finalizers": ["f"], "managedFields": [{}], "ownerReferences": [{"uid": "o"}], "creationTimestamp": "now"},
            "spec": {"nodeName": "node", "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        });
        let sent = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "two", "labels": {"l": "m"}},
            "spec": {"containers": [{"name": "main"}]},
        });
        assert_eq!(stripped(stored, "two"), sent);
    }
}
