//! Our controller's writer of one clique, the code that ships, with its requests.

use std::sync::Arc;

use anyhow::Result;
use coppice_domains::api::Clique;
use coppice_domains::decide::rows::{Action, CliqueFacts, CliqueWriter, NodeMembership, Outcome, PodFacts, Timing};
use coppice_runtime::clock::{Clock as _, SystemClock, instant_of};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde_json::json;

use crate::NODES;
use crate::plane::{CLIQUE, Counts};

/// Writes until there is nothing left to write. All nodes and daemons appear at once, as they do for the other ways.
pub(crate) async fn run(api: Api<Clique>, object: String, clique: usize, counts: Arc<Counts>) -> Result<()> {
    let max = u32::try_from(NODES)?;
    let mut writer = CliqueWriter::new(CLIQUE, max, Timing::default());
    writer.observed_absent();
    let facts = facts(clique);
    loop {
        let (action, _plan) = writer.next(&facts, SystemClock.now());
        let answer = match action {
            Action::Create(rows) => {
                let metadata = ObjectMeta {
                    name: Some(object.clone()),
                    ..ObjectMeta::default()
                };
                let clique = Clique {
                    metadata,
                    daemons: rows,
                    ..Clique::default()
                };
                api.create(&PostParams::default(), &clique).await
            }
            Action::Replace { resource_version, rows } => {
                let patch = json!({"metadata": {"resourceVersion": resource_version}, "daemons": rows});
                api.patch(&object, &PatchParams::default(), &Patch::Merge(patch)).await
            }
            Action::Read => {
                writer.finished(Outcome::Stored(Box::new(api.get(&object).await?)));
                continue;
            }
            Action::WaitUntil(time) => {
                tokio::time::sleep_until(instant_of(&SystemClock, time)).await;
                continue;
            }
            Action::Rest => return Ok(()),
        };
        let outcome = match counts.count(answer)? {
            Some(stored) => Outcome::Stored(Box::new(stored)),
            None => Outcome::Conflict,
        };
        writer.finished(outcome);
    }
}

fn facts(clique: usize) -> CliqueFacts {
    let mut facts = CliqueFacts::default();
    for number in 0..NODES {
        let node = format!("node-{number:02}");
        facts.nodes.insert(node.clone(), NodeMembership::Member);
        let pod = PodFacts {
            uid: format!("pod-{number}"),
            node: node.clone(),
            created: SystemClock.now(),
            address: format!("10.{clique}.0.{}", number + 1),
            ready: false,
            ended: false,
            writes_own_row: false,
            reported_clique: None,
        };
        facts.pods.insert(node, vec![pod]);
    }
    facts
}
