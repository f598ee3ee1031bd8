//! The workloads that tests plan, and how they look at their pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::World;

/// pc-a alone (2, minimum 1); sg-x two copies (minimum 1) of pc-b (1/1) and pc-c (3, minimum 1).
pub(crate) const WL2: &str = "
metadata: {name: wl}
spec:
  replicas: 1
  template:
    terminationDelay: 10s
    cliques:
    - {name: pc-a, spec: {roleName: a, replicas: 2, minAvailable: 1, podSpec: {containers: [{name: m, image: a}]}}}
    - {name: pc-b, spec: {roleName: b, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: m, image: b}]}}}
    - {name: pc-c, spec: {roleName: c, replicas: 3, minAvailable: 1, podSpec: {containers: [{name: m, image: c}]}}}
    podCliqueScalingGroups:
    - {name: sg-x, cliqueNames: [pc-b, pc-c], replicas: 2, minAvailable: 1}
";

/// As WL2, with every minimum equal to the size, and two copies in the base gang.
pub(crate) const WL1: &str = "
metadata: {name: wl}
spec:
  replicas: 1
  template:
    terminationDelay: 10s
    cliques:
    - {name: pc-a, spec: {roleName: a, replicas: 2, minAvailable: 2, podSpec: {containers: [{name: m, image: a}]}}}
    - {name: pc-b, spec: {roleName: b, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: m, image: b}]}}}
    - {name: pc-c, spec: {roleName: c, replicas: 3, minAvailable: 3, podSpec: {containers: [{name: m, image: c}]}}}
    podCliqueScalingGroups:
    - {name: sg-x, cliqueNames: [pc-b, pc-c], replicas: 2, minAvailable: 2}
";

/// The uids of all pods that did not end.
pub(crate) fn uids(world: &World) -> BTreeSet<String> {
    world
        .pods()
        .iter()
        .filter(|pod| pod["status"]["phase"] != "Failed")
        .map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned())
        .collect()
}

/// The pods of one clique that did not end.
pub(crate) fn pods_of<'a>(world: &'a World, clique: &str) -> Vec<&'a Value> {
    world
        .pods()
        .into_iter()
        .filter(|pod| pod["metadata"]["labels"]["grove.io/podclique"] == clique && pod["status"]["phase"] != "Failed")
        .collect()
}
