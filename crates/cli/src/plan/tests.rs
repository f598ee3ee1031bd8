//! Plans for changes of the example, against golden files; COPPICE_BLESS=1 writes them anew.

use coppice_api::admission::default_pod_clique_set;
use coppice_api::types::PodCliqueSet;
use serde_json::{Value, json};

use super::rehearsal;
use crate::view::plan::changes::{Sizes, compare};
use crate::view::plan::{Action, PlanView, text};

const EXAMPLE: &str = include_str!("../../../../examples/disaggregated.yaml");

fn golden(name: &str, actual: &str) {
    crate::golden::check(&format!("plan/golden/{name}"), actual);
}

fn example(change: impl FnOnce(&mut Value)) -> PodCliqueSet {
    let mut object: Value = serde_saphyr::from_str(EXAMPLE).expect("the example is YAML");
    change(&mut object);
    let mut set: PodCliqueSet = serde_json::from_value(object).expect("the example is a set");
    default_pod_clique_set(&mut set, None);
    set
}

fn pod_spec(object: &mut Value, clique: usize) -> &mut Value {
    &mut object["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]
}

fn image(object: &mut Value, clique: usize) {
    pod_spec(object, clique)["containers"][0]["image"] = json!("registry.example/serve/new:2");
}

fn planned(change: impl FnOnce(&mut Value)) -> PlanView {
    compare(Some(&example(|_| {})), &example(change), &Sizes::default())
}

#[test]
fn a_new_set_is_created() {
    let plan = compare(None, &example(|_| {}), &Sizes::default());
    assert_eq!(plan.action, Action::Create);
    golden("create.txt", &text::draw(&[plan]));
}

#[test]
fn other_words_for_the_same_replace_nothing() {
    let plan = planned(|object| {
        pod_spec(object, 0)["dnsPolicy"] = json!("ClusterFirst");
        pod_spec(object, 0)["containers"][0]["resources"] = json!({"requests": {"memory": "4096Mi", "cpu": "2000m"}});
    });
    assert_eq!(plan.action, Action::None);
    golden("same.txt", &text::draw(&[plan]));
}

#[test]
fn sizes_and_delays_replace_nothing() {
    let plan = planned(|object| {
        object["spec"]["replicas"] = json!(2);
        object["spec"]["template"]["terminationDelay"] = json!("1h");
    });
    assert_eq!((plan.action, plan.replaced_pods), (Action::Update, 0));
    golden("settings.txt", &text::draw(&[plan]));
}

#[test]
fn on_delete_waits_for_people() {
    let plan = planned(|object| {
        image(object, 0);
        object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    });
    golden("on-delete.txt", &text::draw(&[plan]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_rehearsed() {
    let (before, after) = (
        example(|_| {}),
        example(|object| {
            image(object, 0);
            image(object, 2);
        }),
    );
    let mut plan = compare(Some(&before), &after, &Sizes::default());
    let mut rehearsed = rehearsal::rehearse(&before, &after, &Sizes::default())
        .await
        .expect("it ends");
    // The clique and the group are updated side by side: their order is not fixed.
    rehearsed.steps.sort_by_key(|step| (step.group, step.of.clone()));
    for floor in &rehearsed.floors {
        assert!(
            i32::try_from(floor.lowest).expect("small") >= floor.min_available,
            "{floor:?} fell below its minimum"
        );
    }
    plan.rehearsal = Some(rehearsed);
    golden("update.txt", &text::draw(&[plan.clone()]));
    let json = serde_json::to_string_pretty(&plan).expect("it can be written");
    golden("update.json", &(json + "\n"));
}
