//! Pods that are deleted, lose their node, or are taken over.

use super::{Scene, at, seconds};
use crate::behaviour::{Completion, Crash, PodBehaviour};
use crate::kubelet::containers::PodRuntime;
use crate::kubelet::status::Phase;
use serde_json::json;

#[test]
fn deletion_stops_containers_after_their_delay_within_the_grace_period() {
    for (behaviour, grace, expected) in [
        (PodBehaviour::default(), 30, None),
        (
            PodBehaviour {
                termination_delay: seconds(5),
                ..PodBehaviour::default()
            },
            30,
            Some(105),
        ),
        (
            PodBehaviour {
                termination_delay: seconds(90),
                ..PodBehaviour::default()
            },
            30,
            Some(130),
        ),
        (
            PodBehaviour {
                ignore_termination: true,
                ..PodBehaviour::default()
            },
            30,
            Some(130),
        ),
        (
            PodBehaviour {
                ignore_termination: true,
                ..PodBehaviour::default()
            },
            0,
            None,
        ),
    ] {
        let mut scene = Scene::new(json!({}), behaviour);
        scene.step(0);
        let writes = scene.writes;
        scene.pod.deletion_grace = Some(grace);
        assert_eq!(scene.step(100), expected);
        match expected {
            None => assert!(scene.runtime.stopped),
            Some(end) => {
                assert!(!scene.runtime.stopped && scene.pod.status.is_ready(), "it still runs");
                assert_eq!(scene.writes, writes, "terminating is no status change");
                scene.step(end);
                assert!(scene.runtime.stopped);
            }
        }
        // This status is written only for pods that a finalizer keeps.
        assert!(scene.pod.status.is_terminal() && !scene.pod.status.is_ready());
        assert!(scene.pod.status.container_statuses[0].state.terminated.is_some());
    }
}

#[test]
fn a_shorter_grace_period_given_later_counts() {
    let mut scene = Scene::new(
        json!({}),
        PodBehaviour {
            ignore_termination: true,
            ..PodBehaviour::default()
        },
    );
    scene.step(0);
    scene.pod.deletion_grace = Some(300);
    assert_eq!(scene.step(10), Some(310));
    scene.pod.deletion_grace = Some(5);
    assert_eq!(scene.step(12), Some(15));
}

#[test]
fn deleting_a_pod_that_never_started_stops_at_once() {
    let behaviour = PodBehaviour {
        start_delay: seconds(60),
        ignore_termination: true,
        ..PodBehaviour::default()
    };
    let mut scene = Scene::new(json!({}), behaviour);
    scene.step(0);
    scene.pod.deletion_grace = Some(30);
    assert_eq!(scene.step(5), None);
    assert!(scene.runtime.stopped);
}

#[test]
fn power_loss_restarts_containers_and_ends_pods_that_never_restart() {
    let mut scene = Scene::new(json!({}), PodBehaviour::default());
    scene.step(0);
    scene.runtime.power_cycle(at(100));
    assert_eq!(scene.step(100), Some(101));
    assert!(!scene.pod.status.is_ready());
    scene.step(101);
    assert!(scene.pod.status.is_ready());
    assert_eq!(scene.restarts(), 1);

    let mut scene = Scene::new(json!({"restartPolicy": "Never"}), PodBehaviour::default());
    scene.step(0);
    scene.runtime.power_cycle(at(100));
    scene.step(100);
    assert_eq!(scene.pod.status.phase, Phase::Failed);
}

#[test]
fn a_restarted_simulator_goes_on_where_it_was() {
    let crash = Crash {
        after: seconds(0),
        exit_code: 1,
        every_run: true,
    };
    let mut scene = Scene::new(
        json!({}),
        PodBehaviour {
            crash: Some(crash),
            ..PodBehaviour::default()
        },
    );
    let mut now = 0;
    for _ in 0..3 {
        now = scene.step(now).unwrap();
    }
    let writes = scene.writes;
    scene.runtime = PodRuntime::adopt(&scene.pod, "10.128.0.2".parse().ok(), None, at(now - 1));
    assert_eq!(scene.step(now - 1), Some(now), "the back-off ends when it would have");
    assert_eq!(scene.writes, writes, "taking over writes nothing");

    let mut healthy = Scene::new(json!({}), PodBehaviour::default());
    healthy.step(0);
    healthy.runtime = PodRuntime::adopt(&healthy.pod, "10.128.0.2".parse().ok(), None, at(500));
    healthy.step(500);
    assert_eq!(healthy.writes, 1);
}

#[test]
fn a_status_that_someone_else_changed_is_put_right() {
    let mut scene = Scene::new(json!({}), PodBehaviour::default());
    scene.step(0);
    for condition in &mut scene.pod.status.conditions {
        if condition.kind == "Ready" {
            condition.status = "False".to_owned();
        }
    }
    scene.step(70);
    assert!(scene.pod.status.is_ready());
    assert_eq!(scene.condition("Ready").last_transition_time, Some(at(70)));
}

#[test]
fn sidecars_start_before_and_stop_after_the_main_containers() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "proxy", "image": "i", "restartPolicy": "Always"}, {"name": "wait", "image": "i"}],
    });
    let behaviour = PodBehaviour {
        completion: Some(Completion {
            after: seconds(5),
            exit_code: 0,
        }),
        ..PodBehaviour::default()
    };
    let mut scene = Scene::new(spec, behaviour);
    scene.step(0);
    let sidecar = &scene.pod.status.init_container_statuses[0];
    assert!(sidecar.state.running.is_some() && sidecar.ready);
    assert!(scene.pod.status.is_ready());
    scene.step(5);
    assert_eq!(scene.pod.status.phase, Phase::Succeeded);
    assert!(scene.pod.status.init_container_statuses[0].state.terminated.is_some());
}

#[test]
fn pods_on_the_host_network_have_the_address_of_the_node() {
    let mut scene = Scene::new(json!({"hostNetwork": true}), PodBehaviour::default());
    scene.step(0);
    assert_eq!(scene.pod.status.pod_ip.as_deref(), Some("172.16.0.1"));
}
