//! Defaults, one by one.

use coppice_api::admission::{default_pod_clique_set, validate_pod_clique_set};
use coppice_api::types::{CliqueStartupType, PodCliqueSet, RollingUpdate, UpdateStrategy, UpdateStrategyType};
use serde_json::{Value, json};

use crate::support::context;

fn set(template: &Value) -> PodCliqueSet {
    let object = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "web"},
        "spec": {"template": template},
    });
    serde_json::from_value(object).expect("a set")
}

fn clique(spec: Value) -> Value {
    let mut spec = spec;
    spec["roleName"] = json!("a");
    json!({"name": "a", "spec": spec})
}

fn defaulted(template: &Value) -> PodCliqueSet {
    let mut set = set(template);
    default_pod_clique_set(&mut set, None);
    set
}

#[test]
fn namespace_is_default() {
    assert_eq!(defaulted(&json!({})).metadata.namespace.as_deref(), Some("default"));
    let mut other = set(&json!({}));
    other.metadata.namespace = Some("serving".to_owned());
    default_pod_clique_set(&mut other, None);
    assert_eq!(other.metadata.namespace.as_deref(), Some("serving"));
}

#[test]
fn restart_policy_and_grace_period() {
    let pod = |spec: Value| {
        defaulted(&json!({"cliques": [clique(json!({"podSpec": spec}))]}))
            .spec
            .template
            .cliques[0]
            .spec
            .pod_spec
            .clone()
    };
    let filled = pod(json!({"restartPolicy": ""}));
    assert_eq!(filled.0["restartPolicy"], "Always");
    assert_eq!(filled.0["terminationGracePeriodSeconds"], 30);
    let kept = pod(json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}));
    assert_eq!(kept.0["restartPolicy"], "Never");
    assert_eq!(kept.0["terminationGracePeriodSeconds"], 0);
}

#[test]
fn a_clique_with_no_replicas_is_idle_and_has_a_minimum_of_one() {
    for (spec, replicas) in [
        (json!({}), 1),
        (json!({"replicas": 0}), 0),
        (json!({"replicas": 0, "minAvailable": 0}), 0),
    ] {
        let mut spec = spec;
        spec["autoScalingConfig"] = json!({"maxReplicas": 2});
        spec["podSpec"] = json!({"containers": [{"name": "main"}]});
        let set = defaulted(&json!({"cliques": [clique(spec)]}));
        let filled = &set.spec.template.cliques[0].spec;
        assert_eq!((filled.replicas, filled.min_available), (replicas, Some(1)));
        assert_eq!(
            filled
                .auto_scaling_config
                .as_ref()
                .and_then(|config| config.min_replicas),
            Some(1)
        );
        let outcome = validate_pod_clique_set(&set, None, &context());
        assert!(
            outcome.is_admitted(),
            "our own defaults are refused: {:?}",
            outcome.errors
        );
    }
}

#[test]
fn min_available_is_one_and_min_replicas_are_the_replicas() {
    let spec = clique(json!({"replicas": 3, "autoScalingConfig": {"maxReplicas": 5}}));
    let filled = defaulted(&json!({"cliques": [spec]})).spec.template.cliques[0]
        .spec
        .clone();
    assert_eq!(filled.min_available, Some(1));
    assert_eq!(
        filled.auto_scaling_config.and_then(|config| config.min_replicas),
        Some(3)
    );
    let spec =
        clique(json!({"replicas": 3, "minAvailable": 2, "autoScalingConfig": {"minReplicas": 2, "maxReplicas": 5}}));
    let kept = defaulted(&json!({"cliques": [spec]})).spec.template.cliques[0]
        .spec
        .clone();
    assert_eq!(kept.min_available, Some(2));
    assert_eq!(kept.auto_scaling_config.and_then(|config| config.min_replicas), Some(2));
}

#[test]
fn an_absent_minimum_stays_what_it_was() {
    let old = defaulted(&json!({"cliques": [clique(json!({"replicas": 4, "minAvailable": 3}))]}));
    let mut new = set(&json!({"cliques": [clique(json!({"replicas": 5}))]}));
    default_pod_clique_set(&mut new, Some(&old));
    assert_eq!(new.spec.template.cliques[0].spec.min_available, Some(3));
}

#[test]
fn a_minimum_that_was_never_stored_stays_all_replicas() {
    let old = set(&json!({"cliques": [clique(json!({"replicas": 3}))]}));
    let mut new = set(&json!({"cliques": [clique(json!({"replicas": 5}))]}));
    default_pod_clique_set(&mut new, Some(&old));
    assert_eq!(new.spec.template.cliques[0].spec.min_available, Some(3));
    let outcome = |minimum: i32| {
        let mut new = new.clone();
        new.spec.template.cliques[0].spec.min_available = Some(minimum);
        validate_pod_clique_set(&new, Some(&old), &context()).errors.len()
    };
    assert_eq!((outcome(3), outcome(1)), (0, 1), "the stored minimum is immutable too");
}

