//! The plugin, spoken to as a kubelet does: real gRPC over its Unix sockets, an embedded API server, and files in place of
//! the hardware.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod kubelet;
mod node;
mod path_authority;

use coppice_domain_plugin::PluginError;
use coppice_domains::api::names;
use coppice_domains::decide::daemon::readiness::NotReady;
use serde_json::json;

use crate::kubelet::Kubelet;
use crate::node::{CLIQUE, Daemon, Stage, until};

#[tokio::test]
async fn the_kubelet_registers_the_plugin_and_its_devices_are_published() {
    let stage = Stage::start().await;
    let running = stage.plugin().await.unwrap();
    let kubelet = Kubelet::new(&stage);
    let info = kubelet.info().await;
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", names::DRIVER));
    assert_eq!(info.endpoint, stage.settings.dra_socket().display().to_string());
    assert_eq!(info.supported_versions, ["v1.DRAPlugin", "v1beta1.DRAPlugin"]);
    kubelet.registered().await;
    until("the slice", async || stage.slices().await.len() == 1).await;
    let slice = &stage.slices().await[0];
    let devices = slice.spec.devices.as_ref().unwrap();
    let device_names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(device_names, ["channel-0", "daemon-0"]);
    let attribute = &devices[0].attributes.as_ref().unwrap()[names::CLIQUE_ATTRIBUTE];
    assert_eq!(attribute.string.as_deref(), Some(CLIQUE));
    // The kubelet deletes slices of plugins that it misses.
    stage.delete_slice(slice.metadata.name.as_deref().unwrap()).await;
    until("the slice is back", async || stage.slices().await.len() == 1).await;
    running.stop().await;
}

#[tokio::test]
async fn the_slice_of_nvidias_plugin_is_taken_over() {
    let stage = Stage::start().await;
    stage.add_slice("theirs", json!([{"name": "channel-0"}])).await;
    stage.add_slice("theirs-2", json!([])).await;
    let running = stage.plugin().await.unwrap();
    until("one slice with our devices", async || {
        let slices = stage.slices().await;
        let devices = slices[0].spec.devices.as_ref().map(Vec::len);
        slices.len() == 1 && slices[0].metadata.name.as_deref() == Some("theirs") && devices == Some(2)
    })
    .await;
    running.stop().await;
}

