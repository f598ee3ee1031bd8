//! Group commit: one conditional write of a clique in flight, changes collected meanwhile.
//!
//! A [`CliqueWriter`] belongs to one clique of one domain in one controller. It is told what was observed and what became
//! of its write, and says what to do next; the shell carries that out. Every write is conditional on the revision it was
//! computed from, so a second controller or a daemon's own write can only make it compute again. A write whose answer was
//! lost is followed by a read.
//!
//! Writes are few by design: the first change waits a moment for company, each further write of a burst waits twice as
//! long, and reports of readiness alone wait longest. Nothing else is written: a writer at rest makes no request.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::facts::{CheckResult, CliqueFacts};
use super::plan::{RowsPlan, Urgency, plan_rows};
use crate::api::{Clique, DaemonRow};

/// How long changes wait for company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The first urgent change after a quiet time.
    pub first: SignedDuration,
    /// The longest wait of an urgent change.
    pub longest: SignedDuration,
    /// A change of readiness alone.
    pub lazy: SignedDuration,
    /// After so long without a write the next burst begins with `first` again.
    pub quiet: SignedDuration,
    /// A live read that found the row still needed is repeated after so long.
    pub recheck: SignedDuration,
}

impl Default for Timing {
    /// Daemons start seconds after their node is labelled, and IMEX reconnects at most once in five seconds: these waits
    /// are not on the way of either.
    fn default() -> Self {
        Self {
            first: SignedDuration::from_millis(250),
            longest: SignedDuration::from_secs(2),
            lazy: SignedDuration::from_secs(2),
            quiet: SignedDuration::from_secs(10),
            recheck: SignedDuration::from_secs(30),
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the object with these rows.
    Create(Vec<DaemonRow>),
    /// Replace the rows of the object of this revision.
    Replace {
        /// The revision that the rows were computed from.
        resource_version: String,
        /// The rows.
        rows: Vec<DaemonRow>,
    },
    /// Read the object: its revision is not known.
    Read,
    /// Ask again at this time, or when something was observed.
    WaitUntil(Timestamp),
    /// Nothing until something is observed.
    Rest,
}

/// What became of a write or read.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The object is now this.
    Stored(Box<Clique>),
    /// Conflict, or it exists already: another writer was faster.
    Conflict,
    /// It does not exist.
    NotFound,
    /// The server refused for good; nothing was stored.
    Refused,
    /// It is not known whether the server carried it out.
    Lost,
}

#[derive(Clone, Debug, PartialEq)]
enum View {
    /// Nothing is known: read first.
    Unread,
    Absent,
    Stored {
        resource_version: String,
        rows: Vec<DaemonRow>,
    },
}

/// The writer of one clique.
#[derive(Clone, Debug)]
pub struct CliqueWriter {
    clique_id: String,
    max: u32,
    timing: Timing,
    view: View,
    /// Indices of nodes in the newest rows seen: used again should the object be deleted under its daemons.
    former: BTreeMap<String, u32>,
    checked: BTreeMap<String, (CheckResult, Timestamp)>,
    in_flight: bool,
    changed_since: Option<(Urgency, Timestamp)>,
    last_write: Option<Timestamp>,
    burst: u32,
    failures: u32,
}

impl CliqueWriter {
    /// A writer that has seen nothing yet.
    pub fn new(clique_id: &str, max: u32, timing: Timing) -> Self {
        Self {
            clique_id: clique_id.to_owned(),
            max,
            timing,
            view: View::Unread,
            former: BTreeMap::new(),
            checked: BTreeMap::new(),
            in_flight: false,
            changed_since: None,
            last_write: None,
            burst: 0,
            failures: 0,
        }
    }

    /// The rows as they were last seen.
    pub fn rows(&self) -> &[DaemonRow] {
        match &self.view {
            View::Stored { rows, .. } => rows,
            View::Unread | View::Absent => &[],
        }
    }

    /// Whether a request is under way.
    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// A watch or list delivered the object. Older revisions than the known one are ignored.
    pub fn observed(&mut self, object: &Clique) {
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        if let View::Stored { resource_version, .. } = &self.view
            && is_older(&version, resource_version)
        {
            return;
        }
        self.remember(&object.daemons);
        self.view = View::Stored {
            resource_version: version,
            rows: object.daemons.clone(),
        };
    }

    /// A watch delivered the deletion of the object, or the first list did not have it.
    pub fn observed_absent(&mut self) {
        if !self.in_flight {
            self.view = View::Absent;
        }
    }

    /// A live read that was asked for by a plan is done.
    pub fn checked(&mut self, result: CheckResult, now: Timestamp) {
        self.checked.insert(result.check.node.clone(), (result, now));
    }

