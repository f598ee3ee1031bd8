//! The workloads as manifests: one `PodCliqueSet` each, in two shapes. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the set, in a namespace of its own for each round.
pub(crate) const SET: &str = "scale";

/// What one replica of a set consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// A mixture-of-experts server: one clique of two pods that need each other.
    Moe,
    /// A clique of two pods beside two copies of a scaling group, each a leader with three workers: ten pods.
    Groups,
}

impl Shape {
    /// Pods of one replica.
    pub(crate) fn pods(self) -> u32 {
        match self {
            Self::Moe => 2,
            Self::Groups => 10,
        }
    }

    /// A set of so many replicas.
    pub(crate) fn set(self, namespace: &str, replicas: u32) -> Value {
        let mut template = json!({
            "headlessServiceConfig": {"publishNotReadyAddresses": true},
            "terminationDelay": "4h",
        });
        match self {
            Self::Moe => template["cliques"] = json!([clique("expert", 2)]),
            Self::Groups => {
                template["cliques"] = json!([clique("router", 2), clique("leader", 1), clique("worker", 3)]);
                template["podCliqueScalingGroups"] =
                    json!([{"name": "model", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 2}]);
            }
        }
        json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
            "metadata": {"name": SET, "namespace": namespace},
            "spec": {"replicas": replicas, "template": template},
        })
    }
}

fn clique(name: &str, pods: u32) -> Value {
    json!({"name": name, "spec": {
        "roleName": name, "replicas": pods, "minAvailable": pods,
        "podSpec": {"containers": [{"name": "main", "image": "model:1",
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_the_pods_it_says() {
        let of = |list: &Value, field: &str| -> u64 {
            let all = list.as_array().into_iter().flatten();
            all.filter_map(|item| item.pointer(field)?.as_u64()).sum()
        };
        let moe = &Shape::Moe.set("n", 3)["spec"]["template"];
        assert_eq!(of(&moe["cliques"], "/spec/replicas"), u64::from(Shape::Moe.pods()));
        let groups = &Shape::Groups.set("n", 3)["spec"]["template"];
        let (copies, all) = (
            of(&groups["podCliqueScalingGroups"], "/replicas"),
            of(&groups["cliques"], "/spec/replicas"),
        );
        let alone = groups["cliques"][0]["spec"]["replicas"].as_u64().unwrap();
        assert_eq!(alone + copies * (all - alone), u64::from(Shape::Groups.pods()));
    }
}
