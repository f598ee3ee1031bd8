//! Every kind that the API server knows, found by discovery and by watching custom resource definitions.
//!
//! Owns the question "what kinds are there" for controllers that work on all of them, and a stream of metadata
//! changes over all kinds that follows definitions as they come and go. Discovery is asked once; after that, kinds come
//! from the definitions themselves, so no request is repeated to see whether something new has appeared.

use crate::engine::watch::{Change, changes};
use futures::stream::{BoxStream, SelectAll, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta};
use kube::core::PartialObjectMeta;
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use kube::runtime::watcher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// An object of any kind, reduced to its metadata.
pub(crate) type AnyMeta = PartialObjectMeta<DynamicObject>;

/// Group and kind. Versions of a kind share their objects, so they do not matter here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindId {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
}

impl KindId {
    pub(crate) fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }

    /// The kind that an `apiVersion` and `kind` name.
    pub(crate) fn of_reference(api_version: &str, kind: &str) -> Self {
        Self::new(api_version.rsplit_once('/').map_or("", |(group, _)| group), kind)
    }
}

/// What must be known to work on the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) watchable: bool,
    pub(crate) deletable: bool,
    pub(crate) delete_collection: bool,
}

impl Kind {
    pub(crate) fn id(&self) -> KindId {
        KindId::new(&self.resource.group, &self.resource.kind)
    }

    fn discovered(resource: ApiResource, capabilities: &ApiCapabilities) -> Self {
        let can = |verb: &str| capabilities.supports_operation(verb);
        Self {
            resource,
            namespaced: capabilities.scope == Scope::Namespaced,
            watchable: can(verbs::LIST) && can(verbs::WATCH),
            deletable: can(verbs::DELETE) && can(verbs::LIST),
            delete_collection: can(verbs::DELETE_COLLECTION),
        }
    }

    /// The metadata interface to the objects, of one namespace if one is given.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<AnyMeta> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// Events are many, short-lived and never owned.
    fn is_event(&self) -> bool {
        self.resource.kind == "Event" && ["", "events.k8s.io"].contains(&self.resource.group.as_str())
    }
}

/// Asks the API server for all kinds.
pub(crate) async fn discover(client: &Client) -> Result<BTreeMap<KindId, Kind>, kube::Error> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let kinds = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::resources_by_stability);
    Ok(kinds
        .map(|(resource, capabilities)| Kind::discovered(resource, &capabilities))
        .map(|kind| (kind.id(), kind))
        .collect())
}

/// News about kinds and their objects.
pub(crate) enum KindChange<V> {
    /// The kind exists and is being watched.
    Appeared(Kind),
    /// The kind is gone, and its objects with it.
    Vanished(KindId),
    /// Something happened to its objects.
    Objects(KindId, Change<V>),
}

/// Watches the metadata of all objects of all kinds, for as long as the stream lives.
pub(crate) fn all_objects<V, F>(client: Client, project: F) -> BoxStream<'static, KindChange<V>>
where
    V: Send + 'static,
    F: Fn(&KindId, ObjectMeta) -> V + Clone + Send + 'static,
{
    let follower = Follower {
        client,
        project,
        news: VecDeque::new(),
        ends: BTreeMap::new(),
        objects: SelectAll::new(),
        definitions: None,
    };
    futures::stream::unfold(follower, |mut follower| async {
        Some((follower.next().await, follower))
    })
    .boxed()
}

/// What a definition defines, and the kind itself once it is served.
type Defined = (KindId, Option<Kind>);

struct Follower<V, F> {
    client: Client,
    project: F,
    /// What has to be told before anything else is asked for.
    news: VecDeque<KindChange<V>>,
    ends: BTreeMap<KindId, CancellationToken>,
    objects: SelectAll<BoxStream<'static, KindChange<V>>>,
    /// None until discovery has succeeded.
    definitions: Option<BoxStream<'static, Change<Defined>>>,
}