fn budgets(set: &PodCliqueSet) -> Vec<Option<i32>> {
    let template = &set.spec.template;
    let cliques = template.cliques.iter().map(|clique| &clique.rolling_update);
    let groups = template
        .pod_clique_scaling_groups
        .iter()
        .map(|group| &group.rolling_update);
    let budget = |update: &Option<RollingUpdate>| update.as_ref().and_then(|update| update.max_unavailable);
    cliques.chain(groups).map(budget).collect()
}

fn a_clique_a_member_and_a_group() -> Value {
    let (mut member, alone) = (clique(json!({"replicas": 2})), clique(json!({"replicas": 2})));
    member["name"] = json!("b");
    json!({
        "cliques": [alone, member],
        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b"]}],
    })
}

#[test]
fn update_strategy_and_budgets() {
    let filled = defaulted(&a_clique_a_member_and_a_group());
    let strategy = filled.spec.update_strategy.clone().map(|strategy| strategy.strategy);
    assert_eq!(strategy, Some(UpdateStrategyType::RollingRecreate));
    assert_eq!(budgets(&filled), [Some(1), None, Some(1)], "not of members");
    let mut on_delete = set(&a_clique_a_member_and_a_group());
    on_delete.spec.update_strategy = Some(UpdateStrategy {
        strategy: UpdateStrategyType::OnDelete,
        ..UpdateStrategy::default()
    });
    default_pod_clique_set(&mut on_delete, None);
    assert_eq!(budgets(&on_delete), [None, None, None]);
    let mut given = a_clique_a_member_and_a_group();
    given["cliques"][0]["rollingUpdate"] = json!({"maxUnavailable": 2});
    given["podCliqueScalingGroups"][0]["rollingUpdate"] = json!({"progressDeadline": "1m"});
    assert_eq!(budgets(&defaulted(&given)), [Some(2), None, Some(1)]);
}

#[test]
fn what_is_stored_without_a_strategy_or_a_budget_stays_so() {
    let stored = set(&a_clique_a_member_and_a_group());
    let mut update = stored.clone();
    default_pod_clique_set(&mut update, Some(&stored));
    assert_eq!(update.spec.update_strategy, None);
    assert_eq!(budgets(&update), [None, None, None]);
    let stored = defaulted(&a_clique_a_member_and_a_group());
    let mut update = set(&a_clique_a_member_and_a_group());
    default_pod_clique_set(&mut update, Some(&stored));
    assert_eq!(update.spec.update_strategy, stored.spec.update_strategy);
    assert_eq!(
        budgets(&update),
        [Some(1), None, Some(1)],
        "a manifest sent again is no change"
    );
}

#[test]
fn scaling_groups() {
    let group = |group: Value| {
        let set = defaulted(&json!({"podCliqueScalingGroups": [group]}));
        set.spec.template.pod_clique_scaling_groups[0].clone()
    };
    let filled = group(json!({"name": "g", "cliqueNames": [], "scaleConfig": {"maxReplicas": 9}}));
    assert_eq!((filled.replicas, filled.min_available), (Some(1), Some(1)));
    assert_eq!(filled.scale_config.and_then(|config| config.min_replicas), Some(1));
    let filled = group(json!({"name": "g", "cliqueNames": [], "replicas": 4, "scaleConfig": {"maxReplicas": 9}}));
    assert_eq!(filled.scale_config.and_then(|config| config.min_replicas), Some(4));
}

#[test]
fn termination_delay_headless_service_and_startup_type() {
    let template = defaulted(&json!({})).spec.template;
    assert_eq!(template.termination_delay.as_deref(), Some("4h"));
    assert!(
        template
            .headless_service_config
            .is_some_and(|config| config.publish_not_ready_addresses)
    );
    assert_eq!(template.clique_startup_type, Some(CliqueStartupType::AnyOrder));
    let given = json!({
        "terminationDelay": "1m", "headlessServiceConfig": {"publishNotReadyAddresses": false},
        "cliqueStartupType": "CliqueStartupTypeInOrder",
    });
    let template = defaulted(&given).spec.template;
    assert_eq!(template.termination_delay.as_deref(), Some("1m"));
    assert!(
        template
            .headless_service_config
            .is_some_and(|config| !config.publish_not_ready_addresses)
    );
    assert_eq!(template.clique_startup_type, Some(CliqueStartupType::InOrder));
}
