//! Whether a pod fits a node.
//!
//! Owns the pure predicates and the sentence that tells why no node fits.

use super::pod::{Amounts, NodeSelector, Pod, Requirement, Term, amounts};
use crate::node_view::Node;
use crate::tolerations::{Taint, Toleration};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node with the room that is taken on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidate {
    pub(crate) node: Arc<Node>,
    pub(crate) capacity: Amounts,
    pub(crate) taken: Amounts,
}

impl Candidate {
    pub(crate) fn new(node: Arc<Node>, taken: Amounts) -> Self {
        Self {
            capacity: amounts(&node.allocatable),
            node,
            taken,
        }
    }
}

/// Chooses the first node that fits, or tells why none does.
///
/// `further` says what else keeps the pod off a node that has room.
pub(crate) fn choose<'a>(
    pod: &Pod,
    candidates: impl Iterator<Item = &'a Candidate>,
    further: impl Fn(&Node) -> Option<String>,
) -> Result<&'a str, String> {
    let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
    let mut count = 0_u32;
    for candidate in candidates {
        count += 1;
        let mut problems = problems(pod, candidate);
        if problems.is_empty() {
            problems.extend(further(&candidate.node));
        }
        if problems.is_empty() {
            return Ok(candidate.node.name());
        }
        for problem in problems {
            *reasons.entry(problem).or_insert(0) += 1;
        }
    }
    if count == 0 {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let list: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    Err(format!("0/{count} nodes are available: {}.", list.join(", ")))
}

fn problems(pod: &Pod, candidate: &Candidate) -> Vec<String> {
    let node = &candidate.node;
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let tolerated = |taint: &Taint| {
        pod.tolerations
            .iter()
            .any(|toleration: &Toleration| toleration.tolerates(taint))
    };
    if node.unschedulable && !tolerated(&cordon) {
        return vec!["node(s) were unschedulable".to_owned()];
    }
    let repelling = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    if let Some(taint) = node.taints.iter().filter(repelling).find(|taint| !tolerated(taint)) {
        return vec![format!(
            "node(s) had untolerated taint {{{}: {}}}",
            taint.key,
            taint.value.as_deref().unwrap_or("")
        )];
    }
    let selected = pod
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value));
    if !selected || !pod.affinity.as_ref().is_none_or(|affinity| matches(affinity, node)) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    let lacking = pod.requests.iter().filter(|(name, amount)| {
        let capacity = candidate.capacity.get(*name).copied().unwrap_or(0);
        let taken = candidate.taken.get(*name).copied().unwrap_or(0);
        **amount > 0 && taken + **amount > capacity
    });
    lacking
        .map(|(name, _)| {
            if name == "pods" {
                "Too many pods".to_owned()
            } else {
                format!("Insufficient {name}")
            }
        })
        .collect()
}

/// Whether one of the terms selects the node.
pub(crate) fn matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

fn term_matches(term: &Term, node: &Node) -> bool {
    // A term that asks for nothing selects nothing.
    if term.match_expressions.is_empty() && term.match_fields.is_empty() {
        return false;
    }
    let field = |key: &str| (key == "metadata.name").then_some(node.name());
    term.match_expressions
        .iter()
        .all(|requirement| holds(requirement, node.labels.get(&requirement.key).map(String::as_str)))
        && term
            .match_fields
            .iter()
            .all(|requirement| holds(requirement, field(&requirement.key)))
}

fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| requirement.values.iter().any(|wanted| wanted == value));
    let numbers = || {
        let actual: i64 = value?.parse().ok()?;
        let bound: i64 = requirement.values.first()?.parse().ok()?;
        Some((actual, bound))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(actual, bound)| actual > bound),
        "Lt" => numbers().is_some_and(|(actual, bound)| actual < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod::tests::pod;
    use super::*;
    use coppice_runtime::cache::{Meta, ObjectKey};
    use serde_json::json;

    fn choose<'a>(pod: &Pod, candidates: impl Iterator<Item = &'a Candidate>) -> Result<&'a str, String> {
        super::choose(pod, candidates, |_| None)
    }

    fn candidate(name: &str, allocatable: &[(&str, &str)], taken: &[(&str, i128)]) -> Candidate {
        let node = Node {
            meta: Meta {
                key: ObjectKey::new("", name),
                ..Meta::default()
            },
            labels: [
                ("rack".to_owned(), name.to_owned()),
                ("size".to_owned(), "7".to_owned()),
            ]
            .into(),
            allocatable: allocatable
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Node::default()
        };
        Candidate::new(
            Arc::new(node),
            taken.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        )
    }

    const ROOM: &[(&str, &str)] = &[("cpu", "4"), ("pods", "10"), ("nvidia.com/gpu", "1")];

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    fn asking(requests: serde_json::Value) -> Pod {
        pod("p", json!({"containers": [{"resources": {"requests": requests}}]}))
    }

    #[test]
    fn the_first_node_with_room_is_chosen() {
        let nodes = [
            candidate("a", ROOM, &[("cpu", 3500)]),
            candidate("b", ROOM, &[]),
            candidate("c", ROOM, &[]),
        ];
        assert_eq!(choose(&asking(json!({"cpu": "1"})), nodes.iter()), Ok("b"));
        assert_eq!(choose(&asking(json!({"cpu": "500m"})), nodes.iter()), Ok("a"));
    }

    #[test]
    fn reasons_are_counted() {
        let mut cordoned = candidate("c", ROOM, &[]);
        Arc::make_mut(&mut cordoned.node).unschedulable = true;
        let nodes = [
            candidate("a", ROOM, &[("nvidia.com/gpu", 1000)]),
            candidate("b", &[("pods", "0")], &[]),
            cordoned,
        ];
        assert_eq!(
            choose(&asking(json!({"nvidia.com/gpu": "1"})), nodes.iter()).unwrap_err(),
            "0/3 nodes are available: 2 Insufficient nvidia.com/gpu, 1 Too many pods, 1 node(s) were unschedulable."
        );
        assert_eq!(
            choose(&asking(json!({})), [].iter()).unwrap_err(),
            "no nodes available to schedule pods"
        );
    }

    #[test]
    fn taints_repel_unless_tolerated() {
        let mut tainted = candidate("a", ROOM, &[]);
        Arc::make_mut(&mut tainted.node).taints = vec![Taint {
            key: "gpu".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        }];
        let nodes = [tainted];
        assert_eq!(
            choose(&asking(json!({})), nodes.iter()).unwrap_err(),
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: }."
        );
        let tolerant = pod("p", json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}));
        assert_eq!(choose(&tolerant, nodes.iter()), Ok("a"));
    }

    #[test]
    fn selectors_and_required_affinity_select() {
        let nodes = [candidate("a", ROOM, &[]), candidate("b", ROOM, &[])];
        assert_eq!(
            choose(&pod("p", json!({"nodeSelector": {"rack": "b"}})), nodes.iter()),
            Ok("b")
        );
        let affinity = |terms: serde_json::Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            pod("p", json!({"affinity": {"nodeAffinity": required}}))
        };
        let term = |operator: &str, values: &[&str]| {
            affinity(json!([{"matchExpressions": [{"key": "rack", "operator": operator, "values": values}]}]))
        };
        assert_eq!(choose(&term("In", &["b", "z"]), nodes.iter()), Ok("b"));
        assert_eq!(choose(&term("NotIn", &["a"]), nodes.iter()), Ok("b"));
        assert_eq!(choose(&term("Exists", &[]), nodes.iter()), Ok("a"));
        assert!(choose(&term("DoesNotExist", &[]), nodes.iter()).is_err());
        let field = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
        assert_eq!(choose(&affinity(field), nodes.iter()), Ok("b"));
        let number = |operator: &str, bound: &str| {
            affinity(json!([{"matchExpressions": [{"key": "size", "operator": operator, "values": [bound]}]}]))
        };
        assert_eq!(choose(&number("Gt", "6"), nodes.iter()), Ok("a"));
        assert!(choose(&number("Lt", "7"), nodes.iter()).is_err());
        assert!(
            choose(&affinity(json!([{}])), nodes.iter()).is_err(),
            "an empty term selects nothing"
        );
    }
}
