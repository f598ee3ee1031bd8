//! What the verbs decide, from objects alone.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::canonical::CliqueOrder;
use coppice_api::revision::{CliqueTemplate, DesiredRevision, HistoryStep, plan_history};
use coppice_api::types::PodCliqueSet;
use coppice_core::context::{SetContext, template_view};
use coppice_core::settings::Settings;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::change::{Decision, Wanted, decide};
use super::progress::{self, RolloutState};
use crate::view::build::{Objects, set_view};
use crate::view::revisions::Revisions;

fn set(change: &Value) -> PodCliqueSet {
    let clique = |name: &str, image: &str| {
        json!({"name": name, "spec": {"roleName": name, "replicas": 1, "minAvailable": 1,
            "podSpec": {"containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent"}]}}})
    };
    let mut set = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": "llm", "namespace": "serving", "uid": "u", "generation": 1},
        "spec": {"replicas": 1, "template": {"cliques": [clique("router", "router:1"), clique("engine", "engine:1")]}},
    });
    json_patch::merge(&mut set, change);
    serde_json::from_value(set).expect("a set")
}

/// The revision that the operator records for a set.
fn revision(set: &PodCliqueSet, number: i64) -> ControllerRevision {
    let settings = Settings::default();
    let facts = SetContext::new(set, &settings, None).facts;
    let cliques: Vec<CliqueTemplate<'_>> = (0..facts.cliques.len())
        .map(|position| CliqueTemplate {
            name: &facts.cliques[position].template.name,
            template: template_view(&facts, position),
        })
        .collect();
    let owner = OwnerReference {
        uid: "u".to_owned(),
        ..OwnerReference::default()
    };
    let desired = DesiredRevision {
        set_name: "llm",
        namespace: "serving",
        owner,
        labels: BTreeMap::new(),
        cliques: &cliques,
        order: CliqueOrder::Free,
        collisions: 0,
        set_generation: Some(number),
    };
    let plan = plan_history(&[] as &[ControllerRevision], &desired, 5, &BTreeSet::new());
    match plan.steps.into_iter().next() {
        Some(HistoryStep::Create(revision)) => *revision,
        other => panic!("not a revision: {other:?}"),
    }
}

