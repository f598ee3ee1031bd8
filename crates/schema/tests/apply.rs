//! Server-side apply: ownership, conflicts, removal, order and bookkeeping, on a small schema.

use coppice_schema::apply::{ApplyError, Reach, Write, apply, keep_times_if_unchanged, update};
use coppice_schema::{Definitions, facts};
use serde_json::{Value, json};

const FACTS: &str = "\
def t.Object
  apiVersion string
  kind string
  metadata io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta
  name string
  number integer
  flag boolean
  set [string] list=set
  atomic [string] list=atomic
  items [t.Item] list=map keys=name
  ports [t.Port] list=map keys=port,protocol
  labels {string}
  selector {string} map=atomic
  inner t.Inner
  free object
def t.Inner
  a string
  b string
  list [t.Item] list=map keys=name
def t.Item
  name string
  value integer
  tags [string] list=set
def t.Port
  port integer
  protocol string default=\"TCP\"
  note string
def io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta
  labels {string}
  name string
";

struct World {
    set: Definitions,
    live: Value,
    reach: Reach,
    clock: u32,
}

impl World {
    fn new() -> Self {
        let set = facts::read(FACTS).expect("the facts are well-formed");
        Self {
            set,
            live: json!({}),
            reach: Reach::everything(),
            clock: 0,
        }
    }

    fn write<'a>(&'a self, manager: &'a str, now: &'a str) -> Write<'a> {
        let schema = self.set.definition("t.Object");
        Write {
            schema,
            api_version: "v1",
            manager,
            subresource: "",
            reach: &self.reach,
            blank: None,
            now,
        }
    }

    fn now(&mut self) -> String {
        self.clock += 1;
        format!("2026-01-01T00:00:{:02}Z", self.clock)
    }

    fn apply(&mut self, manager: &str, config: &Value) -> Result<(), ApplyError> {
        let now = self.now();
        let object = apply(&self.write(manager, &now), &self.live, config, false)?;
        self.live = object;
        Ok(())
    }

    fn force(&mut self, manager: &str, config: &Value) {
        let now = self.now();
        self.live = apply(&self.write(manager, &now), &self.live, config, true).expect("force has no conflicts");
    }

    fn update(&mut self, manager: &str, new: &Value) {
        let now = self.now();
        self.live = update(&self.write(manager, &now), &self.live, new.clone());
    }

    fn object(&self) -> Value {
        let mut object = self.live.clone();
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let empty = metadata.is_some_and(|metadata| {
            metadata.remove("managedFields");
            metadata.is_empty()
        });
        if empty {
            object.as_object_mut().expect("an object").remove("metadata");
        }
        object
    }

    fn owners(&self) -> Vec<(String, String, Value)> {
        let entries = self.live.pointer("/metadata/managedFields").and_then(Value::as_array);
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        entries
            .into_iter()
            .flatten()
            .map(|entry| {
                (
                    text(entry, "manager"),
                    text(entry, "operation"),
                    entry["fieldsV1"].clone(),
                )
            })
            .collect()
    }

    fn owned(&self, manager: &str) -> Value {
        self.owners()
            .into_iter()
            .find(|(name, ..)| name == manager)
            .map_or(Value::Null, |(.., fields)| fields)
    }
}

fn message(result: Result<(), ApplyError>) -> String {
    result.expect_err("a conflict").to_string()
}

#[test]
fn an_applier_owns_what_it_states_and_loses_what_it_drops() {
    let mut world = World::new();
    world
        .apply(
            "a",
            &json!({"name": "x", "number": 1, "inner": {"a": "1", "b": "2"}, "labels": {"k": "v", "l": "w"}}),
        )
        .unwrap();
    assert_eq!(
        world.owned("a"),
        json!({"f:name": {}, "f:number": {}, "f:inner": {"f:a": {}, "f:b": {}}, "f:labels": {"f:k": {}, "f:l": {}}})
    );
    world
        .apply("a", &json!({"name": "x", "inner": {"a": "1"}, "labels": {"l": "w"}}))
        .unwrap();
    assert_eq!(
        world.object(),
        json!({"name": "x", "inner": {"a": "1"}, "labels": {"l": "w"}})
    );
    world.apply("a", &json!({"name": "x"})).unwrap();
    assert_eq!(world.object(), json!({"name": "x"}));
}

#[test]
fn a_field_with_two_owners_stays_until_both_drop_it() {
    let mut world = World::new();
    world.apply("a", &json!({"name": "x", "number": 1})).unwrap();
    world.apply("b", &json!({"name": "x"})).unwrap();
    world.apply("a", &json!({"number": 1})).unwrap();
    assert_eq!(world.object(), json!({"name": "x", "number": 1}));
    world.apply("b", &json!({})).unwrap();
    assert_eq!(world.object(), json!({"number": 1}));
    assert_eq!(world.owned("b"), Value::Null);
}

