//! Carries out what a verb decided: one write of the set, on the condition that nobody changed it meanwhile.

use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use coppice_api::types::PodCliqueSet;
use coppice_core::command::merge_patch;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::change::{self, Decision, Wanted};
use super::{Place, Waiting, history, text, wait};
use crate::gather;
use crate::output::{Format, advice};
use crate::view::build;
use crate::view::revisions::Revisions;

/// Who writes, in `managedFields`.
const MANAGER: &str = "coppice-rollout";

/// The operator writes the status of a set during an update, so the version moves under a write.
const MOST_ATTEMPTS: u32 = 20;

/// Decides, writes, prints, and waits where that was asked for.
pub(super) async fn run(place: &Place, wanted: &Wanted, dry_run: bool, waiting: Waiting) -> Result<ExitCode> {
    let sets: Api<PodCliqueSet> = Api::namespaced(place.client.clone(), &place.namespace);
    let mut generation = None;
    for _ in 0..MOST_ATTEMPTS {
        let set = gather::set(&place.client, &place.namespace, &place.name).await?;
        if generation.is_some() && generation != set.metadata.generation {
            let problem = format!("PodCliqueSet {}/{} was changed meanwhile", place.namespace, place.name);
            bail!(advice(
                &problem,
                "look at it, and run the command again: coppice rollout history"
            ));
        }
        generation = set.metadata.generation;
        let mut objects = gather::objects(&place.client, &place.namespace, &place.name).await?;
        objects.revisions = history::stored(place).await?;
        let revisions = Revisions::of(&set, &objects.revisions);
        let view = build::set_view(&set, &objects);
        let mut decision = change::decide(&set, &revisions, &view, wanted)?;
        decision.view.dry_run = dry_run;
        let Some(patch) = patch(&set, &decision)? else {
            return finish(place, wanted, &decision, set.metadata.generation, dry_run, waiting).await;
        };
        let parameters = PatchParams {
            dry_run,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match sets.patch(&place.name, &parameters, &Patch::Merge(patch)).await {
            Ok(written) => {
                return finish(place, wanted, &decision, written.metadata.generation, dry_run, waiting).await;
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) => {
                let problem = format!("the API server refuses it: {}", status.message);
                let next = match status.code {
                    403 => "ask for the right to patch podcliquesets, or use another --context",
                    _ => {
                        "compare the revisions with: coppice rollout history --revision; apply a manifest that is accepted"
                    }
                };
                return Err(anyhow!(advice(&problem, next)));
            }
            Err(error) => return Err(error).context("the set could not be written"),
        }
    }
    let problem = format!(
        "PodCliqueSet {}/{} changed during each attempt",
        place.namespace, place.name
    );
    bail!(advice(&problem, "run the command again"))
}

/// What turns the set into the desired one, on the condition that it is as it was read.
fn patch(set: &PodCliqueSet, decision: &Decision) -> Result<Option<Value>> {
    let Some(desired) = &decision.desired else {
        return Ok(None);
    };
    let part = |set: &PodCliqueSet| {
        anyhow::Ok(
            json!({"metadata": {"annotations": set.metadata.annotations}, "spec": serde_json::to_value(&set.spec)?}),
        )
    };
    let Some(mut patch) = merge_patch(&part(set)?, &part(desired)?) else {
        return Ok(None);
    };
    patch["metadata"]["resourceVersion"] = json!(set.metadata.resource_version);
    Ok(Some(patch))
}

async fn finish(
    place: &Place,
    wanted: &Wanted,
    decision: &Decision,
    generation: Option<i64>,
    dry_run: bool,
    waiting: Waiting,
) -> Result<ExitCode> {
    let waits = waiting.asked() && !dry_run;
    // One document for programs: with --wait that is the outcome.
    if !waits || place.output == Format::Text || matches!(wanted, Wanted::Pause) {
        place.output.print(&decision.view, text::change)?;
    }
    match wanted {
        _ if !waits => Ok(ExitCode::SUCCESS),
        Wanted::Pause => wait::observed(place, waiting, generation.unwrap_or(0)).await,
        _ => wait::status(place, waiting).await,
    }
}
