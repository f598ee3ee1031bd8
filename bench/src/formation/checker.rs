//! Follows every revision of every clique and checks what must hold at each: no index twice, none out of bounds, none that
//! moves. For server-side apply, which stores duplicates on its way, only the last revision is checked.

use std::collections::BTreeMap;

use anyhow::Result;
use coppice_domains::api::Clique;
use futures::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::NODES;

pub(crate) struct Checker {
    api: Api<Clique>,
    revisions: UnboundedReceiver<Clique>,
    task: JoinHandle<()>,
}

impl Checker {
    pub(crate) async fn start(api: Api<Clique>) -> Result<Self> {
        let version = api
            .list(&ListParams::default())
            .await?
            .metadata
            .resource_version
            .unwrap_or_default();
        let mut events = api.watch(&WatchParams::default().timeout(290), &version).await?.boxed();
        let (sender, revisions) = unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                if let WatchEvent::Added(clique) | WatchEvent::Modified(clique) = event
                    && sender.send(clique).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { api, revisions, task })
    }

    /// What was violated. `always`: at any revision, else at the last one.
    pub(crate) async fn stop(mut self, always: bool) -> Result<Vec<String>> {
        let last = self.api.list(&ListParams::default()).await?.items;
        let newest: BTreeMap<String, Option<String>> = last
            .iter()
            .map(|clique| (clique.name_any(), clique.resource_version()))
            .collect();
        let mut seen: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut indices: BTreeMap<(String, String), i64> = BTreeMap::new();
        let mut violations = Vec::new();
        // The watch is behind the list by what is on its way.
        while seen != newest {
            let Some(clique) = self.revisions.recv().await else {
                violations.push("the checker lost its watch".to_owned());
                break;
            };
            seen.insert(clique.name_any(), clique.resource_version());
            if always {
                violations.extend(unique(&clique));
                for row in &clique.daemons {
                    let key = (clique.name_any(), row.node_name.clone());
                    let index = row.index.unwrap_or(-1);
                    if *indices.entry(key).or_insert(index) != index {
                        violations.push(format!("{} of {} has moved", row.node_name, clique.name_any()));
                    }
                }
            }
        }
        self.task.abort();
        for clique in &last {
            violations.extend(unique(clique));
            if clique.daemons.len() != NODES {
                violations.push(format!("{} has {} rows", clique.name_any(), clique.daemons.len()));
            }
        }
        Ok(violations)
    }
}

fn unique(clique: &Clique) -> Option<String> {
    let mut indices: Vec<i64> = clique.daemons.iter().filter_map(|row| row.index).collect();
    indices.sort_unstable();
    let bounded = indices.iter().all(|index| (0..18).contains(index));
    let twice = indices.windows(2).any(|pair| pair[0] == pair[1]);
    (twice || !bounded).then(|| format!("{} has indices {indices:?}", clique.name_any()))
}
