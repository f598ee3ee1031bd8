//! The model against itself built from scratch, and the questions it makes of gangs.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_placement::preempt::Running;
use coppice_placement::{Options, Outcome, Pack, ReasonCode, Waiting, plan};
use proptest::prelude::*;

use super::testing::{PodSketch, gang, gang_id, key, node, two_racks};
use super::*;

/// Everything the model says, with what it interned spelled out.
fn answers(model: &Model) -> String {
    let mut model = model.clone();
    let state = model.state();
    let columns: Vec<_> = state.columns().all().collect();
    let mut text = Vec::new();
    for name in model.nodes.keys() {
        let id = state.node_id(name).expect("known");
        let free: BTreeMap<&str, i64> = columns
            .iter()
            .map(|column| (state.columns().name(*column), state.free_on(id, *column)))
            .filter(|(_, free)| *free != 0)
            .collect();
        text.push(format!("{name} {free:?}"));
    }
    for (name, resident) in state.pods() {
        text.push(format!(
            "{name} on {} as {:?}",
            state.node(resident.node).name,
            state.shape_of(resident.shape).demands
        ));
    }
    assert_eq!(state.recomputed(), *state);
    let ids: Vec<GangId> = model.waiting().cloned().collect();
    for id in ids {
        let question = model.question(&id).expect("it waits");
        let shapes: Vec<_> = question
            .gang
            .groups
            .iter()
            .map(|group| model.state().shape_of(group.shape).demands.clone())
            .collect();
        let mut group = question.gang.placement_group.clone().unwrap_or_default();
        let mut ahead: Vec<_> = group
            .ahead
            .iter()
            .map(|(shape, count)| (model.state().shape_of(*shape).demands.clone(), *count))
            .collect();
        ahead.sort();
        group.ahead.clear();
        // Shapes are numbered in the order in which they came; what they are is compared.
        let mut of_siblings = Vec::new();
        for group in group.siblings.iter_mut().flat_map(|sibling| &mut sibling.groups) {
            of_siblings.push(model.state().shape_of(group.shape).demands.clone());
            group.shape = question.gang.groups[0].shape;
        }
        let mut plain = question.clone();
        plain.gang.placement_group = None;
        let blank = plain.gang.groups.first().map(|group| group.shape);
        for group in &mut plain.gang.groups {
            group.shape = blank.expect("there is one");
        }
        let text_of = format!("{plain:?}").replace(&format!("{blank:?}"), "shape");
        let text_of = blank.map_or(text_of.clone(), |shape| text_of.replace(&format!("{shape:?}"), "shape"));
        let group = blank.map_or(String::new(), |shape| {
            format!("{group:?}").replace(&format!("{shape:?}"), "shape")
        });
        text.push(format!("{text_of} {shapes:?} {group} {ahead:?} {of_siblings:?}"));
    }
    text.push(format!("{:?}", model.running()));
    text.join("\n")
}

#[derive(Debug, Clone)]
enum Step {
    Node(u8, u8, u32),
    NodeGone(u8),
    Pod(PodSketch),
    PodGone(u8),
    Gang(u8, u32, bool),
    GangGone(u8),
    Topology(bool),
    Assume(u8, u8),
    Forget(u8),
}

fn pod_step() -> impl Strategy<Value = Step> {
    let flags = (any::<bool>(), 0..8_u8, 0..8_u8, 0..8_u8, 0..10_u8, 0..8_u8);
    (0..6_u8, 0..2_u32, 0..4_u8, 0..6_u8, 1..4_u32, flags).prop_map(|(name, uid, gang, node, cpu, flags)| {
        let (base, gated, deleting, finished, apart, foreign) = flags;
        Step::Pod(PodSketch {
            name: format!("p{name}"),
            uid,
            gang: (gang < 3).then(|| (format!("g{gang}"), format!("c{}", name % 2))),
            copy: None,
            base: (base && gang == 1).then(|| "g0".to_owned()),
            node: (node < 4).then(|| format!("n{node}")),
            cpu,
            gated: gated == 0,
            deleting: deleting == 0,
            finished: finished == 0,
            apart: apart == 0,
            foreign: foreign == 0,
            ready: false,
            was_ready: false,
            priority: 0,
            never_preempts: false,
        })
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_u8, 0..2_u8, 1..5_u32).prop_map(|(node, rack, cpu)| Step::Node(node, rack, cpu)),
        1 => (0..4_u8).prop_map(Step::NodeGone),
        8 => pod_step(),
        2 => (0..6_u8).prop_map(Step::PodGone),
        2 => (0..3_u8, 0..3_u32, any::<bool>()).prop_map(|(gang, floor, packed)| Step::Gang(gang, floor, packed)),
        1 => (0..3_u8).prop_map(Step::GangGone),
        1 => any::<bool>().prop_map(Step::Topology),
        3 => (0..6_u8, 0..4_u8).prop_map(|(pod, node)| Step::Assume(pod, node)),
        1 => (0..6_u8).prop_map(Step::Forget),
    ]
}

