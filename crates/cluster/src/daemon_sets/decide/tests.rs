use super::super::template;
use super::*;
use crate::tolerations::Taint;
use crate::view::Reduced;
use crate::view::tests::view;
use coppice_runtime::cache::ObjectKey;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
fn set(spec: Value) -> DaemonSet {
    let mut object = json!({
        "metadata": {"namespace": "n", "name": "agent", "uid": "s", "resourceVersion": "1", "generation": 1},
        "spec": {"template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}}},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"]["template"]["spec"][key] = value.clone();
    }
    with_object(object)
}

fn with_object(object: Value) -> DaemonSet {
    view(&Reduced::new(DaemonSet::from_object), object)
}

fn node(name: &str) -> Arc<Node> {
    Arc::new(Node {
        meta: Meta {
            key: ObjectKey::new("", name),
            ..Meta::default()
        },
        labels: [("disk".to_owned(), name.to_owned())].into(),
        ..Node::default()
    })
}

fn tainted(name: &str, key: &str, effect: &str) -> Arc<Node> {
    let mut node = Arc::unwrap_or_clone(node(name));
    node.taints = vec![Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        ..Taint::default()
    }];
    Arc::new(node)
}

/// The pod that the set would create, bound to its node.
fn pod(set: &DaemonSet, node: &str, ready: bool) -> Pod {
    let mut object = template::pod(set, node);
    object["metadata"]["uid"] = json!(node);
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    object["spec"]["nodeName"] = json!(node);
    let status = if ready { "True" } else { "False" };
    let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": "1970-01-01T00:01:40Z"});
    object["status"] = json!({"phase": "Running", "conditions": [condition]});
    view(&Reduced::new(Pod::from_object), object).unwrap()
}

fn planned(set: &DaemonSet, nodes: &[Arc<Node>], pods: impl IntoIterator<Item = Pod>) -> Plan {
    let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(Some(pod))).collect();
    plan(set, nodes, &pods, at(100))
}

fn names(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    let created = plan.create.iter().map(|node| &**node).collect();
    (created, plan.delete.iter().map(|meta| &*meta.uid).collect())
}

#[test]
fn every_eligible_node_gets_one_pod_and_no_second_one() {
    let set = set(json!({}));
    let nodes = [node("a"), node("b"), node("c")];
    let plan = planned(&set, &nodes, [pod(&set, "b", true)]);
    assert_eq!(names(&plan), (vec!["a", "c"], vec![]));
    let mut leaving = pod(&set, "a", true);
    leaving.deleting = true;
    let plan = planned(&set, &nodes[..1], [leaving]);
    assert_eq!(names(&plan), (vec![], vec![]), "the old pod must be gone first");
}

#[test]
fn selectors_affinity_and_taints_decide_which_nodes_are_eligible() {
    let both = [node("a"), node("b")];
    let selecting = set(json!({"nodeSelector": {"disk": "b"}}));
    assert_eq!(names(&planned(&selecting, &both, [])).0, ["b"]);
    let expression = json!({"key": "disk", "operator": "NotIn", "values": ["b"]});
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    let affine = set(json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": required}}}));
    assert_eq!(names(&planned(&affine, &both, [])).0, ["a"]);
    let plain = set(json!({}));
    let nodes = [
        tainted("a", "node.kubernetes.io/unschedulable", "NoSchedule"),
        tainted("b", "node.kubernetes.io/unreachable", "NoExecute"),
        tainted("c", "gpu", "NoSchedule"),
        tainted("d", "gpu", "NoExecute"),
    ];
    assert_eq!(names(&planned(&plain, &nodes, [])).0, ["a", "b"]);
    let stays = planned(&plain, &nodes, ["a", "b", "c", "d"].map(|name| pod(&plain, name, true)));
    assert_eq!(names(&stays), (vec![], vec!["d"]), "a taint NoSchedule keeps what runs");
    assert_eq!(stays.status.number_misscheduled, 2);
    let tolerant = set(json!({"tolerations": [{"operator": "Exists"}]}));
    assert_eq!(names(&planned(&tolerant, &nodes, [])).0.len(), 4);
}

#[test]
fn what_ended_or_is_one_too_many_is_deleted() {
    let set = set(json!({}));
    let mut failed = pod(&set, "a", false);
    failed.ended = true;
    let mut second = pod(&set, "b", true);
    (second.meta.uid, second.created) = ("later".into(), Some("2026-01-02T00:00:00Z".parse().unwrap()));
    let mut nowhere = pod(&set, "gone", false);
    nowhere.bound = false;
    let pods = [failed, second, pod(&set, "b", true), nowhere];
    let plan = planned(&set, &[node("a"), node("b")], pods);
    assert_eq!(names(&plan), (vec![], vec!["a", "later", "gone"]));
}

#[test]
fn old_pods_are_replaced_within_the_budget_and_broken_ones_at_once() {
    let old = set(json!({}));
    let mut object = json!({
        "metadata": {"namespace": "n", "name": "agent", "uid": "s", "resourceVersion": "2", "generation": 2},
        "spec": {"template": {"spec": {"containers": [{"name": "new"}]}}, "updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}},
    });
    let new = with_object(object.clone());
    let nodes: Vec<_> = ["a", "b", "c"].map(node).into();
    let all_ready = || ["a", "b", "c"].map(|name| pod(&old, name, true));
    assert_eq!(
        names(&planned(&new, &nodes, all_ready())).1,
        ["a", "b"],
        "50 % of three, rounded up"
    );
    let mut one_broken = all_ready();
    one_broken[2].ready_since = None;
    assert_eq!(names(&planned(&new, &nodes, one_broken)).1, ["c", "a"]);
    let updated = [pod(&new, "a", false), pod(&old, "b", true), pod(&old, "c", true)];
    let plan = planned(&new, &nodes, updated);
    assert_eq!(names(&plan).1, ["b"], "one is unavailable already");
    assert_eq!(
        (plan.status.updated_number_scheduled, plan.status.number_available),
        (1, 2)
    );
    object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let on_delete = with_object(object);
    assert!(names(&planned(&on_delete, &nodes, all_ready())).1.is_empty());
}

#[test]
fn a_pod_is_available_after_it_has_been_ready_long_enough() {
    let mut set = set(json!({}));
    set.min_ready = std::time::Duration::from_secs(10);
    let plan = planned(&set, &[node("a")], [pod(&set, "a", true)]);
    assert_eq!((plan.status.number_ready, plan.status.number_available), (1, 0));
    assert_eq!(plan.wake, Some(at(110)));
}

#[test]
fn a_pod_is_bound_to_its_node_by_affinity_and_carries_the_revision() {
    let set = set(json!({"nodeSelector": {"disk": "a"}}));
    let made = template::pod(&set, "a");
    assert_eq!(made, template::pod(&set, "a"), "the name is the same every time");
    assert_ne!(made["metadata"]["name"], template::pod(&set, "b")["metadata"]["name"]);
    assert_eq!(
        made["metadata"]["labels"][template::REVISION_LABEL],
        json!(set.revision)
    );
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 6);
    let unbound = Pod {
        bound: false,
        ..pod(&set, "a", false)
    };
    assert_eq!((&*unbound.node, &*unbound.owner), ("a", "s"));
}
