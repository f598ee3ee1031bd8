//! Many domains at once, and several namespaces of the driver.

use std::sync::Arc;
use std::time::Duration;

use coppice_domain_controller::{DomainController, Options};
use coppice_domains::api::Readiness;
use coppice_domains::decide::status::TEMPLATES;
use coppice_runtime::metrics::Metrics;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

use crate::stage::{CLIQUE, LONG, Stage, Writes, create, node_name};

/// §9.1 and §9.8: domains are worked on side by side, counted while they are, and no event waits for a token: a hundred
/// domains of a burst are formed within two seconds of virtual time, where ten events a second would take minutes.
#[tokio::test(start_paused = true)]
async fn a_burst_of_domains_is_worked_on_side_by_side_and_counted() {
    let stage = Stage::start().await;
    let metrics = Metrics::default();
    let options = Options {
        metrics: metrics.clone(),
        ..stage.options()
    };
    let controller = DomainController::start(stage.client(Writes::default().hook()), options).await;
    for number in 0..100 {
        stage.add_domain(&format!("imex-{number}")).await;
        assert!(!metrics.render().is_empty());
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for number in 0..100 {
        assert_eq!(stage.condition(&format!("imex-{number}"), TEMPLATES).await.0, "Created");
    }
    controller.stop().await;
}

/// §9.3: one view of a domain over all namespaces: nothing is written again and again.
#[tokio::test(start_paused = true)]
async fn additional_namespaces_do_not_write_over_each_other() {
    let stage = Arc::new(Stage::start().await);
    create(&stage.all::<Namespace>(), json!({"metadata": {"name": "old-driver"}})).await;
    for number in 0..3 {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let writes = Writes::default();
    let options = Options {
        additional_namespaces: vec!["old-driver".to_owned()],
        ..stage.options()
    };
    let controller = DomainController::start(stage.client(writes.hook()), options).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..3, &uid).await;
    tokio::time::sleep(LONG).await;
    let status = stage.domain("imex").await.unwrap().status.unwrap();
    assert_eq!((status.status, status.nodes.len()), (Readiness::Ready, 3));
    let total = writes.total();
    tokio::time::sleep(LONG).await;
    assert_eq!(writes.total(), total);
    controller.stop().await;
}
