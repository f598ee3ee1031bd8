//! Every field of the pod spec, taken from the published schema, counts: each is set, changed, emptied and removed.
//!
//! Nothing here is picked by hand except the exceptions, which are listed with their reason. A field that the table of
//! facts does not know, or knows wrongly, fails one of these.

mod canonical_support;

use canonical_support::{DEFAULTS, identity, parse, pod_spec, set_keys, short_name};
use coppice_schema::{Cursor, Definitions, MapValues, Type, kubernetes, pod_template};
use serde_json::{Map, Value, json};

/// Objects that say nothing when they are empty.
const EMPTY_EQUALS_ABSENT: &[(&str, &str)] = &[
    // The API server writes an empty one itself.
    ("PodSpec", "securityContext"),
    // No setting is made, and none of the pod's is hidden, until a field is set.
    ("Container", "securityContext"),
    ("EphemeralContainer", "securityContext"),
    ("SecurityContext", "capabilities"),
    ("Container", "lifecycle"),
    ("EphemeralContainer", "lifecycle"),
    ("PodSpec", "dnsConfig"),
    // Rules apply only through the lists within.
    ("PodSpec", "affinity"),
    ("Affinity", "nodeAffinity"),
    ("Affinity", "podAffinity"),
    ("Affinity", "podAntiAffinity"),
    // Plain structs in Go, where empty and absent are one value.
    ("Container", "resources"),
    ("EphemeralContainer", "resources"),
    ("PodSpec", "resources"),
    ("PersistentVolumeClaimSpec", "resources"),
    ("PersistentVolumeClaimTemplate", "metadata"),
    ("PersistentVolumeClaimTemplate", "spec"),
    // A volume without any source is an empty directory.
    ("Volume", "emptyDir"),
];

/// A field, as the way from the pod spec down to it.
#[derive(Clone)]
struct Place<'a> {
    steps: Vec<(&'a str, bool)>,
    owner: &'a str,
    cursor: Cursor<'a>,
}

impl<'a> Place<'a> {
    fn name(&self) -> &'a str {
        self.steps.last().map_or("", |(name, _)| name)
    }

    fn path(&self) -> String {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|(name, is_list)| format!("{name}{}", if *is_list { "[]" } else { "" }))
            .collect();
        steps.join(".")
    }

    /// A pod spec in which nothing is set but this field, or what leads to it when `value` is `None`.
    fn spec(&self, value: Option<Value>) -> Value {
        let mut inner = Map::new();
        if let Some(value) = value {
            inner.insert(self.name().to_owned(), value);
        }
        let mut spec = Value::Object(inner);
        for (name, is_list) in self.steps.iter().rev().skip(1) {
            spec = if *is_list {
                json!({*name: [spec]})
            } else {
                json!({*name: spec})
            };
        }
        spec
    }

    fn all_differ(&self, values: &[Value]) {
        let mut specs: Vec<Value> = values.iter().map(|value| self.spec(Some(value.clone()))).collect();
        specs.push(self.spec(None));
        for (index, one) in specs.iter().enumerate() {
            for other in &specs[index + 1..] {
                assert_ne!(identity(one), identity(other), "{}: {one} and {other}", self.path());
            }
        }
    }

    fn same(&self, one: Option<Value>, other: Option<Value>) {
        let (one, other) = (self.spec(one), self.spec(other));
        assert_eq!(identity(&one), identity(&other), "{}: {one} and {other}", self.path());
    }
}

/// All fields below the pod spec.
fn places(definitions: &Definitions) -> Vec<Place<'_>> {
    fn below<'a>(cursor: Cursor<'a>, steps: &[(&'a str, bool)], found: &mut Vec<Place<'a>>) {
        for field in &cursor.node().fields {
            let inner = cursor.at(&field.slot);
            let mut steps = steps.to_vec();
            steps.push((&field.name, inner.node().ty == Type::Array));
            found.push(Place {
                steps: steps.clone(),
                owner: short_name(cursor),
                cursor: inner,
            });
            below(inner.items().unwrap_or(inner), &steps, found);
        }
    }
    let mut found = Vec::new();
    below(pod_spec(definitions), &[], &mut found);
    found
}

