//! Every rule of the API contract about admission, and where it is tested. A rule without a test, a manifest without a
//! rule, and a test that is gone all fail here.

use std::collections::BTreeSet;

use crate::support::corpus;

/// A rule, and bad manifests (`name`), good manifests (`+name`) and tests (`fn name`) about it.
const RULES: &[(&str, &str)] = &[
    // Defaulting
    ("metadata.namespace is default", "fn namespace_is_default"),
    (
        "restartPolicy and terminationGracePeriodSeconds",
        "fn restart_policy_and_grace_period",
    ),
    (
        "a clique with 0 replicas is idle",
        "fn a_clique_with_no_replicas_is_idle_and_has_a_minimum_of_one +clique-replicas-zero",
    ),
    (
        "clique minAvailable is 1, minReplicas are the replicas",
        "fn min_available_is_one_and_min_replicas_are_the_replicas",
    ),
    (
        "clique minAvailable on update",
        "fn an_absent_minimum_stays_what_it_was fn a_minimum_that_was_never_stored_stays_all_replicas +update-min-available-left-out",
    ),
    ("scaling group replicas, minAvailable, minReplicas", "fn scaling_groups"),
    (
        "terminationDelay, headlessServiceConfig, cliqueStartupType",
        "fn termination_delay_headless_service_and_startup_type",
    ),
    (
        "updateStrategy and maxUnavailable",
        "fn update_strategy_and_budgets fn what_is_stored_without_a_strategy_or_a_budget_stays_so",
    ),
    // The set
    (
        "metadata.name",
        "name-with-dot name-with-leading-digit name-with-capitals name-too-long generated-name-too-long +set-name-at-limit \
         +generated-name",
    ),
    (
        "spec.replicas at least 0",
        "set-replicas-negative set-replicas-text +set-replicas-zero +replicas-omitted",
    ),
    (
        "updateStrategy in the list",
        "update-strategy-unknown +on-delete +update-strategy-empty",
    ),
    (
        "rollingUpdate: limits",
        "max-unavailable-zero max-unavailable-above-replicas group-max-unavailable-above-replicas \
         group-max-unavailable-negative progress-deadline-zero group-progress-deadline-malformed +rolling-update \
         +rolling-update-of-what-is-idle",
    ),
    (
        "coherent updates: settings",
        "coherent-deadline-malformed coherent-deadline-shorter-than-soak coherent-surge-negative",
    ),
    ("coherent updates", "+coherent"),
    ("updates can be paused", "+update-paused"),
    (
        "rollingUpdate: where",
        "rolling-update-on-group-member rolling-update-with-on-delete update-rolling-update-with-on-delete \
         +update-strategy-to-on-delete",
    ),
    ("spec.template is there", "template-missing"),
    ("startup type in the list", "startup-type-unknown +in-order"),
    (
        "terminationDelay more than 0",
        "termination-delay-zero termination-delay-negative termination-delay-malformed termination-delay-without-unit",
    ),
    (
        "fields that defaulting fills in must be there",
        "fn an_object_without_defaults_is_told_what_is_missing",
    ),
    // Claims
    (
        "inline templates: name, requests, unique",
        "claim-template-name-empty claim-template-without-requests claim-template-names-duplicate",
    ),
    ("sharing: name", "sharing-name-empty sharing-name-with-dot"),
    (
        "sharing: unique",
        "sharing-name-twice clique-sharing-name-twice group-sharing-name-twice",
    ),
    (
        "sharing: namespace of an inline template",
        "sharing-namespace-of-inline-template",
    ),
    (
        "sharing: scope in the list",
        "sharing-scope-unknown sharing-scope-missing",
    ),
    (
        "sharing: filter of the set",
        "set-filter-empty set-filter-clique-unknown set-filter-group-unknown",
    ),
    (
        "sharing: filter of a group",
        "group-filter-empty group-filter-clique-of-others",
    ),
    (
        "sharing: no filter on a clique",
        "fn a_filter_on_a_clique_has_nothing_to_choose_from",
    ),
    (
        "claim names fit",
        "set-claim-name-too-long group-claim-name-too-long clique-claim-name-too-long +claim-name-at-limit",
    ),
    // Cliques
    ("at least one clique", "cliques-empty cliques-missing"),
    (
        "clique name",
        "clique-name-empty clique-name-with-dot clique-name-with-capitals +cliques-with-similar-names",
    ),
    (
        "name budget of standalone cliques",
        "standalone-name-budget standalone-name-budget-digits update-replicas-beyond-names +standalone-name-at-limit",
    ),
    (
        "labels and annotations",
        "label-key-invalid label-value-invalid annotation-key-invalid fn annotations_of_a_clique_have_a_limit_together",
    ),
    ("replicas 0 or more", "clique-replicas-negative"),
    (
        "sizes are bounded, one by one and together",
        "set-replicas-too-many clique-replicas-too-many group-replicas-too-many set-pods-too-many gang-pods-too-many \
         startup-dependencies-too-many",
    ),
    (
        "minAvailable from 1 to replicas",
        "min-available-zero min-available-above-replicas update-replicas-below-min-available",
    ),
    ("clique names unique", "clique-names-duplicate"),
    ("role names there and unique", "role-name-missing role-names-duplicate"),
    (
        "startsAfter: blank, self, unique, known",
        "starts-after-blank starts-after-itself starts-after-twice starts-after-unknown +explicit-order \
         +starts-after-without-explicit-order",
    ),
    (
        "startsAfter: cycles",
        "starts-after-cycle starts-after-two-cycles fn a_long_chain_of_cliques_is_walked_without_recursion",
    ),
    (
        "autoscaler limits of a clique",
        "autoscaling-min-below-min-available autoscaling-max-below-min autoscaling-max-below-replicas \
         autoscaling-max-missing",
    ),
    // Pods
    (
        "pod specification there, with a container",
        "pod-spec-missing containers-empty",
    ),
    (
        "environment names valid and unique",
        "env-name-invalid env-name-empty env-name-twice init-env-name-twice",
    ),
    (
        "no topologySpreadConstraints",
        "topology-spread-constraints update-topology-spread-set",
    ),
    ("no nodeName", "node-name update-node-name-set"),
    ("restartPolicy warning only when it is true", "+pods-that-end"),
    ("warnings about replaced fields", "+replaced-fields"),
    // Scaling groups
    (
        "group name, unique",
        "group-name-empty group-name-with-dot group-names-duplicate group-name-like-a-gang",
    ),
    (
        "cliqueNames there and known",
        "group-clique-names-empty group-clique-names-missing group-clique-unknown",
    ),
    (
        "name budget of members",
        "member-name-budget member-name-budget-digits +member-name-at-limit",
    ),
    (
        "a clique in one group, once",
        "clique-in-two-groups clique-twice-in-a-group",
    ),
    (
        "group sizes",
        "+group-replicas-zero group-min-available-zero group-min-available-above-replicas",
    ),
    (
        "autoscaler limits of a group",
        "group-scale-min-below-min-available group-scale-max-below-min group-scale-max-below-replicas \
         group-scale-max-missing",
    ),
    ("no autoscaler on a member", "autoscaling-on-group-member"),
    (
        "no two autoscalers of one name",
        "autoscalers-of-one-name +clique-and-group-of-one-name",
    ),
    (
        "no two cliques of one name",
        "clique-named-like-a-member members-named-alike",
    ),
    // Schedulers
    ("one scheduler", "schedulers-differ"),
    ("an enabled scheduler", "scheduler-not-enabled"),
    (
        "KAI: one queue",
        "kai-queue-missing kai-queues-of-cliques-differ kai-queue-of-clique-differs-from-set +kai-queue-on-set \
         +kai-queue-on-one-clique",
    ),
    ("Volcano: no topology", "volcano-topology"),
    (
        "Volcano: one open queue",
        "volcano-queue-malformed volcano-queues-differ volcano-queue-unknown volcano-queue-closed +volcano \
         +volcano-default-queue",
    ),
    ("LPX: no topology", "lpx-topology"),
    (
        "warnings of the scheduler of Kubernetes",
        "+topology-with-default-scheduler",
    ),
    // NVLink
    (
        "NVLink group: value",
        "mnnvl-group-empty mnnvl-group-malformed mnnvl-group-malformed-clique mnnvl-group-malformed-group +mnnvl \
         +mnnvl-none-while-switched-off",
    ),
    ("NVLink group: switched on", "mnnvl-switched-off"),
    ("NVLink group: name of the domain fits", "mnnvl-domain-name-too-long"),
    // Topology
    (
        "topology switched on",
        "topology-switched-off-set topology-switched-off-clique topology-switched-off-group",
    ),
    (
        "topology named, here or outside",
        "topology-name-missing-set topology-name-missing-clique topology-name-missing-group +topology-inherited",
    ),
    ("one topology", "topology-names-differ"),
    (
        "replicas spread over a level that is known, or a label key",
        "spread-twice spread-malformed spread-without-topology spread-over-unknown-level +spread +spread-over-label-key",
    ),
    ("a known topology", "topology-unknown"),
    (
        "known domains",
        "topology-required-domain-unknown topology-preferred-domain-unknown",
    ),
    (
        "no parent narrower than a child",
        "topology-set-narrower-than-clique topology-set-narrower-than-group topology-group-narrower-than-clique \
         topology-group-preferred-narrower-than-clique",
    ),
    ("warning about a broader preference", "+topology-preferred-broader"),
    (
        "rules of the schema: packDomain not on creation, pack there, not both, names of domains",
        "pack-domain-on-create-set pack-domain-on-create-clique pack-domain-on-create-group pack-missing pack-empty \
         pack-and-pack-domain pack-domain-name-malformed",
    ),
    // Updates
    (
        "composition of cliques",
        "update-clique-added update-clique-removed update-clique-renamed",
    ),
    (
        "order of cliques",
        "update-cliques-reordered-in-order update-cliques-reordered-explicit +update-cliques-reordered-any-order",
    ),
    ("immutable: roleName", "update-role-name"),
    ("immutable: minAvailable", "update-min-available"),
    ("immutable: startsAfter", "update-starts-after"),
    (
        "immutable: schedulerName",
        "update-scheduler-name +update-scheduler-spelt-out",
    ),
    (
        "immutable: resourceSharing of a clique",
        "update-clique-resource-sharing",
    ),
    ("immutable: cliqueStartupType", "update-startup-type"),
    ("composition of groups", "update-group-added update-group-removed"),
    ("immutable: cliqueNames", "update-group-clique-names"),
    ("immutable: minAvailable of a group", "update-group-min-available"),
    ("immutable: resourceSharing of a group", "update-group-resource-sharing"),
    ("immutable: resourceClaimTemplates", "update-claim-templates"),
    ("immutable: resourceSharing of the set", "update-set-resource-sharing"),
    (
        "immutable: NVLink group",
        "update-mnnvl-added update-mnnvl-removed update-mnnvl-changed",
    ),
    (
        "immutable: topology",
        "update-topology-name update-topology-domain update-topology-removed update-topology-added \
         update-topology-added-while-switched-off update-topology-group-changed",
    ),
    (
        "exception: packDomain becomes pack.required",
        "update-topology-back-to-pack-domain +update-pack-domain-step-2 +update-pack-domain-step-2-while-switched-off \
         +update-pack-domain-step-2-of-a-lost-level",
    ),
    (
        "exception: a legacy topology gets its name",
        "update-topology-repair-with-unknown-topology update-topology-repair-and-migration-at-once \
         +update-pack-domain-step-1 +update-legacy-set-unrepaired fn a_partial_repair_of_a_legacy_topology_is_a_step_forward",
    ),
    ("mutable fields", "+update-everything-mutable"),
    (
        "deletion is never blocked",
        "+update-set-being-deleted +update-finalizer-of-a-faulty-set fn nothing_blocks_an_object_that_is_being_deleted",
    ),
    (
        "unchanged parts are not judged again",
        "update-second-fault-beside-an-old-one +update-old-faults-untouched +update-scheduler-disabled-since \
         fn a_context_that_changed_since_blocks_only_what_is_touched fn a_fault_may_be_mended_and_not_replaced_by_another \
         fn old_faults_move_with_their_clique fn labels_and_annotations_that_no_rule_reads_never_block \
         fn warnings_are_not_repeated",
    ),
    // Topology bindings
    ("binding: at least one level", "binding-levels-empty"),
    (
        "binding: domain, unique",
        "binding-domain-malformed binding-domain-twice",
    ),
    (
        "binding: key, unique",
        "binding-key-malformed binding-key-twice binding-update-key-twice",
    ),
    ("binding: scheduler once", "binding-scheduler-twice"),
    ("binding: scheduler enabled", "binding-scheduler-not-enabled +binding"),
    (
        "binding: scheduler aware of topology",
        "binding-scheduler-without-topology",
    ),
    ("binding: updates", "+binding-update-levels +binding-update-old-fault"),
    // The guard
    ("guard: connections", "fn connections_and_subresources_are_not_guarded"),
    ("guard: no set", "fn an_object_without_a_set_is_free_with_a_warning"),
    (
        "guard: annotation",
        "fn the_annotation_lifts_the_protection_by_its_exact_value",
    ),
    ("guard: writers", "fn only_the_operator_and_exempt_users_write"),
    (
        "guard: pods",
        "fn anybody_may_delete_a_pod_and_nobody_else_may_change_it",
    ),
    // Whole systems
    (
        "everything at once",
        "+everything +disaggregated +dynamo +dynamo-memory-service +minimal +empty-lists",
    ),
];

