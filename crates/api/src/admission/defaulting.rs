//! What is filled in when a set is written.
//!
//! Fills in only what is absent (or 0 where 0 means absent), so a second pass changes nothing. Includes the defaults of
//! the CRD's schema, so that an object that did not pass through an API server is treated alike.
//!
//! A stored object keeps what it means. What it was stored without, because a default is newer than the object, is not
//! filled in by an update that leaves it out too: an update of a label must not change the specification. The minimum of
//! a clique is the exception, because it is needed: it is filled in with what its absence has meant, all replicas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::types::{
    CliqueStartupType, HeadlessServiceConfig, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplate,
    RollingUpdate, UpdateStrategyType,
};

/// How long too few pods are tolerated when the set does not say.
pub const DEFAULT_TERMINATION_DELAY: &str = "4h";
const DEFAULT_NAMESPACE: &str = "default";
const DEFAULT_RESTART_POLICY: &str = "Always";
const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;
const DEFAULT_MIN_AVAILABLE: i32 = 1;
/// How many units may be unavailable during an update when the template does not say.
pub const DEFAULT_MAX_UNAVAILABLE: i32 = 1;

/// Fills in the defaults of a set.
///
/// With the stored object given, an absent `minAvailable` is the stored one: it cannot change, so a client that sends
/// its manifest again after raising `replicas` means the minimum it got at first.
pub fn default_pod_clique_set(set: &mut PodCliqueSet, old: Option<&PodCliqueSet>) {
    if set.metadata.namespace.as_deref().unwrap_or("").is_empty() {
        set.metadata.namespace = Some(DEFAULT_NAMESPACE.to_owned());
    }
    if old.is_none_or(|old| old.spec.update_strategy.is_some()) {
        set.spec.update_strategy.get_or_insert_default();
    }
    let has_budgets = has_budgets(set);
    let template = &mut set.spec.template;
    template.clique_startup_type.get_or_insert(CliqueStartupType::AnyOrder);
    template
        .termination_delay
        .get_or_insert_with(|| DEFAULT_TERMINATION_DELAY.to_owned());
    template
        .headless_service_config
        .get_or_insert_with(HeadlessServiceConfig::default);
    let stored_cliques = old.map_or(&[][..], |old| &old.spec.template.cliques);
    let stored: BTreeMap<&str, &PodCliqueTemplate> = stored_cliques
        .iter()
        .map(|clique| (clique.name.as_str(), clique))
        .collect();
    let members: BTreeSet<&str> = template
        .pod_clique_scaling_groups
        .iter()
        .flat_map(|group| group.clique_names.iter().map(String::as_str))
        .collect();
    for clique in &mut template.cliques {
        let stored = stored.get(clique.name.as_str()).copied();
        default_clique(clique, stored);
        if has_budgets && !members.contains(clique.name.as_str()) {
            default_budget(&mut clique.rolling_update, stored.map(|stored| &stored.rolling_update));
        }
    }
    let stored_groups = old.map_or(&[][..], |old| &old.spec.template.pod_clique_scaling_groups);
    let stored: BTreeMap<&str, &PodCliqueScalingGroupConfig> =
        stored_groups.iter().map(|group| (group.name.as_str(), group)).collect();
    for group in &mut template.pod_clique_scaling_groups {
        if has_budgets {
            let stored = stored.get(group.name.as_str()).map(|stored| &stored.rolling_update);
            default_budget(&mut group.rolling_update, stored);
        }
        let replicas = *group.replicas.get_or_insert(1);
        if replicas == 0 && group.min_available == Some(0) {
            group.min_available = None;
        }
        group.min_available.get_or_insert(1);
        if let Some(config) = &mut group.scale_config {
            config.min_replicas.get_or_insert(replicas.max(1));
        }
    }
}

/// Whether updates replace pods by themselves, and so need a budget.
fn has_budgets(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref().map(|strategy| &strategy.strategy);
    strategy.is_none_or(|strategy| *strategy == UpdateStrategyType::RollingRecreate)
}

/// Fills in `maxUnavailable`, unless the stored template (if there is one) is without it too.
fn default_budget(update: &mut Option<RollingUpdate>, stored: Option<&Option<RollingUpdate>>) {
    let is_stored =
        |update: &Option<RollingUpdate>| update.as_ref().is_some_and(|update| update.max_unavailable.is_some());
    if stored.is_none_or(is_stored) {
        let update = update.get_or_insert_default();
        update.max_unavailable.get_or_insert(DEFAULT_MAX_UNAVAILABLE);
    }
}

fn default_clique(clique: &mut PodCliqueTemplate, stored: Option<&PodCliqueTemplate>) {
    let spec = &mut clique.spec;
    if spec.role_name.is_empty() {
        // Two of the Go operator's own samples name no role. The field is immutable, so what is stored stays.
        spec.role_name = stored.map_or_else(|| clique.name.clone(), |stored| stored.spec.role_name.clone());
    }
    let minimum = stored.map_or(DEFAULT_MIN_AVAILABLE, |stored| {
        let minimum = stored.spec.min_available.filter(|minimum| *minimum != 0);
        minimum.unwrap_or(stored.spec.replicas.max(1))
    });
    // A clique that is idle at first has a minimum all the same: it holds from the moment it is scaled up. Clients that
    // write 0 for an idle clique mean that there is none yet.
    let size = spec.replicas.max(1);
    if spec.replicas == 0 && spec.min_available == Some(0) {
        spec.min_available = None;
    }
    spec.min_available.get_or_insert(minimum);
    if let Some(config) = &mut spec.auto_scaling_config {
        config.min_replicas.get_or_insert(size);
    }
    let pod = &mut spec.pod_spec.0;
    let absent = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.as_str() == Some(""));
    if absent(pod.get("restartPolicy")) {
        pod.insert("restartPolicy".to_owned(), DEFAULT_RESTART_POLICY.into());
    }
    if pod.get("terminationGracePeriodSeconds").is_none_or(Value::is_null) {
        pod.insert(
            "terminationGracePeriodSeconds".to_owned(),
            DEFAULT_GRACE_PERIOD_SECONDS.into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(role: &str) -> PodCliqueSet {
        let mut set = PodCliqueSet::new("s", Default::default());
        let mut clique = PodCliqueTemplate {
            name: "worker".into(),
            ..PodCliqueTemplate::default()
        };
        clique.spec.role_name = role.into();
        set.spec.template.cliques.push(clique);
        set
    }

    #[test]
    fn a_clique_without_a_role_is_named_after_itself_unless_something_is_stored() {
        let role = |set: &PodCliqueSet| set.spec.template.cliques[0].spec.role_name.clone();
        let mut new = set("");
        default_pod_clique_set(&mut new, None);
        assert_eq!(role(&new), "worker");
        let mut update = set("");
        default_pod_clique_set(&mut update, Some(&set("decode")));
        assert_eq!(role(&update), "decode");
        let mut unchanged = set("");
        default_pod_clique_set(&mut unchanged, Some(&set("")));
        assert_eq!(role(&unchanged), "", "the field is immutable");
    }
}
