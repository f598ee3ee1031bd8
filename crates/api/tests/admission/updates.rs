//! What an update is held to account for, beyond the corpus.

use serde_json::{Value, json};

use crate::support::{context, corpus, judge};

fn good(name: &str) -> Value {
    let case = corpus("good").into_iter().find(|case| case.name == name);
    case.unwrap_or_else(|| panic!("{name} is in the corpus"))
        .documents
        .remove(0)
}

fn bad(name: &str) -> Value {
    let case = corpus("bad").into_iter().find(|case| case.name == name);
    case.unwrap_or_else(|| panic!("{name} is in the corpus"))
        .documents
        .remove(0)
}

#[test]
fn nothing_blocks_an_object_that_is_being_deleted() {
    for case in corpus("bad") {
        let mut new = case.documents.last().expect("a document").clone();
        new["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        if case.expected.iter().any(|expected| expected.refuser == "schema") {
            continue;
        }
        let old = case.documents.first().expect("a document").clone();
        assert!(
            judge(&[old, new], &case.context).outcome().is_admitted(),
            "{}",
            case.name
        );
    }
}

#[test]
fn labels_and_annotations_that_no_rule_reads_never_block() {
    for case in corpus("bad") {
        if case.expected.iter().any(|expected| expected.refuser == "schema") {
            continue;
        }
        let old = case.documents.last().expect("a document").clone();
        let mut new = old.clone();
        new["metadata"]["labels"]["team"] = json!("new");
        new["metadata"]["annotations"]["nvidia.com/last-applied-generation"] = json!("2");
        assert!(
            judge(&[old, new], &case.context).outcome().is_admitted(),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_context_that_changed_since_blocks_only_what_is_touched() {
    let old = good("dynamo");
    let mut new = old.clone();
    new["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] =
        json!("registry.example/other:1");
    let mut now = context();
    now.topologies.clear();
    now.auto_mnnvl = false;
    now.schedulers.profiles.remove("kai-scheduler");
    assert!(
        !judge(std::slice::from_ref(&old), &now).outcome().is_admitted(),
        "it could not be created today"
    );
    let outcome = judge(&[old, new], &now).outcome();
    assert!(outcome.is_admitted(), "{:?}", outcome.errors);
}

#[test]
fn a_fault_may_be_mended_and_not_replaced_by_another() {
    let old = bad("label-value-invalid");
    let mut mended = old.clone();
    mended["spec"]["template"]["cliques"][0]["labels"]["team"] = json!("x");
    assert!(judge(&[old.clone(), mended], &context()).outcome().is_admitted());
    let mut other = old.clone();
    other["spec"]["template"]["cliques"][0]["labels"]["team"] = json!("-y-");
    assert!(!judge(&[old, other], &context()).outcome().is_admitted());
}

#[test]
fn old_faults_move_with_their_clique() {
    let mut old = bad("label-value-invalid");
    let second =
        json!({"name": "b", "spec": {"roleName": "b", "replicas": 1, "podSpec": {"containers": [{"name": "m"}]}}});
    old["spec"]["template"]["cliques"]
        .as_array_mut()
        .expect("cliques")
        .push(second);
    let mut new = old.clone();
    new["spec"]["template"]["cliques"]
        .as_array_mut()
        .expect("cliques")
        .reverse();
    new["spec"]["replicas"] = json!(2);
    let outcome = judge(&[old, new], &context()).outcome();
    assert!(outcome.is_admitted(), "{:?}", outcome.errors);
}

#[test]
fn warnings_are_not_repeated() {
    let old = good("pods-that-end");
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(2);
    assert_eq!(judge(&[old, new], &context()).outcome().warnings, Vec::<String>::new());
}

#[test]
fn a_partial_repair_of_a_legacy_topology_is_a_step_forward() {
    let case = corpus("good")
        .into_iter()
        .find(|case| case.name == "update-legacy-set-unrepaired");
    let old = case.expect("in the corpus").documents.remove(0);
    let mut new = old.clone();
    new["spec"]["template"]["cliques"][0]["topologyConstraint"]["topologyName"] = json!("gb200");
    let outcome = judge(&[old, new], &context()).outcome();
    assert!(outcome.is_admitted(), "{:?}", outcome.errors);
}

#[test]
fn a_filter_on_a_clique_has_nothing_to_choose_from() {
    // The schema prunes it; an object that did not pass through an API server is told.
    let mut set = good("minimal");
    set["spec"]["template"]["cliques"][0]["resourceSharing"] =
        json!([{"name": "t", "scope": "AllReplicas", "filter": {"childCliqueNames": ["a"]}}]);
    let errors = judge(&[set], &context()).outcome().errors;
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .to_string()
            .starts_with("spec.template.cliques[0].resourceSharing[0].filter: Forbidden")
    );
}

#[test]
fn what_the_schema_and_its_rules_refuse_is_refused_here_too() {
    // For objects that did not pass through an API server. These are the rules that need the old object or a type.
    let left_to_the_server = [
        "pack-domain-on-create-clique",
        "pack-domain-on-create-group",
        "pack-domain-on-create-set",
        "autoscaling-max-missing",
        "role-name-missing",
        "set-replicas-text",
    ];
    for case in corpus("bad") {
        if left_to_the_server.contains(&case.name.as_str()) {
            continue;
        }
        if let crate::support::Judged::Outcome(outcome) = judge(&case.documents, &case.context) {
            assert!(!outcome.is_admitted(), "{}", case.name);
        }
    }
}

#[test]
fn an_object_without_defaults_is_told_what_is_missing() {
    let set = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {},
        "spec": {"template": {
            "cliques": [{"name": "a", "spec": {
                "roleName": "a", "replicas": 1, "autoScalingConfig": {"maxReplicas": 2},
                "podSpec": {"containers": [{"name": "main"}]},
            }}],
        }},
    });
    let set = serde_json::from_value(set).expect("a set");
    let found = coppice_api::admission::validate_pod_clique_set(&set, None, &context());
    let paths: Vec<String> = found
        .errors
        .iter()
        .map(|error| format!("{:?} {}", error.kind, error.path))
        .collect();
    assert_eq!(
        paths,
        [
            "Required metadata.name",
            "Required spec.template.terminationDelay",
            "Required spec.template.cliqueStartupType",
            "Required spec.template.cliques[0].spec.minAvailable",
            "Required spec.template.cliques[0].spec.autoScalingConfig.minReplicas",
        ]
    );
}

#[test]
fn annotations_of_a_clique_have_a_limit_together() {
    let mut set = good("minimal");
    set["spec"]["template"]["cliques"][0]["annotations"] = json!({"a": "x".repeat(256 * 1024 - 1)});
    assert!(judge(std::slice::from_ref(&set), &context()).outcome().is_admitted());
    set["spec"]["template"]["cliques"][0]["annotations"]["a"] = json!("x".repeat(256 * 1024));
    let errors = judge(&[set], &context()).outcome().errors;
    assert!(errors.len() == 1 && errors[0].path.to_string() == "spec.template.cliques[0].annotations");
}

#[test]
fn a_long_chain_of_cliques_is_walked_without_recursion() {
    let count = 5000;
    let clique = |index: usize| {
        json!({"name": format!("c{index}"), "spec": {
            "roleName": format!("c{index}"), "replicas": 1, "startsAfter": [format!("c{}", (index + 1) % count)],
            "podSpec": {"containers": [{"name": "main"}]},
        }})
    };
    let mut set = good("minimal");
    set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeExplicit");
    set["spec"]["template"]["cliques"] = (0..count).map(clique).collect();
    let errors = judge(&[set], &context()).outcome().errors;
    assert_eq!(errors.len(), 1, "one cycle through all");
}