/// The whole of it: a workload's claim labels the node and waits; the daemon's claim is prepared meanwhile; the daemon
/// becomes ready; the workload gets its channel.
#[tokio::test]
async fn a_channel_waits_for_the_daemon_whose_claim_is_prepared_meanwhile() {
    let stage = Stage::start().await;
    let domain = stage.add_domain("imex").await;
    let running = stage.plugin().await.unwrap();
    let channel = stage.channel_claim("work", &domain).await;
    let waiting = tokio::spawn({
        let (kubelet, channel) = (Kubelet::new(&stage), channel.clone());
        async move { kubelet.prepare(&channel).await }
    });
    until("the label", async || {
        stage.label().await.as_deref() == Some(domain.as_str())
    })
    .await;
    // The controller reserves the row, the DaemonSet's pod gets its claim.
    stage.store_row(&domain, 5).await;
    let daemon_claim = stage.daemon_claim("daemon", &domain).await;
    let kubelet = Kubelet::new(&stage);
    let devices = kubelet.prepare(&daemon_claim).await.unwrap();
    let id = format!("k8s.compute-domain.nvidia.com/claim={}-daemon-0", daemon_claim.uid);
    assert_eq!(
        devices[0].cdi_device_ids,
        ["k8s.compute-domain.nvidia.com/device=all".to_owned(), id]
    );
    let document = stage.cdi(&daemon_claim).unwrap();
    let edits = &document["devices"][0]["containerEdits"];
    let environment: Vec<&str> = edits["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    assert!(environment.contains(&format!("COMPUTE_DOMAIN_UUID={domain}").as_str()));
    assert!(environment.contains(&"COMPUTE_DOMAIN_NAME=imex"));
    assert!(environment.contains(&format!("CLIQUE_ID={CLIQUE}").as_str()));
    assert!(environment.contains(&"COMPUTE_DOMAIN_INDEX=5"));
    assert_eq!(edits["deviceNodes"][0]["path"], "/dev/nvidia-caps/nvidia-cap1");
    let directory = edits["mounts"][0]["hostPath"].as_str().unwrap();
    let template = std::fs::read_to_string(format!("{directory}/imexd.cfg.tmpl")).unwrap();
    assert!(template.contains("SERVER_PORT=50000\n"));
    assert!(!waiting.is_finished());

    let daemon = Daemon::bind(directory.as_ref());
    daemon.says(&domain, Some(NotReady::Starting));
    daemon.says(&domain, None);
    let devices = waiting.await.unwrap().unwrap();
    let id = format!("k8s.compute-domain.nvidia.com/claim={}-channel-0", channel.uid);
    assert_eq!(devices[0].cdi_device_ids, [id]);
    assert_eq!(
        (devices[0].pool_name.as_str(), devices[0].device_name.as_str()),
        ("node-a", "channel-0")
    );
    let document = stage.cdi(&channel).unwrap();
    let node = &document["devices"][0]["containerEdits"]["deviceNodes"][0];
    assert_eq!(node["path"], "/dev/nvidia-caps-imex-channels/channel0");
    assert_eq!((node["major"].as_u64(), node["minor"].as_u64()), (Some(234), Some(0)));

    // Again, with both services, and after a restart of the plugin: the same answer.
    assert_eq!(kubelet.prepare(&channel).await.unwrap(), devices);
    assert_eq!(kubelet.old().prepare(&channel).await.unwrap(), devices);
    running.stop().await;
    let running = stage.plugin().await.unwrap();
    assert_eq!(Kubelet::new(&stage).prepare(&channel).await.unwrap(), devices);

    let kubelet = Kubelet::new(&stage);
    for _ in 0..2 {
        kubelet.unprepare(&channel).await.unwrap();
        assert_eq!(stage.label().await, None);
        assert_eq!(stage.cdi(&channel), None);
    }
    kubelet.old().unprepare(&daemon_claim).await.unwrap();
    assert_eq!(stage.cdi(&daemon_claim), None);
    assert!(std::path::Path::new(directory).exists(), "a successor may use it");
    running.stop().await;
}

/// §9.14: the kubelet hears the reason before it gives up.
#[tokio::test]
async fn at_the_deadline_the_answer_says_what_was_waited_for() {
    let mut stage = Stage::start().await;
    stage.settings.deadline = std::time::Duration::from_millis(300);
    let domain = stage.add_domain("imex").await;
    let running = stage.plugin().await.unwrap();
    let kubelet = Kubelet::new(&stage);
    let claim = stage.channel_claim("work", &domain).await;
    let error = kubelet.prepare(&claim).await.unwrap_err();
    assert!(error.starts_with("error asserting ComputeDomain Ready: current node not ready in ComputeDomain"));
    assert!(error.contains("is a compute-domain controller running?"), "{error}");
    let directory = stage.settings.plugin_directory().join("domains").join(&domain);
    let daemon = Daemon::bind(&directory);
    daemon.says(&domain, Some(NotReady::DriverInUse));
    let error = kubelet.prepare(&claim).await.unwrap_err();
    assert!(
        error.contains("NV_ERR_IN_USE") && error.contains("systemctl disable --now nvidia-imex.service"),
        "{error}"
    );
    running.stop().await;
}

/// §9.9: no plugin watches ComputeDomains, whose status is written again and again; and readiness is not asked for in a loop.
#[tokio::test]
async fn a_plugin_watches_its_node_its_slices_and_the_clique_it_waits_for() {
    let stage = Stage::start().await;
    let domain = stage.add_domain("imex").await;
    let running = stage.plugin().await.unwrap();
    let claim = stage.channel_claim("work", &domain).await;
    let waiting = tokio::spawn({
        let (kubelet, claim) = (Kubelet::new(&stage), claim.clone());
        async move { kubelet.prepare(&claim).await }
    });
    until("the label", async || stage.label().await.is_some()).await;
    stage.store_row(&domain, 0).await;
    let directory = stage.settings.plugin_directory().join("domains").join(&domain);
    let daemon = Daemon::bind(&directory);
    daemon.says(&domain, Some(NotReady::Starting));
    daemon.says(&domain, None);
    waiting.await.unwrap().unwrap();
    assert_eq!(stage.watched(), ["computedomaincliques", "nodes", "resourceslices"]);
    assert_eq!(
        stage.reads_of(&claim),
        1,
        "the claim is read once, however often something changes"
    );
    running.stop().await;
}

#[tokio::test]
async fn claims_that_cannot_be_helped_are_refused_at_once() {
    let stage = Stage::start().await;
    let domain = stage.add_domain("imex").await;
    let running = stage.plugin().await.unwrap();
    let kubelet = Kubelet::new(&stage);
    let refused = async |claim: &coppice_domain_plugin::wire::Claim| kubelet.prepare(claim).await.unwrap_err();
    let foreign = stage.channel_claim_in("other", "work", &domain).await;
    assert!(
        refused(&foreign)
            .await
            .ends_with("different than the ComputeDomain's namespace")
    );
    let gone = stage.channel_claim("a", "0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11").await;
    assert!(refused(&gone).await.contains("ComputeDomain not found"));
    let unallocated = stage.unallocated_claim("b").await;
    assert!(
        refused(&unallocated)
            .await
            .starts_with("no allocation set in ResourceClaim b")
    );
    let mut another = unallocated.clone();
    another.uid = "0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b12".into();
    assert!(refused(&another).await.contains("does not exist any more"));
    assert_eq!(stage.label().await, None);
    running.stop().await;
}

/// Rows are what daemons of NVIDIA's driver report in: they have no socket.
#[tokio::test]
async fn a_daemon_of_nvidias_driver_is_ready_by_its_row() {
    let stage = Stage::start().await;
    let domain = stage.add_domain("imex").await;
    let running = stage.plugin().await.unwrap();
    let claim = stage.channel_claim("work", &domain).await;
    let waiting = tokio::spawn({
        let (kubelet, claim) = (Kubelet::new(&stage), claim.clone());
        async move { kubelet.prepare(&claim).await }
    });
    until("the label", async || stage.label().await.is_some()).await;
    stage.store_ready_row(&domain, 0).await;
    waiting.await.unwrap().unwrap();
    running.stop().await;
}

/// Two domains follow each other on one node: the second waits until the first has left.
#[tokio::test]
async fn a_node_serves_one_domain_at_a_time() {
    let stage = Stage::start().await;
    let (first, second) = (stage.add_domain("first").await, stage.add_domain("second").await);
    let running = stage.plugin().await.unwrap();
    let kubelet = Kubelet::new(&stage);
    stage.store_ready_row(&first, 0).await;
    stage.store_ready_row(&second, 0).await;
    let one = stage.channel_claim("one", &first).await;
    kubelet.prepare(&one).await.unwrap();
    let two = stage.channel_claim("two", &second).await;
    let waiting = tokio::spawn({
        let (kubelet, two) = (Kubelet::new(&stage), two.clone());
        async move { kubelet.prepare(&two).await }
    });
    until("the second is begun or waits", async || stage.reads_of(&two) > 0).await;
    assert_eq!(stage.label().await.as_deref(), Some(first.as_str()));
    assert!(!waiting.is_finished());
    kubelet.unprepare(&one).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(stage.label().await.as_deref(), Some(second.as_str()));
    running.stop().await;
}

#[tokio::test]
async fn one_process_serves_a_node_and_another_says_who_is_in_the_way() {
    let stage = Stage::start().await;
    let running = stage.plugin().await.unwrap();
    let Err(PluginError::Lock(error)) = stage.plugin().await else {
        panic!("there is one lock")
    };
    assert!(
        error
            .to_string()
            .contains("another ComputeDomain kubelet plugin runs on this node")
    );
    running.stop().await;
    stage.plugin().await.unwrap().stop().await;
}

#[tokio::test]
async fn a_claim_that_was_begun_and_is_gone_is_unprepared_at_the_next_start() {
    let mut stage = Stage::start().await;
    stage.settings.deadline = std::time::Duration::from_millis(200);
    let domain = stage.add_domain("imex").await;
    let running = stage.plugin().await.unwrap();
    let claim = stage.channel_claim("work", &domain).await;
    Kubelet::new(&stage).prepare(&claim).await.unwrap_err();
    running.stop().await;
    assert!(stage.label().await.is_some());
    stage.delete_claim(&claim).await;
    let running = stage.plugin().await.unwrap();
    until("the label goes", async || stage.label().await.is_none()).await;
    running.stop().await;
}

#[tokio::test]
async fn nodes_that_cannot_be_served_say_why() {
    let stage = Stage::start().await;
    stage.hardware("580.65.06", "<fabric><state>In Progress</state></fabric>");
    let error = stage.plugin().await.err().unwrap().to_string();
    assert!(
        error.starts_with("NVLink fabric not attached (GPU 0): state=In Progress, refusing to start"),
        "{error}"
    );
    assert!(error.contains("CrashOnNVLinkFabricErrors"), "{error}");
    stage.hardware("565.57.01", "");
    let error = stage.plugin().await.err().unwrap().to_string();
    assert!(
        error.contains("565.57.01 is too old") && error.contains("570.158.01"),
        "{error}"
    );
}
