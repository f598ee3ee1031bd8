//! The objects of a disaggregated set, checked field by field where the contract names them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use coppice_api::types::{PodClique, PodCliqueSet};
use coppice_core::command::Kind;
use coppice_core::facts::SetFacts;
use coppice_core::gang_map::{Generation, StoredGangs};
use coppice_core::layout::{LiveSizes, ReplicaLayout};
use coppice_core::object::Owner;
use coppice_core::objects::{self, PodIdentity};
use coppice_core::settings::{Settings, TopologyLevels};
use serde_json::{Value, json};

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: dsr1
  namespace: serving
  uid: set-uid
  labels: {team: infer, grove.io/own: dropped}
  annotations: {note: kept, grove.io/mnnvl-group: rack1}
spec:
  replicas: 1
  template:
    cliqueStartupType: CliqueStartupTypeExplicit
    priorityClassName: inference-high
    topologyConstraint: {topologyName: gb200, pack: {required: block}}
    resourceSharing:
    - {name: shared, scope: AllReplicas}
    cliques:
    - name: frontend
      labels: {app: web}
      spec:
        roleName: frontend
        replicas: 2
        minAvailable: 1
        autoScalingConfig: {minReplicas: 1, maxReplicas: 4}
        podSpec:
          priorityClassName: overruled
          containers: [{name: main, image: web, env: [{name: MINE, value: x}, {name: GROVE_PCS_NAME, value: faked}]}]
    - name: leader
      spec:
        roleName: leader
        replicas: 1
        minAvailable: 1
        startsAfter: [worker]
        podSpec:
          schedulingGates: [{name: example.com/theirs}]
          initContainers: [{name: prepare, image: init}]
          containers: [{name: main, image: engine}]
    - name: worker
      resourceSharing:
      - {name: own, scope: PerReplica}
      spec: {roleName: worker, replicas: 3, minAvailable: 3, podSpec: {containers: [{name: main, image: engine}]}}
    podCliqueScalingGroups:
    - {name: decode, cliqueNames: [leader, worker], replicas: 2, minAvailable: 1, topologyConstraint: {pack: {required: rack, preferred: nowhere}}, scaleConfig: {maxReplicas: 9}}
";

fn set() -> PodCliqueSet {
    serde_saphyr::from_str(SET).unwrap()
}

fn settings() -> Settings {
    Settings {
        topology_aware: true,
        ..Settings::default()
    }
}

fn topology() -> TopologyLevels {
    TopologyLevels {
        name: "gb200".into(),
        keys: BTreeMap::from([
            ("block".into(), "example.com/block".into()),
            ("rack".into(), "example.com/rack".into()),
        ]),
    }
}

/// The pod of a clique, by the clique's name.
fn pod_of(clique_name: &str, index: u32) -> Value {
    let set = set();
    let facts = SetFacts::of(&set);
    let layout = ReplicaLayout::new(
        &facts,
        0,
        &LiveSizes::default(),
        &StoredGangs::default(),
        Generation { hash: "h", given: true },
    );
    let clique = layout.cliques.iter().find(|clique| clique.name == clique_name).unwrap();
    let owner = Owner {
        kind: Kind::PodCliqueScalingGroup,
        name: "dsr1-0-decode".into(),
        uid: "group-uid".into(),
        blocks_deletion: true,
    };
    let source = objects::TemplateSource::of_set(&facts, clique.position);
    let clique_object = objects::pod_clique(&facts, &layout, clique, (source, "v1-hash"), &owner);
    let mut stored: PodClique = serde_json::from_value(json!(clique_object)).unwrap();
    stored.metadata.uid = Some("clique-uid".into());
    json!(objects::pod(
        &facts,
        &settings(),
        &layout,
        clique,
        &stored,
        PodIdentity {
            index,
            token: "1",
            ..PodIdentity::default()
        },
    ))
}

