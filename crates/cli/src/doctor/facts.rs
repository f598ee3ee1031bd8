//! What the checks are made from, read from a cluster.

use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet, PodGang};
use coppice_operator::webhooks::Endpoint;
use coppice_operator::webhooks::install::resource;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::output::causes;

/// What was read, or a sentence that says why it could not be.
pub(super) type Read<T> = Result<T, String>;

/// The Secret of the webhooks' certificate, in the namespace of their service.
const SECRET: &str = "grove-webhook-server-cert";

/// A right that people need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
}

const fn right(verb: &'static str, group: &'static str, resource: &'static str) -> Right {
    Right { verb, group, resource }
}

/// What this program and those who deploy sets do; the first one is what nothing works without.
pub(super) const RIGHTS: [Right; 6] = [
    right("list", "grove.io", "podcliquesets"),
    right("create", "grove.io", "podcliquesets"),
    right("list", "", "pods"),
    right("list", "scheduler.grove.io", "podgangs"),
    right("list", "", "nodes"),
    right("list", "", "events"),
];

/// A cluster as the checks see it.
pub(super) struct Facts {
    pub(super) address: String,
    pub(super) version: Read<String>,
    pub(super) definitions: Read<Vec<Value>>,
    pub(super) deployments: Read<Vec<Deployment>>,
    pub(super) leases: Read<Vec<Lease>>,
    /// The webhook configurations that are there, by endpoint.
    pub(super) webhooks: Vec<(Endpoint, Read<Option<Value>>)>,
    /// The Secret of their certificate; none where it is not, or nobody serves them.
    pub(super) certificate: Read<Option<Secret>>,
    pub(super) rights: Vec<(Right, Read<bool>)>,
    pub(super) nodes: Read<Vec<Node>>,
    pub(super) topologies: Read<Vec<ClusterTopologyBinding>>,
    pub(super) sets: Read<Vec<PodCliqueSet>>,
    pub(super) gangs: Read<Vec<PodGang>>,
}

impl Facts {
    /// Nothing is known but the address.
    pub(super) fn unknown(address: &str, why: String) -> Self {
        let unread = || String::from("it was not asked for");
        Self {
            address: address.to_owned(),
            version: Err(why),
            definitions: Err(unread()),
            deployments: Err(unread()),
            leases: Err(unread()),
            webhooks: Vec::new(),
            certificate: Err(unread()),
            rights: Vec::new(),
            nodes: Err(unread()),
            topologies: Err(unread()),
            sets: Err(unread()),
            gangs: Err(unread()),
        }
    }

    pub(super) async fn gather(client: &Client, address: &str) -> Self {
        let version = match client.apiserver_version().await {
            Ok(version) => version.git_version,
            Err(error) => return Self::unknown(address, chain(&error)),
        };
        let mut webhooks = Vec::new();
        for endpoint in Endpoint::ALL {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(endpoint));
            let found = api
                .get_opt(endpoint.configuration())
                .await
                .map_err(|error| chain(&error));
            webhooks.push((endpoint, found.map(|found| found.map(|object| json!(object)))));
        }
        let mut rights = Vec::new();
        for right in RIGHTS {
            rights.push((right, may(client, right).await));
        }
        let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definitions = Api::all_with(client.clone(), &ApiResource::from_gvk(&definition));
        let definitions: Read<Vec<DynamicObject>> = list(definitions).await;
        Self {
            address: address.to_owned(),
            version: Ok(version),
            definitions: definitions.map(|all| all.iter().map(|one| json!(one)).collect()),
            deployments: list(Api::all(client.clone())).await,
            leases: list(Api::all(client.clone())).await,
            certificate: secret(client, &webhooks).await,
            webhooks,
            rights,
            nodes: list(Api::all(client.clone())).await,
            topologies: list(Api::all(client.clone())).await,
            sets: list(Api::all(client.clone())).await,
            gangs: list(Api::all(client.clone())).await,
        }
    }
}

async fn list<K>(api: Api<K>) -> Read<Vec<K>>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await;
    list.map(|list| list.items).map_err(|error| chain(&error))
}

/// The Secret in the namespace of the service that serves the webhooks.
async fn secret(client: &Client, webhooks: &[(Endpoint, Read<Option<Value>>)]) -> Read<Option<Secret>> {
    let namespace = webhooks.iter().find_map(|(_, configuration)| {
        let configuration = configuration.as_ref().ok()?.as_ref()?;
        configuration["webhooks"][0]["clientConfig"]["service"]["namespace"].as_str()
    });
    let Some(namespace) = namespace else { return Ok(None) };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    api.get_opt(SECRET).await.map_err(|error| chain(&error))
}

async fn may(client: &Client, right: Right) -> Read<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(right.verb.to_owned()),
                group: Some(right.group.to_owned()),
                resource: Some(right.resource.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|error| chain(&error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// An error and what caused it, in one line.
fn chain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    causes(error)
}

/// `namespace/name` of an object.
pub(super) fn named(object: &impl kube::Resource) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
