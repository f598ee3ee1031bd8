//! Which commands of a plan are carried out now: one pass over the plan asks what was refused before ([`Trouble`]) and what
//! should wait for more ([`Pacing`]). What is held back is planned again when it is due.

use coppice_core::command::Command;
use jiff::Timestamp;

use crate::keys::Key;
use crate::pacing::{Load, Pacing};
use crate::trouble::Trouble;

/// Why a command is not carried out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// When it is due; none when it waits for another command that is held.
    pub(crate) until: Option<Timestamp>,
    /// Whether the stages after its own wait as well.
    pub(crate) with_later_stages: bool,
}

/// The part of a plan that is carried out now.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Released {
    /// Commands, stage by stage.
    pub(crate) stages: Vec<Vec<Command>>,
    /// When the first of the others is due.
    pub(crate) wake: Option<Timestamp>,
}

/// Takes out of a plan what should not be carried out now.
pub(crate) fn release(
    trouble: &Trouble,
    pacing: &Pacing,
    key: &Key,
    stages: Vec<Vec<Command>>,
    now: Timestamp,
    load: Load,
) -> Released {
    let mut trouble = trouble.round(key, &stages, now);
    let mut pacing = pacing.round(now, load);
    let mut released = Released::default();
    for mut stage in stages {
        let mut ends_here = false;
        stage.retain(|command| {
            let Some(hold) = trouble.hold(command).or_else(|| pacing.hold(command)) else {
                return true;
            };
            released.wake = released.wake.into_iter().chain(hold.until).min();
            ends_here |= hold.with_later_stages;
            false
        });
        if !stage.is_empty() {
            released.stages.push(stage);
        }
        if ends_here {
            break;
        }
    }
    released
}
