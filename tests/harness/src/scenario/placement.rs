//! Whether pods lie together, or apart: the labels of the nodes they are bound to. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::expectation::Difference;
use super::world::{ObjectKey, World, labels};

/// Compares a label of the nodes of all pods with that of the first; a pod without a node, or on a node without the
/// label, lies nowhere.
pub(super) fn compare(label: &str, pods: &[(&ObjectKey, &Arc<Value>)], world: &World) -> Vec<Difference> {
    let value = |pod: &Value| value(label, pod, world);
    let wanted = pods.iter().find_map(|(key, pod)| Some((key, value(pod)?)));
    let difference = |(key, pod): &(&ObjectKey, &Arc<Value>)| {
        let (actual, expected) = match (value(pod), &wanted) {
            (Some(actual), Some((_, wanted))) if actual == *wanted => return None,
            (actual, Some((first, wanted))) => (actual, format!("{wanted} as in {first}")),
            (actual, None) => (actual, "some value".to_owned()),
        };
        Some(Difference {
            object: Some((*key).clone()),
            what: format!("{label} of its node"),
            expected,
            actual: actual.unwrap_or_else(|| "none".to_owned()),
        })
    };
    pods.iter().filter_map(difference).collect()
}

/// The pods that have no value of their own of a label of their nodes.
pub(super) fn compare_distinct(label: &str, pods: &[(&ObjectKey, &Arc<Value>)], world: &World) -> Vec<Difference> {
    let mut seen: BTreeMap<String, &ObjectKey> = BTreeMap::new();
    let mut found = Vec::new();
    for (key, pod) in pods {
        let actual = value(label, pod, world);
        let expected = match &actual {
            None => "some value".to_owned(),
            Some(actual) => match seen.get(actual) {
                None => {
                    seen.insert(actual.clone(), key);
                    continue;
                }
                Some(first) => format!("another than {first}"),
            },
        };
        found.push(Difference {
            object: Some((*key).clone()),
            what: format!("{label} of its node"),
            expected,
            actual: actual.unwrap_or_else(|| "none".to_owned()),
        });
    }
    found
}

/// The label of the node of a pod.
fn value(label: &str, pod: &Value, world: &World) -> Option<String> {
    let node = ObjectKey {
        kind: "Node".to_owned(),
        group: String::new(),
        namespace: String::new(),
        name: pod.pointer("/spec/nodeName")?.as_str()?.to_owned(),
    };
    labels(world.get(&node)?).get(label).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::target::Target;
    use serde_json::json;

    #[test]
    fn pods_lie_together_when_the_labels_of_their_nodes_agree_and_apart_when_they_differ() {
        let mut world = World::default();
        let key = |kind: &str, name: &str| ObjectKey {
            kind: kind.to_owned(),
            group: String::new(),
            namespace: if kind == "Pod" { "n".to_owned() } else { String::new() },
            name: name.to_owned(),
        };
        for (node, rack) in [("n1", "r1"), ("n2", "r1"), ("n3", "r2")] {
            world.apply(
                key("Node", node),
                json!({"metadata": {"name": node, "labels": {"rack": rack}}}),
            );
        }
        let mut bind = |pod: &str, node: Option<&str>| {
            let object = json!({"metadata": {"name": pod, "namespace": "n"}, "spec": {"nodeName": node}});
            world.apply(key("Pod", pod), object);
            let pods = Target::all("Pod".parse().unwrap()).select(&world, "n");
            let told = |found: Vec<Difference>| {
                let pairs = found.into_iter().map(|found| (found.expected, found.actual));
                pairs.collect::<Vec<_>>()
            };
            (
                told(compare("rack", &pods, &world)),
                told(compare_distinct("rack", &pods, &world)),
            )
        };
        let row = |expected: &str, actual: &str| vec![(expected.to_owned(), actual.to_owned())];
        let nowhere = || row("some value", "none");
        assert_eq!(bind("a", None), (nowhere(), nowhere()));
        assert_eq!(bind("a", Some("n1")), (vec![], vec![]));
        assert_eq!(bind("b", None), (row("r1 as in Pod a", "none"), nowhere()));
        assert_eq!(bind("b", Some("n2")), (vec![], row("another than Pod a", "r1")));
        assert_eq!(bind("b", Some("n3")), (row("r1 as in Pod a", "r2"), vec![]));
    }
}
