//! Pods: defaults, admission, immutability, graceful deletion.

use coppice_schema::FieldError;
use serde_json::{Map, Value, json};

use super::builtin::Plain;
use super::{AdmissionRefusal, Kind, NameRule, Part, World, pod_changes, pod_defaults, pod_validation};
use crate::ports::format_time;
use crate::status::ApiError;
use crate::store::Key;
use crate::tree::{meta, object_mut};

/// The store's name for priority classes.
const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
/// How long a pod stays on a node that is not ready or not reachable.
const TOLERATION_SECONDS: i64 = 300;

/// The rules of pods.
pub(super) struct Pod(Plain);

impl Pod {
    /// Pods, with what all built-in kinds have in common.
    pub(super) fn new(plain: Plain) -> Self {
        Self(plain)
    }
}

impl Kind for Pod {
    fn has_status(&self) -> bool {
        self.0.has_status()
    }

    fn has_generation(&self) -> bool {
        self.0.has_generation()
    }

    fn name_rule(&self) -> NameRule {
        self.0.name_rule()
    }

    fn status_write_keeps_metadata(&self) -> bool {
        true
    }

    fn schema(&self) -> Option<coppice_schema::Cursor<'_>> {
        self.0.cursor()
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        self.0.prune(object)
    }

    fn check_types(&self, object: &mut Value) -> Result<(), String> {
        self.0.check_types(object)
    }

    fn strategic_merge(&self, object: Value, patch: &Value) -> Result<Value, ApiError> {
        self.0.strategic_merge(object, patch)
    }

    fn form(&self, object: &mut Value) {
        self.0.form(object);
    }

    fn default(&self, object: &mut Value) {
        self.0.default(object);
        if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
            pod_defaults::default_pod(spec);
        }
        if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
            pod_defaults::default_pod_status(status);
        }
    }

    fn admit_create(&self, object: &mut Value, world: &World<'_>) -> Result<(), AdmissionRefusal> {
        let spec = object_mut(object, "spec");
        set_service_account(spec);
        set_priority(spec, world)?;
        add_default_tolerations(spec);
        Ok(())
    }

    fn admit_update(&self, object: &mut Value, part: Part) {
        if part == Part::Main {
            add_default_tolerations(object_mut(object, "spec"));
        }
    }

    fn prepare_create(&self, object: &mut Value, world: &World<'_>) {
        let gated = has_gates(object);
        let mut status = json!({"phase": "Pending", "qosClass": pod_defaults::qos_class(&object["spec"])});
        if gated {
            let now = format_time(world.now);
            status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null,
                "lastTransitionTime": now}]);
        }
        object["status"] = status;
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        if part == Part::Status {
            // Kubelets report without owners; the server keeps them.
            crate::tree::carry_meta("ownerReferences", old, object);
            if let Some(class) = old.pointer("/status/qosClass")
                && object["status"].is_object()
            {
                object["status"]["qosClass"] = class.clone();
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.0.validate(object);
        errors.extend(pod_validation::validate_spec(&object["spec"], "spec"));
        if has_gates(object)
            && object
                .pointer("/spec/nodeName")
                .and_then(Value::as_str)
                .is_some_and(|node| !node.is_empty())
        {
            errors.push(FieldError::forbidden(
                "spec.nodeName",
                "cannot be set until all schedulingGates have been cleared",
            ));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        let mut errors = self.0.validate_update(object, old, part);
        match part {
            Part::Main => {
                errors.extend(pod_changes::validate(object, old));
                // What was wrong before may stay.
                let known = pod_validation::validate_spec(&old["spec"], "spec");
                let found = pod_validation::validate_spec(&object["spec"], "spec");
                errors.extend(found.into_iter().filter(|error| !known.contains(error)));
            }
            Part::Status | Part::Other(_) => {}
        }
        errors
    }

    fn selectable_fields(&self) -> Vec<&str> {
        vec![
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
    }

    fn counts_as_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }

    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let default = object
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64);
        let period = requested.or(default).unwrap_or(0);
        let done = matches!(text("/status/phase"), "Failed" | "Succeeded");
        if text("/spec/nodeName").is_empty() || done {
            return Some(0);
        }
        Some(if period < 0 { 1 } else { period })
    }
}

