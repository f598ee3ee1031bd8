//! The pod specifications of the cliques, as far as a gang depends on them; the rest is for the API server to judge.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names::environment;
use crate::names::limits::environment_variable;
use crate::types::PodCliqueTemplate;

use super::subject::Subject;
use super::{FieldError, FieldPath, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    for (path, clique) in subject.cliques() {
        let path = path.field("spec").field("podSpec");
        let pod = &clique.spec.pod_spec;
        if pod.containers().is_empty() {
            let detail = "a pod needs at least one container";
            found
                .errors
                .push(FieldError::required(path.field("containers"), detail));
        }
        if !pod.list("topologySpreadConstraints").is_empty() {
            let detail =
                "spreading works against the gang, whose pods are placed together; use topologyConstraint instead";
            let value = pod.list("topologySpreadConstraints").to_vec();
            found.errors.push(FieldError::invalid(
                path.field("topologySpreadConstraints"),
                value,
                detail,
            ));
        }
        if let Some(node) = pod.text("nodeName") {
            let detail =
                "must not be set: pods with a node by-pass the scheduler; use nodeSelector or affinity instead";
            found
                .errors
                .push(FieldError::invalid(path.field("nodeName"), node, detail));
        }
        containers(&path.field("containers"), pod.containers(), found);
        containers(&path.field("initContainers"), pod.init_containers(), found);
        warnings(clique, found);
    }
}

fn containers(path: &FieldPath, list: &[Value], found: &mut Outcome) {
    for (index, container) in list.iter().enumerate() {
        let name = container.get("name").and_then(Value::as_str).unwrap_or("");
        let path = path.item(index, name).field("env");
        let mut seen = BTreeSet::new();
        for (index, name) in variables(container).enumerate() {
            let at = path.item(index, name).field("name");
            if let Err(detail) = environment_variable(name) {
                found.errors.push(FieldError::invalid(at, name, detail));
            } else if !seen.insert(name) {
                let detail = "the container has this variable twice; remove one of them";
                found.errors.push(FieldError::duplicate(at, name, detail));
            }
        }
    }
}

fn variables(container: &Value) -> impl Iterator<Item = &str> {
    let list = container.get("env").and_then(Value::as_array);
    let entries = list.map_or(&[] as &[Value], Vec::as_slice).iter();
    entries.map(|entry| entry.get("name").and_then(Value::as_str).unwrap_or(""))
}

fn warnings(clique: &PodCliqueTemplate, found: &mut Outcome) {
    let pod = &clique.spec.pod_spec;
    let name = &clique.name;
    if let Some(policy) = pod.text("restartPolicy").filter(|policy| *policy != "Always") {
        found.warnings.push(format!(
            "clique {name:?}: restartPolicy {policy} is kept, but cliques are for pods that run on: a pod that ends no \
             longer counts as available"
        ));
    }
    for field in ["hostname", "subdomain"] {
        if pod.text(field).is_some() {
            found.warnings.push(format!(
                "clique {name:?}: podSpec.{field} is replaced, because pods get stable host names in the headless service"
            ));
        }
    }
    if !pod.list("schedulingGates").is_empty() {
        found.warnings.push(format!(
            "clique {name:?}: podSpec.schedulingGates are replaced by the gate of the gang"
        ));
    }
    let all = pod.containers().iter().chain(pod.init_containers());
    let reserved: BTreeSet<&str> = all
        .flat_map(variables)
        .filter(|name| environment::is_reserved(name))
        .collect();
    for variable in reserved {
        found.warnings.push(format!(
            "clique {name:?}: environment variable {variable} is replaced by the operator's"
        ));
    }
}
