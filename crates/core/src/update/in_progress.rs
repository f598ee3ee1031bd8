//! The condition `UpdateInProgress`: whether something is being updated, and whether it stands still.
//!
//! Owns the words and the clock of the deadline; where the update stands is counted by the statuses. Only reports: an
//! update that stands still goes on when it can. Its messages carry absolute times, so that time alone changes nothing.

use jiff::Timestamp;

use super::budget::Budget;
use crate::conditions::{ConditionType, Verdict, whole_seconds};
use crate::reasons::Reason;

/// An update that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Units with the new template.
    pub(crate) updated: u32,
    /// Units that there should be.
    pub(crate) desired: u32,
    /// When it last made progress.
    pub(crate) last_progress: Timestamp,
    /// The budget that it works with; none while it is not its turn, and no time counts.
    pub(crate) budget: Option<Budget>,
}

/// What the condition says, and when that changes by itself.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    /// When to look again.
    pub(crate) wake_at: Option<Timestamp>,
    /// Whether it stands still for longer than it may.
    pub(crate) stuck: bool,
}

/// Reports about a clique or a scaling group; `units` names what is counted.
pub(crate) fn report(open: Option<Open>, units: &str, now: Timestamp) -> Report {
    let Some(open) = open else {
        return Report {
            verdict: none(),
            wake_at: None,
            stuck: false,
        };
    };
    let (updated, desired) = (open.updated, open.desired);
    let counted = format!("{updated} of {desired} {units} have the new template");
    let since = whole_seconds(open.last_progress);
    let reported_at = open.budget.and_then(|budget| budget.reported_at(since));
    match reported_at {
        Some(at) if at <= now => Report {
            verdict: Verdict {
                kind: ConditionType::UpdateInProgress,
                status: None,
                reason: Reason::ProgressDeadlineExceeded,
                message: format!("{counted}; no progress since {since}, progressDeadline passed at {at}"),
            },
            wake_at: None,
            stuck: true,
        },
        _ => Report {
            verdict: progressing(match reported_at {
                Some(at) => format!("{counted}; reported as stuck at {at} unless another is updated"),
                None => counted,
            }),
            wake_at: reported_at,
            stuck: false,
        },
    }
}

/// Reports about a set, from what its replicas say; `stuck` names cliques and groups that stand still, `stalled` says what a
/// coherent update waits for that stands still.
pub(crate) fn of_set(
    open: bool,
    paused: bool,
    (updated, desired): (usize, u32),
    stuck: &[&str],
    stalled: Option<&str>,
) -> Verdict {
    if !open {
        return none();
    }
    let counted = format!("{updated} of {desired} replicas are updated");
    if paused {
        return Verdict {
            reason: Reason::UpdatePaused,
            ..progressing(format!("{counted}; paused by updateStrategy.paused"))
        };
    }
    if let Some(stalled) = stalled {
        return Verdict {
            status: None,
            reason: Reason::ProgressDeadlineExceeded,
            ..progressing(format!("{counted}; {stalled}"))
        };
    }
    let Some(stuck) = named(stuck) else {
        return progressing(counted);
    };
    Verdict {
        kind: ConditionType::UpdateInProgress,
        status: None,
        reason: Reason::ProgressDeadlineExceeded,
        message: format!("{counted}; {stuck} made no progress within progressDeadline"),
    }
}

/// The first of what stands still by name, and how many others there are.
pub(crate) fn named(stuck: &[&str]) -> Option<String> {
    let (first, others) = stuck.split_first()?;
    Some(match others.len() {
        0 => (*first).to_owned(),
        1 => format!("{first} and {}", others[0]),
        more => format!("{first} and {more} others"),
    })
}

fn progressing(message: String) -> Verdict {
    Verdict {
        kind: ConditionType::UpdateInProgress,
        status: Some(true),
        reason: Reason::Progressing,
        message,
    }
}

fn none() -> Verdict {
    Verdict {
        kind: ConditionType::UpdateInProgress,
        status: Some(false),
        reason: Reason::NoActiveUpdate,
        message: "no update is in progress".to_owned(),
    }
}