    /// The write or read that was begun has ended.
    pub fn finished(&mut self, outcome: Outcome) {
        self.in_flight = false;
        match outcome {
            Outcome::Stored(object) => {
                self.failures = 0;
                self.observed(&object);
            }
            Outcome::NotFound => {
                self.failures = 0;
                self.view = View::Absent;
            }
            Outcome::Conflict | Outcome::Lost => {
                self.failures = self.failures.saturating_add(1);
                self.view = View::Unread;
            }
            Outcome::Refused => {
                self.failures = self.failures.saturating_add(1);
            }
        }
    }

    /// What the rows should be now. Live reads that are too old to be believed are asked for again.
    pub fn plan(&self, facts: &CliqueFacts, now: Timestamp) -> RowsPlan {
        let mut facts = facts.clone();
        for (node, (result, at)) in &self.checked {
            if now.duration_since(*at) < self.timing.recheck {
                facts.checked.insert(node.clone(), result.clone());
            }
        }
        if self.view == View::Absent {
            facts.former.clone_from(&self.former);
        }
        plan_rows(self.rows(), &facts, &self.clique_id, self.max)
    }

    /// What to do next. A write or read that is returned counts as begun.
    pub fn next(&mut self, facts: &CliqueFacts, now: Timestamp) -> (Action, RowsPlan) {
        let plan = self.plan(facts, now);
        let action = self.decide(&plan, facts.deleting, now);
        if matches!(action, Action::Create(_) | Action::Replace { .. } | Action::Read) {
            self.in_flight = true;
        }
        (action, plan)
    }

    fn decide(&mut self, plan: &RowsPlan, deleting: bool, now: Timestamp) -> Action {
        if self.in_flight {
            return Action::Rest;
        }
        if self.view == View::Unread {
            return match self.retry_at() {
                Some(at) if at > now => Action::WaitUntil(at),
                _ => {
                    self.last_write.get_or_insert(now);
                    Action::Read
                }
            };
        }
        self.checked
            .retain(|_, (_, at)| now.duration_since(*at) < self.timing.recheck);
        if plan.urgency == Urgency::None || deleting {
            self.changed_since = None;
            return self.next_recheck().map_or(Action::Rest, Action::WaitUntil);
        }
        // What was lazy may have become urgent meanwhile; the wait counts from the first change.
        let (urgency, since) = self.changed_since.unwrap_or((plan.urgency, now));
        let urgency = urgency.max(plan.urgency);
        self.changed_since = Some((urgency, since));
        let due = self.due(urgency, since, now);
        if due > now {
            return Action::WaitUntil(due);
        }
        self.burst = if self.is_quiet(now) {
            1
        } else {
            self.burst.saturating_add(1)
        };
        self.last_write = Some(now);
        self.changed_since = None;
        match &self.view {
            View::Stored { resource_version, .. } => Action::Replace {
                resource_version: resource_version.clone(),
                rows: plan.rows.clone(),
            },
            View::Absent | View::Unread => Action::Create(plan.rows.clone()),
        }
    }

    fn is_quiet(&self, now: Timestamp) -> bool {
        self.last_write
            .is_none_or(|last| now.duration_since(last) >= self.timing.quiet)
    }

    /// When a change that was first seen at `since` is written.
    fn due(&self, urgency: Urgency, since: Timestamp, now: Timestamp) -> Timestamp {
        let wait = match urgency {
            Urgency::Lazy | Urgency::None => self.timing.lazy,
            Urgency::Soon if self.is_quiet(now) => self.timing.first,
            Urgency::Soon => doubled(self.timing.first, self.burst, self.timing.longest),
        };
        let due = since + wait;
        self.retry_at().map_or(due, |retry| retry.max(due))
    }

    /// After failures the next request waits: 250 ms doubling to two seconds, from the last write.
    fn retry_at(&self) -> Option<Timestamp> {
        let last = self.last_write.filter(|_| self.failures > 1)?;
        Some(last + doubled(self.timing.first, self.failures.saturating_sub(2), self.timing.longest))
    }

    fn next_recheck(&self) -> Option<Timestamp> {
        self.checked.values().map(|(_, at)| *at + self.timing.recheck).min()
    }

    fn remember(&mut self, rows: &[DaemonRow]) {
        self.former = rows
            .iter()
            .filter_map(|row| Some((row.node_name.clone(), row.bounded_index(self.max)?)))
            .collect();
    }
}

fn doubled(first: SignedDuration, times: u32, longest: SignedDuration) -> SignedDuration {
    let factor = 1_i32.checked_shl(times.min(20)).unwrap_or(i32::MAX);
    first.checked_mul(factor).unwrap_or(longest).min(longest)
}

/// Resource versions of one resource are comparable. One that is not a number is never older.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
