//! A daemon: its watch, and for two of the ways its writes.
//!
//! The optimistic one does as NVIDIA's: lowest index that no row has, a full update with the version it has seen, a new
//! attempt with each event or after a pause that doubles, five requests a second with a burst of ten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use coppice_domains::api::{Clique, DaemonRow};
use futures::StreamExt as _;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::ObjectMeta;
use rand::RngExt as _;
use serde_json::json;
use tokio::sync::Barrier;

use crate::plane::{CLIQUE, Counts};
use crate::{NODES, Way};

const MAX: i64 = 18;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(6);
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_millis(200);

pub(crate) struct Daemon {
    pub(crate) api: Api<Clique>,
    pub(crate) object: String,
    pub(crate) node: String,
    pub(crate) address: String,
    pub(crate) way: Way,
    pub(crate) counts: Arc<Counts>,
}

/// When a daemon knew what it needs.
pub(crate) struct Seen {
    pub(crate) index: Instant,
    pub(crate) full: Instant,
}

/// client-go's limit on requests.
struct Limit {
    tokens: f64,
    at: Instant,
}

impl Limit {
    fn new() -> Self {
        Self {
            tokens: f64::from(BURST),
            at: Instant::now(),
        }
    }

    async fn pass(&mut self) {
        let now = Instant::now();
        let refilled = now.duration_since(self.at).as_secs_f64() / REFILL.as_secs_f64();
        self.tokens = (self.tokens + refilled).min(f64::from(BURST)) - 1.0;
        self.at = now;
        if self.tokens < 0.0 {
            tokio::time::sleep(REFILL.mul_f64(-self.tokens)).await;
        }
    }
}

fn lowest_free(rows: &[DaemonRow], me: &str) -> Option<i64> {
    let others = rows.iter().filter(|row| row.node_name != me);
    let taken: BTreeSet<i64> = others.filter_map(|row| row.index).collect();
    (0..MAX).find(|index| !taken.contains(index))
}

impl Daemon {
    pub(crate) async fn run(self, ready: Arc<Barrier>) -> Result<Seen> {
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.object))
            .timeout(290);
        let mut events = self.api.watch(&params, "0").await?.boxed();
        ready.wait().await;
        let (mut limit, mut pause, mut stored): (_, _, Option<Clique>) = (Limit::new(), FIRST_PAUSE, None);
        let (mut index, mut retry) = (None, self.way != Way::GroupCommit);
        loop {
            let rows = stored
                .as_ref()
                .map(|clique| clique.daemons.as_slice())
                .unwrap_or_default();
            let own = rows
                .iter()
                .find(|row| row.node_name == self.node && row.index.is_some());
            let unique = own.is_some_and(|own| rows.iter().filter(|row| row.index == own.index).count() == 1);
            if unique {
                index.get_or_insert_with(Instant::now);
            }
            let complete = rows.iter().filter(|row| !row.ip_address.is_empty()).count() == NODES;
            let indices: BTreeSet<_> = rows.iter().filter_map(|row| row.index).collect();
            if let (Some(index), true) = (index, complete && indices.len() == NODES) {
                let full = Instant::now();
                return Ok(Seen { index, full });
            }
            if retry {
                retry = false;
                let written = match self.way {
                    Way::Optimistic if own.is_none() => {
                        limit.pass().await;
                        self.insert(stored.as_ref()).await?
                    }
                    Way::Apply if own.is_none() => self.apply(rows).await?,
                    _ => None,
                };
                if let Some(clique) = written {
                    stored = Some(clique);
                    continue;
                }
            }
            let wants = self.way == Way::Optimistic && own.is_none();
            let jitter = rand::rng().random_range(0.75..1.25);
            tokio::select! {
                event = events.next() => {
                    match event.context("the watch ended")?? {
                        WatchEvent::Added(clique) | WatchEvent::Modified(clique) => stored = newer(stored, clique),
                        WatchEvent::Error(status) => bail!("the watch failed: {}", status.message),
                        WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                    }
                    // Each event is an item of its own, which begins with the shortest pause.
                    pause = FIRST_PAUSE;
                    retry = wants;
                }
                () = tokio::time::sleep(pause.mul_f64(jitter)), if wants => {
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    retry = true;
                }
            }
        }
    }

    fn row(&self, index: i64) -> DaemonRow {
        DaemonRow {
            node_name: self.node.clone(),
            ip_address: self.address.clone(),
            clique_id: CLIQUE.to_owned(),
            index: Some(index),
            ..DaemonRow::default()
        }
    }

    async fn insert(&self, stored: Option<&Clique>) -> Result<Option<Clique>> {
        let rows = stored.map(|clique| clique.daemons.as_slice()).unwrap_or_default();
        let index = lowest_free(rows, &self.node).context("the clique is full")?;
        let params = PostParams::default();
        let answer = if let Some(stored) = stored {
            let mut next = stored.clone();
            next.daemons.push(self.row(index));
            self.api.replace(&self.object, &params, &next).await
        } else {
            let metadata = ObjectMeta {
                name: Some(self.object.clone()),
                ..ObjectMeta::default()
            };
            let clique = Clique {
                metadata,
                daemons: vec![self.row(index)],
                ..Clique::default()
            };
            self.api.create(&params, &clique).await
        };
        self.counts.count(answer)
    }

    /// Applies the own row until nobody else has its index in the answer.
    async fn apply(&self, rows: &[DaemonRow]) -> Result<Option<Clique>> {
        let mut index = lowest_free(rows, &self.node).context("the clique is full")?;
        loop {
            let fields = json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainClique",
                "metadata": {"name": self.object}, "daemons": [self.row(index)]});
            let params = PatchParams::apply(&self.node);
            let answer = self.api.patch(&self.object, &params, &Patch::Apply(&fields)).await;
            let Some(clique) = self.counts.count(answer)? else {
                continue;
            };
            let twice = clique.daemons.iter().filter(|row| row.index == Some(index)).count() > 1;
            if !twice {
                return Ok(Some(clique));
            }
            index = lowest_free(&clique.daemons, &self.node).context("the clique is full")?;
        }
    }
}

/// The newer of what is held and what the watch says.
fn newer(held: Option<Clique>, seen: Clique) -> Option<Clique> {
    let version = |clique: &Clique| {
        clique
            .metadata
            .resource_version
            .as_deref()
            .and_then(|text| text.parse::<u64>().ok())
    };
    match held {
        Some(held) if version(&held) >= version(&seen) => Some(held),
        _ => Some(seen),
    }
}
