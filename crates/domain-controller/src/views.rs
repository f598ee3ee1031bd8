//! What the cache keeps of each kind: small views, decoded from the wire.
//!
//! Owns the selection of fields. Nothing here trusts a text: UIDs, cliques and addresses are checked where they are used
//! by `coppice-domains`. Never keeps a specification.

use coppice_domains::api::{limits, names};
use coppice_domains::decide::domain::Existing;
use coppice_domains::decide::plugin::devices::published_clique;
use coppice_domains::decide::render::{TEMPLATE_HASH, gates_of};
use coppice_domains::decide::rows::PodFacts;
use coppice_runtime::cache::{Interner, Meta, Projection};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

fn label(metadata: &Value, name: &str) -> Option<String> {
    metadata["labels"][name].as_str().map(str::to_owned)
}

/// A node: which domain it is labelled for, and which clique a label names.
#[derive(Debug)]
pub(crate) struct NodeView {
    pub(crate) meta: Meta,
    pub(crate) domain_uid: Option<String>,
    /// What GPU feature discovery found; for nodes whose plugin does not publish its clique.
    pub(crate) gpu_clique: Option<String>,
}

/// Projects nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes;

impl Projection for Nodes {
    type View = NodeView;

    fn project(&self, meta: &Meta, object: &RawValue, _: &Interner) -> Result<NodeView, serde_json::Error> {
        let Envelope { metadata } = serde_json::from_str(object.get())?;
        Ok(NodeView {
            meta: meta.clone(),
            domain_uid: label(&metadata, names::DOMAIN_LABEL),
            gpu_clique: label(&metadata, names::GPU_CLIQUE_LABEL).filter(|clique| limits::is_clique_id(clique)),
        })
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    metadata: Value,
}

/// A slice of this driver: which clique its node publishes.
#[derive(Debug)]
pub(crate) struct SliceView {
    pub(crate) node: String,
    pub(crate) generation: i64,
    pub(crate) clique: Option<String>,
}

/// Projects slices.
#[derive(Debug, Default)]
pub(crate) struct Slices;

impl Projection for Slices {
    type View = SliceView;

    fn project(&self, _: &Meta, object: &RawValue, _: &Interner) -> Result<SliceView, serde_json::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            spec: Value,
        }
        let Wire { spec } = serde_json::from_str(object.get())?;
        Ok(SliceView {
            node: spec["nodeName"].as_str().unwrap_or_default().to_owned(),
            generation: spec["pool"]["generation"].as_i64().unwrap_or_default(),
            clique: published_clique(&spec["devices"]),
        })
    }
}

/// A daemon pod.
#[derive(Debug)]
pub(crate) struct DaemonPodView {
    pub(crate) domain_uid: Option<String>,
    pub(crate) facts: PodFacts,
}

/// Projects daemon pods.
#[derive(Debug, Default)]
pub(crate) struct DaemonPods;

impl Projection for DaemonPods {
    type View = DaemonPodView;

    fn project(&self, meta: &Meta, object: &RawValue, _: &Interner) -> Result<DaemonPodView, serde_json::Error> {
        let pod: Value = serde_json::from_str(object.get())?;
        Ok(daemon_pod(&meta.uid, &pod))
    }
}

/// Reads a daemon pod as it is on the wire.
pub(crate) fn daemon_pod(uid: &str, pod: &Value) -> DaemonPodView {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let created = pod["metadata"]["creationTimestamp"].as_str();
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let facts = PodFacts {
        uid: uid.to_owned(),
        node: text(&pod["spec"]["nodeName"]),
        created: created
            .and_then(|time| time.parse().ok())
            .unwrap_or(Timestamp::UNIX_EPOCH),
        address: text(&pod["status"]["podIP"]),
        ready: conditions.is_some_and(|conditions| conditions.iter().any(is_ready)),
        ended: matches!(phase, "Succeeded" | "Failed"),
        writes_own_row: label(&pod["metadata"], names::MANAGED_ROWS_LABEL).as_deref() != Some(names::MANAGED_ROWS),
        reported_clique: label(&pod["metadata"], names::CLIQUE_LABEL),
    };
    DaemonPodView {
        domain_uid: label(&pod["metadata"], names::DOMAIN_LABEL),
        facts,
    }
}

/// A DaemonSet or ResourceClaimTemplate.
#[derive(Debug)]
pub(crate) struct ObjectView {
    pub(crate) meta: Meta,
    pub(crate) existing: Existing,
    pub(crate) finalizers: Vec<String>,
    /// Value of the label that tells the two templates of a domain apart.
    pub(crate) target: Option<String>,
    /// `FEATURE_GATES` of a DaemonSet's daemons.
    pub(crate) gates: Option<String>,
    /// Fields of a DaemonSet's pod specification, so that a new template can remove what it does not have.
    pub(crate) pod_fields: Vec<String>,
}

/// Projects DaemonSets and ResourceClaimTemplates.
#[derive(Debug, Default)]
pub(crate) struct Objects;

impl Projection for Objects {
    type View = ObjectView;

    fn project(&self, meta: &Meta, object: &RawValue, _: &Interner) -> Result<ObjectView, serde_json::Error> {
        let object: Value = serde_json::from_str(object.get())?;
        let metadata = &object["metadata"];
        let finalizers: Vec<String> = metadata["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
            .collect();
        let existing = Existing {
            namespace: meta.key.namespace.to_string(),
            name: meta.key.name.to_string(),
            uid: meta.uid.to_string(),
            domain_uid: label(metadata, names::DOMAIN_LABEL),
            deleting: metadata["deletionTimestamp"].is_string(),
            has_finalizer: finalizers.iter().any(|finalizer| finalizer == names::FINALIZER),
            template_hash: metadata["annotations"][TEMPLATE_HASH].as_str().map(str::to_owned),
        };
        let pod = object["spec"]["template"]["spec"].as_object();
        Ok(ObjectView {
            meta: meta.clone(),
            existing,
            finalizers,
            target: label(metadata, names::TARGET_LABEL),
            gates: gates_of(&object).map(str::to_owned),
            pod_fields: pod.map(|fields| fields.keys().cloned().collect()).unwrap_or_default(),
        })
    }
}
