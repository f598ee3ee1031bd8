//! What a pod asks of a node besides room.
//!
//! Owns node selectors, required and preferred node affinity, taints and tolerations, cordoned and unready nodes: whatever
//! depends on the node alone. Room, host ports and anti-affinity depend on the pods already there and live in
//! [`crate::state`]. Assumes well-formed input (admission has checked it); an expression that cannot be read matches
//! nothing, so it can only rule nodes out, never let a pod through.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::reasons::ReasonCode;
use crate::resources::attached_driver;

/// Labels of a node or a pod.
pub type Labels = BTreeMap<String, String>;

/// How an expression compares a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The value is one of the list.
    In,
    /// The label is absent or its value is none of the list.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is an integer greater than the one listed.
    Gt,
    /// The value is an integer less than the one listed.
    Lt,
}

/// One requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    /// The label key.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// The values it compares with.
    pub values: Vec<String>,
}

impl Expression {
    /// Whether labels satisfy the expression.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(labels.get(&self.key).map(String::as_str))
    }

    /// Whether the value of its key satisfies it.
    #[must_use]
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let listed = |text: &str| self.values.iter().any(|candidate| candidate == text);
        let bound = || self.values.first().and_then(|text| number(text));
        match (self.operator, value) {
            (Operator::In, Some(value)) => listed(value),
            (Operator::NotIn, Some(value)) => !listed(value),
            (Operator::Exists, found) => found.is_some(),
            (Operator::DoesNotExist, found) => found.is_none(),
            (Operator::NotIn, None) => true,
            (Operator::Gt, Some(value)) => number(value).zip(bound()).is_some_and(|(value, bound)| value > bound),
            (Operator::Lt, Some(value)) => number(value).zip(bound()).is_some_and(|(value, bound)| value < bound),
            (Operator::In | Operator::Gt | Operator::Lt, None) => false,
        }
    }
}

/// Expressions that must all hold; a term without any matches no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// Requirements on labels.
    pub expressions: Vec<Expression>,
    /// Requirements on fields; only `metadata.name` exists.
    pub fields: Vec<Expression>,
}

impl NodeTerm {
    /// Whether the node satisfies the term.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        if self.expressions.is_empty() && self.fields.is_empty() {
            return false;
        }
        self.expressions
            .iter()
            .all(|expression| expression.matches(&node.labels))
            && self
                .fields
                .iter()
                .all(|field| field.key == "metadata.name" && field.matches_value(Some(&node.name)))
    }
}

/// Terms of which one must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSelector {
    /// The alternatives.
    pub terms: Vec<NodeTerm>,
}

impl NodeSelector {
    /// Whether some term matches.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        self.terms.iter().any(|term| term.matches(node))
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Effect {
    /// They are not placed here.
    NoSchedule,
    /// They are placed here last.
    PreferNoSchedule,
    /// They are not placed here, and leave.
    NoExecute,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, empty if none.
    pub value: String,
    /// Its effect.
    pub effect: Effect,
}

impl fmt::Display for Taint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        if value.is_empty() {
            write!(out, "{key}:{effect:?}")
        } else {
            write!(out, "{key}={value}:{effect:?}")
        }
    }
}

/// A pod's toleration of taints.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The key; none tolerates every key (and asks for `value: None`).
    pub key: Option<String>,
    /// The value; none tolerates every value (operator `Exists`).
    pub value: Option<String>,
    /// The effect; none tolerates every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether the taint is tolerated.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

/// A node as the engine sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub unschedulable: bool,
    /// Its Ready condition is not true.
    pub not_ready: bool,
    /// What it can hold, in base units by resource name.
    pub allocatable: BTreeMap<String, i64>,
}

/// Why a node is ruled out for a pod before room is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuledOut {
    /// The node is not ready.
    NotReady,
    /// The node is cordoned.
    Unschedulable,
    /// A taint is not tolerated.
    Taint(Taint),
    /// The node selector does not match; the first label that differs.
    NodeSelector(String),
    /// Required node affinity does not match.
    NodeAffinity,
    /// A volume cannot be used there; what it is.
    Volume(String),
    /// No further volume can be attached; the resource that limits them.
    AttachLimit(String),
    /// The node is in a domain held for another gang, or taken by another replica of a set that must spread.
    Excluded,
}