fn environment(pod: &Value, list: &str, container: usize) -> Vec<String> {
    let entries = pod["spec"][list][container]["env"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_pod_is_told_where_it_stands_before_the_users_own_variables() {
    let pod = pod_of("dsr1-0-frontend", 1);
    assert_eq!(
        environment(&pod, "containers", 0),
        [
            "GROVE_PCS_NAME",
            "GROVE_PCS_INDEX",
            "GROVE_PCLQ_NAME",
            "GROVE_HEADLESS_SERVICE",
            "GROVE_PCLQ_POD_INDEX",
            "MINE"
        ]
    );
    assert_eq!(
        pod["spec"]["containers"][0]["env"][0]["value"], "dsr1",
        "a user's variable of our name is dropped"
    );
    assert_eq!(
        pod["spec"]["containers"][0]["env"][3]["value"],
        "dsr1-0.serving.svc.cluster.local"
    );
    assert_eq!(pod["spec"]["hostname"], "dsr1-0-frontend-1");
    assert_eq!(pod["spec"]["subdomain"], "dsr1-0");
    assert_eq!(
        pod["spec"]["priorityClassName"], "inference-high",
        "the set's priority reaches the pods (W30)"
    );
    assert_eq!(pod["metadata"]["labels"]["grove.io/podclique-pod-index"], "1");
    assert_eq!(pod["metadata"]["labels"]["grove.io/podgang"], "dsr1-0-100001");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "clique-uid");
    assert_eq!(
        pod["spec"].get("schedulingGates"),
        None,
        "pods of the base gang need no gate"
    );
}

#[test]
fn members_of_a_scaling_group_know_their_copy_and_scaled_ones_wait_behind_a_gate() {
    let pod = pod_of("dsr1-0-decode-1-leader", 0);
    assert_eq!(
        environment(&pod, "containers", 0),
        [
            "GROVE_PCS_NAME",
            "GROVE_PCS_INDEX",
            "GROVE_PCLQ_NAME",
            "GROVE_HEADLESS_SERVICE",
            "GROVE_PCLQ_POD_INDEX",
            "GROVE_PCSG_POD_INDEX",
            "GROVE_PCSG_NAME",
            "GROVE_PCSG_TEMPLATE_NUM_PODS",
            "GROVE_PCSG_INDEX"
        ]
    );
    assert_eq!(pod["spec"]["containers"][0]["env"][7]["value"], "4");
    assert_eq!(
        pod["spec"]["schedulingGates"],
        json!([{"name": "example.com/theirs"}, {"name": "grove.io/podgang-pending-creation"}]),
        "a gate of another owner stays"
    );
    assert_eq!(pod["metadata"]["labels"]["grove.io/podgang"], "dsr1-0-100002-decode-1");
}

#[test]
fn a_waiting_pod_gets_the_waiter_last_without_our_variables_or_claims() {
    let pod = pod_of("dsr1-0-decode-0-leader", 0);
    let init = pod["spec"]["initContainers"].as_array().unwrap();
    assert_eq!(init.len(), 2);
    let waiter = &init[1];
    assert_eq!(waiter["name"], "grove-initc");
    assert_eq!(waiter["args"], json!(["--podcliques=dsr1-0-decode-0-worker:3"]));
    assert_eq!(waiter.get("env"), None);
    assert_eq!(waiter["resources"].get("claims"), None);
    assert_eq!(waiter["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
    let token = &pod["spec"]["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(token["expirationSeconds"], 3607, "the token expires");
    assert_eq!(
        init[0]["resources"]["claims"],
        json!([{"name": "dsr1-all-shared"}]),
        "the user's own get the claims"
    );
    assert_eq!(
        pod_of("dsr1-0-frontend", 0)["spec"].get("initContainers"),
        None,
        "who waits for nobody gets no waiter"
    );
}

#[test]
fn claims_follow_set_group_and_clique() {
    let pod = pod_of("dsr1-0-decode-0-worker", 2);
    assert_eq!(
        pod["spec"]["resourceClaims"],
        json!([
            {"name": "dsr1-all-shared", "resourceClaimName": "dsr1-all-shared"},
            {"name": "dsr1-0-decode-0-worker-2-own", "resourceClaimName": "dsr1-0-decode-0-worker-2-own"},
        ])
    );
}

#[test]
fn gangs_carry_node_label_keys_and_drop_unknown_domains() {
    let set = set();
    let facts = SetFacts::of(&set);
    let layout = ReplicaLayout::new(
        &facts,
        0,
        &LiveSizes::default(),
        &StoredGangs::default(),
        Generation { hash: "h", given: true },
    );
    let pods = BTreeMap::from([("dsr1-0-frontend".to_owned(), vec!["b".to_owned(), "a".to_owned()])]);
    let gang = |index: usize| {
        json!(objects::pod_gang(
            &facts,
            &settings(),
            Some(&topology()),
            &layout,
            index,
            &pods,
        ))
    };
    let base = gang(0);
    assert_eq!(base["metadata"]["name"], "dsr1-0-100001");
    assert_eq!(base["metadata"]["labels"]["team"], "infer");
    assert_eq!(base["metadata"]["labels"].get("grove.io/own"), None);
    assert_eq!(
        base["metadata"]["annotations"],
        json!({"note": "kept", "grove.io/topology-name": "gb200"})
    );
    assert_eq!(
        base["spec"]["topologyConstraint"]["packConstraint"],
        json!({"required": "example.com/block"})
    );
    assert_eq!(
        base["spec"]["topologyConstraintGroupConfigs"],
        json!([{
            "name": "dsr1-0-decode-0",
            "podGroupNames": ["dsr1-0-decode-0-leader", "dsr1-0-decode-0-worker"],
            "topologyConstraint": {"packConstraint": {"required": "example.com/rack"}},
        }])
    );
    assert_eq!(
        base["spec"]["podgroups"][0]["podReferences"][0]["name"], "a",
        "references are sorted"
    );
    assert_eq!(base["spec"]["podgroups"][0]["minReplicas"], 1);
    let scaled = gang(1);
    assert_eq!(scaled["metadata"]["name"], "dsr1-0-100002-decode-1");
    assert_eq!(
        scaled["spec"]["topologyConstraint"]["packConstraint"],
        json!({"required": "example.com/block"})
    );
    assert_eq!(
        scaled["spec"]["topologyConstraintGroupConfigs"],
        json!([{
            "name": "dsr1-0-decode-1",
            "podGroupNames": ["dsr1-0-decode-1-leader", "dsr1-0-decode-1-worker"],
            "topologyConstraint": {"packConstraint": {"required": "example.com/rack"}},
        }])
    );
}

#[test]
fn gangs_tell_over_which_label_key_replicas_spread() {
    let annotations_of = |key: &str, over: &str| {
        let mut set = set();
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), over.to_owned());
        let facts = SetFacts::of(&set);
        let layout = ReplicaLayout::new(
            &facts,
            0,
            &LiveSizes::default(),
            &StoredGangs::default(),
            Generation { hash: "h", given: true },
        );
        let levels = topology();
        let gang = objects::pod_gang(&facts, &settings(), Some(&levels), &layout, 1, &BTreeMap::new());
        gang.metadata.annotations
    };
    let required = annotations_of("grove.io/spread-required", "rack");
    assert_eq!(required["grove.io/spread-required"], "example.com/rack");
    let preferred = annotations_of("grove.io/spread-preferred", "example.com/row");
    assert_eq!(preferred["grove.io/spread-preferred"], "example.com/row");
    let unknown = annotations_of("grove.io/spread-required", "nowhere");
    assert_eq!(
        unknown.get("grove.io/spread-required"),
        None,
        "a condition of the set tells so"
    );
}

#[test]
fn permissions_exist_only_where_somebody_waits() {
    let with_order = set();
    let facts = SetFacts::of(&with_order);
    let binding = objects::reader_role_binding(&facts).unwrap();
    assert_eq!(
        *binding.body.field("subjects"),
        json!([{"kind": "ServiceAccount", "name": "default", "namespace": "serving"}])
    );
    let mut without_order = set();
    without_order.spec.template.clique_startup_type = None;
    let facts = SetFacts::of(&without_order);
    assert_eq!(
        (objects::reader_role(&facts), objects::reader_role_binding(&facts)),
        (None, None)
    );
}

#[test]
fn autoscalers_target_standalone_cliques_and_groups() {
    let set = set();
    let facts = SetFacts::of(&set);
    let targets: Vec<(String, String)> = objects::autoscalers(&facts, 0)
        .iter()
        .map(|autoscaler| {
            let target = &autoscaler.spec()["scaleTargetRef"];
            (
                target["kind"].as_str().unwrap().to_owned(),
                target["name"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(
        targets,
        [
            ("PodClique".into(), "dsr1-0-frontend".into()),
            ("PodCliqueScalingGroup".into(), "dsr1-0-decode".into())
        ]
    );
}

#[test]
fn services_and_scaling_groups_follow_the_contract() {
    let set = set();
    let facts = SetFacts::of(&set);
    let layout = ReplicaLayout::new(
        &facts,
        0,
        &LiveSizes::default(),
        &StoredGangs::default(),
        Generation { hash: "h", given: true },
    );
    let service = objects::headless_service(&facts, 0);
    assert_eq!(service.spec()["clusterIP"], "None");
    assert_eq!(service.spec()["publishNotReadyAddresses"], true);
    assert_eq!(
        service.spec()["selector"],
        json!({"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "dsr1", "grove.io/podcliqueset-replica-index": "0"})
    );
    let group = objects::scaling_group(&facts, &layout, &layout.groups[0]);
    assert_eq!(
        *group.spec(),
        json!({"replicas": 2, "minAvailable": 1, "cliqueNames": ["leader", "worker"]})
    );
    assert_eq!(group.metadata.annotations["grove.io/mnnvl-group"], "rack1");
    assert_eq!(group.metadata.finalizers, ["grove.io/podcliquescalinggroup.grove.io"]);
}
