//! Keeps the node's ResourceSlice as the hardware says.
//!
//! The kubelet deletes slices of a plugin that it has not seen for a while, and NVIDIA's plugin leaves its own behind: both
//! are watched.

use std::sync::Arc;
use std::time::Duration;

use coppice_domains::api::names;
use coppice_domains::decide::plugin::devices::published;
use coppice_domains::decide::plugin::slice::{FoundSlice, SliceStep, next_step};
use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::{Cache, Kind, Meta, ObjectKey, Typed, reflect};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::core::ApiResource;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::plugin::Plugin;

const RETRIES: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(30),
    jitter: 0.0,
};

/// Publishes until `stop` is cancelled.
pub(crate) async fn run(plugin: Arc<Plugin>, stop: CancellationToken) {
    let cache = Cache::default();
    let slices: Kind<Typed<ResourceSlice>> = cache.kind(ApiResource::erase::<ResourceSlice>(&()), Typed::default());
    let bell = Arc::new(Notify::new());
    let ring = bell.clone();
    slices.on_change(move |_| ring.notify_one());
    let node = &plugin.settings.node;
    let ours = reflect::Options {
        field_selector: Some(format!("spec.nodeName={node},spec.driver={}", names::DRIVER)),
        ..reflect::Options::default()
    };
    let watching = reflect::reflect(plugin.client.clone(), slices.clone(), ours, stop.clone());
    let publishing = async {
        cache.wait_synced().await;
        let mut changes = plugin.changes.subscribe();
        let mut failures = 0;
        loop {
            match step(&plugin, &cache, &slices).await {
                Ok(true) => failures = 0,
                Ok(false) => {
                    failures = 0;
                    tokio::select! {
                        () = bell.notified() => {}
                        changed = changes.changed() => if changed.is_err() { return },
                    }
                }
                Err(error) => {
                    failures += 1;
                    warn!(%error, "the devices of this node are not published");
                    tokio::time::sleep(RETRIES.full_delay(failures)).await;
                }
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = async { stop.run_until_cancelled(publishing).await; } => {}
    }
}

/// Does one thing. Returns whether there was one.
async fn step(plugin: &Plugin, cache: &Cache, slices: &Kind<Typed<ResourceSlice>>) -> Result<bool, WriteError> {
    let name = plugin.settings.node.as_str();
    let Some(node) = plugin.nodes.latest(&ObjectKey::new("", name)) else {
        return Ok(false);
    };
    let Ok(clique) = plugin.clique_id() else {
        return Ok(false);
    };
    let devices = published(&clique, plugin.settings.host_managed);
    let known = |name: &str| {
        slices
            .latest(&ObjectKey::new("", name))
            .and_then(|slice| Meta::of(&*slice))
    };
    let found: Vec<FoundSlice> = slices.all(&cache.moment()).iter().map(|slice| found(slice)).collect();
    let uid = node.metadata.uid.as_deref().unwrap_or_default();
    let written = match next_step(name, uid, &devices, &found) {
        SliceStep::Rest => return Ok(false),
        SliceStep::Create(slice) => {
            info!(clique, "publishes the devices of this node");
            plugin.writer.create(slices, None, &slice).await.map(drop)
        }
        SliceStep::Patch(name, patch) => {
            let Some(meta) = known(&name) else { return Ok(true) };
            let condition = Precondition::version(&meta);
            plugin
                .writer
                .patch(slices, &meta.key, &condition, Patch::Merge(patch))
                .await
                .map(drop)
        }
        SliceStep::Delete(name) => {
            let Some(meta) = known(&name) else { return Ok(true) };
            plugin.writer.delete(slices, &meta, DeleteOptions::default()).await
        }
    };
    written.map(|()| true)
}

fn found(slice: &ResourceSlice) -> FoundSlice {
    let devices = slice.spec.devices.as_ref();
    FoundSlice {
        name: slice.metadata.name.clone().unwrap_or_default(),
        generation: slice.spec.pool.generation,
        slice_count: slice.spec.pool.resource_slice_count,
        devices: devices
            .and_then(|devices| serde_json::to_value(devices).ok())
            .unwrap_or(Value::Null),
    }
}