fn take(model: &mut Model, step: &Step) {
    match step {
        Step::Node(name, rack, cpu) => model.put_nodes([node(&format!("n{name}"), &format!("r{rack}"), *cpu)]),
        Step::NodeGone(name) => model.remove_nodes([format!("n{name}").as_str()]),
        Step::Pod(pod) => model.put_pod(&pod.record()),
        Step::PodGone(name) => model.remove_pod(&key(&format!("p{name}"))),
        Step::Gang(name, floor, packed) => {
            model.put_gang(gang(
                &format!("g{name}"),
                &[("c0", *floor), ("c1", 1)],
                packed.then_some("rack"),
            ));
        }
        Step::GangGone(name) => model.remove_gang(&key(&format!("g{name}"))),
        Step::Topology(there) => {
            let topology = ("t".to_owned(), vec!["rack".to_owned()]);
            model.set_topologies(there.then_some(topology).into_iter().collect());
        }
        Step::Assume(pod, node) => model.assume(&key(&format!("p{pod}")), &format!("n{node}")),
        Step::Forget(pod) => model.forget(&key(&format!("p{pod}"))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn object_by_object_and_all_at_once_agree(steps in proptest::collection::vec(step(), 1..60)) {
        let mut model = Model::new(["coppice"]);
        for step in &steps {
            take(&mut model, step);
            prop_assert_eq!(answers(&model), answers(&model.rebuilt()));
        }
    }

    #[test]
    fn whoever_follows_the_noted_changes_knows_every_running_gang(steps in proptest::collection::vec(step(), 1..60)) {
        let mut model = Model::new(["coppice"]);
        let mut known: BTreeMap<String, Running> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            take(&mut model, step);
            if at % 3 != 0 {
                continue;
            }
            let all = |model: &Model| -> BTreeMap<String, Running> {
                model.running().into_iter().map(|gang| (gang.name.clone(), gang)).collect()
            };
            match model.take_changes() {
                Changes::All => known = all(&model),
                Changes::Gangs(gangs) => {
                    for gang in gangs {
                        match model.running_gang(&gang) {
                            Some(running) => drop(known.insert(gang.to_string(), running)),
                            None => drop(known.remove(&gang.to_string())),
                        }
                    }
                }
            }
            prop_assert_eq!(&known, &all(&model));
        }
    }

    #[test]
    fn a_gang_that_did_not_fit_fits_only_after_the_room_has_grown(steps in proptest::collection::vec(step(), 1..60)) {
        let mut model = Model::new(["coppice"]);
        let fits = |model: &mut Model| -> BTreeMap<GangId, bool> {
            let ids: Vec<GangId> = model.waiting().cloned().collect();
            ids.into_iter().filter_map(|id| {
                let question = model.question(&id).filter(|question| question.obstacle.is_none())?;
                let options = Options { scheduled: question.scheduled.clone(), ..Options::default() };
                let outcome = plan(model.state_mut(), &question.gang, &options);
                (!matches!(outcome, Outcome::Waiting(_))).then_some((id, matches!(outcome, Outcome::Placed(_))))
            }).collect()
        };
        for step in &steps {
            let (before, room) = (fits(&mut model), model.room());
            let concerns_the_gang = !matches!(step, Step::Node(..) | Step::NodeGone(_) | Step::Topology(_));
            take(&mut model, step);
            if model.room() == room && !concerns_the_gang {
                for (id, fit) in fits(&mut model) {
                    prop_assert!(!fit || before.get(&id) != Some(&false), "{} fits without more room", id);
                }
            }
        }
    }
}

fn decide(model: &mut Model, id: &GangId) -> Outcome {
    let question = model.question(id).expect("it waits");
    let options = Options {
        scheduled: question.scheduled.clone(),
        ..Options::default()
    };
    plan(model.state_mut(), &question.gang, &options)
}

#[test]
fn a_gang_waits_for_the_pods_of_its_floors() {
    let mut model = two_racks(2, 4);
    model.put_gang(gang("g", &[("a", 2), ("b", 1)], None));
    model.put_pod(&PodSketch::new("a0", "g", "a").record());
    model.put_pod(&PodSketch::new("b0", "g", "b").record());
    let waits = Waiting::Pods {
        group: "a".into(),
        have: 1,
        need: 2,
    };
    assert_eq!(decide(&mut model, &gang_id("g")), Outcome::Waiting(vec![waits.clone()]));
    let mut gated = PodSketch::new("a1", "g", "a");
    gated.gated = true;
    model.put_pod(&gated.record());
    assert_eq!(decide(&mut model, &gang_id("g")), Outcome::Waiting(vec![waits]));
    gated.gated = false;
    model.put_pod(&gated.record());
    assert!(matches!(decide(&mut model, &gang_id("g")), Outcome::Placed(plan) if plan.bindings.len() == 3));
}

#[test]
fn a_gang_that_lost_a_pod_is_completed_where_it_is() {
    let mut model = two_racks(2, 4);
    model.put_gang(gang("g", &[("a", 3)], Some("rack")));
    let mut bound = PodSketch::new("a0", "g", "a");
    bound.node = Some("n0".into());
    model.put_pod(&bound.record());
    model.put_pod(&PodSketch::new("a1", "g", "a").record());
    let question = model.question(&gang_id("g")).unwrap();
    assert!(question.begun);
    assert_eq!(question.gang.groups[0].floor, 2, "the third pod does not exist");
    let Outcome::Placed(plan) = decide(&mut model, &gang_id("g")) else {
        panic!("there is room")
    };
    assert!(["n0", "n1"].contains(&plan.bindings[0].node.as_str()), "in its rack");
}

#[test]
fn a_scaled_gang_comes_after_its_base_and_into_the_same_domain() {
    let mut model = two_racks(2, 4);
    model.put_gang(gang("base", &[("a", 1)], Some("rack")));
    model.put_gang(gang("more", &[("b", 1)], None));
    model.put_pod(&PodSketch::new("a0", "base", "a").record());
    let mut scaled = PodSketch::new("b0", "more", "b");
    scaled.base = Some("base".into());
    model.put_pod(&scaled.record());
    assert_eq!(
        decide(&mut model, &gang_id("more")),
        Outcome::Waiting(vec![Waiting::Gang("n/base".into())])
    );
    model.assume(&key("a0"), "n0");
    assert!(
        matches!(decide(&mut model, &gang_id("more")), Outcome::Waiting(_)),
        "about to be bound is not bound"
    );
    let mut bound = PodSketch::new("a0", "base", "a");
    bound.node = Some("n0".into());
    model.put_pod(&bound.record());
    let Outcome::Placed(plan) = decide(&mut model, &gang_id("more")) else {
        panic!("there is room")
    };
    assert!(
        ["n0", "n1"].contains(&plan.bindings[0].node.as_str()),
        "in the rack of the base gang: {plan:?}"
    );
    scaled.cpu = 4;
    model.put_pod(&scaled.record());
    let Outcome::Infeasible(reasons) = decide(&mut model, &gang_id("more")) else {
        panic!("only the other rack has room")
    };
    assert_eq!(reasons[0].code, ReasonCode::PinnedDomainFull);
}

#[test]
fn pods_of_one_clique_that_differ_are_placed_together() {
    let mut model = two_racks(2, 4);
    let mut record = (*gang("g", &[("a", 2)], None)).clone();
    record.groups[0].pack = Pack::required("rack");
    model.put_gang(Arc::new(record));
    let mut large = PodSketch::new("a0", "g", "a");
    large.cpu = 4;
    model.put_pod(&large.record());
    model.put_pod(&PodSketch::new("a1", "g", "a").record());
    let Outcome::Placed(plan) = decide(&mut model, &gang_id("g")) else {
        panic!("there is room")
    };
    assert!(
        plan.bindings
            .iter()
            .all(|binding| ["n2", "n3"].contains(&binding.node.as_str())),
        "{plan:?}"
    );
}

#[test]
fn a_pod_without_a_gang_is_a_gang_and_one_without_its_gang_waits() {
    let mut model = two_racks(2, 4);
    let mut alone = PodSketch::new("p", "", "");
    alone.gang = None;
    model.put_pod(&alone.record());
    assert!(matches!(decide(&mut model, &GangId::Pod(key("p"))), Outcome::Placed(_)));
    alone.foreign = true;
    model.put_pod(&alone.record());
    assert!(model.question(&GangId::Pod(key("p"))).is_none(), "another scheduler's");
    model.put_pod(&PodSketch::new("q", "gone", "c").record());
    let question = model.question(&gang_id("gone")).unwrap();
    assert_eq!(question.obstacle.unwrap().code, ReasonCode::WaitingForPods);
}

#[test]
fn an_assumed_pod_takes_room_until_it_is_forgotten_or_replaced() {
    let mut model = two_racks(2, 4);
    let mut pod = PodSketch::new("p", "", "");
    pod.gang = None;
    model.put_pod(&pod.record());
    model.assume(&key("p"), "n0");
    assert!(model.state().pod("n/p").is_some() && model.waiting().next().is_none());
    let room = model.room();
    model.forget(&key("p"));
    assert!(model.state().pod("n/p").is_none() && model.waiting().next().is_some());
    assert!(model.room() > room);
    model.assume(&key("p"), "n0");
    pod.uid = 2;
    model.put_pod(&pod.record());
    assert!(!model.is_assumed(&key("p")), "another pod of the same name");
}

#[test]
fn who_runs_is_known_with_floors_base_and_order() {
    let mut model = two_racks(2, 4);
    model.put_gang(gang("base", &[("a", 1)], None));
    model.put_gang(gang("more", &[("b", 0)], None));
    for (name, gang, clique, base) in [("a0", "base", "a", None), ("b0", "more", "b", Some("base".to_owned()))] {
        let mut pod = PodSketch::new(name, gang, clique);
        (pod.node, pod.base) = (Some("n0".into()), base);
        model.put_pod(&pod.record());
    }
    let running = model.running();
    assert_eq!(
        running.iter().map(|gang| gang.name.as_str()).collect::<Vec<_>>(),
        ["n/base", "n/more"]
    );
    assert_eq!(running[1].base.as_deref(), Some("n/base"));
    assert_eq!((running[0].groups[0].floor, running[1].groups[0].floor), (1, 0));
}
