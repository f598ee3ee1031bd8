//! Limits of autoscalers, and who may have one.

use std::collections::BTreeSet;

use crate::types::AutoScalingConfig;

use super::subject::Subject;
use super::{FieldError, FieldPath, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    let mut scaled_cliques = BTreeSet::new();
    for (path, clique) in subject.cliques() {
        let Some(config) = &clique.spec.auto_scaling_config else {
            continue;
        };
        let at = path.field("spec").field("autoScalingConfig");
        if let Some(group) = subject.group_of(&clique.name) {
            let detail = format!(
                "the clique scales with its group {:?}; use the scaleConfig of the group instead",
                group.name
            );
            found.errors.push(FieldError::forbidden(at, detail));
            continue;
        }
        scaled_cliques.insert(clique.name.as_str());
        limits(&at, config, clique.spec.min_available, clique.spec.replicas, found);
    }
    for (path, group) in subject.groups() {
        let Some(config) = &group.scale_config else {
            continue;
        };
        let at = path.field("scaleConfig");
        limits(&at, config, group.min_available, group.replicas.unwrap_or(1), found);
        if scaled_cliques.contains(group.name.as_str()) {
            let detail = "a clique of this name has an autoscaler too, and both autoscalers would have the same name; \
                          rename the group or the clique";
            found
                .errors
                .push(FieldError::duplicate(path.field("name"), &group.name, detail));
        }
    }
}

fn limits(path: &FieldPath, config: &AutoScalingConfig, available: Option<i32>, replicas: i32, found: &mut Outcome) {
    let at = path.field("minReplicas");
    let lower = config.min_replicas;
    match (lower, available) {
        (None, _) => found
            .errors
            .push(FieldError::required(at, "give the autoscaler a lower limit")),
        (Some(lower), Some(available)) if lower < available => {
            let detail = format!("must be at least minAvailable, which is {available}");
            found.errors.push(FieldError::invalid(at, lower, detail));
        }
        _ => {}
    }
    let at = path.field("maxReplicas");
    let upper = config.max_replicas;
    if let Some(lower) = lower
        && upper < lower
    {
        let detail = format!("must be at least minReplicas, which is {lower}");
        found.errors.push(FieldError::invalid(at, upper, detail));
    } else if upper < replicas {
        let detail = format!("must be at least replicas, which is {replicas}");
        found.errors.push(FieldError::invalid(at, upper, detail));
    }
}