impl RuledOut {
    /// The code of the reason, and its detail.
    pub(crate) fn told(&self) -> (ReasonCode, String) {
        match self {
            Self::NotReady => (ReasonCode::NodeNotReady, String::new()),
            Self::Unschedulable => (ReasonCode::NodeUnschedulable, String::new()),
            Self::Taint(taint) => (ReasonCode::UntoleratedTaint, taint.to_string()),
            Self::NodeSelector(key) => (ReasonCode::NodeSelectorMismatch, key.clone()),
            Self::NodeAffinity => (ReasonCode::NodeAffinityMismatch, String::new()),
            Self::Volume(what) => (ReasonCode::VolumeOutOfReach, what.clone()),
            Self::AttachLimit(resource) => {
                let driver = attached_driver(resource).unwrap_or(resource);
                (ReasonCode::AttachLimit, format!("volumes of {driver}"))
            }
            Self::Excluded => (ReasonCode::DomainExcluded, String::new()),
        }
    }
}

/// Where a volume of a pod can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeReach {
    /// What it is, for people.
    pub what: String,
    /// The nodes.
    pub nodes: NodeSelector,
}

/// What a pod asks of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeDemands {
    /// Labels the node must carry.
    pub selector: Labels,
    /// Selectors that must all match.
    pub required: Vec<NodeSelector>,
    /// Volumes that not every node can use.
    pub volumes: Vec<VolumeReach>,
    /// Terms with weights; the sum of the weights of matching terms is the node's score.
    pub preferred: Vec<(i32, NodeTerm)>,
    /// Taints that do not matter.
    pub tolerations: Vec<Toleration>,
}

impl NodeDemands {
    /// How many labels, expressions, values and tolerations there are.
    pub(crate) fn parts(&self) -> usize {
        let term = |term: &NodeTerm| 1 + selector_parts(&term.expressions) + selector_parts(&term.fields);
        let required = self.required.iter().flat_map(|selector| &selector.terms).map(term);
        let preferred = self.preferred.iter().map(|(_, wish)| term(wish));
        let volumes = self.volumes.iter().flat_map(|volume| &volume.nodes.terms).map(term);
        self.selector.len() + self.tolerations.len() + required.chain(preferred).chain(volumes).sum::<usize>()
    }

    /// The first reason why a pod may not run on the node.
    #[must_use]
    pub fn ruled_out(&self, node: &Node) -> Option<RuledOut> {
        if node.not_ready {
            return Some(RuledOut::NotReady);
        }
        if node.unschedulable && !self.tolerates(&unschedulable_taint()) {
            return Some(RuledOut::Unschedulable);
        }
        let hard = node
            .taints
            .iter()
            .filter(|taint| taint.effect != Effect::PreferNoSchedule);
        for taint in hard {
            // The cordon is decided above; its taint would only repeat it under another name.
            let repeats = node.unschedulable && taint.key == UNSCHEDULABLE;
            if !repeats && !self.tolerates(taint) {
                return Some(RuledOut::Taint(taint.clone()));
            }
        }
        if let Some((key, _)) = self
            .selector
            .iter()
            .find(|(key, value)| node.labels.get(*key) != Some(value))
        {
            return Some(RuledOut::NodeSelector(key.clone()));
        }
        if self.required.iter().any(|selector| !selector.matches(node)) {
            return Some(RuledOut::NodeAffinity);
        }
        let missed = self.volumes.iter().find(|volume| !volume.nodes.matches(node));
        missed.map(|volume| RuledOut::Volume(volume.what.clone()))
    }

    /// How much the pod would like the node: weights of matching terms, less one per soft taint.
    #[must_use]
    pub fn preference(&self, node: &Node) -> i64 {
        let liked: i64 = self
            .preferred
            .iter()
            .filter(|(_, term)| term.matches(node))
            .map(|(weight, _)| i64::from(*weight))
            .sum();
        let soft = node
            .taints
            .iter()
            .filter(|taint| taint.effect == Effect::PreferNoSchedule && !self.tolerates(taint))
            .count();
        liked.saturating_sub(i64::try_from(soft).unwrap_or(i64::MAX))
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }
}

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

fn unschedulable_taint() -> Taint {
    Taint {
        key: UNSCHEDULABLE.to_owned(),
        value: String::new(),
        effect: Effect::NoSchedule,
    }
}