const SOURCES: &[&str] = &[
    include_str!("defaulting.rs"),
    include_str!("updates.rs"),
    include_str!("authorizer.rs"),
];

#[test]
fn every_rule_has_a_test_and_every_manifest_a_rule() {
    let names = |folder: &str| {
        corpus(folder)
            .into_iter()
            .map(|case| case.name)
            .collect::<BTreeSet<String>>()
    };
    let (bad, good) = (names("bad"), names("good"));
    let (mut bad_seen, mut good_seen) = (BTreeSet::new(), BTreeSet::new());
    for (rule, tests) in RULES {
        let mut words = tests.split_whitespace();
        let mut count = 0;
        while let Some(word) = words.next() {
            count += 1;
            if word == "fn" {
                let name = words.next().expect("the name of a test");
                let declared = format!("#[test]\nfn {name}()");
                assert!(
                    SOURCES.iter().any(|source| source.contains(&declared)),
                    "{rule}: test {name} is gone"
                );
            } else if let Some(name) = word.strip_prefix('+') {
                assert!(good.contains(name), "{rule}: good/{name}.yaml is gone");
                good_seen.insert(name.to_owned());
            } else {
                assert!(bad.contains(word), "{rule}: bad/{word}.yaml is gone");
                bad_seen.insert(word.to_owned());
            }
        }
        assert!(count > 0, "{rule} has no test");
    }
    assert_eq!(
        bad.difference(&bad_seen).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "bad manifests without a rule"
    );
    assert_eq!(
        good.difference(&good_seen).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "good manifests without a rule"
    );
}
