//! Pods that start, run, crash and complete.

use super::{Scene, at, seconds};
use crate::behaviour::{Completion, Crash, PodBehaviour};
use crate::init_wait::WaitState;
use crate::kubelet::status::{Condition, Phase};
use serde_json::json;

#[test]
fn a_pod_without_delays_is_ready_after_one_write() {
    let mut scene = Scene::new(json!({}), PodBehaviour::default());
    assert_eq!(scene.step(0), None);
    assert_eq!(scene.writes, 1);
    let status = &scene.pod.status;
    assert_eq!(status.phase, Phase::Running);
    assert!(status.is_ready());
    assert_eq!(status.pod_ip.as_deref(), Some("10.128.0.2"));
    assert_eq!(status.host_ip.as_deref(), Some("172.16.0.1"));
    assert_eq!(status.start_time, Some(at(0)));
    for kind in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ] {
        assert_eq!(scene.condition(kind).status, "True", "{kind}");
    }
    assert_eq!(scene.pod.status.container_statuses[0].started, Some(true));
    scene.step(1000);
    assert_eq!(scene.writes, 1, "nothing changes, nothing is written");
}

#[test]
fn init_containers_without_delays_do_not_cost_a_write() {
    let spec = json!({"initContainers": [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]});
    let mut scene = Scene::new(spec, PodBehaviour::default());
    scene.step(0);
    assert_eq!((scene.writes, scene.pod.status.is_ready()), (1, true));
    assert!(
        scene
            .pod
            .status
            .init_container_statuses
            .iter()
            .all(|status| status.state.terminated.is_some())
    );
}

#[test]
fn delays_show_as_creating_then_running_then_ready() {
    let behaviour = PodBehaviour {
        start_delay: seconds(5),
        ready_delay: seconds(3),
        ..PodBehaviour::default()
    };
    let mut scene = Scene::new(json!({}), behaviour);
    assert_eq!(scene.step(0), Some(5));
    assert_eq!(
        (scene.pod.status.phase, scene.waiting()),
        (Phase::Pending, "ContainerCreating")
    );
    assert_eq!(scene.pod.status.pod_ip, None);
    assert_eq!(scene.condition("PodReadyToStartContainers").status, "False");
    assert_eq!(scene.step(5), Some(8));
    assert_eq!(
        (scene.pod.status.phase, scene.pod.status.is_ready()),
        (Phase::Running, false)
    );
    assert_eq!(scene.condition("Ready").reason.as_deref(), Some("ContainersNotReady"));
    assert_eq!(
        scene.condition("Ready").message.as_deref(),
        Some("containers with unready status: [main]")
    );
    assert_eq!(scene.step(8), None);
    assert!(scene.pod.status.is_ready());
    assert_eq!(scene.condition("Ready").last_transition_time, Some(at(8)));
    assert_eq!(scene.condition("Ready").reason, None);
    assert_eq!(
        scene.condition("Initialized").last_transition_time,
        Some(at(0)),
        "unchanged conditions keep their time"
    );
    assert_eq!(scene.writes, 3);
}

#[test]
fn a_waiting_init_container_holds_the_pod_until_it_is_free() {
    let spec = json!({"initContainers": [{"name": "wait", "image": "i"}]});
    let mut scene = Scene::new(
        spec,
        PodBehaviour {
            init_duration: seconds(2),
            ..PodBehaviour::default()
        },
    );
    scene.wait = WaitState::Blocked;
    assert_eq!(scene.step(0), None, "nothing but an event ends the wait");
    assert_eq!(
        (scene.pod.status.phase, scene.waiting()),
        (Phase::Pending, "PodInitializing")
    );
    assert_eq!(
        scene.condition("Initialized").reason.as_deref(),
        Some("ContainersNotInitialized")
    );
    assert!(scene.pod.status.init_container_statuses[0].state.running.is_some());
    scene.wait = WaitState::Free;
    scene.step(50);
    assert!(scene.pod.status.is_ready());
    assert_eq!(scene.writes, 2);
    scene.wait = WaitState::Blocked;
    scene.step(60);
    assert!(scene.pod.status.is_ready(), "what has started stays started");
}

#[test]
fn an_init_container_that_cannot_read_its_arguments_fails_and_backs_off() {
    let spec = json!({"initContainers": [{"name": "wait", "image": "i"}]});
    let mut scene = Scene::new(spec.clone(), PodBehaviour::default());
    scene.wait = WaitState::Invalid("no colon".to_owned());
    assert_eq!(scene.step(0), Some(1));
    let terminated = scene.pod.status.init_container_statuses[0]
        .state
        .terminated
        .clone()
        .unwrap();
    assert_eq!(
        (terminated.exit_code, terminated.message.as_deref()),
        (1, Some("no colon"))
    );
    assert_eq!(scene.step(1), Some(11));
    let waiting = scene.pod.status.init_container_statuses[0]
        .state
        .waiting
        .clone()
        .unwrap();
    assert_eq!(waiting.reason, "CrashLoopBackOff");
    assert_eq!(scene.pod.status.phase, Phase::Pending);

    let mut never = spec;
    never["restartPolicy"] = json!("Never");
    let mut scene = Scene::new(never, PodBehaviour::default());
    scene.wait = WaitState::Invalid("no colon".to_owned());
    assert_eq!(scene.step(0), None);
    assert_eq!(scene.pod.status.phase, Phase::Failed);
}

