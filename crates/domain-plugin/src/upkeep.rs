//! What is done at the start and every ten minutes: hardware is read again, and what requests have left behind is removed.
//!
//! A claim that was begun and whose object is gone is unprepared; tombstones expire; the directory of a domain goes when
//! the domain does, not with its daemon, whose successor may already use it. The hardware announces no changes, so it is
//! read by the clock.

use std::sync::Arc;

use coppice_domains::api::names;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::hardware::Probe;
use crate::plugin::Plugin;
use crate::reads::ReadError;
use coppice_runtime::cache::ObjectKey;

/// Runs until `stop` is cancelled.
pub(crate) async fn run(plugin: Arc<Plugin>, probe: Arc<dyn Probe>, stop: CancellationToken) {
    let work = async {
        loop {
            sweep(&plugin).await;
            if let Err(problem) = label_clique(&plugin).await {
                warn!(problem, "the node is not labelled with its clique");
            }
            tokio::time::sleep(plugin.settings.refresh).await;
            refresh(&plugin, &*probe).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

async fn refresh(plugin: &Plugin, probe: &dyn Probe) {
    match probe.read().await {
        Ok(hardware) if hardware != *plugin.hardware.read() => {
            *plugin.hardware.write() = hardware;
            plugin.changes.send_modify(|count| *count += 1);
            match plugin.clique_id() {
                Ok(clique) => info!(clique, "the hardware of this node has changed"),
                Err(error) => warn!(%error, "the fabric of this node is not usable now"),
            }
        }
        Ok(_) => {}
        Err(error) => warn!(%error, "the hardware of this node cannot be read again"),
    }
}

/// Removes what nothing needs any more.
pub(crate) async fn sweep(plugin: &Plugin) {
    let unfinished: Vec<(String, String, String)> = {
        let mut store = plugin.store.lock().await;
        if let Some(next) = store.checkpoint().expired(plugin.clock.now())
            && let Err(error) = store.replace(next)
        {
            warn!(%error, "expired claims are not forgotten");
        }
        let entries = store.checkpoint().unfinished();
        entries
            .map(|(uid, entry)| (uid.clone(), entry.namespace.clone(), entry.name.clone()))
            .collect()
    };
    for (uid, namespace, name) in unfinished {
        match plugin.reads.claim_exists(&namespace, &name, &uid).await {
            Ok(true) => {}
            Ok(false) => {
                info!(claim = format!("{namespace}/{name}"), "unprepares a claim that is gone");
                if let Err(problem) = plugin.unprepare(&uid).await {
                    warn!(problem, "a claim that is gone is not unprepared");
                }
            }
            Err(ReadError::Gone(problem) | ReadError::Failed(problem)) => warn!(problem, "will look again"),
        }
    }
    let here = plugin.store.lock().await.domains();
    if here.is_empty() {
        return;
    }
    let Ok(existing) = plugin.reads.domain_uids().await else {
        return;
    };
    let store = plugin.store.lock().await;
    for domain in here.iter().filter(|domain| !existing.contains(domain)) {
        let used = store
            .checkpoint()
            .claims
            .values()
            .any(|entry| entry.domain_uid == **domain);
        if !used && let Err(error) = store.remove_domain(domain) {
            warn!(%error, "the directory of a domain that is gone is not removed");
        }
    }
}

/// Labels the node with its clique, as GPU feature discovery does.
async fn label_clique(plugin: &Plugin) -> Result<(), String> {
    if !plugin.settings.clique_label {
        return Ok(());
    }
    let clique = plugin.clique_id().map_err(|error| error.to_string())?;
    set_clique_label(plugin, Some(clique.as_str()).filter(|clique| !clique.is_empty())).await
}

/// Sets or removes the label.
pub(crate) async fn set_clique_label(plugin: &Plugin, clique: Option<&str>) -> Result<(), String> {
    let Some(node) = plugin.nodes.latest(&ObjectKey::new("", plugin.settings.node.as_str())) else {
        return Ok(());
    };
    let labels = node.metadata.labels.as_ref();
    let stored = labels
        .and_then(|labels| labels.get(names::GPU_CLIQUE_LABEL))
        .map(String::as_str);
    if stored == clique {
        return Ok(());
    }
    let value = clique.map_or(Value::Null, |clique| json!(clique));
    let patch = json!({"metadata": {"labels": {names::GPU_CLIQUE_LABEL: value}}});
    plugin.patch_node(&node, patch).await
}
