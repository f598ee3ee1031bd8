//! What a pod demands, read from its specification.
//!
//! Owns the rules of effective requests (init containers, sidecars, overhead, pod-level resources; a limit stands in for
//! a missing request), node selectors, affinity, tolerations, host ports and hostname anti-affinity. What the engine does
//! not do is listed as unsupported and never left out silently. Preferred pod affinity and soft spread constraints are
//! wishes that may go unheard.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::quantity::Quantity;
use coppice_placement::predicates::{Expression, NodeDemands, NodeSelector, NodeTerm, Operator, Toleration};
use coppice_placement::resources::Amounts;
use coppice_placement::shape::{HostPort, KeepApart, PodDemands, Unsupported};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::node::{base_units, effect};
use super::volumes::PodVolume;

/// The part of a pod's specification that placement depends on.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) node_name: Option<String>,
    pub(super) scheduler_name: Option<String>,
    pub(super) scheduling_gates: Option<Vec<serde::de::IgnoredAny>>,
    pub(super) priority: Option<i32>,
    pub(super) preemption_policy: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    overhead: Option<BTreeMap<String, Value>>,
    resources: Option<Resources>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<core::Affinity>,
    tolerations: Option<Vec<core::Toleration>>,
    topology_spread_constraints: Option<Vec<Spreading>>,
    volumes: Option<Vec<Volume>>,
    resource_claims: Option<Vec<Claim>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    restart_policy: Option<String>,
    resources: Option<Resources>,
    ports: Option<Vec<Port>>,
}

#[derive(Deserialize, Default)]
struct Resources {
    requests: Option<BTreeMap<String, Value>>,
    limits: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    host_port: Option<u16>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    protocol: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spreading {
    when_unsatisfiable: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimReference>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimReference {
    claim_name: String,
}

#[derive(Deserialize)]
struct Claim {
    name: String,
}

/// What a waiting pod demands.
pub(super) fn waiting(spec: &Spec) -> PodDemands {
    let mut demands = resident(spec);
    let mut selectors = Vec::new();
    let mut preferred = Vec::new();
    if let Some(affinity) = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
    {
        if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
            selectors.push(selector(required));
        }
        let wishes = affinity
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        preferred.extend(wishes.map(|wish| (wish.weight, term(&wish.preference))));
    }
    demands.node = NodeDemands {
        selector: spec.node_selector.clone().unwrap_or_default(),
        required: selectors,
        preferred,
        tolerations: spec.tolerations.iter().flatten().filter_map(toleration).collect(),
        ..NodeDemands::default()
    };
    demands.unsupported.extend(unsupported(spec));
    demands
}

/// What a pod that has a node takes there, and whom it keeps away; what it asked of the node no longer matters.
pub(super) fn resident(spec: &Spec) -> PodDemands {
    let (requests, broken) = requests(spec);
    let (keep_apart, odd) = keep_apart(spec);
    PodDemands {
        requests,
        host_ports: host_ports(spec),
        keep_apart,
        unsupported: broken.into_iter().chain(odd).collect(),
        ..PodDemands::default()
    }
}

/// The volumes of a pod that come from claims.
pub(super) fn volumes(spec: &Spec, pod: &str) -> Box<[PodVolume]> {
    let volumes = spec.volumes.iter().flatten();
    let claimed = volumes.filter_map(|volume| {
        let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(reference), _) => reference.claim_name.as_str().into(),
            (None, Some(_)) => format!("{pod}-{}", volume.name).into(),
            (None, None) => return None,
        };
        Some(PodVolume {
            name: volume.name.as_str().into(),
            claim,
            ephemeral: volume.persistent_volume_claim.is_none(),
        })
    });
    claimed.collect()
}

