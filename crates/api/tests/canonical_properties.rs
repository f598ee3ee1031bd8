//! Properties of identity and comparison over templates made from the schema, and over arbitrary JSON.

mod canonical_support;

use std::collections::BTreeMap;

use canonical_support::generate::{self, Choices};
use canonical_support::{NOTHING, identity, pod_spec, respell, set_keys, short_name, view};
use coppice_api::canonical::{
    OwnedTemplate, TemplateView, canonical_value, differences, same_template, terse_template,
};
use coppice_schema::{Cursor, kubernetes, pod_template};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn generated(seed: u64) -> (Cursor<'static>, Value, Choices) {
    let mut choices = Choices::new(seed);
    let definitions = if choices.percent(50) {
        kubernetes()
    } else {
        pod_template()
    };
    let cursor = pod_spec(definitions);
    let spec = generate::pod_spec(cursor, &mut choices);
    (cursor, spec, choices)
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

/// The places of all scalars below a value.
fn scalars(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                scalars(
                    value,
                    &format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                scalars(value, &format!("{place}/{index}"), found);
            }
        }
        _ => found.push(place.to_owned()),
    }
}

/// The places of all lists whose order carries meaning and that hold at least two different elements.
fn ordered_lists(cursor: Cursor<'_>, value: &Value, place: &str, found: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let Some(field) = cursor.field(name) else { continue };
        let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
        match (field.items(), value) {
            (Some(items), Value::Array(elements)) => {
                if set_keys(short_name(cursor), name).is_none()
                    && elements.iter().any(|element| *element != elements[0])
                {
                    found.push(place.clone());
                }
                for (index, element) in elements.iter().enumerate() {
                    ordered_lists(items, element, &format!("{place}/{index}"), found);
                }
            }
            _ => ordered_lists(field, value, &place, found),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn another_spelling_has_the_same_identity(seed in any::<u64>()) {
        let (cursor, spec, mut choices) = generated(seed);
        let spelled = respell::pod_spec(cursor, &spec, &mut choices);
        let (one, other) = (view(object(&spec)), view(object(&spelled)));
        prop_assert_eq!(canonical_value(&one), canonical_value(&other), "{} and {}", &spec, &spelled);
        prop_assert_eq!(one.identity(), other.identity(), "{} and {}", &spec, &spelled);
        prop_assert!(same_template(&one, &other));
        prop_assert_eq!(differences(&one, &other), []);
    }

    #[test]
    fn a_changed_value_changes_the_identity(seed in any::<u64>()) {
        let (_, spec, mut choices) = generated(seed);
        let mut places = Vec::new();
        scalars(&spec, "", &mut places);
        let place = choices.one(&places);
        let mut changed = spec.clone();
        let value = changed.pointer_mut(place).expect("the place was found there");
        *value = match &*value {
            Value::Bool(flag) => json!(!flag),
            Value::Number(_) | Value::Null => json!(12345),
            Value::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => json!("12345"),
            other => json!(format!("{}x", other.as_str().unwrap_or_default())),
        };
        let (one, other) = (view(object(&spec)), view(object(&changed)));
        prop_assert_ne!(one.identity(), other.identity(), "{} in {}", place, &spec);
        prop_assert!(!same_template(&one, &other));
        prop_assert_ne!(differences(&one, &other), []);
    }

    #[test]
    fn order_that_carries_meaning_counts(seed in any::<u64>()) {
        let (cursor, spec, mut choices) = generated(seed);
        let mut places = Vec::new();
        ordered_lists(cursor, &spec, "", &mut places);
        prop_assume!(!places.is_empty());
        let place = choices.one(&places);
        let mut changed = spec.clone();
        let list = changed.pointer_mut(place).and_then(Value::as_array_mut).expect("the place was found there");
        let other = list.iter().position(|element| *element != list[0]).expect("two elements differ");
        list.swap(0, other);
        prop_assert_ne!(identity(&spec), identity(&changed), "{} in {}", place, &spec);
        prop_assert_ne!(differences(&view(object(&spec)), &view(object(&changed))), []);
    }

    #[test]
    fn the_stored_form_has_the_identity_of_the_template(
        seed in any::<u64>(),
        labels in prop::collection::btree_map("[a-z./]{0,8}", "[a-z]{0,4}", 0..4),
        annotations in prop::collection::btree_map("[a-z./]{0,8}", "\\PC{0,4}", 0..4),
        priority_class in prop::option::of("[a-z]{0,4}"),
    ) {
        let (_, spec, _) = generated(seed);
        let template = TemplateView {
            labels: &labels, annotations: &annotations, priority_class: priority_class.as_deref(), spec: object(&spec),
        };
        let stored = OwnedTemplate::from_value(&canonical_value(&template)).expect("our own form");
        prop_assert_eq!(stored.view().identity(), template.identity());
        prop_assert_eq!(&stored.labels, &labels);
        prop_assert_eq!(&stored.annotations, &annotations);
    }
}

/// JSON of any shape, with names that the table knows, so that every rule meets every type.
fn any_json() -> impl Strategy<Value = Value> {
    let mut names: Vec<String> = Vec::new();
    for definition in kubernetes().closure(["io.k8s.api.core.v1.PodSpec"]) {
        let cursor = kubernetes().definition(definition).expect("it is in the closure");
        names.extend(cursor.node().fields.iter().map(|field| field.name.to_string()));
    }
    names.sort();
    names.dedup();
    // The names near the root are needed to reach the others.
    let near = [
        "containers",
        "volumes",
        "ports",
        "resources",
        "limits",
        "requests",
        "emptyDir",
        "hostNetwork",
        "env",
    ];
    let name = prop_oneof![
        prop::sample::select(near.map(str::to_owned).to_vec()),
        prop::sample::select(names),
        "[a-z]{0,2}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..100).prop_map(Value::from),
        prop::sample::select(vec![0.0, -0.0, 30.0, 0.5, 1e20, 1e300, 80.0]).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::sample::select(vec![
            "", "0", "1", "1000m", "TCP", "Always", "1e400", "-1Ki", "File", "v1", "/"
        ])
        .prop_map(Value::from),
        "\\PC{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 120, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_spec() -> impl Strategy<Value = Map<String, Value>> {
    let near = prop::sample::select(vec![
        "containers",
        "initContainers",
        "volumes",
        "hostNetwork",
        "serviceAccount",
        "overhead",
        "x",
    ]);
    prop::collection::btree_map(
        near,
        prop_oneof![
            any_json(),
            prop::collection::vec(any_json(), 0..4).prop_map(Value::from)
        ],
        0..5,
    )
    .prop_map(|fields| {
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_json_has_a_canonical_form_that_is_its_own(spec in any_spec()) {
        let canonical = canonical_value(&view(&spec));
        let stored = OwnedTemplate::from_value(&canonical).expect("our own form");
        prop_assert_eq!(canonical_value(&stored.view()), canonical.clone());
        prop_assert_eq!(stored.view().identity(), view(&spec).identity(), "{}", canonical);
        prop_assert!(same_template(&view(&spec), &stored.view()));
        prop_assert_eq!(differences(&view(&spec), &stored.view()), []);
    }

    #[test]
    fn a_template_without_its_defaults_means_the_same(spec in any_spec(), seed in any::<u64>()) {
        let (_, made, _) = generated(seed);
        for spec in [&spec, object(&made)] {
            let terse = terse_template(&view(spec));
            prop_assert!(same_template(&view(spec), &terse.view()), "{:?} and {:?}", spec, &terse);
            prop_assert_eq!(&terse_template(&terse.view()), &terse);
            let full = OwnedTemplate::from_value(&canonical_value(&view(spec))).expect("our own form");
            prop_assert_eq!(terse_template(&full.view()), terse);
        }
    }

    #[test]
    fn identity_comparison_and_difference_agree(one in any_spec(), place in any::<prop::sample::Index>(), new in any_json()) {
        let mut other = Value::Object(one.clone());
        let mut places = Vec::new();
        scalars(&other, "", &mut places);
        if !places.is_empty() {
            *other.pointer_mut(place.get::<String>(&places)).expect("the place was found there") = new;
        }
        let (one, other) = (view(&one), view(object(&other)));
        let same = same_template(&one, &other);
        prop_assert_eq!(same, one.identity() == other.identity());
        prop_assert_eq!(same, differences(&one, &other).is_empty());
    }
}

#[test]
fn labels_and_annotations_count_apart_from_each_other() {
    let spec = Map::new();
    let some = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let with = |labels, annotations| TemplateView {
        labels,
        annotations,
        priority_class: None,
        spec: &spec,
    };
    let plain = with(&NOTHING, &NOTHING).identity();
    let labelled = with(&some, &NOTHING).identity();
    let annotated = with(&NOTHING, &some).identity();
    assert!(plain != labelled && plain != annotated && labelled != annotated);
}
