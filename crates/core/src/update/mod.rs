//! How pods get from one template to the next.
//!
//! The strategies share one interface: given a replica, which cliques take the new template now and which pods go.
//! Everything else (creating the replacements, gangs, status) is the same for all of them and knows no strategy.

pub mod budget;
pub mod coherent;
pub(crate) mod in_progress;
pub mod in_step;
pub(crate) mod rendering;
mod rolling_recreate;
pub(crate) mod template;

use std::collections::BTreeSet;

use crate::context::SetContext;
use crate::draft::Draft;
use crate::health::terminating::Terminating;
use crate::reasons::Reason;
use crate::state::Replica;

/// What a replica may do about templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Keep the templates it has: it is not its turn.
    Hold,
    /// Keep the templates it has: updates are paused.
    Paused,
    /// Take the set's templates, and replace its pods.
    Recreate,
    /// Take the set's templates; pods are replaced by whoever deletes them.
    OnDelete,
    /// Take the templates that the map names.
    Coherent,
}

/// What a strategy did in this plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rolling {
    /// Positions of cliques that are being updated.
    pub cliques: BTreeSet<usize>,
    /// Positions of scaling groups that are being updated.
    pub groups: BTreeSet<usize>,
    /// Positions of cliques whose template is written in this plan; their pods wait for the next one.
    pub rewritten: BTreeSet<usize>,
    /// What is being replaced right now, where that is less than what is being updated.
    pub in_flight: Option<InFlight>,
}

/// Units that are being replaced right now, so that too few pods of them are no breach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Positions of cliques.
    pub cliques: BTreeSet<usize>,
    /// Positions of scaling groups.
    pub groups: BTreeSet<usize>,
}

impl Rolling {
    /// Whether nothing is being updated.
    pub fn is_idle(&self) -> bool {
        self.cliques.is_empty() && self.groups.is_empty()
    }

    /// Whether too few pods of a clique are no breach, because it is being replaced.
    pub fn excuses_clique(&self, index: usize) -> bool {
        let in_flight = self.in_flight.as_ref();
        in_flight
            .map_or(&self.cliques, |in_flight| &in_flight.cliques)
            .contains(&index)
    }

    /// The same for a scaling group.
    pub fn excuses_group(&self, group: usize) -> bool {
        let in_flight = self.in_flight.as_ref();
        in_flight
            .map_or(&self.groups, |in_flight| &in_flight.groups)
            .contains(&group)
    }
}

/// What the replica with this index may do, by the status of the set.
pub fn directive(context: &SetContext<'_>, index: u32) -> Directive {
    let status = context.facts.set.status.as_ref();
    if context.coherent() {
        return Directive::Coherent;
    }
    match context.accepted() {
        Some(false) => Directive::Hold,
        _ if context.on_delete() => Directive::OnDelete,
        None => Directive::Recreate,
        Some(true) if context.paused() => Directive::Paused,
        Some(true) => {
            let progress = status.and_then(|status| status.update_progress.as_ref());
            let open =
                progress.filter(|progress| progress.update_started_at.is_some() && progress.update_ended_at.is_none());
            match open {
                None => Directive::Recreate,
                Some(progress) => {
                    let turn = progress.currently_updating.first().map(|update| update.replica_index);
                    if turn == i32::try_from(index).ok() {
                        Directive::Recreate
                    } else {
                        Directive::Hold
                    }
                }
            }
        }
    }
}

/// Decides which cliques take the set's template now and which pods go.
pub(crate) fn plan(
    replica: &Replica<'_>,
    directive: Directive,
    terminating: &Terminating,
    draft: &mut Draft,
) -> Rolling {
    match directive {
        Directive::Hold | Directive::Paused => {
            hold(replica, directive, draft);
            Rolling::default()
        }
        Directive::OnDelete => on_delete(replica, draft),
        // The planner of coherent updates decides by the map; see `in_step`.
        Directive::Coherent => Rolling::default(),
        Directive::Recreate => rolling_recreate::plan(replica, terminating, draft),
    }
}

fn hold(replica: &Replica<'_>, directive: Directive, draft: &mut Draft) {
    for (clique, state) in replica.layout.cliques.iter().zip(&replica.cliques) {
        let is_outdated = !state.current || state.active.iter().any(|pod| !state.has_template(pod));
        if directive == Directive::Paused && is_outdated {
            let message = "the template changed; updates are paused by updateStrategy.paused".to_owned();
            draft.wait(&clique.name, Reason::UpdatePaused, message);
        } else if !state.current {
            let message = "the template changed; another replica of the set is updated first".to_owned();
            draft.wait(&clique.name, Reason::WaitingForUpdateTurn, message);
        }
    }
}

fn on_delete(replica: &Replica<'_>, draft: &mut Draft) -> Rolling {
    let mut rolling = Rolling::default();
    for (index, state) in replica.cliques.iter().enumerate() {
        if !state.current && state.alive() {
            draft.children.extend(template::patch(replica, index));
            rolling.rewritten.insert(index);
        }
    }
    rolling
}