fn requests(spec: &Spec) -> (Amounts, Vec<Unsupported>) {
    let mut broken = Vec::new();
    let mut read = |amounts: &BTreeMap<String, Value>| -> Amounts {
        let mut result = Amounts::new();
        for (name, value) in amounts {
            let amount = Quantity::from_json(value).ok();
            match amount.and_then(|amount| base_units(name, amount)) {
                Some(amount) => drop(result.insert(name.clone(), amount)),
                None => broken.push(Unsupported::Other(format!(
                    "the request {name}: {value} cannot be read"
                ))),
            }
        }
        result
    };
    let mut of = |resources: Option<&Resources>| -> Amounts {
        let Some(resources) = resources else {
            return Amounts::new();
        };
        let mut asked = resources.limits.as_ref().map(&mut read).unwrap_or_default();
        asked.extend(resources.requests.as_ref().map(&mut read).unwrap_or_default());
        asked
    };
    let mut running = Amounts::new();
    for container in spec.containers.iter().flatten() {
        add(&mut running, &of(container.resources.as_ref()));
    }
    // Init containers run one after another, each beside the sidecars that came before it.
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut now = of(container.resources.as_ref());
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &now);
            now = sidecars.clone();
        } else {
            add(&mut now, &sidecars);
        }
        most(&mut starting, &now);
    }
    add(&mut running, &sidecars);
    most(&mut running, &starting);
    running.extend(of(spec.resources.as_ref()));
    if let Some(overhead) = &spec.overhead {
        add(&mut running, &read(overhead));
    }
    running.retain(|_, amount| *amount > 0);
    (running, broken)
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

