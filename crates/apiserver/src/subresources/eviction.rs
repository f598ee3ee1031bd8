//! Evicting a pod: a deletion that asks the disruption budgets first and says in the status of the pod why it goes.

use http::StatusCode;
use serde_json::{Value, json};

use crate::kinds::selectable_values;
use crate::ports::format_time;
use crate::rest::{Call, DeleteOptions, Reply, read_options};
use crate::selector::LabelSelector;
use crate::status::ApiError;
use crate::store::{Draft, Expect};
use crate::tree::{generation, is_deleting, meta, meta_text};

/// The store's name for disruption budgets.
const BUDGETS: &str = "poddisruptionbudgets.policy";

/// What the budgets say about a pod.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Evict; no budget is used up.
    Free,
    /// Evict, and count it against the budget.
    Counts,
    /// Not now.
    Wait(String),
}

/// POST on pods/NAME/eviction.
pub(super) async fn create(call: &Call) -> Result<Reply, ApiError> {
    let eviction = call.plain_body()?;
    let name = meta_text(&eviction, "name");
    if !name.is_empty() && name != call.path.name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = read_options(eviction.get("deleteOptions").unwrap_or(&json!({})), &call.options)?;
    let pod = call
        .core
        .store
        .get(&call.served.id, &call.key())
        .ok_or_else(|| call.not_found())?
        .value();
    if !needs_no_budget(&pod) {
        spend_budget(call, &pod, &options)?;
    }
    if !options.dry_run {
        mark(call)?;
    }
    call.delete_named(&options).await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::json(StatusCode::CREATED, &status))
}

/// Says in the status of the pod why it goes, for those who see it go.
fn mark(call: &Call) -> Result<(), ApiError> {
    loop {
        let current = call.core.store.get(&call.served.id, &call.key());
        let current = current.ok_or_else(|| call.not_found())?;
        let mut pod = current.value();
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": format_time(call.core.clock.now())});
        if !pod["status"]["conditions"].is_array() {
            pod["status"]["conditions"] = json!([]);
        }
        let conditions = pod["status"]["conditions"].as_array_mut();
        let Some(conditions) = conditions else { return Ok(()) };
        match conditions.iter_mut().find(|known| known["type"] == "DisruptionTarget") {
            Some(known) if known["status"] == "True" => return Ok(()),
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
        if call.put_change(&pod, current.key(), current.revision()).is_some() {
            return Ok(());
        }
    }
}

/// Pods that do not run, or are leaving already, disrupt nothing.
fn needs_no_budget(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || is_deleting(pod)
}

fn spend_budget(call: &Call, pod: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    loop {
        let budgets = call.core.store.all(BUDGETS, &call.path.namespace);
        let matching: Vec<_> = budgets
            .into_iter()
            .filter(|budget| covers(&budget.value(), pod))
            .collect();
        let budget = match matching.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(ApiError::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let mut value = budget.value();
        match judge(&value, pod) {
            Verdict::Free => return Ok(()),
            Verdict::Wait(why) => {
                return Err(ApiError::too_many_requests(
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                    10,
                )
                .with_cause("DisruptionBudget", why, ""));
            }
            Verdict::Counts => {}
        }
        if options.dry_run || call.options.dry_run {
            return Ok(());
        }
        let allowed = value
            .pointer("/status/disruptionsAllowed")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        value["status"]["disruptionsAllowed"] = json!(allowed - 1);
        if !value["status"]["disruptedPods"].is_object() {
            value["status"]["disruptedPods"] = json!({});
        }
        value["status"]["disruptedPods"][meta_text(pod, "name")] = json!(format_time(call.core.clock.now()));
        let rules = call
            .registry
            .find("policy", "v1", "poddisruptionbudgets")
            .map(|served| served.rules.clone());
        let fields = rules
            .map(|rules| selectable_values(&*rules, &value))
            .unwrap_or_default();
        let expect = Expect::Revision(budget.revision());
        if call
            .core
            .store
            .put(BUDGETS, budget.key(), expect, Draft::new(&value, fields))
            .is_ok()
        {
            return Ok(());
        }
    }
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let Some(selector) = budget.pointer("/spec/selector") else {
        return false;
    };
    LabelSelector::from_structured(selector).is_ok_and(|selector| selector.matches_map(meta(pod, "labels")))
}

fn judge(budget: &Value, pod: &Value) -> Verdict {
    let name = meta_text(budget, "name");
    let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let unhealthy = !is_ready(pod);
    let policy = budget
        .pointer("/spec/unhealthyPodEvictionPolicy")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if unhealthy && policy == "AlwaysAllow" {
        return Verdict::Free;
    }
    let (healthy, desired) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
    if unhealthy && policy != "AlwaysAllow" && healthy >= desired && desired > 0 {
        return Verdict::Free;
    }
    if number("/status/observedGeneration") < generation(budget) {
        return Verdict::Wait(format!(
            "The disruption budget {name} is still being processed by the server."
        ));
    }
    if number("/status/disruptionsAllowed") <= 0 {
        return Verdict::Wait(format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        ));
    }
    Verdict::Counts
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(allowed: i64) -> Value {
        json!({"metadata": {"name": "b", "generation": 1}, "spec": {"selector": {"matchLabels": {"a": "b"}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2}})
    }

    #[test]
    fn budgets_are_asked_for_ready_pods() {
        let ready = json!({"metadata": {"labels": {"a": "b"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(covers(&budget(1), &ready));
        assert_eq!(judge(&budget(1), &ready), Verdict::Counts);
        assert_eq!(
            judge(&budget(0), &ready),
            Verdict::Wait("The disruption budget b needs 2 healthy pods and has 2 currently".into())
        );
    }

    #[test]
    fn unready_pods_may_go_while_enough_are_healthy() {
        let unready = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(judge(&budget(0), &unready), Verdict::Free);
        assert!(!covers(&budget(0), &json!({"metadata": {"labels": {"a": "c"}}})));
    }
}