fn every_field(check: impl Fn(&Place<'_>)) {
    for definitions in [kubernetes(), pod_template()] {
        let places = places(definitions);
        assert!(places.len() > 900, "the schema has {} places", places.len());
        places.iter().for_each(&check);
    }
}

/// Two different values of a scalar type, neither of them a default or a zero value.
fn two(ty: Type) -> Option<[Value; 2]> {
    Some(match ty {
        Type::String => [json!("alpha"), json!("beta")],
        Type::Integer | Type::Number => [json!(71), json!(72)],
        Type::IntOrString => [json!(80), json!("80")],
        Type::Quantity => [json!("3"), json!("4")],
        _ => return None,
    })
}

#[test]
fn every_scalar_counts() {
    every_field(|place| match place.cursor.node().ty {
        Type::Boolean => {
            let [absent, no, yes] =
                [None, Some(json!(false)), Some(json!(true))].map(|value| identity(&place.spec(value)));
            assert_ne!(no, yes, "{}", place.path());
            // A flag has two meanings or three; absence may be one of the two but never a mixture.
            assert!(absent != no || absent != yes, "{}", place.path());
        }
        ty => {
            if let Some(values) = two(ty) {
                place.all_differ(&values);
            }
        }
    });
}

#[test]
fn every_list_counts_with_its_length_and_order() {
    every_field(|place| {
        let Some(items) = place.cursor.items() else { return };
        place.same(Some(json!([])), None);
        if let Some([one, other]) = two(items.node().ty) {
            place.all_differ(&[
                json!([one]),
                json!([other]),
                json!([one, other]),
                json!([other, one]),
                json!([one, one]),
            ]);
            return;
        }
        place.all_differ(&[json!([{}]), json!([{}, {}])]);
        if let Some(keys) = set_keys(place.owner, place.name()) {
            let [one, other] =
                two(items.field(keys[0]).expect("the key is a field").node().ty).expect("keys are scalars");
            let (one, other) = (json!({keys[0]: one}), json!({keys[0]: other}));
            place.same(Some(json!([one, other])), Some(json!([other, one])));
            place.all_differ(&[json!([one]), json!([other]), json!([one, other]), json!([one, one])]);
        } else {
            let (one, other) = (json!({"newer": 1}), json!({"newer": 2}));
            place.all_differ(&[json!([one, other]), json!([other, one])]);
        }
    });
}

#[test]
fn words_are_not_run_together() {
    every_field(|place| {
        if place
            .cursor
            .items()
            .is_some_and(|items| items.node().ty == Type::String)
        {
            place.all_differ(&[
                json!(["a b"]),
                json!(["a", "b"]),
                json!(["ab"]),
                json!(["ab", "c"]),
                json!(["a", "bc"]),
                json!(["a", "b", ""]),
                json!([""]),
            ]);
        }
    });
}

#[test]
fn every_map_counts_by_key_and_value() {
    every_field(|place| {
        let Some(MapValues::Typed(values)) = &place.cursor.node().values else {
            return;
        };
        place.same(Some(json!({})), None);
        match place.cursor.at(values).node().ty {
            Type::String => {
                place.all_differ(&[
                    json!({"k": "1"}),
                    json!({"k": "2"}),
                    json!({"l": "1"}),
                    json!({"k": ""}),
                    json!({"k": "1", "l": "1"}),
                ]);
            }
            Type::Quantity => {
                place.all_differ(&[
                    json!({"k": "1"}),
                    json!({"k": "2"}),
                    json!({"l": "1"}),
                    json!({"k": "0"}),
                    json!({"k": "junk"}),
                ]);
                place.same(Some(json!({"k": "1Ki"})), Some(json!({"k": 1024})));
            }
            other => panic!("{}: a map of {other:?} needs a case", place.path()),
        }
    });
}

#[test]
fn every_quantity_is_compared_by_value() {
    every_field(|place| {
        if place.cursor.node().ty == Type::Quantity {
            place.same(Some(json!("1500m")), Some(json!("1.5")));
            place.same(Some(json!("2")), Some(json!(2)));
            place.all_differ(&[json!("1e60"), json!("2e60"), json!("1m"), json!("1M"), json!("1Mi")]);
        }
    });
}

#[test]
fn nothing_is_said_by_null() {
    every_field(|place| place.same(Some(Value::Null), None));
}

#[test]
fn empty_objects_count_except_where_they_say_nothing() {
    let mut exceptions_met = std::collections::BTreeSet::new();
    for definitions in [kubernetes(), pod_template()] {
        for place in places(definitions) {
            let node = place.cursor.node();
            if node.ty != Type::Object || node.fields.is_empty() {
                continue;
            }
            if EMPTY_EQUALS_ABSENT.contains(&(place.owner, place.name())) {
                exceptions_met.insert((place.owner, place.name()));
                place.same(Some(json!({})), None);
            } else {
                place.all_differ(&[json!({})]);
            }
        }
    }
    assert_eq!(
        exceptions_met.len(),
        EMPTY_EQUALS_ABSENT.len(),
        "every exception is still needed: {exceptions_met:?}"
    );
}

#[test]
fn a_field_that_is_not_known_yet_counts_everywhere() {
    every_field(|place| {
        if place.cursor.node().fields.is_empty() {
            return;
        }
        place.all_differ(&[
            json!({"newer": 1}),
            json!({"newer": 2}),
            json!({"newer": {}}),
            json!({"newest": 1}),
        ]);
        place.same(
            Some(json!({"newer": null, "newest": 1})),
            Some(json!({"newest": 1, "list": []})),
        );
    });
    assert_ne!(identity(&json!({"newer": true})), identity(&json!({})));
}

#[test]
fn every_default_equals_its_absence() {
    let mut met = std::collections::BTreeSet::new();
    for definitions in [kubernetes(), pod_template()] {
        for place in places(definitions) {
            let known = DEFAULTS
                .iter()
                .find(|(owner, name, _)| *owner == place.owner && *name == place.name());
            if let Some((owner, name, default)) = known {
                met.insert((*owner, *name));
                place.same(Some(parse(default)), None);
            }
        }
    }
    assert_eq!(
        met.len(),
        DEFAULTS.len(),
        "every line of the table is about a field that exists: {met:?}"
    );
}
