//! What a PodClique says of itself. Counts are of pods that count: those that are being deleted or have ended do not.

use coppice_api::names::selectors::clique_selector;
use coppice_api::types::{PodClique, PodCliqueStatus, PodCliqueUpdateProgress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{CliqueState, Draft, Replica, Wait, pods};
use crate::command::{Command, Kind, Urgency, status_patch};
use crate::conditions::{self, ConditionType, Verdict, whole_seconds};
use crate::health::breach::{self, marked};
use crate::health::terminating::{Cause, Terminating};
use crate::reasons::Reason;
use crate::report;
use crate::snapshot::target_of;
use crate::update::budget::Budget;
use crate::update::in_progress::{self, Open};
use crate::update::{Directive, Rolling};

/// Returns the cliques that are being updated and make no progress.
pub(crate) fn plan(
    replica: &Replica<'_>,
    directive: Directive,
    rolling: &Rolling,
    terminating: &Terminating,
    draft: &mut Draft,
) -> Vec<String> {
    let waits = draft.foremost_waits();
    let mut stuck = Vec::new();
    for (index, state) in replica.cliques.iter().enumerate() {
        let Some(stored) = state.stored.filter(|_| state.alive()) else {
            continue;
        };
        // The new template moves the version on, so a status beside it would be refused; the next plan writes it.
        if rolling.rewritten.contains(&index) {
            continue;
        }
        let before = stored.status.clone().unwrap_or_default();
        let mut status = before.clone();
        counts(replica, stored, state, &mut status);
        progress(replica, directive, rolling, index, before.updated_replicas, &mut status);
        let updating = rolling.cliques.contains(&index);
        judge(replica, stored, state, rolling.excuses_clique(index), &mut status);
        if report_update(replica, index, updating, &mut status, draft) {
            stuck.push(replica.layout.cliques[index].name.clone());
        }
        mark(replica, stored, terminating, index, &mut status);
        let wait = waits.get(&replica.layout.cliques[index].name);
        report_wait(wait, &mut status.conditions, stored.metadata.generation, replica.now);
        let lost = !updating && lost_all(&before, &status, state);
        events(stored, &before, &status, lost, terminating.cause(index), draft);
        let urgency = urgency(&before, &status, lost, state);
        if let Some(patch) = status_patch(stored.status.as_ref(), &status) {
            let target = target_of(Kind::PodClique, &stored.metadata);
            let command = Command::Status { target, patch, urgency };
            // A mark must be there before the pods go, and be gone before new ones come. So must the beginning of an
            // update: without it, too few pods would look like a breach.
            // And so must the number that the names of new pods are made from.
            let raised = state.attempt.is_raised() && !pods::free_slots(state).is_empty();
            let patched = draft.patches(stored.metadata.uid.as_deref());
            if !patched && (raised || marked(&before) != marked(&status) || begins(&before, &status)) {
                draft.gangs.push(command);
            } else {
                draft.statuses.push(command);
            }
        }
    }
    stuck
}

fn counts(replica: &Replica<'_>, stored: &PodClique, state: &CliqueState<'_>, status: &mut PodCliqueStatus) {
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    status.observed_generation = stored.metadata.generation;
    let mut errors = replica.errors_of(&stored.metadata, &status.last_errors);
    if state.held {
        let excess = format!("{} pods are asked for, or its gang has too many", state.replicas);
        errors.extend(report::too_large(&[excess], replica.now));
    }
    status.last_errors = report::combined(errors.iter(), &status.last_errors);
    status.replicas = number(state.count(|_| true));
    if state.attempt.next > 0 {
        status.pod_attempt = Some(state.attempt.next.into());
    }
    status.ready_replicas = number(state.ready());
    status.scheduled_replicas = number(state.scheduled());
    status.schedule_gated_replicas = number(state.count(|pod| pod.gated && !pod.scheduled));
    status.updated_replicas = number(state.with_current_template());
    if state.standalone() {
        let name = stored.metadata.name.as_deref().unwrap_or_default();
        status.hpa_pod_selector = Some(clique_selector(replica.context.facts.name(), name));
    }
    if state.with_template() == state.replicas && state.count(|_| true) == state.replicas {
        status.current_pod_template_hash = Some(state.hash.clone());
        if state.current {
            status.current_pod_clique_set_generation_hash = Some(replica.context.generation_hash());
        }
    }
}

/// Stamps the beginning and the end of an update. A clique that was never updated has no progress to report.
fn progress(
    replica: &Replica<'_>,
    directive: Directive,
    rolling: &Rolling,
    index: usize,
    updated_before: i32,
    status: &mut PodCliqueStatus,
) {
    let now = Some(Time(whole_seconds(replica.now)));
    let position = replica.layout.cliques[index].position;
    let target = replica.context.identities[position].label();
    let begun = status
        .update_progress
        .as_ref()
        .is_some_and(|progress| progress.pod_template_hash == target);
    let state = &replica.cliques[index];
    let has_old_pods = || state.active.iter().any(|pod| !state.has_template(pod));
    let takes_part = match directive {
        Directive::OnDelete => state.current && has_old_pods(),
        Directive::Hold | Directive::Paused | Directive::Recreate | Directive::Coherent => {
            rolling.cliques.contains(&index)
        }
    };
    if takes_part && !begun {
        let on_delete = directive == Directive::OnDelete;
        status.update_progress = Some(PodCliqueUpdateProgress {
            update_started_at: now.clone(),
            update_ended_at: now.clone().filter(|_| on_delete),
            last_progressed_at: now.filter(|_| !on_delete),
            pod_clique_set_generation_hash: replica.context.generation_hash(),
            pod_template_hash: target,
            ..PodCliqueUpdateProgress::default()
        });
        return;
    }
    let Some(progress) = status.update_progress.as_mut() else {
        return;
    };
    let placed = state.count(|pod| pod.scheduled && state.is_updated(pod));
    progress.updated_scheduled_replicas = i32::try_from(placed).unwrap_or(i32::MAX);
    if progress.update_ended_at.is_some() {
        return;
    }
    let ended = begun && state.updated() && !rolling.cliques.contains(&index);
    if ended || directive == Directive::OnDelete {
        progress.update_ended_at = now;
        progress.last_progressed_at = None;
        progress.ready_pods_selected_to_update = None;
    } else if status.updated_replicas > updated_before || progress.last_progressed_at.is_none() {
        progress.last_progressed_at = now;
    }
}

/// Says whether the clique is being updated. Returns whether it makes no progress.
fn report_update(
    replica: &Replica<'_>,
    index: usize,
    updating: bool,
    status: &mut PodCliqueStatus,
    draft: &mut Draft,
) -> bool {
    let state = &replica.cliques[index];
    let position = replica.layout.cliques[index].position;
    let template = replica.context.facts.cliques[position].template;
    let budget = Budget::of(template.rolling_update.as_ref());
    let progress = status.update_progress.as_ref();
    let open = progress.filter(|progress| progress.update_ended_at.is_none());
    let open = open.map(|progress| Open {
        updated: state.with_current_template(),
        desired: state.desired(),
        last_progress: progress.last_progressed_at.as_ref().map_or(replica.now, |time| time.0),
        budget: (updating && state.standalone()).then_some(budget),
    });
    let report = in_progress::report(open, "pods", replica.now);
    if let Some(at) = report.wake_at {
        draft.wake_at(at);
    }
    conditions::set(
        &mut status.conditions,
        report.verdict,
        status.observed_generation,
        replica.now,
    );
    report.stuck
}

fn judge(
    replica: &Replica<'_>,
    stored: &PodClique,
    state: &CliqueState<'_>,
    updating: bool,
    status: &mut PodCliqueStatus,
) {
    let (scheduled, minimum) = (state.scheduled(), state.min_available);
    let enough = scheduled >= minimum;
    let verdict = Verdict {
        kind: ConditionType::PodCliqueScheduled,
        status: Some(enough),
        reason: if enough {
            Reason::SufficientScheduledPods
        } else {
            Reason::InsufficientScheduledPods
        },
        message: format!("{scheduled} pods have a node, {minimum} are needed"),
    };
    conditions::set(&mut status.conditions, verdict, stored.metadata.generation, replica.now);
    conditions::latch(
        &mut status.last_scheduled,
        &status.conditions,
        ConditionType::PodCliqueScheduled,
    );
    breach::record(
        &mut status.conditions,
        breach::of_clique(state, updating, replica.context.settings),
        stored.metadata.generation,
        replica,
    );
}

fn mark(
    replica: &Replica<'_>,
    stored: &PodClique,
    terminating: &Terminating,
    index: usize,
    status: &mut PodCliqueStatus,
) {
    let going = terminating.contains(index);
    if going || terminating.finished.contains(&index) {
        let pods = !replica.cliques[index].active.is_empty();
        let message = match terminating.cause(index) {
            Some(cause) => announcement(cause),
            // What began in an earlier plan has said why.
            None if going && marked(status) => return,
            None if going => "all pods are replaced".to_owned(),
            None if pods => "no pod was replaced: every clique had its minimum ready".to_owned(),
            None => "all old pods are gone and new ones are created".to_owned(),
        };
        let verdict = Verdict {
            kind: ConditionType::GangTerminationInProgress,
            status: Some(going),
            reason: terminating.times(index, status).reason(),
            message,
        };
        conditions::set(&mut status.conditions, verdict, stored.metadata.generation, replica.now);
    }
}

/// What a mark says when a termination begins.
fn announcement(cause: &Cause) -> String {
    match cause {
        Cause::Itself => "too few pods for longer than terminationDelay; all pods of the gang are replaced".to_owned(),
        Cause::Other(name) => {
            format!("all pods of the gang are replaced: {name} had too few pods for longer than terminationDelay")
        }
    }
}

/// Puts what an object waits for among its conditions.
pub(super) fn report_wait(
    wait: Option<&Wait>,
    all: &mut Vec<Condition>,
    generation: Option<i64>,
    now: jiff::Timestamp,
) {
    let Some(wait) = wait else {
        conditions::remove(all, ConditionType::Waiting);
        return;
    };
    let verdict = Verdict {
        kind: ConditionType::Waiting,
        status: Some(true),
        reason: wait.reason,
        message: wait.message.clone(),
    };
    conditions::set(all, verdict, generation, now);
}

/// Whether the last pod with a node is gone, other than by our own hand.
fn lost_all(before: &PodCliqueStatus, after: &PodCliqueStatus, state: &CliqueState<'_>) -> bool {
    let gone = before.scheduled_replicas > 0 && after.scheduled_replicas == 0;
    gone && state.replicas > 0 && !marked(before) && !marked(after)
}

fn events(
    stored: &PodClique,
    before: &PodCliqueStatus,
    after: &PodCliqueStatus,
    lost: bool,
    cause: Option<&Cause>,
    draft: &mut Draft,
) {
    let mut event = |reason: Reason, message: String| {
        let target = target_of(Kind::PodClique, &stored.metadata);
        draft.statuses.push(Command::Event {
            target,
            warning: true,
            reason,
            message,
        });
    };
    if lost {
        event(
            Reason::AllScheduledReplicasLost,
            "the last scheduled pod of the clique is gone".to_owned(),
        );
    }
    let stalls = |status: &PodCliqueStatus| {
        let found = conditions::find(&status.conditions, ConditionType::Waiting)?;
        let reasons = [
            Reason::WaitingForTerminationDelay,
            Reason::WaitingForResourceClaim,
            Reason::WaitingForResourceClaimTemplate,
        ];
        let reason = reasons.into_iter().find(|reason| found.reason == *reason)?;
        Some((reason, found.message.clone()))
    };
    if let Some((reason, message)) =
        stalls(after).filter(|after| stalls(before).is_none_or(|before| before.0 != after.0))
    {
        event(reason, message);
    }
    if !marked(before)
        && marked(after)
        && let Some(cause @ Cause::Itself) = cause
    {
        event(Reason::GangTerminationActive, announcement(cause));
    }
    if marked(before) && !marked(after) && after.replicas > 0 {
        event(
            Reason::TerminationNotConfirmed,
            "the status said that all pods are being replaced, but every clique has its minimum ready; no pod was deleted"
                .to_owned(),
        );
    }
}

/// Whether an update begins with this status.
fn begins(before: &PodCliqueStatus, after: &PodCliqueStatus) -> bool {
    let target = |status: &PodCliqueStatus| {
        let progress = status.update_progress.as_ref();
        progress.map(|progress| progress.pod_template_hash.clone())
    };
    target(before) != target(after)
}

/// A state that others act on is written at once; counts may wait for each other, or for what more wait for.
fn urgency(before: &PodCliqueStatus, after: &PodCliqueStatus, lost: bool, state: &CliqueState<'_>) -> Urgency {
    let breached =
        |status: &PodCliqueStatus| conditions::is_true(&status.conditions, ConditionType::MinAvailableBreached);
    let moving = state.count(|_| true) != state.replicas || state.count(|pod| !pod.ready && !pod.failing) > 0;
    let decided = marked(before) != marked(after) || begins(before, after);
    // The set does not say that it observed a template before its cliques stopped saying that they have the one before.
    let outdated = after.updated_replicas < before.updated_replicas && !state.current;
    let news = outdated || before.last_errors != after.last_errors;
    let raised = before.pod_attempt != after.pod_attempt;
    if breached(before) != breached(after) || decided || lost || news || raised {
        Urgency::Now
    } else if moving {
        Urgency::Settling
    } else {
        Urgency::Settled
    }
}
