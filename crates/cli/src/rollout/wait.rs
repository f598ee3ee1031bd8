//! Reports how far an update is, and waits for it.

use std::future::pending;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use futures::StreamExt as _;

use super::progress::{self, RolloutView};
use super::{Place, Waiting, history, text};
use crate::gather::{self, Live};
use crate::output::Format;
use crate::view::build;
use crate::view::revisions::Revisions;

/// The exit code of a wait that took too long.
const TIMED_OUT: u8 = 5;

/// What the cluster says now.
async fn read(place: &Place) -> Result<RolloutView> {
    let set = gather::set(&place.client, &place.namespace, &place.name).await?;
    let mut objects = gather::objects(&place.client, &place.namespace, &place.name).await?;
    objects.revisions = history::stored(place).await?;
    let revisions = Revisions::of(&set, &objects.revisions);
    Ok(progress::of(&set, &revisions, &build::set_view(&set, &objects)))
}

/// Prints how far the update is, after waiting for it where that was asked for.
pub(super) async fn status(place: &Place, waiting: Waiting) -> Result<ExitCode> {
    let now = read(place).await?;
    if !waiting.asked() || !now.state.may_change() {
        return print(place, &now, now.state.code());
    }
    let (view, code) = until(place, waiting, now, |view| !view.state.may_change()).await?;
    print(place, &view, code)
}

/// Waits until a change of the set is observed by the operator.
pub(super) async fn observed(place: &Place, waiting: Waiting, generation: i64) -> Result<ExitCode> {
    let now = read(place).await?;
    let seen = |view: &RolloutView| view.observed_generation >= generation;
    if seen(&now) {
        return Ok(ExitCode::SUCCESS);
    }
    let (view, code) = until(place, waiting, now, seen).await?;
    if code == TIMED_OUT {
        return print(place, &view, code);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(place: &Place, view: &RolloutView, code: u8) -> Result<ExitCode> {
    place.output.print(view, text::status)?;
    Ok(ExitCode::from(code))
}

/// Follows the set until the update is as it should be; also returns the exit code.
async fn until(
    place: &Place,
    waiting: Waiting,
    now: RolloutView,
    done: impl Fn(&RolloutView) -> bool,
) -> Result<(RolloutView, u8)> {
    let (live, mut changes) = Live::follow(&place.client, &place.namespace, &place.name).await?;
    let mut last = now;
    let mut said = String::new();
    let following = async {
        while let Some(change) = changes.next().await {
            change?;
            let Some((set, objects)) = live.now() else { continue };
            let revisions = Revisions::of(&set, &objects.revisions);
            last = progress::of(&set, &revisions, &build::set_view(&set, &objects));
            if done(&last) {
                // The watches of its pods may be behind that of the set: look again, at everything.
                last = read(place).await?;
            }
            if done(&last) {
                return Ok(());
            }
            let line = text::line(&last);
            if place.output == Format::Text && line != said {
                errln!("waiting: {line}");
                said = line;
            }
        }
        Err(anyhow!("the watch ended"))
    };
    let limit = async {
        match waiting.timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => pending().await,
        }
    };
    let in_time = tokio::select! {
        result = following => result.map(|()| true)?,
        () = limit => false,
    };
    let code = if in_time { last.state.code() } else { TIMED_OUT };
    Ok((last, code))
}