fn image(clique: usize, image: &str) -> Value {
    let mut value = json!(set(&json!({})));
    value["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]["containers"][0]["image"] = json!(image);
    value
}

fn decided(set: &PodCliqueSet, revisions: &[ControllerRevision], wanted: &Wanted) -> anyhow::Result<Decision> {
    let revisions = Revisions::of(set, revisions);
    decide(set, &revisions, &set_view(set, &Objects::default()), wanted)
}

fn undone(set: &PodCliqueSet, revisions: &[ControllerRevision]) -> PodCliqueSet {
    let decision = decided(set, revisions, &Wanted::Undo { to: None }).expect("something to undo");
    *decision.desired.expect("a change")
}

#[test]
fn what_did_not_change_keeps_the_words_of_its_author() {
    let first = set(&json!({}));
    let second = set(&image(0, "router:2"));
    let back = undone(&second, &[revision(&first, 1), revision(&second, 2)]);
    let cliques = &back.spec.template.cliques;
    assert_eq!(cliques[1], second.spec.template.cliques[1], "spelled out as before");
    let router = &cliques[0].spec.pod_spec.0;
    assert_eq!(
        json!(router["containers"]),
        json!([{"name": "main", "image": "router:1"}])
    );
}

#[test]
fn the_newest_other_revision_is_the_one_before_also_when_the_set_is_not_recorded_yet() {
    let (first, second, third) = (set(&json!({})), set(&image(0, "router:2")), set(&image(0, "router:3")));
    let recorded = [revision(&first, 1), revision(&second, 4)];
    let image = |set: &PodCliqueSet| set.spec.template.cliques[0].spec.pod_spec.0["containers"][0]["image"].clone();
    assert_eq!(image(&undone(&third, &recorded)), "router:2");
    assert_eq!(image(&undone(&second, &recorded)), "router:1");
    // A second undo goes forward again, as with kubectl: the revision that was current is now the one before.
    assert_eq!(
        image(&undone(&first, &[revision(&first, 5), revision(&second, 4)])),
        "router:2"
    );
}

#[test]
fn the_priority_class_of_the_set_comes_back_with_its_pods() {
    let class = |name: Value| json!({"spec": {"template": {"priorityClassName": name}}});
    let (low, high, none) = (set(&class(json!("low"))), set(&class(json!("high"))), set(&json!({})));
    let of = |set: &PodCliqueSet| set.spec.template.priority_class_name.clone();
    assert_eq!(
        of(&undone(&high, &[revision(&low, 1), revision(&high, 2)])).as_deref(),
        Some("low")
    );
    assert_eq!(
        of(&undone(&none, &[revision(&low, 1), revision(&none, 2)])).as_deref(),
        Some("low")
    );
    let back = undone(&high, &[revision(&none, 1), revision(&high, 2)]);
    assert_eq!(of(&back), None);
    assert!(
        back.spec
            .template
            .cliques
            .iter()
            .all(|clique| clique.spec.pod_spec.priority_class_name().is_none())
    );
    // Classes of single cliques are theirs.
    let mut own = json!(none);
    own["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["priorityClassName"] = json!("own");
    let own = set(&own);
    let back = undone(&none, &[revision(&own, 1), revision(&none, 2)]);
    assert_eq!(of(&back), None);
    assert_eq!(
        back.spec.template.cliques[0].spec.pod_spec.priority_class_name(),
        Some("own")
    );
}

#[test]
fn nothing_is_written_when_there_is_nothing_to_go_back_to() {
    let first = set(&json!({}));
    let error = |set: &PodCliqueSet, revisions: &[ControllerRevision], to: Option<i64>| {
        decided(set, revisions, &Wanted::Undo { to })
            .expect_err("a refusal")
            .to_string()
    };
    let only = [revision(&first, 1)];
    assert!(error(&first, &only, None).contains("only its current revision"));
    assert!(error(&first, &[], None).contains("no recorded revision"));
    assert!(error(&first, &only, Some(7)).contains("next: name one of these: 1"));
    let unlimited = set(&json!({"spec": {"revisionHistoryLimit": 0}}));
    assert!(error(&unlimited, &only, None).contains("revisionHistoryLimit is 0"));
    // Those of another set, and what cannot be read, do not count.
    let mut foreign = revision(&set(&image(0, "router:0")), 3);
    foreign.metadata.owner_references.as_mut().expect("an owner")[0].uid = "other".to_owned();
    let mut broken = revision(&set(&image(0, "router:0")), 4);
    broken.data.0 = json!({"format": 9});
    assert!(error(&first, &[only[0].clone(), foreign, broken.clone()], None).contains("only its current"));
    assert_eq!(Revisions::of(&first, &[broken]).unreadable.len(), 1);
    // A clique that the set no longer has.
    let mut less = json!(first);
    less["spec"]["template"]["cliques"]
        .as_array_mut()
        .expect("a list")
        .pop();
    let less: PodCliqueSet = serde_json::from_value(less).expect("a set");
    assert!(error(&first, &[revision(&less, 1), revision(&first, 2)], None).contains("has other cliques (router)"));
}

#[test]
fn a_pause_is_one_field() {
    let running = set(&json!({"spec": {"updateStrategy": {"type": "RollingRecreate", "newer": 1}}}));
    let paused = decided(&running, &[], &Wanted::Pause)
        .expect("accepted")
        .desired
        .expect("a change");
    let strategy = json!(paused.spec.update_strategy);
    assert_eq!(strategy, json!({"type": "RollingRecreate", "newer": 1, "paused": true}));
    assert!(
        decided(&paused, &[], &Wanted::Pause)
            .expect("accepted")
            .desired
            .is_none()
    );
    let resumed = decided(&paused, &[], &Wanted::Resume)
        .expect("accepted")
        .desired
        .expect("a change");
    assert_eq!(*resumed, running);
}

#[test]
fn a_state_is_what_the_operator_says_and_the_pods_confirm() {
    let state = |status: Value| {
        let set = set(&json!({"metadata": {"generation": 3}, "status": status}));
        progress::of(&set, &Revisions::default(), &set_view(&set, &Objects::default())).state
    };
    let full = json!({"observedGeneration": 3, "availableReplicas": 1, "updatedReplicas": 1, "replicas": 1});
    let with = |more: Value| {
        let mut status = full.clone();
        json_patch::merge(&mut status, &more);
        state(status)
    };
    assert_eq!(with(json!({})), RolloutState::Complete);
    assert_eq!(with(json!({"observedGeneration": 2})), RolloutState::Progressing);
    assert_eq!(state(json!(null)), RolloutState::Progressing);
    assert_eq!(with(json!({"availableReplicas": 0})), RolloutState::Progressing);
    assert_eq!(with(json!({"updatedReplicas": 0})), RolloutState::Progressing);
    let open = json!({"updateStartedAt": "2026-01-01T00:00:00Z"});
    assert_eq!(with(json!({"updateProgress": open})), RolloutState::Progressing);
    let stuck = json!([{"type": "UpdateInProgress", "status": "Unknown", "reason": "ProgressDeadlineExceeded",
        "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    assert_eq!(
        with(json!({"updateProgress": open, "conditions": stuck})),
        RolloutState::Stuck
    );
    assert_eq!(
        with(json!({"conditions": stuck})),
        RolloutState::Complete,
        "said of an update that has ended"
    );
}