fn most(best: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = best.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn host_ports(spec: &Spec) -> Vec<HostPort> {
    let all = spec.containers.iter().chain(&spec.init_containers).flatten();
    let ports = all.flat_map(|container| container.ports.iter().flatten());
    let mut found: Vec<HostPort> = ports
        .filter_map(|port| {
            Some(HostPort {
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                address: port.host_ip.clone().unwrap_or_default(),
                port: port.host_port.filter(|number| *number != 0)?,
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn keep_apart(spec: &Spec) -> (Vec<KeepApart>, Vec<Unsupported>) {
    let (mut terms, mut odd) = (Vec::new(), Vec::new());
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let required = affinity.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref());
    for wire in required.into_iter().flatten() {
        let other = |what: &str| Unsupported::Other(format!("required anti-affinity with {what}"));
        if wire.namespace_selector.is_some() {
            odd.push(other("a namespace selector"));
            continue;
        }
        let keys = [&wire.match_label_keys, &wire.mismatch_label_keys];
        if keys.into_iter().flatten().any(|keys| !keys.is_empty()) {
            odd.push(other("matchLabelKeys"));
            continue;
        }
        // Without a selector no pod is meant.
        let Some(selector) = &wire.label_selector else { continue };
        terms.push(KeepApart {
            topology_key: wire.topology_key.clone(),
            namespaces: wire.namespaces.iter().flatten().cloned().collect::<BTreeSet<_>>(),
            selector: expressions(selector),
        });
    }
    (terms, odd)
}

pub(super) fn expressions(selector: &LabelSelector) -> Vec<Expression> {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| Expression {
        key: key.clone(),
        operator: Operator::In,
        values: vec![value.clone()],
    });
    let others = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|wire| expression(&wire.key, &wire.operator, wire.values.as_deref()));
    labels.chain(others).collect()
}

fn expression(key: &str, operator: &str, values: Option<&[String]>) -> Expression {
    let values = values.unwrap_or_default().to_vec();
    let operator = match operator {
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        // An operator that nobody knows must rule out: nothing is in an empty list.
        "In" => Operator::In,
        _ => {
            return Expression {
                key: key.to_owned(),
                operator: Operator::In,
                values: Vec::new(),
            };
        }
    };
    Expression {
        key: key.to_owned(),
        operator,
        values,
    }
}

pub(super) fn selector(wire: &core::NodeSelector) -> NodeSelector {
    NodeSelector {
        terms: wire.node_selector_terms.iter().map(term).collect(),
    }
}

fn term(wire: &core::NodeSelectorTerm) -> NodeTerm {
    let read = |list: &Option<Vec<core::NodeSelectorRequirement>>| -> Vec<Expression> {
        let list = list.iter().flatten();
        list.map(|wire| expression(&wire.key, &wire.operator, wire.values.as_deref()))
            .collect()
    };
    NodeTerm {
        expressions: read(&wire.match_expressions),
        fields: read(&wire.match_fields),
    }
}

fn toleration(wire: &core::Toleration) -> Option<Toleration> {
    let value = match wire.operator.as_deref().unwrap_or("Equal") {
        "Exists" => None,
        "Equal" | "" => Some(wire.value.clone().unwrap_or_default()),
        _ => return None,
    };
    let effect = match wire.effect.as_deref().filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => Some(effect(name)?),
    };
    Some(Toleration {
        key: wire.key.clone().filter(|key| !key.is_empty()),
        value,
        effect,
    })
}

fn unsupported(spec: &Spec) -> Vec<Unsupported> {
    let mut found = Vec::new();
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.pod_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    if required.is_some_and(|terms| !terms.is_empty()) {
        found.push(Unsupported::PodAffinity);
    }
    let spreads = spec.topology_spread_constraints.iter().flatten();
    let hard = |spread: &Spreading| spread.when_unsatisfiable.as_deref() != Some("ScheduleAnyway");
    if spreads.into_iter().any(hard) {
        found.push(Unsupported::TopologySpread);
    }
    let claims = spec.resource_claims.iter().flatten();
    found.extend(claims.map(|claim| Unsupported::UnallocatedClaim(claim.name.clone())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn demands(spec: Value) -> PodDemands {
        waiting(&serde_json::from_value::<Spec>(spec).expect("a specification"))
    }

    fn asked(spec: Value) -> Amounts {
        demands(spec).requests
    }

    #[test]
    fn requests_follow_init_containers_sidecars_and_overhead() {
        let of = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (spec, expected) in [
            (json!({"containers": [of("1"), of("2")]}), 3000),
            (json!({"containers": [of("1")], "initContainers": [of("5")]}), 5000),
            (
                json!({"containers": [of("1")], "initContainers": [sidecar("2"), of("5")]}),
                7000,
            ),
            (
                json!({"containers": [of("4")], "initContainers": [of("5"), sidecar("2")]}),
                6000,
            ),
            (json!({"containers": [of("1")], "overhead": {"cpu": "250m"}}), 1250),
            (
                json!({"containers": [of("1")], "resources": {"requests": {"cpu": "8"}}}),
                8000,
            ),
            (json!({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}), 2000),
        ] {
            assert_eq!(asked(spec.clone())["cpu"], expected, "{spec}");
        }
    }

    #[test]
    fn what_is_not_done_is_said() {
        let anti = |extra: Value| {
            let mut term =
                json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}});
            term.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
        };
        assert!(demands(anti(json!({}))).refusals(9).is_empty());
        for spec in [
            anti(json!({"topologyKey": "zone"})),
            anti(json!({"namespaceSelector": {}})),
            anti(json!({"matchLabelKeys": ["x"]})),
            json!({"resourceClaims": [{"name": "gpu"}]}),
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}}),
            json!({"containers": [{"resources": {"requests": {"cpu": "many"}}}]}),
        ] {
            assert_eq!(demands(spec.clone()).refusals(9).len(), 1, "{spec}");
        }
    }

    #[test]
    fn tolerations_selectors_and_ports_are_read() {
        let demands = demands(json!({
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [
                {"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute"}, {"key": "n", "operator": "Gt", "value": "1"}],
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "x", "operator": "Strange", "values": ["1"]}]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 3, "preference": {"matchExpressions": [{"key": "y", "operator": "Exists"}]}}],
            }},
            "containers": [{"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 1, "hostPort": 80}, {"containerPort": 2}]}],
        }));
        assert_eq!(demands.node.selector["disk"], "ssd");
        assert_eq!(
            demands.node.tolerations.len(),
            2,
            "an unknown operator tolerates nothing"
        );
        assert_eq!(demands.node.tolerations[0], Toleration::default());
        assert_eq!(demands.node.preferred[0].0, 3);
        let strange = &demands.node.required[0].terms[0].expressions[0];
        assert!(!strange.matches(&BTreeMap::from([("x".into(), "1".into())])));
        assert_eq!(demands.host_ports.len(), 1);
    }
}
