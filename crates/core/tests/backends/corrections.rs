//! A stored object is corrected in one write, only where it differs, and fields of the scheduler stay.

use coppice_core::backends::{Backend, Correction, Limit, Wanted, of_scheduler};
use serde_json::{Value, json};

use crate::directory;
use crate::support::Case;

/// The first gang of a case, and what a change of the stored object leads to.
fn corrected(case: &str, scheduler: &str, change: impl Fn(&mut Value)) -> (Value, Correction) {
    let case = Case::named(&directory("cases"), case);
    let backend: &dyn Backend = of_scheduler(scheduler, true);
    let set = case.set(scheduler);
    let mut result = None;
    case.each_gang(&set, backend, |gang| {
        if result.is_none()
            && let Wanted::Object(wanted) = backend.map(&gang).object
        {
            let mut stored = json!(wanted);
            change(&mut stored);
            result = Some((stored.clone(), backend.correct(&gang, &stored, &wanted)));
        }
    });
    result.expect("a gang with an object")
}

const EACH: [&str; 3] = ["kai-scheduler", "volcano", "default-scheduler"];

#[test]
fn an_object_as_it_should_be_is_left_alone() {
    for scheduler in EACH {
        for case in ["one-clique.yaml", "group-above-minimum.yaml", "one-clique-packed.yaml"] {
            let (_, correction) = corrected(case, scheduler, |_| {});
            assert_eq!(correction, Correction::default(), "{scheduler}: {case}");
        }
    }
}

#[test]
fn fields_labels_and_annotations_of_others_are_kept() {
    for scheduler in EACH {
        let (_, correction) = corrected("one-clique.yaml", scheduler, |stored| {
            stored["metadata"]["resourceVersion"] = "7".into();
            stored["metadata"]["labels"]["of-others"] = "yes".into();
            stored["metadata"]["annotations"]["of-others"] = "yes".into();
            stored["spec"]["ofALaterVersion"] = json!({"a": 1});
            stored["status"] = json!({"phase": "Running"});
        });
        assert_eq!(correction, Correction::default(), "{scheduler}");
    }
}

#[test]
fn kai_keeps_queue_node_pool_marks_and_fields_of_subgroups() {
    let (_, correction) = corrected("one-clique.yaml", "kai-scheduler", |stored| {
        stored["metadata"]["labels"]["kai.scheduler/queue"] = "moved".into();
        stored["metadata"]["labels"]["kai.scheduler/node-pool"] = "a100".into();
        stored["spec"]["queue"] = "moved".into();
        stored["spec"]["markUnschedulable"] = true.into();
        stored["spec"]["schedulingBackoff"] = (-1).into();
        stored["spec"]["stalenessGracePeriod"] = "-1s".into();
        stored["spec"]["subGroups"][0]["ofALaterVersion"] = true.into();
        stored["spec"]["minMember"] = 7.into();
        stored["spec"]["subGroups"][0]["minMember"] = 7.into();
    });
    let patch = json!({"spec": {"minMember": 2, "subGroups": [
        {"name": "llm-0-worker", "minMember": 2, "ofALaterVersion": true},
    ]}});
    assert_eq!(correction.patch, Some(patch), "only the minima are ours to correct");
    let kept = Limit::QueueKept {
        stored: "moved".to_owned(),
        wanted: "research".to_owned(),
    };
    assert_eq!(correction.limits, [kept], "a queue that is kept is reported");
}

#[test]
fn kai_gets_the_queue_that_an_object_lacks() {
    let (_, correction) = corrected("one-clique.yaml", "kai-scheduler", |stored| {
        drop(stored["spec"].as_object_mut().and_then(|spec| spec.remove("queue")));
    });
    assert_eq!(correction.patch, Some(json!({"spec": {"queue": "research"}})));
    assert_eq!(correction.limits, []);
}

#[test]
fn a_constraint_that_went_is_removed() {
    let (_, correction) = corrected("one-clique.yaml", "kai-scheduler", |stored| {
        stored["spec"]["topologyConstraint"] = json!({"topology": "t", "requiredTopologyLevel": "zone"});
        stored["spec"]["subGroups"][0]["parent"] = "gone".into();
        stored["spec"]["subGroups"][0]["topologyConstraint"] = json!({"topology": "t"});
    });
    let patch = json!({"spec": {
        "topologyConstraint": null,
        "subGroups": [{"name": "llm-0-worker", "minMember": 2}],
    }});
    assert_eq!(correction.patch, Some(patch));
}

#[test]
fn volcano_follows_the_queue_of_the_set_and_keeps_minima_when_the_floors_are_given_up() {
    let (_, correction) = corrected("queue-by-label.yaml", "volcano", |stored| {
        stored["spec"]["queue"] = "before".into();
        stored["spec"]["minResources"] = json!({"cpu": "1"});
    });
    assert_eq!(correction.patch, Some(json!({"spec": {"queue": "serving"}})));
    let (_, correction) = corrected("floors-given-up.yaml", "volcano", |stored| {
        stored["spec"]["minMember"] = 5.into();
        stored["spec"]["subGroupPolicy"][0]["subGroupSize"] = 5.into();
    });
    assert_eq!(correction, Correction::default(), "the constraints of before are kept");
}

#[test]
fn a_native_group_is_never_patched_and_what_it_does_not_say_is_reported() {
    let (_, correction) = corrected("one-clique-packed.yaml", "default-scheduler", |stored| {
        stored["spec"]["schedulingPolicy"] = json!({"gang": {"minCount": 9}});
        let spec = stored["spec"].as_object_mut().expect("a specification");
        spec.remove("schedulingConstraints");
    });
    assert_eq!(correction.patch, None);
    let limits = [
        Limit::Immutable {
            field: "schedulingPolicy",
        },
        Limit::FieldDropped {
            field: "schedulingConstraints",
            gate: "TopologyAwareWorkloadScheduling",
        },
    ];
    assert_eq!(correction.limits, limits);
}

#[test]
fn reasons_come_from_the_object_of_the_scheduler_and_are_bounded() {
    let long = "node is too small; ".repeat(1000);
    let stored = [
        (
            "kai-scheduler",
            json!({"schedulingConditions": [
                {"type": "UnschedulableOnNodePool", "status": "True", "message": "no", "reasons": [{"reason": "OverLimit", "message": long}]},
            ]}),
        ),
        (
            "volcano",
            json!({"phase": "Pending", "conditions": [
                {"type": "Scheduled", "status": "True", "message": "old"},
                {"type": "Unschedulable", "status": "True", "message": long},
            ]}),
        ),
        (
            "default-scheduler",
            json!({"conditions": [{"type": "PodGroupScheduled", "status": "False", "message": long}]}),
        ),
    ];
    for (scheduler, status) in stored {
        let backend = of_scheduler(scheduler, true);
        let reason = backend.waits_for(&json!({"status": status})).expect("a reason");
        assert!(reason.starts_with("node is too small"), "{scheduler}: {reason}");
        assert!(reason.len() < 600, "{scheduler}: {} bytes", reason.len());
        assert_eq!(backend.waits_for(&json!({"status": {"phase": "Running"}})), None);
        assert_eq!(backend.waits_for(&json!({})), None);
    }
}