#[test]
fn conflicts_name_the_owner_and_the_field() {
    let mut world = World::new();
    world.update("kubectl", &json!({"name": "x", "items": [{"name": "one", "value": 1}]}));
    assert_eq!(
        message(world.apply("a", &json!({"name": "y"}))),
        r#"Apply failed with 1 conflict: conflict with "kubectl" using v1: .name"#
    );
    world.apply("b", &json!({"number": 5})).unwrap();
    let conflict = world
        .apply("a", &json!({"number": 6, "items": [{"name": "one", "value": 2}]}))
        .unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"b\":\n- .number\n\
         conflicts with \"kubectl\" using v1:\n- .items[name=\"one\"].value"
    );
    assert_eq!(
        conflict.causes()[0],
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"b\"", "field": ".number"})
    );
    world.force("a", &json!({"number": 6, "items": [{"name": "one", "value": 2}]}));
    assert_eq!(world.owned("b"), Value::Null);
    assert_eq!(
        world.owned("kubectl"),
        json!({"f:name": {}, "f:items": {".": {}, "k:{\"name\":\"one\"}": {".": {}, "f:name": {}}}})
    );
}

#[test]
fn equal_values_are_shared_without_conflict() {
    let mut world = World::new();
    world.apply("a", &json!({"name": "x"})).unwrap();
    world.apply("b", &json!({"name": "x"})).unwrap();
    assert!(world.apply("a", &json!({"name": "y"})).is_err());
    world.update("c", &json!({"name": "z"}));
    assert_eq!(world.owners().len(), 1, "an update takes the field from both");
    assert_eq!(world.owned("c"), json!({"f:name": {}}));
}

