//! What a domain reports in the situations that users meet.

use super::*;

fn row(node: &str, index: i64, address: &str, status: Readiness, pod: Option<&str>) -> DaemonRow {
    DaemonRow {
        node_name: node.into(),
        ip_address: address.into(),
        clique_id: "u.1".into(),
        index: Some(index),
        status,
        pod_uid: pod.map(Into::into),
        ..DaemonRow::default()
    }
}

fn with_rows(rows: Vec<DaemonRow>) -> StatusFacts {
    StatusFacts {
        rows: [("u.1".to_owned(), rows)].into(),
        ..StatusFacts::default()
    }
}

fn domain(num_nodes: i64) -> ComputeDomain {
    let mut domain = ComputeDomain::default();
    domain.spec.num_nodes = num_nodes;
    domain
}

fn report(num_nodes: i64, facts: &StatusFacts) -> (Readiness, String, String) {
    let status = roll_up(&domain(num_nodes), facts, Timestamp::UNIX_EPOCH);
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY)
        .unwrap();
    (status.status, ready.reason.clone(), ready.message.clone())
}

/// `status.status` has the driver's meaning; the condition says what it does not.
#[test]
fn an_empty_elastic_domain_is_ready_in_the_old_sense_only() {
    let (status, reason, _) = report(0, &StatusFacts::default());
    assert_eq!((status, reason.as_str()), (Readiness::Ready, "NoNodes"));
    let (status, reason, message) = report(2, &StatusFacts::default());
    assert_eq!(
        (status, reason.as_str(), message.as_str()),
        (Readiness::NotReady, "WaitingForNodes", "0 of 2 nodes have joined")
    );
}

#[test]
fn reasons_name_the_node_that_is_waited_for() {
    let ready = row("a", 0, "10.0.0.1", Readiness::Ready, Some("p"));
    let reserved = with_rows(vec![ready.clone(), row("b", 1, "", Readiness::NotReady, None)]);
    let (status, reason, message) = report(0, &reserved);
    assert_eq!((status, reason.as_str()), (Readiness::Ready, "WaitingForDaemons"));
    assert_eq!(message, "1 of 1 nodes ready; node b waits for its daemon pod");
    let lost = with_rows(vec![ready.clone(), row("b", 1, "", Readiness::NotReady, Some("q"))]);
    assert_eq!(report(0, &lost).1, "DaemonsLost");
    let starting = with_rows(vec![
        ready.clone(),
        row("b", 1, "10.0.0.2", Readiness::NotReady, Some("q")),
    ]);
    let (status, reason, _) = report(0, &starting);
    assert_eq!((status, reason.as_str()), (Readiness::NotReady, "DaemonsNotReady"));
    let full = StatusFacts {
        refused: vec![Refusal::Full {
            node: "z".into(),
            max: 18,
        }],
        ..with_rows(vec![ready.clone()])
    };
    assert_eq!(report(0, &full).1, "CliqueFull");
    assert_eq!(report(1, &with_rows(vec![ready])).1, "AllNodesReady");
}

#[test]
fn nodes_without_a_fabric_have_index_minus_one_and_reserved_rows_are_not_listed() {
    let pod = PodFacts {
        uid: "p".into(),
        node: "n".into(),
        created: Timestamp::UNIX_EPOCH,
        address: "10.0.0.9".into(),
        ready: true,
        ended: false,
        writes_own_row: false,
        reported_clique: Some(String::new()),
    };
    let facts = StatusFacts {
        pods_without_fabric: vec![pod],
        ..with_rows(vec![row("b", 1, "", Readiness::NotReady, None)])
    };
    let status = roll_up(&domain(0), &facts, Timestamp::UNIX_EPOCH);
    assert_eq!(status.nodes.len(), 1);
    assert_eq!((status.nodes[0].index, status.nodes[0].clique_id.as_str()), (-1, ""));
    assert_eq!(status.cliques[0].assigned, 1);
}

/// #1486: entries of daemons that were born with the clique gate off are not overwritten.
#[test]
fn entries_of_daemons_that_report_into_the_status_are_kept() {
    let mut domain = domain(0);
    let entry = DomainNode {
        name: "a".into(),
        clique_id: "u.1".into(),
        index: 4,
        ..DomainNode::default()
    };
    domain.status = Some(DomainStatus {
        nodes: vec![entry.clone()],
        ..DomainStatus::default()
    });
    let mut facts = StatusFacts {
        protocol: RowProtocol::DomainStatus,
        ..StatusFacts::default()
    };
    assert_eq!(roll_up(&domain, &facts, Timestamp::UNIX_EPOCH).nodes, [entry]);
    facts.protocol = RowProtocol::Cliques;
    assert!(roll_up(&domain, &facts, Timestamp::UNIX_EPOCH).nodes.is_empty());
}

#[test]
fn the_same_facts_give_the_same_status_at_any_time() {
    let facts = with_rows(vec![row("a", 0, "10.0.0.1", Readiness::Ready, Some("p"))]);
    let mut domain = domain(0);
    let first = roll_up(&domain, &facts, Timestamp::from_second(1).unwrap());
    domain.status = Some(first.clone());
    assert_eq!(roll_up(&domain, &facts, Timestamp::from_second(999).unwrap()), first);
}

#[test]
fn a_huge_domain_has_a_bounded_status() {
    let rows = (0..6_000).map(|number| row(&format!("n{number:05}"), number, "10.0.0.1", Readiness::Ready, None));
    let status = roll_up(&domain(6_000), &with_rows(rows.collect()), Timestamp::UNIX_EPOCH);
    assert_eq!(status.nodes.len(), limits::MAX_STATUS_NODES);
    assert_eq!(status.status, Readiness::Ready);
    assert!(serde_json::to_vec(&status).unwrap().len() < 1_000_000);
}

#[test]
fn deletion_under_a_running_workload_is_reported() {
    let mut domain = domain(0);
    domain.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::UNIX_EPOCH,
    ));
    let facts = StatusFacts {
        workload_pods: 3,
        ..StatusFacts::default()
    };
    let status = roll_up(&domain, &facts, Timestamp::UNIX_EPOCH);
    assert_eq!(status.conditions[0].reason, "DeletedUnderWorkload");
}
