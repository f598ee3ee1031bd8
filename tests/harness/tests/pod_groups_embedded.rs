//! The objects of KAI and Volcano on the embedded API server.

mod pod_groups;

use coppice_apiserver::ApiServer;
use coppice_harness::definitions::{kai_pod_groups, volcano_pod_groups};
use kube::Client;
use pod_groups::{create_all, define, golden};

#[tokio::test]
async fn the_objects_of_kai_are_valid_under_its_definition() {
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    define(&client, kai_pod_groups()).await;
    create_all(&client, &golden("kai")).await;
}

#[tokio::test]
async fn the_objects_of_volcano_are_valid_under_its_definition() {
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    define(&client, volcano_pod_groups()).await;
    create_all(&client, &golden("volcano")).await;
}
