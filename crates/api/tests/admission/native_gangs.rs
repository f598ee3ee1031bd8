//! Gangs of Kubernetes' own scheduler: what it cannot express is refused or warned of, and the warning that pods are
//! placed one by one is gone.

use coppice_api::admission::{Context, Outcome};
use serde_json::{Value, json};

use crate::support::{context, judge};

fn set(cliques: &[Value], of_template: Value) -> Value {
    let mut template = of_template;
    template["cliques"] = cliques
        .iter()
        .enumerate()
        .map(|(index, clique)| {
            let mut clique = clique.clone();
            clique["name"] = format!("c{index}").into();
            clique["spec"]["roleName"] = format!("c{index}").into();
            clique["spec"]["podSpec"] = json!({"containers": [{"name": "main", "image": "a"}]});
            clique
        })
        .collect();
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm", "namespace": "models"},
        "spec": {"replicas": 1, "template": template},
    })
}

fn judged(cliques: &[Value], of_template: Value) -> Outcome {
    let usual = context();
    let native = Context {
        schedulers: usual.schedulers.clone().with_native_gangs(),
        ..usual
    };
    judge(&[set(cliques, of_template)], &native).outcome()
}

fn clique(replicas: i32, min_available: i32) -> Value {
    json!({"spec": {"replicas": replicas, "minAvailable": min_available}})
}

#[test]
fn a_gang_that_can_be_told_whole_is_admitted_without_a_warning() {
    for cliques in [vec![clique(4, 2)], vec![clique(2, 2), clique(1, 1)]] {
        let packed = json!({"topologyConstraint": {"topologyName": "gb200", "pack": {"required": "rack"}}});
        let outcome = judged(&cliques, packed);
        assert!(outcome.is_admitted(), "{:?}", outcome.errors);
        assert_eq!(outcome.warnings, Vec::<String>::new());
    }
}

#[test]
fn packing_of_a_part_is_refused_unless_the_part_is_the_gang() {
    let mut packed = clique(2, 2);
    packed["topologyConstraint"] = json!({"topologyName": "gb200", "pack": {"required": "host"}});
    let outcome = judged(&[packed.clone(), clique(1, 1)], json!({}));
    let errors: Vec<String> = outcome.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].starts_with("spec.template.cliques[0].topologyConstraint")
            && errors[0].contains("packs whole gangs only"),
        "{errors:?}"
    );
    let alone = judged(&[packed.clone()], json!({}));
    assert!(alone.is_admitted(), "{:?}", alone.errors);
    let group =
        json!({"podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["c0"], "replicas": 2, "minAvailable": 2}]});
    assert!(
        !judged(&[packed], group).is_admitted(),
        "two copies in one gang, each on a host of its own"
    );
}

#[test]
fn wishes_and_minima_that_are_lost_are_warned_of() {
    let preferred = json!({"topologyConstraint": {"topologyName": "gb200", "pack": {"preferred": "rack"}}});
    let outcome = judged(&[clique(3, 1), clique(1, 1)], preferred);
    assert!(outcome.is_admitted(), "{:?}", outcome.errors);
    let warnings = outcome.warnings.join("\n");
    assert!(warnings.contains("no preferred packing"), "{warnings}");
    assert!(warnings.contains("\"c0\" above minAvailable"), "{warnings}");
    assert!(!warnings.contains("one by one"), "{warnings}");
}
