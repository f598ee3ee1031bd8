//! The PodGangMap of a replica, written before anything that follows from it: a gang, a label or a gate that names an
//! epoch is never there before the map says so. One writer, and one conditional write for each change of composition.

use coppice_api::names::annotations;
use serde_json::json;

use super::{Draft, Replica};
use crate::command::{Command, Kind, Urgency, merge_patch};
use crate::gang_map::{MadeFrom, entry_of_gang};
use crate::objects;
use crate::snapshot::target_of;
use crate::update::coherent::Map;
use crate::update::in_step::Step;

pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) {
    let (context, index) = (replica.context, replica.layout.index);
    let stored = replica.snapshot.map.as_deref();
    let wanted = replica.layout.map.to_spec(index, stored.map(|stored| &stored.spec));
    let made_from = MadeFrom::of(context.facts.set, replica.snapshot);
    let Some(stored) = stored else {
        let map = objects::gang_map(&context.facts, index, &wanted, &made_from);
        draft.children.push(Command::Create(map));
        return;
    };
    if stored.metadata.deletion_timestamp.is_some() || stored.spec == wanted {
        return;
    }
    if let Some(patch) = merge_patch(&json!(stored.spec), &json!(wanted)) {
        let target = target_of(Kind::PodGangMap, &stored.metadata);
        let patch = json!({
            "metadata": {"annotations": {annotations::MADE_FROM_GENERATIONS: made_from.to_text()}},
            "spec": patch,
        });
        draft.children.push(Command::Merge { target, patch });
    }
}

/// The change that the planner of coherent updates decided on, and nothing else. One that is being deleted is made again
/// when it is gone.
pub(crate) fn change(replica: &Replica<'_>, step: &Step, map: &Map) -> Option<Command> {
    let (context, index) = (replica.context, replica.layout.index);
    let spec = step.to_spec(context, replica.snapshot, map);
    let made_from = MadeFrom::of(context.facts.set, replica.snapshot);
    match replica.snapshot.map.as_deref() {
        None => Some(Command::Create(objects::gang_map(
            &context.facts,
            index,
            &spec,
            &made_from,
        ))),
        Some(stored) if stored.metadata.deletion_timestamp.is_some() => None,
        Some(stored) => merge_patch(&json!(stored.spec), &json!(spec)).map(|patch| Command::Merge {
            target: target_of(Kind::PodGangMap, &stored.metadata),
            patch: json!({
                "metadata": {"annotations": {annotations::MADE_FROM_GENERATIONS: made_from.to_text()}},
                "spec": patch,
            }),
        }),
    }
}

/// Writes what has to be remembered of an update. The planner changes the map only when that is stored.
pub(crate) fn remember(replica: &Replica<'_>, step: &Step) -> Option<Command> {
    let stored = replica.snapshot.map.as_deref()?;
    step.status_patch(replica.snapshot).map(|patch| Command::Status {
        target: target_of(Kind::PodGangMap, &stored.metadata),
        patch,
        urgency: if step.outcome.awaits_record {
            Urgency::Now
        } else {
            Urgency::Settling
        },
    })
}

/// Whether the stored map was made from a later state of the set than this snapshot: whatever would be planned from it
/// was decided otherwise already. The events that the snapshot lacks are on their way and cause the next plan.
pub(crate) fn snapshot_is_behind(replica: &Replica<'_>) -> bool {
    let stored = replica.snapshot.map.as_deref();
    let view = || MadeFrom::of(replica.context.facts.set, replica.snapshot);
    stored.is_some_and(|stored| MadeFrom::read(stored).is_ahead_of(&view()))
}

/// Whether the map is stored as it should be, and no gang of another operator is left that knows no map.
pub(crate) fn is_followed(replica: &Replica<'_>) -> bool {
    let Some(stored) = replica.snapshot.map.as_deref() else {
        return false;
    };
    let wanted = || replica.layout.map.to_spec(replica.layout.index, Some(&stored.spec));
    let mut gangs = replica.snapshot.gangs.values();
    (replica.by_map || stored.spec == wanted()) && gangs.all(|gang| entry_of_gang(gang).is_some())
}