fn has_gates(pod: &Value) -> bool {
    pod.pointer("/spec/schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
}

fn set_service_account(spec: &mut Map<String, Value>) {
    for name in ["serviceAccountName", "serviceAccount"] {
        spec.entry(name).or_insert(json!("default"));
    }
}

/// Resolves the priority class, or the global default one, into numbers.
fn set_priority(spec: &mut Map<String, Value>, world: &World<'_>) -> Result<(), AdmissionRefusal> {
    let name = spec
        .get("priorityClassName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let class = if name.is_empty() {
        let classes = world.store.all(PRIORITY_CLASSES, "");
        let defaults = classes
            .iter()
            .map(|class| class.value())
            .filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64())
    } else {
        match world.store.get(PRIORITY_CLASSES, &Key::new("", &name)) {
            Some(class) => Some(class.value()),
            None => return Err(AdmissionRefusal(format!("no PriorityClass with name {name} was found"))),
        }
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class
        .as_ref()
        .and_then(|class| class["preemptionPolicy"].as_str())
        .unwrap_or("PreemptLowerPriority")
        .to_owned();
    if let Some(given) = spec
        .get("priority")
        .and_then(Value::as_i64)
        .filter(|given| *given != value)
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(AdmissionRefusal(why));
    }
    if let Some(class) = &class {
        spec.insert(
            "priorityClassName".into(),
            meta(class, "name").cloned().unwrap_or_default(),
        );
    }
    spec.insert("priority".into(), json!(value));
    spec.entry("preemptionPolicy").or_insert(json!(policy));
    Ok(())
}

/// Every pod tolerates a node that is not ready or not reachable for a while, unless it says otherwise.
fn add_default_tolerations(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert(json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = tolerations.iter().any(|one| {
            let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
            matches!(text("key"), name if name == key || name.is_empty()) && matches!(text("effect"), "" | "NoExecute")
        });
        if !covered {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::builtin_resources;
    use crate::store::Store;
    use crate::tree::meta_mut;
    use std::sync::Arc;

    fn pods() -> Arc<dyn Kind> {
        let mut served = builtin_resources().into_iter();
        served.find(|served| &*served.kind == "Pod").expect("pods").rules
    }

    fn admitted(spec: &Value) -> Result<Value, AdmissionRefusal> {
        let store = Store::default();
        let world = World {
            store: &store,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        meta_mut(&mut pod).insert("namespace".into(), json!("default"));
        pods().default(&mut pod);
        pods().admit_create(&mut pod, &world)?;
        pods().prepare_create(&mut pod, &world);
        Ok(pod)
    }

    #[test]
    fn a_bare_pod_gets_what_every_pod_has() {
        let pod = admitted(&json!({"containers": [{"name": "c", "image": "i"}]})).unwrap();
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["priority"], 0);
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn gated_pods_say_so() {
        let pod = admitted(&json!({"containers": [], "schedulingGates": [{"name": "g"}]})).unwrap();
        assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
    }

    #[test]
    fn unknown_priority_classes_are_refused() {
        let refused = admitted(&json!({"containers": [], "priorityClassName": "none"})).unwrap_err();
        assert_eq!(refused.0, "no PriorityClass with name none was found");
    }

    #[test]
    fn own_tolerations_are_kept() {
        let pod = admitted(&json!({"containers": [], "tolerations": [{"operator": "Exists"}]})).unwrap();
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn only_scheduled_pods_wait() {
        let grace = |pod: Value, requested| pods().grace_period(&pod, requested);
        let spec = json!({"terminationGracePeriodSeconds": 30, "nodeName": "n"});
        assert_eq!(
            grace(json!({"spec": {"terminationGracePeriodSeconds": 30}}), None),
            Some(0)
        );
        assert_eq!(grace(json!({"spec": spec}), None), Some(30));
        assert_eq!(grace(json!({"spec": spec}), Some(0)), Some(0));
        assert_eq!(
            grace(json!({"spec": spec, "status": {"phase": "Failed"}}), None),
            Some(0)
        );
    }
}
