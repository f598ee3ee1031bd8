//! Properties that hold for any object of any type: generated from the schemas themselves.

use std::collections::BTreeSet;

use coppice_schema::apply::{FieldSet, Reach, Write, apply, field_set, update};
use coppice_schema::{
    Cursor, Definitions, GroupVersionKind, ListType, MapValues, NodeId, Root, Type, apply_defaults, drop_nulls, facts,
    kubernetes, pod_template, prune, strategic_merge, unknown_fields, validate,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// An object of a type: a few of its fields, small values, keyed lists without duplicates. With `noise`, also fields and
/// values that do not belong there.
fn value_of(set: &'static Definitions, id: NodeId, depth: u32, noise: bool) -> BoxedStrategy<Value> {
    let node = set.cursor(id).node();
    let typed = match node.ty {
        Type::String => select(vec!["a", "b", "c"]).prop_map(Value::from).boxed(),
        Type::Integer | Type::Number => (0..4_i64).prop_map(Value::from).boxed(),
        Type::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        Type::IntOrString => prop_oneof![Just(json!(1)), Just(json!("50%"))].boxed(),
        Type::Quantity => select(vec!["1", "500m", "1Gi"]).prop_map(Value::from).boxed(),
        Type::Any => prop_oneof![Just(json!(1)), Just(json!({"x": "y"})), Just(json!([1]))].boxed(),
        // Elements need room for the fields that identify them.
        Type::Array if depth < 2 => Just(json!([])).boxed(),
        Type::Array => match &node.items {
            Some(items) => vec(value_of(set, items.node, depth - 1, noise), 0..4)
                .prop_map(move |list| Value::Array(distinct(set.cursor(id), list)))
                .boxed(),
            None => Just(json!([])).boxed(),
        },
        Type::Object => object_of(set, id, depth, noise),
    };
    if noise {
        prop_oneof![12 => typed, 1 => Just(Value::Null), 1 => Just(json!({"odd": [{}]}))].boxed()
    } else {
        typed
    }
}

fn object_of(set: &'static Definitions, id: NodeId, depth: u32, noise: bool) -> BoxedStrategy<Value> {
    let node = set.cursor(id).node();
    if depth == 0 {
        return Just(json!({})).boxed();
    }
    if let Some(MapValues::Typed(slot)) = &node.values {
        let entry = (select(vec!["k", "l", "m"]), value_of(set, slot.node, depth - 1, noise));
        return vec(entry, 0..3)
            .prop_map(|entries| {
                Value::Object(
                    entries
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            })
            .boxed();
    }
    if node.fields.is_empty() {
        return prop_oneof![Just(json!({})), Just(json!({"free": {"form": 1}}))].boxed();
    }
    // Choosing fields by index keeps the strategies small for types with dozens of fields.
    let choices = vec(any::<Index>(), 0..5);
    choices
        .prop_flat_map(move |choices| {
            let node = set.cursor(id).node();
            let chosen: BTreeSet<usize> = choices.iter().map(|index| index.index(node.fields.len())).collect();
            let keys = key_fields(set, id);
            let fields: Vec<_> = chosen
                .into_iter()
                .chain(keys)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            let values: Vec<_> = fields
                .iter()
                .map(|index| value_of(set, node.fields[*index].slot.node, depth - 1, noise))
                .collect();
            let names: Vec<String> = fields
                .iter()
                .map(|index| node.fields[*index].name.to_string())
                .collect();
            (
                Just(names),
                values,
                (0..4_u8).prop_map(move |dice| (noise && dice == 0).then_some("unknown")),
            )
        })
        .prop_map(|(names, values, unknown)| {
            let mut map: Map<String, Value> = names.into_iter().zip(values).collect();
            map.remove("managedFields");
            if let Some(name) = unknown {
                map.insert(name.to_owned(), json!({"x": 1}));
            }
            Value::Object(map)
        })
        .boxed()
}

/// Fields by which lists identify objects of this type.
fn key_fields(set: &'static Definitions, id: NodeId) -> Vec<usize> {
    let candidates = [
        "name",
        "port",
        "containerPort",
        "mountPath",
        "devicePath",
        "type",
        "uid",
        "ip",
        "topologyKey",
    ];
    let node = set.cursor(id).node();
    let is_key = |name: &str| candidates.contains(&name) || node.requires(name);
    (0..node.fields.len())
        .filter(|index| is_key(&node.fields[*index].name))
        .collect()
}

fn distinct(at: Cursor<'_>, list: Vec<Value>) -> Vec<Value> {
    let identity = |value: &Value| match &at.node().list {
        ListType::Map(keys) => keys
            .iter()
            .map(|key| value.get(&**key).map(ToString::to_string))
            .collect(),
        ListType::Set => vec![Some(value.to_string())],
        _ => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    let is_keyed = matches!(at.node().list, ListType::Map(_) | ListType::Set);
    list.into_iter()
        .filter(|value| !is_keyed || seen.insert(identity(value)))
        .collect()
}

/// Some lists merge by one key but are identified by two, so that the one may occur twice.
fn has_distinct_merge_keys(at: Cursor<'_>, value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().all(|(name, child)| {
            let Some(slot) = at.field_slot(name) else { return true };
            let key = slot.patch.as_ref().and_then(|patch| patch.merge_key.as_deref());
            let keys: Vec<_> = child
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| key.and_then(|key| one.get(key)))
                .collect();
            let distinct = keys
                .iter()
                .map(|key| key.map(ToString::to_string))
                .collect::<BTreeSet<_>>()
                .len();
            (key.is_none() || distinct == keys.len()) && has_distinct_merge_keys(at.at(slot), child)
        }),
        Value::Array(list) => at
            .items()
            .is_none_or(|items| list.iter().all(|one| has_distinct_merge_keys(items, one))),
        _ => true,
    }
}