#[test]
fn a_pod_that_is_never_ready_runs() {
    let mut scene = Scene::new(
        json!({}),
        PodBehaviour {
            never_ready: true,
            ..PodBehaviour::default()
        },
    );
    assert_eq!(scene.step(0), None);
    assert_eq!(
        (scene.pod.status.phase, scene.pod.status.is_ready()),
        (Phase::Running, false)
    );
    scene.behaviour.never_ready = false;
    scene.step(9);
    assert!(
        scene.pod.status.is_ready(),
        "an annotation removed at run time takes effect"
    );
}

#[test]
fn a_crash_is_visible_and_happens_once() {
    let crash = Crash {
        after: seconds(10),
        exit_code: 42,
        every_run: false,
    };
    let mut scene = Scene::new(
        json!({}),
        PodBehaviour {
            crash: Some(crash),
            ..PodBehaviour::default()
        },
    );
    assert_eq!(scene.step(0), Some(10));
    assert!(scene.pod.status.is_ready());
    assert_eq!(scene.step(10), Some(11));
    assert!(!scene.pod.status.is_ready());
    assert_eq!(scene.pod.status.phase, Phase::Running, "it will be restarted");
    assert_eq!(
        scene.pod.status.container_statuses[0]
            .state
            .terminated
            .as_ref()
            .unwrap()
            .exit_code,
        42
    );
    assert_eq!(scene.step(11), None);
    assert!(scene.pod.status.is_ready());
    let last = scene.pod.status.container_statuses[0]
        .last_state
        .terminated
        .clone()
        .unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_str(), scene.restarts()),
        (42, "Error", 1)
    );
}

#[test]
fn a_crash_loop_backs_off() {
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
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let next = scene.step(now).unwrap();
        pauses.push(next - now);
        now = next;
    }
    assert_eq!(pauses, [1, 10, 20, 40, 80]);
    assert_eq!(scene.waiting(), "CrashLoopBackOff");
    assert_eq!(scene.pod.status.phase, Phase::Running);
    assert!(scene.pod.status.container_statuses[0].last_state.terminated.is_some());
    let message = scene.pod.status.container_statuses[0]
        .state
        .waiting
        .as_ref()
        .unwrap()
        .message
        .clone();
    assert_eq!(message.as_deref(), Some("back-off 1m20s restarting failed container"));
}

#[test]
fn completion_ends_pods_that_do_not_restart() {
    for (policy, exit_code, phase) in [
        ("Never", 0, Phase::Succeeded),
        ("Never", 3, Phase::Failed),
        ("OnFailure", 0, Phase::Succeeded),
        ("OnFailure", 3, Phase::Running),
        ("Always", 0, Phase::Running),
    ] {
        let behaviour = PodBehaviour {
            completion: Some(Completion {
                after: seconds(5),
                exit_code,
            }),
            ..PodBehaviour::default()
        };
        let mut scene = Scene::new(json!({"restartPolicy": policy}), behaviour);
        assert_eq!(scene.step(0), Some(5));
        let next = scene.step(5);
        assert_eq!(scene.pod.status.phase, phase, "{policy} {exit_code}");
        assert_eq!(next.is_some(), phase == Phase::Running);
        if phase == Phase::Succeeded {
            assert_eq!(scene.condition("Ready").reason.as_deref(), Some("PodCompleted"));
            let writes = scene.writes;
            assert_eq!(scene.step(100), None);
            assert_eq!(scene.writes, writes, "an ended pod is left alone");
        }
    }
}

#[test]
fn image_pull_errors_keep_the_pod_pending_until_they_go() {
    let behaviour = PodBehaviour {
        image_pull_error: Some("not found".to_owned()),
        ..PodBehaviour::default()
    };
    let mut scene = Scene::new(json!({}), behaviour);
    assert_eq!(scene.step(0), None);
    assert_eq!(
        (scene.pod.status.phase, scene.waiting()),
        (Phase::Pending, "ImagePullBackOff")
    );
    scene.behaviour.image_pull_error = None;
    scene.step(30);
    assert!(scene.pod.status.is_ready());
}

#[test]
fn a_new_kill_token_kills_running_containers_each_time() {
    let mut scene = Scene::new(
        json!({}),
        PodBehaviour {
            kill: Some("old".to_owned()),
            ..PodBehaviour::default()
        },
    );
    scene.step(0);
    assert!(
        scene.pod.status.is_ready(),
        "a token that was there from the start kills nothing"
    );
    for (token, second, restarts) in [("a", 100, 1), ("b", 200, 2)] {
        scene.behaviour.kill = Some(token.to_owned());
        let again = scene.step(second).unwrap();
        assert!(!scene.pod.status.is_ready());
        scene.step(again);
        assert!(scene.pod.status.is_ready());
        assert_eq!(scene.restarts(), restarts);
    }
}

#[test]
fn readiness_gates_hold_back_only_the_ready_condition() {
    let mut scene = Scene::new(
        json!({"readinessGates": [{"conditionType": "example.com/gate"}]}),
        PodBehaviour::default(),
    );
    scene.step(0);
    assert_eq!(scene.condition("ContainersReady").status, "True");
    assert_eq!(
        scene.condition("Ready").reason.as_deref(),
        Some("ReadinessGatesNotReady")
    );
    scene.pod.status.conditions.push(Condition {
        kind: "example.com/gate".to_owned(),
        status: "True".to_owned(),
        ..Condition::default()
    });
    scene.step(5);
    assert!(scene.pod.status.is_ready());
    assert!(
        scene.pod.status.condition("example.com/gate").is_some(),
        "conditions of others stay"
    );
}
