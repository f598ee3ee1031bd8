//! Budgets and deadlines of updates: where they may be set, and to what.
//!
//! A strategy that replaces nothing has no use for them. They are refused where they are brought in, but not where they
//! were stored before the strategy changed: the defaults of the old strategy must not stand in the way of the new one.

use crate::duration::Duration;
use crate::types::{RollingUpdate, UpdateStrategyType};

use super::subject::Subject;
use super::{FieldError, FieldPath, Outcome, coherent_update};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    for (path, clique) in subject.cliques() {
        let Some(update) = &clique.rolling_update else { continue };
        let at = path.field("rollingUpdate");
        if let Some(group) = subject.group_of(&clique.name) {
            let detail = format!(
                "the clique is replaced with its scaling group {:?}; use the rollingUpdate of the group instead",
                group.name
            );
            found.errors.push(FieldError::forbidden(at, detail));
            continue;
        }
        limits(subject, &at, update, clique.spec.replicas, found);
    }
    for (path, group) in subject.groups() {
        if let Some(update) = &group.rolling_update {
            let at = path.field("rollingUpdate");
            limits(subject, &at, update, group.replicas.unwrap_or(1), found);
        }
    }
}

fn limits(subject: &Subject<'_>, path: &FieldPath, update: &RollingUpdate, replicas: i32, found: &mut Outcome) {
    if let Some(budget) = update.max_unavailable {
        let at = path.field("maxUnavailable");
        // With a temporary gang, a coherent update needs no budget; whether it has one is judged with the strategy.
        if budget < 0 || (budget == 0 && !coherent_update::is_coherent(subject)) {
            let detail = "must be more than 0, or no pod could ever be replaced";
            found.errors.push(FieldError::invalid(at, budget, detail));
        } else if budget > replicas && replicas > 0 {
            let detail = format!("must be at most replicas, which is {replicas}");
            found.errors.push(FieldError::invalid(at, budget, detail));
        }
    }
    if let Some(text) = update.progress_deadline.as_deref() {
        let at = path.field("progressDeadline");
        match text.parse::<Duration>() {
            Err(error) => found.errors.push(FieldError::invalid(at, text, error.to_string())),
            Ok(deadline) if !deadline.is_positive() => {
                found
                    .errors
                    .push(FieldError::invalid(at, text, "must be more than 0, such as 10m"));
            }
            Ok(_) => {}
        }
    }
}

/// Budgets of a strategy that replaces nothing by itself; `old` is the stored set, if there is one.
pub(super) fn check_strategy(old: Option<&Subject<'_>>, new: &Subject<'_>, found: &mut Outcome) {
    if !replaces_nothing(new) {
        return;
    }
    let cliques = new.cliques().filter_map(|(path, clique)| {
        let stored = old.and_then(|old| old.clique(&clique.name));
        let stored = stored.and_then(|stored| stored.rolling_update.as_ref());
        Some((path, clique.rolling_update.as_ref()?, stored))
    });
    let groups = new.groups().filter_map(|(path, group)| {
        let stored = old.and_then(|old| old.group(&group.name));
        let stored = stored.and_then(|stored| stored.rolling_update.as_ref());
        Some((path, group.rolling_update.as_ref()?, stored))
    });
    for (path, update, stored) in cliques.chain(groups) {
        let at = path.field("rollingUpdate");
        let detail = "has no effect with update strategy OnDelete";
        if stored != Some(update) {
            let detail = format!("{detail}, which replaces no pods; remove it");
            found.errors.push(FieldError::forbidden(at, detail));
        } else if old.is_some_and(|old| !replaces_nothing(old)) {
            found.warnings.push(format!("{at}: {detail}"));
        }
    }
}

fn replaces_nothing(subject: &Subject<'_>) -> bool {
    let strategy = subject.set.spec.update_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy == UpdateStrategyType::OnDelete)
}
