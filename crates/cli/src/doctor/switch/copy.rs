//! Our operator takes over a copy of what another one left, on an embedded API server without nodes.
//!
//! Nothing moves there but the operator, so every pod that goes is one that it deleted. Owners are bound again by the
//! identities of the copies. Ends when nothing has happened for a while: there is no event that says "nothing more to do".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use coppice_api::names::{annotations, labels};
use coppice_apiserver::ApiServer;
use coppice_crds::{InstallOptions, install};
use coppice_operator::{Operator, Options};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::objects::{KINDS, Left, resource};
use coppice_api::types::PodCliqueSet;

/// Nothing more is going to happen when nothing has for so long.
const QUIET: Duration = Duration::from_secs(3);
/// A rehearsal that takes this long is not going to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What happened to the pods of the copy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Pods that were deleted.
    pub(super) replaced: Vec<String>,
    /// Those of them whose set was not in the middle of an update.
    pub(super) unexpected: Vec<String>,
}

/// Takes over a copy.
pub(super) async fn rehearse(left: &Left) -> Result<Outcome> {
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    install(client.clone(), &InstallOptions::default(), |_| {})
        .await
        .context("installing the CRDs on the copy")?;
    let pods = import(&client, left).await?;
    let operator = Operator::start(client.clone(), Options::default()).await;
    let settled = tokio::time::timeout(PATIENCE, quiet(&client)).await;
    operator.stop().await;
    if settled.is_err() {
        bail!("the copy did not come to rest within {} s", PATIENCE.as_secs());
    }
    let all: Api<Pod> = Api::all(client.clone());
    let alive = all.list(&ListParams::default()).await?.items;
    let alive: BTreeSet<String> = alive
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter_map(kube::ResourceExt::uid)
        .collect();
    let mut outcome = Outcome::default();
    let gone = pods.into_iter().filter(|(uid, _)| !alive.contains(uid));
    for (_, pod) in gone {
        if !pod.updating {
            outcome.unexpected.push(pod.name.clone());
        }
        outcome.replaced.push(pod.name);
    }
    Ok(outcome)
}

/// A pod that was copied.
struct Copied {
    name: String,
    /// Whether its set is in the middle of an update.
    updating: bool,
}

/// Copies everything, owners first; returns the pods by the identity of their copies.
async fn import(client: &Client, left: &Left) -> Result<BTreeMap<String, Copied>> {
    let mut namespaces = BTreeSet::new();
    let mut identities: BTreeMap<String, Value> = BTreeMap::new();
    let mut updating: BTreeSet<(String, String)> = BTreeSet::new();
    let mut pods = BTreeMap::new();
    for (kind, object) in &left.all {
        let (group, version, kind) = KINDS[*kind];
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str();
        if metadata["deletionTimestamp"].is_string() {
            continue;
        }
        if let Some(name) = namespace.filter(|name| *name != "default" && namespaces.insert((*name).to_owned())) {
            let api: Api<Namespace> = Api::all(client.clone());
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            api.create(&PostParams::default(), &namespace).await?;
        }
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(&gvk)),
            None => Api::all_with(client.clone(), &resource(&gvk)),
        };
        let title = || format!("copying {kind} {}", metadata["name"]);
        let copy = serde_json::from_value(copy_of(object, &identities))?;
        let created = api.create(&PostParams::default(), &copy).await.with_context(title)?;
        if let Some(uid) = metadata["uid"].as_str() {
            identities.insert(uid.to_owned(), json!(created.uid()));
        }
        if let Some(status) = status_of(object) {
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(&created.name_any(), &PatchParams::default(), &patch)
                .await
                .with_context(title)?;
        }
        let place = |name: &Value| {
            let namespace = namespace.unwrap_or_default().to_owned();
            (namespace, name.as_str().unwrap_or_default().to_owned())
        };
        let progress = &object["status"]["updateProgress"];
        if kind == "PodCliqueSet" && progress["updateStartedAt"].is_string() && !progress["updateEndedAt"].is_string() {
            updating.insert(place(&metadata["name"]));
        }
        if kind == "Pod" {
            let copied = Copied {
                name: format!("{}/{}", namespace.unwrap_or_default(), created.name_any()),
                updating: updating.contains(&place(&metadata["labels"][labels::PART_OF])),
            };
            pods.extend(created.uid().map(|uid| (uid, copied)));
        }
    }
    Ok(pods)
}

/// An object as it can be created: with its owners' copies as owners, and without what the server gives it.
fn copy_of(object: &Value, identities: &BTreeMap<String, Value>) -> Value {
    let mut copy = object.clone();
    if let Some(fields) = copy.as_object_mut() {
        fields.remove("status");
    }
    let Some(metadata) = copy["metadata"].as_object_mut() else {
        return copy;
    };
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
    ] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(annotations::MADE_FROM_GENERATIONS);
    }
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    if let Some(owners) = owners {
        owners.retain_mut(|owner| {
            let copy = owner["uid"].as_str().and_then(|uid| identities.get(uid));
            let Some(copy) = copy.cloned() else { return false };
            owner["uid"] = copy;
            true
        });
    }
    copy
}

/// The status of an object; what was observed of its present generation is observed of the copy's first.
fn status_of(object: &Value) -> Option<Value> {
    let mut status = object.get("status").filter(|status| status.is_object())?.clone();
    if status["observedGeneration"].is_number() {
        let current = status["observedGeneration"] == object["metadata"]["generation"];
        status["observedGeneration"] = json!(i64::from(current));
    }
    Some(status)
}

/// Waits until neither sets nor pods have changed for a while.
async fn quiet(client: &Client) {
    let sets: Api<PodCliqueSet> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let sets = watcher(sets, watcher::Config::default()).map(drop).boxed();
    let pods = watcher(pods, watcher::Config::default()).map(drop).boxed();
    let mut changes = futures::stream::select(sets, pods);
    while let Ok(Some(())) = tokio::time::timeout(QUIET, changes.next()).await {}
}