/// How many expressions and values there are.
pub(crate) fn selector_parts(selector: &[Expression]) -> usize {
    selector.iter().map(|expression| 1 + expression.values.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)]) -> Node {
        Node {
            name: "n1".into(),
            labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            ..Node::default()
        }
    }

    fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
        Expression {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        }
    }

    fn taint(key: &str, value: &str, effect: Effect) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            effect,
        }
    }

    #[test]
    fn every_operator() {
        let labels = node(&[("size", "5"), ("zone", "a")]).labels;
        for (key, operator, values, expected) in [
            ("zone", Operator::In, &["a", "b"][..], true),
            ("zone", Operator::In, &["c"], false),
            ("none", Operator::In, &["c"], false),
            ("zone", Operator::NotIn, &["a"], false),
            ("none", Operator::NotIn, &["a"], true),
            ("zone", Operator::Exists, &[], true),
            ("none", Operator::Exists, &[], false),
            ("none", Operator::DoesNotExist, &[], true),
            ("size", Operator::Gt, &["4"], true),
            ("size", Operator::Gt, &["5"], false),
            ("size", Operator::Lt, &["6"], true),
            ("zone", Operator::Lt, &["6"], false),
            ("none", Operator::Gt, &["6"], false),
        ] {
            assert_eq!(
                expression(key, operator, values).matches(&labels),
                expected,
                "{key} {operator:?}"
            );
        }
    }

    #[test]
    fn an_empty_term_matches_nothing_and_fields_know_only_the_name() {
        assert!(!NodeTerm::default().matches(&node(&[])));
        let by_name = |key: &str| NodeTerm {
            fields: vec![expression(key, Operator::In, &["n1"])],
            ..NodeTerm::default()
        };
        assert!(by_name("metadata.name").matches(&node(&[])));
        assert!(!by_name("metadata.uid").matches(&node(&[])));
    }

    #[test]
    fn a_cordon_is_tolerated_by_its_taint_only() {
        let mut cordoned = node(&[]);
        cordoned.unschedulable = true;
        cordoned.taints.push(unschedulable_taint());
        let mut demands = NodeDemands::default();
        assert_eq!(demands.ruled_out(&cordoned), Some(RuledOut::Unschedulable));
        demands.tolerations.push(Toleration {
            key: Some(UNSCHEDULABLE.into()),
            ..Toleration::default()
        });
        assert_eq!(demands.ruled_out(&cordoned), None);
        cordoned.not_ready = true;
        assert_eq!(demands.ruled_out(&cordoned), Some(RuledOut::NotReady));
    }

    #[test]
    fn taints_by_key_value_and_effect() {
        let hard = taint("gpu", "yes", Effect::NoExecute);
        let mut tainted = node(&[]);
        tainted.taints.push(hard.clone());
        let with = |key: Option<&str>, value: Option<&str>, effect| NodeDemands {
            tolerations: vec![Toleration {
                key: key.map(Into::into),
                value: value.map(Into::into),
                effect,
            }],
            ..NodeDemands::default()
        };
        assert_eq!(with(None, None, None).ruled_out(&tainted), None);
        assert_eq!(with(Some("gpu"), Some("yes"), None).ruled_out(&tainted), None);
        for demands in [
            with(Some("gpu"), Some("no"), None),
            with(Some("other"), None, None),
            with(Some("gpu"), None, Some(Effect::NoSchedule)),
        ] {
            assert_eq!(demands.ruled_out(&tainted), Some(RuledOut::Taint(hard.clone())));
        }
    }

    #[test]
    fn soft_wishes_score_and_never_rule_out() {
        let mut soft = node(&[("zone", "a")]);
        soft.taints.push(taint("busy", "", Effect::PreferNoSchedule));
        let demands = NodeDemands {
            preferred: vec![(
                7,
                NodeTerm {
                    expressions: vec![expression("zone", Operator::In, &["a"])],
                    ..NodeTerm::default()
                },
            )],
            ..NodeDemands::default()
        };
        assert_eq!(demands.ruled_out(&soft), None);
        assert_eq!(demands.preference(&soft), 6);
    }

    #[test]
    fn selector_and_affinity_name_themselves() {
        let mut demands = NodeDemands {
            selector: node(&[("zone", "b")]).labels,
            ..NodeDemands::default()
        };
        assert_eq!(
            demands.ruled_out(&node(&[("zone", "a")])),
            Some(RuledOut::NodeSelector("zone".into()))
        );
        demands.selector.clear();
        demands.required.push(NodeSelector::default());
        assert_eq!(demands.ruled_out(&node(&[])), Some(RuledOut::NodeAffinity));
    }
}
