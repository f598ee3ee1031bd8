//! The strategy Coherent: the bounds of its settings, budgets that admit an update at all, and a warning where an update
//! has to interrupt service.

use crate::duration::Duration;
use crate::sizes::{MOST_COPIES, MOST_REPLICAS, MOST_REVISIONS, MOST_SURGE_UNITS};
use crate::types::{CoherentUpdate, OnUpdateFailure, RollingUpdate, SurgePolicy, UpdateStrategyType};

use super::subject::Subject;
use super::{FieldError, FieldPath, Outcome};

/// How long a coherent update may make no progress when nothing says so.
pub const DEFAULT_COHERENT_PROGRESS_DEADLINE: &str = "30m";

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    let spec = FieldPath::root("spec");
    within(
        spec.field("revisionHistoryLimit"),
        subject.set.spec.revision_history_limit,
        0..=MOST_REVISIONS,
        found,
    );
    let Some(strategy) = &subject.set.spec.update_strategy else {
        return;
    };
    let at = spec.field("updateStrategy");
    let settings = strategy.coherent.as_ref();
    if let Some(settings) = settings {
        bounds(&at.field("coherent"), settings, found);
    }
    if strategy.strategy == UpdateStrategyType::Coherent {
        budgets(subject, settings, found);
    } else if settings.is_some() {
        let used = &strategy.strategy;
        found.warnings.push(format!(
            "{}: has no effect with update strategy {used}",
            at.field("coherent")
        ));
    }
}

/// Whether the set is updated coherently.
pub(super) fn is_coherent(subject: &Subject<'_>) -> bool {
    let strategy = subject.set.spec.update_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy == UpdateStrategyType::Coherent)
}

fn within(path: FieldPath, value: Option<i32>, range: std::ops::RangeInclusive<i32>, found: &mut Outcome) {
    if let Some(value) = value.filter(|value| !range.contains(value)) {
        let detail = format!("must be between {} and {}", range.start(), range.end());
        found.errors.push(FieldError::invalid(path, value, detail));
    }
}

fn bounds(path: &FieldPath, settings: &CoherentUpdate, found: &mut Outcome) {
    let numbers = [
        (
            "maxConcurrentReplicas",
            settings.max_concurrent_replicas,
            1..=MOST_REPLICAS,
        ),
        ("maxUnavailableUnits", settings.max_unavailable_units, 0..=MOST_COPIES),
        ("maxSurgeUnits", settings.max_surge_units, 0..=MOST_SURGE_UNITS),
        ("minReadySeconds", settings.min_ready_seconds, 0..=i32::MAX),
    ];
    for (field, value, range) in numbers {
        within(path.field(field), value, range, found);
    }
    if let Some(policy) = settings.surge_policy.as_ref().filter(|policy| !policy.is_known()) {
        let known = SurgePolicy::KNOWN.iter().copied();
        let at = path.field("surgePolicy");
        found.errors.push(FieldError::not_supported(at, policy.as_str(), known));
    }
    if let Some(action) = settings.on_failure.as_ref().filter(|action| !action.is_known()) {
        let known = OnUpdateFailure::KNOWN.iter().copied();
        let at = path.field("onFailure");
        found.errors.push(FieldError::not_supported(at, action.as_str(), known));
    }
    let at = path.field("progressDeadline");
    let text = settings
        .progress_deadline
        .as_deref()
        .unwrap_or(DEFAULT_COHERENT_PROGRESS_DEADLINE);
    match text.parse::<Duration>() {
        Err(error) => found.errors.push(FieldError::invalid(at, text, error.to_string())),
        Ok(deadline) if !deadline.is_positive() => {
            let detail = "must be more than 0, such as 30m";
            found.errors.push(FieldError::invalid(at, text, detail));
        }
        Ok(deadline) => {
            let soak = i64::from(settings.min_ready_seconds.unwrap_or(0)).saturating_mul(1_000_000_000);
            if soak > 0 && deadline.nanoseconds() <= soak {
                let detail = "must be more than minReadySeconds, or no update could make progress";
                found.errors.push(FieldError::invalid(at, text, detail));
            }
        }
    }
}

/// Every component must be able to give up its minimum, or get it from a temporary gang.
fn budgets(subject: &Subject<'_>, settings: Option<&CoherentUpdate>, found: &mut Outcome) {
    let units = settings
        .and_then(|settings| settings.max_unavailable_units)
        .unwrap_or(1);
    let surge = settings.and_then(|settings| settings.max_surge_units).unwrap_or(0);
    let mut interrupted: Vec<&str> = Vec::new();
    let mut judge = |path: FieldPath, name, replicas: i32, minimum: i32, update: Option<&RollingUpdate>| {
        let minimum = minimum.max(1);
        let set = update.and_then(|update| update.max_unavailable);
        let budget = set.unwrap_or(units.saturating_mul(minimum));
        if surge == 0 && budget < minimum.min(replicas) {
            let detail = format!(
                "must be at least minAvailable, which is {minimum}, unless maxSurgeUnits is set: a coherent update takes \
                 minAvailable units of a component at a time"
            );
            match set {
                Some(value) => {
                    let at = path.field("rollingUpdate").field("maxUnavailable");
                    found.errors.push(FieldError::invalid(at, value, detail));
                }
                None => {
                    let at = FieldPath::root("spec").field("updateStrategy").field("coherent");
                    let at = at.field("maxUnavailableUnits");
                    let detail = format!("{detail}; component {name:?}");
                    found.errors.push(FieldError::invalid(at, units, detail));
                }
            }
        }
        if replicas > 0 && replicas < minimum.saturating_mul(2) {
            interrupted.push(name);
        }
    };
    for (path, clique) in subject.cliques() {
        if subject.group_of(&clique.name).is_none() {
            let minimum = clique.spec.min_available.unwrap_or(clique.spec.replicas);
            let update = clique.rolling_update.as_ref();
            judge(path, &clique.name, clique.spec.replicas, minimum, update);
        }
    }
    for (path, group) in subject.groups() {
        let replicas = group.replicas.unwrap_or(1);
        let minimum = group.min_available.unwrap_or(1);
        judge(path, &group.name, replicas, minimum, group.rolling_update.as_ref());
    }
    if surge == 0 && subject.set.spec.replicas == 1 && !interrupted.is_empty() {
        found.warnings.push(format!(
            "spec.updateStrategy: an update of {} interrupts service: the component has fewer than twice minAvailable, and \
             there is one replica of the set; set coherent.maxSurgeUnits, or more replicas",
            interrupted.join(", ")
        ));
    }
}