fn pod_spec(noise: bool) -> BoxedStrategy<Value> {
    let set: &'static Definitions = pod_template();
    value_of(
        set,
        set.id("io.k8s.api.core.v1.PodSpec").expect("the facts have pods"),
        5,
        noise,
    )
}

fn kind(api_version: &str, kind: &str) -> Cursor<'static> {
    kubernetes()
        .kind(&GroupVersionKind::from_api_version(api_version, kind))
        .expect("a built-in kind")
}

fn pod() -> BoxedStrategy<Value> {
    value_of(kubernetes(), kind("v1", "Pod").id, 5, false)
}

const SMALL: &str = "\
def t.Object
  a string
  b integer
  set [string] list=set
  items [t.Item] list=map keys=name
  labels {string}
  whole {string} map=atomic
  inner t.Object
def t.Item
  name string
  value integer
  nested [t.Item] list=map keys=name
";

fn small() -> &'static Definitions {
    static SET: std::sync::LazyLock<Definitions> =
        std::sync::LazyLock::new(|| facts::read(SMALL).expect("the facts are well-formed"));
    &SET
}

/// Objects without empty lists: nobody owns an empty keyed or set list, so that it outlives whoever applied it.
fn small_object() -> BoxedStrategy<Value> {
    fn strip(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let fields = map
                    .into_iter()
                    .filter(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty()));
                Value::Object(fields.map(|(name, value)| (name, strip(value))).collect())
            }
            Value::Array(list) => Value::Array(list.into_iter().map(strip).collect()),
            scalar => scalar,
        }
    }
    value_of(small(), small().id("t.Object").expect("defined"), 4, false)
        .prop_map(strip)
        .boxed()
}

fn write<'a>(manager: &'a str, reach: &'a Reach, now: &'a str) -> Write<'a> {
    let schema = small().definition("t.Object");
    Write {
        schema,
        api_version: "v1",
        manager,
        subresource: "",
        reach,
        blank: None,
        now,
    }
}

fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("metadata");
    }
    object
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pruning_twice_is_pruning_once(value in pod_spec(true)) {
        let schema = pod_template().definition("io.k8s.api.core.v1.PodSpec").expect("pods");
        let mut once = value.clone();
        let removed = prune(schema, &mut once, Root::Value);
        prop_assert_eq!(&removed, &unknown_fields(schema, &value, Root::Value));
        let mut twice = once.clone();
        prop_assert!(prune(schema, &mut twice, Root::Value).is_empty());
        prop_assert_eq!(&twice, &once);
    }

    #[test]
    fn pruning_keeps_what_fits(value in pod_spec(false)) {
        let schema = pod_template().definition("io.k8s.api.core.v1.PodSpec").expect("pods");
        prop_assert!(unknown_fields(schema, &value, Root::Value).is_empty());
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(value in pod_spec(true)) {
        let schema = pod_template().definition("io.k8s.api.core.v1.PodSpec").expect("pods");
        let mut once = value;
        drop_nulls(schema, &mut once);
        apply_defaults(schema, &mut once);
        let mut twice = once.clone();
        drop_nulls(schema, &mut twice);
        apply_defaults(schema, &mut twice);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn an_object_is_always_a_legal_update_of_itself(value in pod_spec(true)) {
        let schema = pod_template().definition("io.k8s.api.core.v1.PodSpec").expect("pods");
        prop_assert_eq!(validate(schema, &value, Some(&value)), Vec::new());
    }

    #[test]
    fn a_structural_copy_of_a_type_finds_the_same_mistakes(value in pod_spec(true)) {
        let schema = pod_template().definition("io.k8s.api.core.v1.PodSpec").expect("pods");
        let (set, root) = Definitions::from_structural(&schema.to_structural()).expect("a structural schema");
        // Quantities are one type in the facts and a pattern in structural schemas; metadata has no fields there.
        let errors = |at: Cursor<'_>| -> BTreeSet<String> {
            let errors = validate(at, &value, None);
            errors.into_iter().map(|error| error.path).filter(|path| !path.contains("metadata")).collect()
        };
        let own: BTreeSet<String> = errors(schema);
        let copied: BTreeSet<String> = errors(set.cursor(root)).into_iter().filter(|path| path != "<nil>").collect();
        prop_assert_eq!(own.into_iter().filter(|path| path != "<nil>").collect::<BTreeSet<_>>(), copied);
    }

    #[test]
    fn field_sets_survive_fields_v1(value in pod()) {
        let set = field_set(Some(kind("v1", "Pod")), &value);
        prop_assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()), Ok(set));
    }

    #[test]
    fn set_operations_agree(left in small_object(), right in small_object()) {
        let schema = small().definition("t.Object");
        let (left, right) = (field_set(schema, &left), field_set(schema, &right));
        prop_assert_eq!(left.difference(&right).union(left.intersection(&right)), left.clone());
        prop_assert!(left.difference(&right).intersection(&right).is_empty());
        prop_assert_eq!(left.clone().union(right.clone()), right.union(left));
    }

    #[test]
    fn applying_twice_changes_nothing(live in small_object(), config in small_object()) {
        let reach = Reach::everything();
        let created = update(&write("u", &reach, "2026-01-01T00:00:00Z"), &json!({}), live.clone());
        let once = apply(&write("a", &reach, "2026-01-01T00:00:01Z"), &created, &config, true).expect("forced");
        let twice = apply(&write("a", &reach, "2026-01-01T00:00:02Z"), &once, &config, true).expect("forced");
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn an_apply_without_force_never_changes_the_fields_of_others(live in small_object(), config in small_object()) {
        let reach = Reach::everything();
        let owner = apply(&write("a", &reach, "2026-01-01T00:00:00Z"), &json!({}), &live, false).expect("nobody else");
        if let Ok(object) = apply(&write("b", &reach, "2026-01-01T00:00:01Z"), &owner, &config, false) {
            let again = apply(&write("a", &reach, "2026-01-01T00:00:02Z"), &object, &live, false).expect("no conflict");
            let schema = small().definition("t.Object");
            // The order of shared list elements is that of whoever applied last.
            prop_assert_eq!(field_set(schema, &content(&again)), field_set(schema, &content(&object)));
        }
    }

    #[test]
    fn an_applier_that_leaves_restores_the_object(base in small_object(), config in small_object()) {
        let reach = Reach::everything();
        let before = apply(&write("a", &reach, "2026-01-01T00:00:00Z"), &json!({}), &base, false).expect("nobody else");
        if let Ok(object) = apply(&write("b", &reach, "2026-01-01T00:00:01Z"), &before, &config, false) {
            let after = apply(&write("b", &reach, "2026-01-01T00:00:02Z"), &object, &json!({}), false).expect("no conflict");
            let schema = small().definition("t.Object");
            prop_assert_eq!(field_set(schema, &content(&after)), field_set(schema, &content(&before)));
        }
    }

    #[test]
    fn appliers_of_different_fields_commute(left in small_object(), right in small_object()) {
        let reach = Reach::everything();
        // Each keeps to its own half of the fields.
        let half = |value: &Value, names: [&str; 4]| -> Value {
            let map = value.as_object().cloned().unwrap_or_default();
            Value::Object(map.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect())
        };
        let left = half(&left, ["a", "items", "whole", "x"]);
        let right = half(&right, ["b", "set", "labels", "inner"]);
        let run = |first: (&str, &Value), second: (&str, &Value)| {
            let now = "2026-01-01T00:00:00Z";
            let one = apply(&write(first.0, &reach, now), &json!({}), first.1, false).expect("nobody else");
            apply(&write(second.0, &reach, now), &one, second.1, false).expect("no conflict")
        };
        let one = run(("l", &left), ("r", &right));
        prop_assert_eq!(content(&one), content(&run(("r", &right), ("l", &left))));
    }

    #[test]
    fn an_empty_strategic_patch_is_identity(value in pod()) {
        prop_assert_eq!(strategic_merge(kind("v1", "Pod"), value.clone(), json!({})), Ok(value));
    }

    #[test]
    fn a_strategic_patch_applied_twice_is_applied_once(value in pod(), patch in pod()) {
        let schema = kind("v1", "Pod");
        prop_assume!(has_distinct_merge_keys(schema, &value) && has_distinct_merge_keys(schema, &patch));
        if let Ok(once) = strategic_merge(schema, value, patch.clone()) {
            prop_assert_eq!(strategic_merge(schema, once.clone(), patch), Ok(once));
        }
    }
}