impl<V, F> Follower<V, F>
where
    V: Send + 'static,
    F: Fn(&KindId, ObjectMeta) -> V + Clone + Send + 'static,
{
    async fn next(&mut self) -> KindChange<V> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            let Some(definitions) = &mut self.definitions else {
                for kind in discover_patiently(&self.client).await.into_values() {
                    self.watch(kind);
                }
                let api: Api<DefinitionObject> = Api::all(self.client.clone());
                self.definitions = Some(changes(api, watcher::Config::default(), DefinitionObject::into_kind));
                continue;
            };
            tokio::select! {
                biased;
                Some(change) = definitions.next() => self.follow(change),
                Some(change) = self.objects.next(), if !self.objects.is_empty() => return change,
            }
        }
    }

    fn follow(&mut self, change: Change<Defined>) {
        match change {
            Change::Applied((_, Some(kind))) => self.watch(kind),
            Change::Applied((_, None)) | Change::ListStarted | Change::ListDone => {}
            Change::Deleted((id, _)) => {
                if let Some(end) = self.ends.remove(&id) {
                    end.cancel();
                    self.news.push_back(KindChange::Vanished(id));
                }
            }
        }
    }

    fn watch(&mut self, kind: Kind) {
        let id = kind.id();
        if !kind.watchable || kind.is_event() || self.ends.contains_key(&id) {
            return;
        }
        let end = CancellationToken::new();
        self.ends.insert(id.clone(), end.clone());
        let (project, name) = (self.project.clone(), id.clone());
        let objects = changes(
            kind.api(&self.client, ""),
            watcher::Config::default(),
            move |object: AnyMeta| project(&name, object.metadata),
        );
        let objects = objects.map(move |change| KindChange::Objects(id.clone(), change));
        self.objects.push(objects.take_until(end.cancelled_owned()).boxed());
        self.news.push_back(KindChange::Appeared(kind));
    }
}

/// Asks until the API server answers.
async fn discover_patiently(client: &Client) -> BTreeMap<KindId, Kind> {
    let mut pause = Duration::from_millis(200);
    loop {
        match discover(client).await {
            Ok(kinds) => return kinds,
            Err(error) => {
                tracing::debug!(%error, ?pause, "discovery failed, will try again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(20));
            }
        }
    }
}

/// The wire form: what is decoded of a custom resource definition.
#[derive(Clone, Debug, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = CustomResourceDefinition)]
struct DefinitionObject {
    metadata: ObjectMeta,
    spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DefinitionSpec {
    group: String,
    names: DefinitionNames,
    scope: String,
    versions: Vec<DefinitionVersion>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DefinitionNames {
    kind: String,
    plural: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DefinitionVersion {
    name: String,
    served: bool,
    storage: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct DefinitionStatus {
    conditions: Vec<DefinitionCondition>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DefinitionCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl DefinitionObject {
    /// The kind it defines, once it is served.
    fn into_kind(self) -> Defined {
        let spec = self.spec;
        let id = KindId::new(&spec.group, &spec.names.kind);
        let established = self
            .status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Established" && condition.status == "True");
        let mut served: Vec<DefinitionVersion> = spec.versions.into_iter().filter(|version| version.served).collect();
        served.sort_by_key(|version| !version.storage);
        let kind = served.first().filter(|_| established).map(|version| Kind {
            resource: ApiResource {
                api_version: format!("{}/{}", spec.group, version.name),
                group: spec.group.clone(),
                version: version.name.clone(),
                kind: spec.names.kind.clone(),
                plural: spec.names.plural.clone(),
            },
            namespaced: spec.scope == "Namespaced",
            watchable: true,
            deletable: true,
            delete_collection: true,
        });
        (id, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(established: &str) -> DefinitionObject {
        serde_json::from_value(json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [
                    {"name": "v1alpha1", "served": true, "storage": false, "schema": {}},
                    {"name": "v1", "served": true, "storage": true},
                    {"name": "v2", "served": false, "storage": false},
                ],
            },
            "status": {"conditions": [{"type": "Established", "status": established}]},
        }))
        .unwrap()
    }

    #[test]
    fn an_established_definition_gives_a_kind_in_its_stored_version() {
        let (id, kind) = definition("True").into_kind();
        let kind = kind.unwrap();
        assert_eq!(id, KindId::new("example.com", "Widget"));
        assert_eq!(kind.resource.api_version, "example.com/v1");
        assert!(kind.namespaced && kind.id() == id);
    }

    #[test]
    fn a_definition_that_is_not_established_gives_none() {
        assert_eq!(definition("False").into_kind().1, None);
    }

    #[test]
    fn references_name_kinds_without_versions() {
        assert_eq!(KindId::of_reference("v1", "Pod"), KindId::new("", "Pod"));
        assert_eq!(
            KindId::of_reference("apps/v1", "Deployment"),
            KindId::new("apps", "Deployment")
        );
    }
}
