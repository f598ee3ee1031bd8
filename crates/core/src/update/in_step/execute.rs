//! What follows from the map for templates and for what is said of an update: cliques get the template of their newest gang,
//! and everything that the update concerns is known to be updated.
//!
//! Pods and gangs follow from the layout like those of any replica; nothing here decides about composition.

use std::collections::BTreeSet;

use super::Step;
use crate::components;
use crate::draft::Draft;
use crate::health::terminating::Terminating;
use crate::layout::Place;
use crate::reasons::Reason;
use crate::state::Replica;
use crate::update::coherent::Phase;
use crate::update::{InFlight, Rolling, rendering, template};

/// Gives cliques their templates.
pub(crate) fn plan(replica: &Replica<'_>, step: &Step, terminating: &Terminating, draft: &mut Draft) -> Rolling {
    let mut rolling = Rolling::default();
    for index in 0..replica.cliques.len() {
        if !terminating.contains(index) {
            give_template(replica, index, &mut rolling, draft);
        }
    }
    if step.is_moving() {
        concern(replica, step, &mut rolling);
    }
    if !step.outcome.done {
        wait(replica, step, draft);
    }
    rolling.in_flight = Some(in_flight(replica, step));
    rolling
}

/// Gives a clique the template of its newest gang. A foreign name for a template that the clique need not leave stays:
/// its pods carry it.
fn give_template(replica: &Replica<'_>, index: usize, rolling: &mut Rolling, draft: &mut Draft) {
    let state = &replica.cliques[index];
    if !state.alive() {
        return;
    }
    let Some(source) = rendering::source_of_clique(replica, index) else {
        return;
    };
    let has_it = if source.is_of_set {
        state.current
    } else {
        let position = replica.layout.cliques[index].position;
        let is_known = state.current || components::is_known(replica.context, position, &state.hash);
        state.hash == source.hash || !is_known
    };
    if has_it {
        return;
    }
    draft
        .children
        .extend(template::patch_to(replica, index, source.template, &source.hash));
    rolling.rewritten.insert(index);
}

/// Everything of a component in scope is being updated until the replica is done.
fn concern(replica: &Replica<'_>, step: &Step, rolling: &mut Rolling) {
    for &component in &step.outcome.scope {
        let component = &step.components[component];
        rolling.groups.extend(component.group);
        let layouts = replica.layout.cliques.iter().enumerate();
        let own = layouts.filter(|(_, clique)| component.cliques.contains(&clique.position));
        rolling.cliques.extend(own.map(|(index, _)| index));
    }
}

/// What is being replaced right now: units of gangs that have not served yet. Too few pods of these are no breach, unless
/// the update stands still: then they are looked after like any others.
fn in_flight(replica: &Replica<'_>, step: &Step) -> InFlight {
    let mut found = InFlight::default();
    if !step.is_moving() || step.outcome.phase == Phase::Stalled {
        return found;
    }
    let epochs: BTreeSet<_> = step.outcome.in_flight.iter().copied().collect();
    for (index, clique) in replica.layout.cliques.iter().enumerate() {
        let mut shares = 0..clique.shares.len();
        let moves = shares.any(|share| {
            let entry = rendering::entry_of(replica, index, share);
            entry.is_some_and(|entry| epochs.contains(&entry.epoch))
        });
        let concerns = step.outcome.scope.iter().any(|&component| {
            let component = &step.components[component];
            component.cliques.contains(&clique.position)
        });
        if !(moves && concerns) {
            continue;
        }
        found.cliques.insert(index);
        if let Place::Member { group, .. } = clique.place {
            found.groups.insert(group);
        }
    }
    found
}

/// Says what an update waits for, on the cliques that it has not moved yet.
fn wait(replica: &Replica<'_>, step: &Step, draft: &mut Draft) {
    let (reason, message) = match step.outcome.phase {
        Phase::Paused => (
            Reason::UpdatePaused,
            "the template changed; updates are paused by updateStrategy.paused",
        ),
        Phase::Queued => (
            Reason::WaitingForUpdateTurn,
            "the template changed; another replica of the set is updated first",
        ),
        _ => return,
    };
    for (clique, state) in replica.layout.cliques.iter().zip(&replica.cliques) {
        if state.with_current_template() < state.count(|_| true) {
            draft.wait(&clique.name, reason, message.to_owned());
        }
    }
}
