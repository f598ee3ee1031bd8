//! A rack forms a domain, loses a daemon, loses a node, and is deleted.

use std::sync::Arc;

use coppice_domains::api::{ComputeDomain, Readiness, names};
use coppice_domains::decide::rows::Phase;
use coppice_domains::decide::status::{READY, TEMPLATES};
use kube::Api;
use kube::api::DeleteParams;

use crate::stage::{CLIQUE, DRIVER, LONG, Stage, TEAM, Writes, address, node_name};

async fn rack(nodes: usize) -> Arc<Stage> {
    let stage = Stage::start().await;
    for number in 0..nodes {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    Arc::new(stage)
}

#[tokio::test(start_paused = true)]
async fn eighteen_nodes_form_a_domain_with_at_most_six_writes_of_their_clique() {
    let stage = rack(18).await;
    let writes = Writes::default();
    let controller = stage.controller(writes.hook()).await;
    let uid = stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    let mut expected = vec![
        format!("DaemonSet computedomain-daemon-{uid}"),
        format!("ResourceClaimTemplate {DRIVER}/computedomain-daemon-{uid}"),
        format!("ResourceClaimTemplate {TEAM}/imex-channel"),
    ];
    assert_eq!(stage.objects(&uid).await, expected);
    assert_eq!(stage.condition("imex", TEMPLATES).await.0, "Created");
    assert_eq!(stage.condition("imex", READY).await.0, "NoNodes");

    stage.join(0..18, &uid).await;
    tokio::time::sleep(LONG).await;
    let clique_writes = writes.of("computedomaincliques");
    assert!((1..=6).contains(&clique_writes), "{clique_writes} writes of the clique");
    let clique = stage.clique(&uid).await.unwrap();
    for (index, row) in clique.daemons.iter().enumerate() {
        assert_eq!(row.node_name, node_name(index), "indices follow the names of nodes");
        assert_eq!(row.index, Some(i64::try_from(index).unwrap()));
        assert_eq!(row.ip_address, address(index));
        assert_eq!(Phase::of(row), Phase::Ready);
    }
    assert_eq!(clique.daemons.len(), 18);
    let owners = clique.metadata.owner_references.unwrap();
    assert_eq!((owners.len(), owners[0].kind.as_str()), (1, "DaemonSet"));
    let status = stage.domain("imex").await.unwrap().status.unwrap();
    assert_eq!((status.status, status.nodes.len()), (Readiness::Ready, 18));
    assert_eq!(
        stage.condition("imex", READY).await,
        ("AllNodesReady".into(), "18 of 18 nodes ready".into())
    );

    // At rest nothing is written.
    let total = writes.total();
    tokio::time::sleep(LONG).await;
    assert_eq!(writes.total(), total);
    expected.extend((0..18).map(|number| format!("Node {}", node_name(number))));
    assert_eq!(stage.objects(&uid).await, expected);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_daemon_keeps_its_index_and_its_successor_gets_it() {
    let stage = rack(3).await;
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..3, &uid).await;
    tokio::time::sleep(LONG).await;
    stage.delete_pod("daemon-01").await;
    tokio::time::sleep(LONG).await;
    let rows = stage.rows(&uid).await;
    assert_eq!(
        (rows.len(), rows[1].index, Phase::of(&rows[1])),
        (3, Some(1), Phase::Retained)
    );
    let (reason, message) = stage.condition("imex", READY).await;
    assert_eq!(reason, "DaemonsLost");
    assert!(message.contains("node-01"), "{message}");

    stage.add_pod("successor", "node-01", &uid, true).await;
    stage.set_pod("successor", "10.0.9.9", true).await;
    tokio::time::sleep(LONG).await;
    let rows = stage.rows(&uid).await;
    assert_eq!((rows[1].index, rows[1].ip_address.as_str()), (Some(1), "10.0.9.9"));
    assert_eq!(stage.condition("imex", READY).await.0, "AllNodesReady");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_frees_its_index_only_when_its_daemon_is_gone() {
    let stage = rack(4).await;
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..3, &uid).await;
    tokio::time::sleep(LONG).await;
    stage.label("node-01", None).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(
        stage.rows(&uid).await.len(),
        3,
        "its daemon may still answer under that name"
    );
    stage.delete_pod("daemon-01").await;
    tokio::time::sleep(LONG).await;
    let indices: Vec<_> = stage.rows(&uid).await.iter().map(|row| row.index).collect();
    assert_eq!(indices, [Some(0), Some(2)]);
    stage.join(3..4, &uid).await;
    tokio::time::sleep(LONG).await;
    let rows = stage.rows(&uid).await;
    assert_eq!((rows[1].node_name.as_str(), rows[1].index), ("node-03", Some(1)));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_domain_leaves_no_object_and_no_label() {
    let stage = rack(3).await;
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..3, &uid).await;
    tokio::time::sleep(LONG).await;
    let domains: Api<ComputeDomain> = Api::namespaced(stage.client.clone(), TEAM);
    domains.delete("imex", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.objects(&uid).await, Vec::<String>::new());
    assert!(stage.domain("imex").await.is_none());
    let owners = stage.clique(&uid).await.unwrap().metadata.owner_references.unwrap();
    assert_eq!(
        owners[0].name,
        names::daemon_set(&uid),
        "garbage collection removes it with the DaemonSet"
    );

    // A late Prepare labels a node for the domain that is gone.
    stage.label("node-02", Some(&uid)).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.objects(&uid).await, Vec::<String>::new());
    controller.stop().await;
}
