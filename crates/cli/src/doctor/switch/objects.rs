//! Everything that another operator left, as it is stored.

use coppice_api::names::labels;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};

use crate::output::causes;

/// Kinds whose objects a take-over reads, owners before what they own.
pub(super) const KINDS: [(&str, &str, &str); 8] = [
    ("grove.io", "v1alpha1", "ClusterTopologyBinding"),
    ("grove.io", "v1alpha1", "PodCliqueSet"),
    ("apps", "v1", "ControllerRevision"),
    ("grove.io", "v1alpha1", "PodCliqueScalingGroup"),
    ("grove.io", "v1alpha1", "PodClique"),
    ("grove.io", "v1alpha1", "PodGangMap"),
    ("scheduler.grove.io", "v1alpha1", "PodGang"),
    ("", "v1", "Pod"),
];

/// What another operator left.
pub(super) struct Left {
    /// All objects with the index of their kind, in the order of [`KINDS`].
    pub(super) all: Vec<(usize, Value)>,
    pub(super) pods: Vec<Value>,
    pub(super) maps: Vec<Value>,
    /// Objects of the kind that ClusterTopologyBinding has replaced.
    pub(super) legacy_topologies: Result<i64, String>,
    /// Why not everything could be read.
    pub(super) unread: Option<String>,
}

impl Left {
    /// Nothing.
    pub(super) fn empty() -> Self {
        Self {
            all: Vec::new(),
            pods: Vec::new(),
            maps: Vec::new(),
            legacy_topologies: Ok(0),
            unread: None,
        }
    }

    pub(super) async fn read(client: &Client) -> Self {
        let mut left = Self::empty();
        for (index, (group, version, kind)) in KINDS.into_iter().enumerate() {
            let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
            let parameters = match kind {
                "PodCliqueSet" | "ClusterTopologyBinding" => ListParams::default(),
                _ => ListParams::default().labels(&managed),
            };
            match list(client, &GroupVersionKind::gvk(group, version, kind), &parameters).await {
                Ok(objects) => left.add(index, objects),
                Err(error) => left.unread = Some(format!("{kind}: {error}")),
            }
        }
        let legacy = GroupVersionKind::gvk("grove.io", "v1alpha1", "ClusterTopology");
        let legacy = list(client, &legacy, &ListParams::default().limit(500)).await;
        left.legacy_topologies = legacy.map(|found| i64::try_from(found.len()).unwrap_or(i64::MAX));
        left
    }

    pub(super) fn add(&mut self, index: usize, objects: Vec<Value>) {
        match KINDS[index].2 {
            "Pod" => self.pods.extend(objects.iter().cloned()),
            "PodGangMap" => self.maps.extend(objects.iter().cloned()),
            _ => {}
        }
        self.all.extend(objects.into_iter().map(|object| (index, object)));
    }
}

/// The resource of a kind; its plural is the regular one for all kinds here.
pub(super) fn resource(kind: &GroupVersionKind) -> ApiResource {
    match kind.kind.as_str() {
        "ClusterTopology" => ApiResource::from_gvk_with_plural(kind, "clustertopologies"),
        _ => ApiResource::from_gvk(kind),
    }
}

/// All objects of a kind; none where the cluster does not serve it.
async fn list(client: &Client, kind: &GroupVersionKind, parameters: &ListParams) -> Result<Vec<Value>, String> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
    match api.list(parameters).await {
        Ok(list) => Ok(list.items.iter().map(|object| json!(object)).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(causes(&error)),
    }
}
