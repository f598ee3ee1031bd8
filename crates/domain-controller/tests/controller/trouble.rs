//! What goes wrong is reported: names that are taken, full cliques, unknown fabrics, refused objects; and others write, too.

use std::sync::Arc;

use coppice_domain_controller::DomainController;
use coppice_domains::api::{Clique, DaemonRow, Readiness, crd, names};
use coppice_domains::decide::status::{READY, TEMPLATES};
use coppice_runtime::layers::{Call, Fault};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::stage::{CLIQUE, DRIVER, LONG, Stage, TEAM, Writes, create, node_name};

#[tokio::test(start_paused = true)]
async fn a_taken_template_name_is_reported_until_it_is_free() {
    let stage = Stage::start().await;
    let writes = Writes::default();
    let templates = stage.namespaced::<ResourceClaimTemplate>(TEAM);
    let foreign = json!({"metadata": {"name": "imex-channel"}, "spec": {"spec": {}}});
    create(&templates, foreign).await;
    let controller = stage.controller(writes.hook()).await;
    let uid = stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    let (reason, message) = stage.condition("imex", TEMPLATES).await;
    assert_eq!(reason, "TemplateNameTaken");
    assert!(message.contains("imex-channel"), "{message}");
    let events = stage
        .namespaced::<Event>(TEAM)
        .list(&ListParams::default())
        .await
        .unwrap();
    let reasons: Vec<_> = events.items.iter().filter_map(|event| event.reason.clone()).collect();
    assert_eq!(reasons, ["TemplateNameTaken"]);
    let total = writes.total();
    tokio::time::sleep(LONG).await;
    assert_eq!(writes.total(), total, "nothing is tried in vain");
    templates
        .delete("imex-channel", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.condition("imex", TEMPLATES).await.0, "Created");
    assert!(
        stage
            .objects(&uid)
            .await
            .contains(&format!("ResourceClaimTemplate {TEAM}/imex-channel"))
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_clique_names_the_node_that_cannot_join() {
    let stage = Stage::start().await;
    for number in 0..3 {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let mut options = stage.options();
    options.settings.max_nodes = 2;
    let controller = DomainController::start(stage.client.clone(), options).await;
    let uid = stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    for number in 0..3 {
        stage.label(&node_name(number), Some(&uid)).await;
    }
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.rows(&uid).await.len(), 2);
    let (reason, message) = stage.condition("imex", READY).await;
    assert_eq!(reason, "CliqueFull");
    assert!(message.contains("node-02") && message.contains('2'), "{message}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_fabric_join_without_a_row_and_unknown_fabrics_are_reported() {
    let stage = Stage::start().await;
    stage.add_node("plain", "").await;
    create(
        &stage.all::<k8s_openapi::api::core::v1::Node>(),
        json!({"metadata": {"name": "silent"}}),
    )
    .await;
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.label("plain", Some(&uid)).await;
    stage.add_pod("daemon", "plain", &uid, true).await;
    stage.set_pod("daemon", "10.0.0.9", true).await;
    tokio::time::sleep(LONG).await;
    let nodes = stage.domain("imex").await.unwrap().status.unwrap().nodes;
    assert_eq!(
        (nodes.len(), nodes[0].index, nodes[0].status),
        (1, -1, Readiness::Ready)
    );
    assert_eq!(stage.condition("imex", READY).await.0, "AllNodesReady");
    stage.label("silent", Some(&uid)).await;
    tokio::time::sleep(LONG).await;
    let (reason, message) = stage.condition("imex", READY).await;
    assert_eq!(reason, "FabricUnknown");
    assert!(message.contains("silent"), "{message}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_plugin_publishes_no_clique_is_in_that_of_its_label() {
    let stage = Stage::start().await;
    let labels = json!({names::GPU_CLIQUE_LABEL: CLIQUE});
    let node = json!({"metadata": {"name": "node-00", "labels": labels}});
    create(&stage.all::<k8s_openapi::api::core::v1::Node>(), node).await;
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.label("node-00", Some(&uid)).await;
    tokio::time::sleep(LONG).await;
    let rows = stage.rows(&uid).await;
    assert_eq!((rows.len(), rows[0].index), (1, Some(0)));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_that_was_deleted_under_its_domain_comes_back() {
    let stage = Stage::start().await;
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    let before = stage.objects(&uid).await;
    let sets = stage.namespaced::<k8s_openapi::api::apps::v1::DaemonSet>(DRIVER);
    let name = names::daemon_set(&uid);
    let old = sets.get(&name).await.unwrap().metadata.uid;
    sets.delete(&name, &DeleteParams::default()).await.unwrap();
    let templates = stage.namespaced::<ResourceClaimTemplate>(TEAM);
    templates
        .delete("imex-channel", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.objects(&uid).await, before);
    assert_ne!(sets.get(&name).await.unwrap().metadata.uid, old);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_the_drivers_own_daemons_are_adopted_as_they_are() {
    let stage = Stage::start().await;
    for number in 0..2 {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let controller = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    stage.add_pod("foreign", "node-01", &uid, false).await;
    stage.set_pod("foreign", "10.0.0.7", true).await;
    let row = DaemonRow {
        node_name: "node-01".into(),
        ip_address: "10.0.0.7".into(),
        clique_id: CLIQUE.into(),
        index: Some(5),
        status: Readiness::Ready,
        ..DaemonRow::default()
    };
    let labels = json!({names::DOMAIN_LABEL: uid, names::CLIQUE_LABEL: CLIQUE});
    let object = json!({
        "metadata": {"name": names::clique(&uid, CLIQUE), "labels": labels}, "daemons": [row.clone()],
    });
    let cliques: Api<Clique> = Api::namespaced(stage.client.clone(), DRIVER);
    create(&cliques, object).await;
    stage.label("node-01", Some(&uid)).await;
    stage.label("node-00", Some(&uid)).await;
    tokio::time::sleep(LONG).await;
    let rows = stage.rows(&uid).await;
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].node_name.as_str(), rows[0].index), ("node-00", Some(0)));
    assert_eq!(rows[1], row, "neither its index nor anything else has changed");
    controller.stop().await;
}

/// The definitions of NVIDIA's driver drop what we add.
#[tokio::test(start_paused = true)]
async fn definitions_without_our_fields_do_not_make_it_write_again_and_again() {
    let mut definitions = crd::all();
    for definition in &mut definitions {
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        if let Some(status) = schema["status"]["properties"].as_object_mut() {
            assert!(status.remove("conditions").is_some() && status.remove("cliques").is_some());
        }
        if let Some(row) = schema["daemons"]["items"]["properties"].as_object_mut() {
            assert!(row.remove("podUID").is_some());
        }
    }
    let stage = Stage::start_with(&definitions).await;
    for number in 0..3 {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let stage = Arc::new(stage);
    let writes = Writes::default();
    let controller = stage.controller(writes.hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..3, &uid).await;
    tokio::time::sleep(LONG).await;
    assert!(stage.rows(&uid).await.iter().all(|row| row.pod_uid.is_none()));
    let status = stage.domain("imex").await.unwrap().status.unwrap();
    assert_eq!(
        (status.status, status.nodes.len(), status.conditions.len()),
        (Readiness::Ready, 3, 0)
    );
    let total = writes.total();
    // Any event of the domain makes the controller look at it again.
    stage.set_pod("daemon-00", "10.0.0.1", true).await;
    stage.label("node-00", Some(&uid)).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"unrelated": "label"}}}));
    let nodes = stage.all::<k8s_openapi::api::core::v1::Node>();
    nodes.patch("node-00", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(writes.total(), total);
    stage.delete_pod("daemon-01").await;
    tokio::time::sleep(LONG).await;
    assert_eq!(stage.domain("imex").await.unwrap().status.unwrap().nodes.len(), 2);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_give_unique_indices() {
    let stage = Stage::start().await;
    for number in 0..18 {
        stage.add_node(&node_name(number), CLIQUE).await;
    }
    let stage = Arc::new(stage);
    let one = stage.controller(Writes::default().hook()).await;
    let other = stage.controller(Writes::default().hook()).await;
    let uid = stage.add_domain("imex").await;
    stage.join(0..18, &uid).await;
    tokio::time::sleep(LONG).await;
    let indices: Vec<_> = stage.rows(&uid).await.iter().map(|row| row.index).collect();
    assert_eq!(indices, (0..18).map(Some).collect::<Vec<_>>());
    assert_eq!(stage.condition("imex", READY).await.0, "AllNodesReady");
    one.stop().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_is_reported_with_the_servers_words() {
    let stage = Stage::start().await;
    let refuse = |call: &Call| {
        let creates = call.verb == "create" && call.resource == "daemonsets";
        if !creates {
            return Fault::Pass;
        }
        Fault::Status {
            code: 403,
            reason: "Forbidden".to_owned(),
            message: "exceeded quota: compute".to_owned(),
            retry_after: None,
        }
    };
    let controller = stage.controller(refuse).await;
    stage.add_domain("imex").await;
    tokio::time::sleep(LONG).await;
    let (reason, message) = stage.condition("imex", TEMPLATES).await;
    assert_eq!(reason, "CreateRefused");
    assert!(message.contains("exceeded quota"), "{message}");
    controller.stop().await;
}
