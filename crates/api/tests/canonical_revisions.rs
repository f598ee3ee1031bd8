//! Revisions: content, reuse, numbering and the bounded history.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::canonical::{CliqueOrder, TemplateView, same_template};
use coppice_api::revision::{
    CliqueTemplate, DEFAULT_HISTORY_LIMIT, DesiredRevision, HASH_LABEL, HistoryPlan, HistoryStep, RevisionContent,
    RevisionError, plan_history,
};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

fn spec(image: &str) -> Map<String, Value> {
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    spec.as_object().cloned().expect("an object")
}

fn view(spec: &Map<String, Value>) -> TemplateView<'_> {
    TemplateView {
        labels: &NOTHING,
        annotations: &NOTHING,
        priority_class: None,
        spec,
    }
}

fn owner(uid: &str) -> OwnerReference {
    OwnerReference {
        name: "web".to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

/// A set's history as an API server would keep it.
#[derive(Default)]
struct History {
    stored: Vec<ControllerRevision>,
    in_use: BTreeSet<String>,
    generation: Option<i64>,
}

impl History {
    fn plan(&self, images: &[(&str, &str)], order: CliqueOrder, limit: usize) -> HistoryPlan {
        let specs: Vec<_> = images.iter().map(|(_, image)| spec(image)).collect();
        let cliques: Vec<_> = images
            .iter()
            .zip(&specs)
            .map(|((name, _), spec)| CliqueTemplate {
                name,
                template: view(spec),
            })
            .collect();
        let desired = DesiredRevision {
            set_name: "web",
            namespace: "serving",
            owner: owner("u1"),
            labels: BTreeMap::from([("app.kubernetes.io/part-of".to_owned(), "web".to_owned())]),
            cliques: &cliques,
            order,
            collisions: 0,
            set_generation: self.generation,
        };
        plan_history(&self.stored, &desired, limit, &self.in_use)
    }

    fn carry_out(&mut self, plan: &HistoryPlan) {
        for step in &plan.steps {
            match step {
                HistoryStep::Create(revision) => self.stored.push((**revision).clone()),
                HistoryStep::Bump { name, revision, .. } => self.get(name).revision = Some(*revision),
                HistoryStep::Delete { name, .. } => {
                    self.stored.retain(|stored| stored.metadata.name.as_ref() != Some(name));
                }
            }
        }
    }

    fn get(&mut self, name: &str) -> &mut ControllerRevision {
        let found = self
            .stored
            .iter_mut()
            .find(|stored| stored.metadata.name.as_deref() == Some(name));
        found.expect("the revision exists")
    }

    fn roll(&mut self, image: &str, limit: usize) -> HistoryPlan {
        let plan = self.plan(&[("main", image)], CliqueOrder::Free, limit);
        self.carry_out(&plan);
        assert_eq!(
            self.plan(&[("main", image)], CliqueOrder::Free, limit).steps,
            [],
            "planning again changes nothing"
        );
        plan
    }

    fn names(&self) -> BTreeSet<String> {
        self.stored
            .iter()
            .filter_map(|revision| revision.metadata.name.clone())
            .collect()
    }
}

#[test]
fn a_new_revision_is_complete() {
    let plan = History::default().plan(&[("b", "x:1"), ("a", "y:1")], CliqueOrder::Free, 5);
    let [HistoryStep::Create(revision)] = &plan.steps[..] else {
        panic!("{plan:?}")
    };
    assert_eq!(revision.metadata.name.as_ref(), Some(&plan.current));
    assert_eq!(revision.metadata.namespace.as_deref(), Some("serving"));
    assert_eq!(revision.metadata.owner_references, Some(vec![owner("u1")]));
    assert_eq!(revision.revision, Some(1));
    let labels = revision.metadata.labels.clone().expect("labels");
    let content = RevisionContent::read(revision).expect("our own form");
    assert_eq!(labels[HASH_LABEL], content.generation().label());
    assert_eq!(labels["app.kubernetes.io/part-of"], "web");
    assert_eq!(plan.current, format!("web-{}", content.generation()));

    assert_eq!(content.cliques().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    let stored = content.template("b").expect("the clique is stored");
    assert!(same_template(&stored.view(), &view(&spec("x:1"))));
    assert_eq!(
        stored.spec["containers"][0]["imagePullPolicy"], "IfNotPresent",
        "defaults are written out"
    );
}

#[test]
fn start_up_order_is_kept_where_it_counts() {
    let history = History::default();
    let in_order = history.plan(&[("b", "x:1"), ("a", "y:1")], CliqueOrder::Counts, 5);
    let swapped = history.plan(&[("a", "y:1"), ("b", "x:1")], CliqueOrder::Counts, 5);
    assert_ne!(in_order.current, swapped.current);
    let [HistoryStep::Create(revision)] = &in_order.steps[..] else {
        panic!("{in_order:?}")
    };
    let content = RevisionContent::read(revision).expect("our own form");
    assert_eq!(content.cliques().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(in_order.current, format!("web-{}", content.generation()));
}

#[test]
fn older_content_is_renumbered_instead_of_stored_twice() {
    let mut history = History::default();
    let first = history.roll("x:1", 5).current;
    history.get(&first).metadata.resource_version = Some("42".to_owned());
    let second = history.roll("x:2", 5).current;
    assert_ne!(first, second);
    let back = history.plan(&[("main", "docker.io/x:1")], CliqueOrder::Free, 5);
    assert_ne!(back.current, first, "another image is other content");
    let back = history.roll("x:1", 5);
    assert_eq!(back.current, first);
    assert_eq!(
        back.steps,
        [HistoryStep::Bump {
            name: first.clone(),
            resource_version: Some("42".to_owned()),
            revision: 3
        }]
    );
    assert_eq!(history.names(), BTreeSet::from([first, second]));
}

#[test]
fn whoever_read_an_older_set_does_not_renumber_what_others_made_current() {
    let mut history = History::default();
    let plan = |history: &mut History, generation: i64, image: &str| {
        history.generation = Some(generation);
        let plan = history.plan(&[("a", image)], CliqueOrder::Free, 5);
        history.carry_out(&plan);
        plan.steps.len()
    };
    assert_eq!(plan(&mut history, 1, "one"), 1);
    assert_eq!(plan(&mut history, 3, "two"), 1);
    assert_eq!(plan(&mut history, 1, "one"), 0, "an older set changes nothing");
    assert_eq!(plan(&mut history, 2, "never stored"), 0);
    assert_eq!(
        plan(&mut history, 4, "two"),
        0,
        "a generation without another template needs no number"
    );
    assert_eq!(plan(&mut history, 5, "one"), 1, "going back is a newer generation");
    assert_eq!(plan(&mut history, 4, "two"), 0);
    let numbers: Vec<_> = history.stored.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [Some(5), Some(3)]);
}

#[test]
fn the_oldest_unused_revisions_go_first_and_used_ones_stay() {
    let mut history = History::default();
    let names: Vec<_> = (0..4)
        .map(|version| history.roll(&format!("x:{version}"), 10).current)
        .collect();
    history.get(&names[0]).metadata.uid = Some("uid-0".to_owned());
    history.in_use.insert(names[1].clone());

    let plan = history.plan(&[("main", "x:9")], CliqueOrder::Free, 1);
    assert_eq!(
        plan.steps[1..],
        [
            HistoryStep::Delete {
                name: names[0].clone(),
                uid: Some("uid-0".to_owned())
            },
            HistoryStep::Delete {
                name: names[2].clone(),
                uid: None
            },
        ]
    );
    history.carry_out(&plan);
    assert_eq!(
        history.names(),
        BTreeSet::from([names[1].clone(), names[3].clone(), plan.current])
    );
}

#[test]
fn the_current_revision_survives_a_limit_of_nothing() {
    let mut history = History::default();
    for version in 0..3 {
        let plan = history.roll(&format!("x:{version}"), 0);
        assert_eq!(history.names(), BTreeSet::from([plan.current]));
    }
}

#[test]
fn the_history_is_bounded() {
    let mut history = History::default();
    for version in 0..30 {
        history.roll(&format!("x:{version}"), DEFAULT_HISTORY_LIMIT);
        assert!(history.stored.len() <= DEFAULT_HISTORY_LIMIT + 1);
    }
    assert_eq!(
        history.stored.iter().filter_map(|revision| revision.revision).max(),
        Some(30)
    );
}

#[test]
fn a_name_taken_by_something_else_is_stepped_over() {
    let mut history = History::default();
    let first = history.roll("x:1", 5).current;
    history.get(&first).data.0["cliques"] = json!([]);
    let plan = history.plan(&[("main", "x:1")], CliqueOrder::Free, 5);
    assert_eq!(plan.current, format!("{first}-1"));

    history.get(&first).metadata.owner_references = Some(vec![owner("another set")]);
    let plan = history.plan(&[("main", "x:1")], CliqueOrder::Free, 0);
    assert_eq!(plan.current, format!("{first}-1"));
    assert_eq!(plan.steps.len(), 1, "what belongs to others is not deleted");
    let [HistoryStep::Create(revision)] = &plan.steps[..] else {
        panic!("{plan:?}")
    };
    assert_eq!(revision.revision, Some(1), "nor counted");
}

#[test]
fn a_revision_that_is_being_deleted_is_not_reused() {
    let mut history = History::default();
    let first = history.roll("x:1", 5).current;
    history.get(&first).metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let plan = history.plan(&[("main", "x:1")], CliqueOrder::Free, 0);
    assert_eq!(plan.current, format!("{first}-1"));
    assert_eq!(plan.steps.len(), 1);
}

#[test]
fn what_others_wrote_is_refused_with_its_name() {
    let mut revision = ControllerRevision::default();
    revision.metadata.name = Some("web-1".to_owned());
    let read = |data: Value| {
        let mut revision = revision.clone();
        revision.data.0 = data;
        RevisionContent::read(&revision).expect_err("it is malformed")
    };
    assert_eq!(
        read(json!({"spec": {}})),
        RevisionError::UnknownFormat {
            revision: "web-1".to_owned()
        }
    );
    for (data, path) in [
        (json!({"format": 1}), "data.cliqueOrder"),
        (
            json!({"format": 1, "cliqueOrder": "Free", "cliques": {}}),
            "data.cliques",
        ),
        (
            json!({"format": 1, "cliqueOrder": "Free", "cliques": [{}]}),
            "data.cliques[0].name",
        ),
        (
            json!({"format": 1, "cliqueOrder": "Counts", "cliques": [{"name": "a"}]}),
            "spec of the stored template",
        ),
        (
            json!({"format": 1, "cliqueOrder": "Free", "cliques": [{"name": "a", "template": {"metadata": {"labels": {"x": 1}}, "spec": {}}}]}),
            "metadata.labels of the stored template",
        ),
    ] {
        let message = read(data).to_string();
        assert!(message.contains(path) && message.contains("web-1"), "{message}");
    }
}