#[test]
fn keyed_lists_merge_by_key_and_keep_order() {
    let mut world = World::new();
    world
        .apply(
            "a",
            &json!({"items": [{"name": "1"}, {"name": "2", "value": 2}, {"name": "3"}]}),
        )
        .unwrap();
    world
        .apply("b", &json!({"items": [{"name": "4"}, {"name": "2"}]}))
        .unwrap();
    let names = |world: &World| -> Vec<String> {
        let list = world.live["items"].as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|item| item["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(names(&world), ["1", "4", "2", "3"]);
    assert_eq!(world.live["items"][2], json!({"name": "2", "value": 2}));
    world
        .apply("a", &json!({"items": [{"name": "3"}, {"name": "1"}]}))
        .unwrap();
    assert_eq!(names(&world), ["4", "2", "3", "1"]);
    assert_eq!(
        world.live["items"][1],
        json!({"name": "2"}),
        "b still owns the element, nobody its value"
    );
    world.apply("b", &json!({})).unwrap();
    assert_eq!(names(&world), ["3", "1"]);
}

#[test]
fn keys_take_defaults_and_must_be_stated() {
    let mut world = World::new();
    world
        .apply("a", &json!({"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}))
        .unwrap();
    assert_eq!(
        world.owned("a"),
        json!({"f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
            "k:{\"port\":80,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}
        }})
    );
    let duplicate = world.apply("a", &json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}));
    assert!(message(duplicate).ends_with(".ports: duplicate entries for key [port=80,protocol=\"TCP\"]"));
    let keyless = world.apply("a", &json!({"items": [{"value": 1}]}));
    assert!(
        message(keyless)
            .contains(".items: element 0: associative list with keys has an element that omits all key fields")
    );
}

#[test]
fn sets_merge_by_value() {
    let mut world = World::new();
    world.apply("a", &json!({"set": ["a", "c"]})).unwrap();
    world.apply("b", &json!({"set": ["b", "c"]})).unwrap();
    assert_eq!(world.live["set"], json!(["a", "b", "c"]));
    assert_eq!(world.owned("b"), json!({"f:set": {"v:\"b\"": {}, "v:\"c\"": {}}}));
    world.apply("a", &json!({"set": ["a"]})).unwrap();
    assert_eq!(world.live["set"], json!(["a", "b", "c"]));
    world.apply("b", &json!({"set": ["b"]})).unwrap();
    assert_eq!(world.live["set"], json!(["a", "b"]));
}

#[test]
fn atomic_values_have_one_owner() {
    let mut world = World::new();
    world
        .apply("a", &json!({"atomic": ["a"], "selector": {"x": "y"}}))
        .unwrap();
    assert_eq!(world.owned("a"), json!({"f:atomic": {}, "f:selector": {}}));
    assert!(message(world.apply("b", &json!({"selector": {"z": "y"}}))).ends_with(r#"conflict with "a": .selector"#));
    world.force("b", &json!({"selector": {"z": "y"}}));
    assert_eq!(world.live["selector"], json!({"z": "y"}));
}

#[test]
fn applying_the_same_again_changes_nothing_at_all() {
    let mut world = World::new();
    let config = json!({"name": "x", "items": [{"name": "1", "tags": ["q"]}], "free": {"deep": {"er": [1]}}});
    world.apply("a", &config).unwrap();
    let before = world.live.clone();
    world.apply("a", &config).unwrap();
    assert_eq!(world.live, before);
    assert_eq!(world.owned("a")["f:free"], json!({"f:deep": {".": {}, "f:er": {}}}));
}

#[test]
fn first_apply_on_an_untracked_object_records_the_past() {
    let mut world = World::new();
    world.live = json!({"name": "x", "number": 1});
    assert_eq!(
        message(world.apply("a", &json!({"name": "y"}))),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .name"#
    );
    world.apply("a", &json!({"name": "x"})).unwrap();
    assert_eq!(world.owned("before-first-apply"), json!({"f:name": {}, "f:number": {}}));
}

#[test]
fn unknown_fields_cannot_be_applied() {
    let mut world = World::new();
    let problem = message(world.apply(
        "a",
        &json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": "n"}, "typo": 1}),
    ));
    assert_eq!(
        problem,
        "failed to create typed patch object (/n; /v1, Kind=T): .typo: field not declared in schema"
    );
    let problem = message(world.apply("a", &json!({"number": "1"})));
    assert!(
        problem.ends_with(".number: expected numeric (int or float), got string"),
        "{problem}"
    );
    let stated = world.apply("a", &json!({"metadata": {"managedFields": []}}));
    assert_eq!(stated, Err(ApplyError::ManagedFieldsStated));
}

#[test]
fn an_update_that_removes_a_field_takes_it_from_its_owner() {
    let mut world = World::new();
    world
        .apply("a", &json!({"name": "x", "number": 1, "items": [{"name": "1"}]}))
        .unwrap();
    let mut new = world.live.clone();
    new.as_object_mut().unwrap().remove("number");
    new["items"] = json!([]);
    world.update("b", &new);
    assert_eq!(world.owned("a"), json!({"f:name": {}}));
    assert_eq!(world.owned("b"), Value::Null);
    world.apply("a", &json!({"name": "x"})).unwrap();
    assert_eq!(world.object(), json!({"name": "x", "items": []}));
}

#[test]
fn updates_keep_stated_managed_fields_and_can_clear_them() {
    let mut world = World::new();
    world.live = json!({"metadata": {"uid": "u"}});
    let mut tracked = World::new();
    tracked.apply("a", &json!({"name": "x"})).unwrap();
    tracked.live["metadata"]["uid"] = json!("u");
    let mut cleared = tracked.live.clone();
    cleared["metadata"]["managedFields"] = json!([{}]);
    tracked.update("b", &cleared);
    assert_eq!(tracked.live.pointer("/metadata/managedFields"), None);
    tracked.update("b", &json!({"name": "y", "metadata": {"uid": "u"}}));
    assert_eq!(
        tracked.live.pointer("/metadata/managedFields"),
        None,
        "untracked until the next apply"
    );
    world.update("b", &json!({"name": "y", "metadata": {"uid": "u"}}));
    assert_eq!(world.live.pointer("/metadata/managedFields"), None);
}

#[test]
fn many_update_managers_are_put_together() {
    let mut world = World::new();
    for index in 0..12 {
        let mut new = world.live.clone();
        new["labels"][format!("k{index:02}")] = json!("v");
        world.update(&format!("m{index:02}"), &new);
    }
    let owners = world.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0].0, "ancient-changes");
    assert_eq!(
        owners[0].2,
        json!({"f:labels": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}}})
    );
    assert_eq!(owners[9].0, "m11");
}

#[test]
fn entries_are_sorted_like_kubernetes_sorts_them() {
    let mut world = World::new();
    world.update("z", &json!({"name": "x"}));
    world.apply("b", &json!({"number": 1})).unwrap();
    world.apply("a", &json!({"flag": true})).unwrap();
    let names: Vec<_> = world
        .owners()
        .into_iter()
        .map(|(name, operation, _)| format!("{operation} {name}"))
        .collect();
    assert_eq!(names, ["Apply b", "Apply a", "Update z"]);
    assert_eq!(
        world.live["metadata"]["managedFields"][0]["time"],
        "2026-01-01T00:00:02Z"
    );
}

#[test]
fn only_times_differing_is_no_change() {
    let mut world = World::new();
    world.apply("a", &json!({"name": "x"})).unwrap();
    let mut later = world.live.clone();
    later["metadata"]["managedFields"][0]["time"] = json!("2027-01-01T00:00:00Z");
    assert!(keep_times_if_unchanged(&world.live, &mut later));
    assert_eq!(later, world.live);
    later["name"] = json!("y");
    assert!(!keep_times_if_unchanged(&world.live, &mut later));
    assert_eq!(later["name"], "y");
}
