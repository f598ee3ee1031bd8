//! Pruning, defaulting, structural validation and rule places on custom-resource schemas and on built-in types.

use coppice_schema::{
    Definitions, GroupVersionKind, OldSelf, Root, apply_defaults, drop_nulls, kubernetes, prune, rule_sites,
    unknown_fields, validate,
};
use serde_json::{Value, json};

struct Schema(Definitions, coppice_schema::NodeId);

fn schema(spec: &Value) -> Schema {
    let whole = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": spec
    }});
    let (set, root) = Definitions::from_structural(&whole).expect("the schema is well-formed");
    Schema(set, root)
}

impl Schema {
    fn errors(&self, value: &Value) -> Vec<String> {
        validate(self.0.cursor(self.1), value, None)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn update_errors(&self, value: &Value, old: &Value) -> Vec<String> {
        validate(self.0.cursor(self.1), value, Some(old))
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = schema(&json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                 "properties": {"strict": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}));
    let at = schema.0.cursor(schema.1);
    let mut value = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "extra": 1,
        "metadata": {"name": "a", "labels": {"x": "y"}, "nonsense": true},
        "spec": {
            "known": "x", "unknown": {"deep": 1},
            "list": [{"a": 1, "b": 2}, {"c": 3}],
            "map": {"one": {"a": 1, "z": 2}},
            "free": {"anything": {"goes": [1]}, "strict": {"a": 1, "b": 2}},
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "foo": 1}, "spec": {"x": 1}, "y": 1}
        }
    });
    let expected = [
        "extra",
        "metadata.nonsense",
        "spec.embedded.metadata.foo",
        "spec.embedded.spec.x",
        "spec.embedded.y",
        "spec.free.strict.b",
        "spec.list[0].b",
        "spec.list[1].c",
        "spec.map.one.z",
        "spec.unknown",
    ];
    assert_eq!(unknown_fields(at, &value, Root::Object), expected);
    assert_eq!(prune(at, &mut value, Root::Object), expected);
    assert_eq!(
        value,
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {
                "known": "x", "list": [{"a": 1}, {}], "map": {"one": {"a": 1}},
                "free": {"anything": {"goes": [1]}, "strict": {"a": 1}},
                "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
            }
        })
    );
}

#[test]
fn unknown_fields_of_built_in_kinds() {
    let pod = kubernetes().kind(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
    let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "lables": {}},
        "spec": {"containers": [{"name": "c", "imagee": "x"}], "foo": 1}});
    let expected = ["metadata.lables", "spec.containers[0].imagee", "spec.foo"];
    assert_eq!(unknown_fields(pod, &value, Root::Object), expected);
}

#[test]
fn defaults_reach_into_defaults_lists_and_maps() {
    let schema = schema(&json!({"type": "object", "default": {}, "properties": {
        "replicas": {"type": "integer", "default": 1},
        "nested": {"type": "object", "default": {"a": 1}, "properties": {"b": {"type": "string", "default": "x"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"q": {"type": "boolean", "default": false}}}},
        "nullable": {"type": "string", "nullable": true, "default": "n"},
        "plain": {"type": "string", "default": "d"},
        "dropped": {"type": "string"},
    }}));
    let at = schema.0.cursor(schema.1);
    let mut empty = json!({});
    apply_defaults(at, &mut empty);
    assert_eq!(
        empty,
        json!({"spec": {"replicas": 1, "nested": {"a": 1, "b": "x"}, "nullable": "n", "plain": "d"}})
    );
    let mut value = json!({"spec": {
        "replicas": 0, "nested": {}, "list": [{}, {"p": "UDP"}], "map": {"k": {}}, "nullable": null, "plain": null, "dropped": null
    }});
    drop_nulls(at, &mut value);
    apply_defaults(at, &mut value);
    assert_eq!(
        value,
        json!({"spec": {
            "replicas": 0, "nested": {"b": "x"}, "list": [{"p": "TCP"}, {"p": "UDP"}], "map": {"k": {"q": false}},
            "nullable": null, "plain": "d"
        }})
    );
}

#[test]
fn mistakes_are_reported_in_kubernetes_words() {
    let schema = schema(&json!({"type": "object", "required": ["must"], "properties": {
        "must": {"type": "string", "minLength": 1},
        "replicas": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
        "mode": {"type": "string", "enum": ["A", "B"]},
        "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "ratio": {"type": "number", "exclusiveMinimum": true, "minimum": 0, "multipleOf": 0.5},
        "tags": {"type": "array", "uniqueItems": true, "items": {"type": "string"}},
    }}));
    let cases = [
        (json!({}), vec!["spec.must: Required value"]),
        (
            json!({"must": ""}),
            vec![r#"spec.must: Invalid value: "": spec.must in body should be at least 1 chars long"#],
        ),
        (
            json!({"must": "x", "replicas": "3"}),
            vec![r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#],
        ),
        (
            json!({"must": "x", "replicas": 0}),
            vec!["spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"],
        ),
        (
            json!({"must": "x", "replicas": 11}),
            vec!["spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"],
        ),
        (json!({"must": "x", "replicas": 2.0}), vec![]),
        (
            json!({"must": "x", "replicas": 2.5}),
            vec![
                r#"spec.replicas: Invalid value: "float64": spec.replicas in body must be of type int32: "float64""#,
                r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas"#,
            ],
        ),
        (
            json!({"must": "x", "mode": "C"}),
            vec![r#"spec.mode: Unsupported value: "C": supported values: "A", "B""#],
        ),
        (
            json!({"must": "x", "name": "abcd"}),
            vec!["spec.name: Too long: may not be more than 3 bytes"],
        ),
        (
            json!({"must": "x", "name": "A"}),
            vec![r#"spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'"#],
        ),
        (json!({"must": "x", "port": 80}), vec![]),
        (json!({"must": "x", "port": "http"}), vec![]),
        (
            json!({"must": "x", "port": true}),
            vec![
                r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
                r#"<nil>: Invalid value: "": "spec.port" must validate at least one schema (anyOf)"#,
                r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer: "boolean""#,
            ],
        ),
        (
            json!({"must": "x", "list": []}),
            vec!["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"],
        ),
        (
            json!({"must": "x", "list": [{}, {}, {}]}),
            vec!["spec.list: Too many: 3: must have at most 2 items"],
        ),
        (
            json!({"must": "x", "list": [{"n": "a"}]}),
            vec![
                r#"spec.list[0].n: Invalid value: "string": spec.list[0].n in body must be of type integer: "string""#,
            ],
        ),
        (
            json!({"must": "x", "labels": {"a": 1}}),
            vec![r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#],
        ),
        (
            json!({"must": "x", "labels": {"a": "1", "b": "2"}}),
            vec!["spec.labels: Too many: 2: must have at most 1 item"],
        ),
        (
            json!({"must": "x", "when": "noon"}),
            vec![r#"spec.when: Invalid value: "noon": spec.when in body must be of type date-time: "noon""#],
        ),
        (
            json!({"must": "x", "ratio": 0}),
            vec!["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
        ),
        (
            json!({"must": "x", "ratio": 0.7}),
            vec!["spec.ratio: Invalid value: 0.7: spec.ratio in body should be a multiple of 0.5"],
        ),
        (
            json!({"must": "x", "tags": ["a", "a"]}),
            vec![r#"spec.tags: Invalid value: "": spec.tags in body shouldn't contain duplicates"#],
        ),
        (
            json!({"must": null}),
            vec![r#"spec.must: Invalid value: "null": spec.must in body must be of type string: "null""#],
        ),
        (
            json!({"must": "x", "replicas": 3_000_000_000_u64}),
            vec![
                r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas"#,
                "spec.replicas: Invalid value: 3000000000: spec.replicas in body should be less than or equal to 10",
            ],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(schema.errors(&json!({"spec": spec})), expected, "{spec}");
    }
}

#[test]
fn combinations_report_the_closest_alternative() {
    let schema = schema(&json!({"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "allOf": [{"properties": {"c": {"minimum": 3}}}],
        "not": {"required": ["b", "c"]},
    }));
    let at = |spec: Value| schema.errors(&json!({"spec": spec}));
    assert_eq!(at(json!({"a": "x"})), Vec::<String>::new());
    assert_eq!(
        at(json!({})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value"
        ]
    );
    assert_eq!(
        at(json!({"a": "x", "b": "y"})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(
        at(json!({"a": "x", "c": 1})),
        [
            "spec.c: Invalid value: 1: spec.c in body should be greater than or equal to 3",
            r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated"#
        ]
    );
    assert_eq!(
        at(json!({"b": "x", "c": 5})),
        [r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#]
    );
}

#[test]
fn duplicates_in_sets_and_keyed_lists() {
    let schema = schema(&json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "one": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "two": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}}},
    }}));
    let at = |spec: Value| schema.errors(&json!({"spec": spec}));
    assert_eq!(
        at(json!({"set": ["a", "b", "a", "a"]})),
        [r#"spec.set[2]: Duplicate value: "a""#]
    );
    assert_eq!(
        at(json!({"one": [{"name": "a"}, {"name": "a"}, {}, {}]})),
        [
            r#"spec.one[1]: Duplicate value: {"name":"a"}"#,
            "spec.one[3]: Duplicate value: {}"
        ]
    );
    assert_eq!(
        at(json!({"two": [{"port": 1, "protocol": "TCP"}, {"port": 1}, {"port": 1, "protocol": "TCP"}]})),
        [r#"spec.two[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#]
    );
    let old = json!({"spec": {"set": ["a", "a"]}});
    assert_eq!(
        schema.update_errors(&json!({"spec": {"set": ["a", "a"], "one": []}}), &old),
        Vec::<String>::new()
    );
}

#[test]
fn unchanged_mistakes_are_forgiven() {
    let schema = schema(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1}, "b": {"type": "string", "maxLength": 1},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}}},
        "atomic": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 5}}}},
    }}));
    let old =
        json!({"spec": {"a": "long", "keyed": [{"name": "x", "v": 1}, {"name": "y", "v": 9}], "atomic": [{"v": 1}]}});
    let changed = json!({"spec": {"a": "long", "b": "long", "keyed": [{"name": "y", "v": 2}, {"name": "x", "v": 1}], "atomic": [{"v": 1}]}});
    assert_eq!(
        schema.update_errors(&changed, &old),
        [
            "spec.b: Too long: may not be more than 1 bytes".replace("bytes", "byte"),
            "spec.keyed[0].v: Invalid value: 2: spec.keyed[0].v in body should be greater than or equal to 5"
                .to_owned(),
        ]
    );
    let longer = json!({"spec": {"atomic": [{"v": 1}, {"v": 7}]}});
    assert_eq!(
        schema.update_errors(&longer, &old).len(),
        1,
        "an element of an atomic list has no old value"
    );
}

#[test]
fn rules_see_the_old_value_that_corresponds() {
    let rule = |text: &str| json!([{"rule": text}]);
    let schema = schema(
        &json!({"type": "object", "x-kubernetes-validations": rule("self.a == oldSelf.a"), "properties": {
            "a": {"type": "string"},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
                "type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": rule("self > 0")}}}},
            "atomic": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": rule("self >= oldSelf")}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": [
                {"rule": "!oldSelf.hasValue() || 'oldSelf' == self", "optionalOldSelf": true, "reason": "FieldValueForbidden", "message": "no"}]}},
        }}),
    );
    let at = schema.0.cursor(schema.1);
    let new = json!({"spec": {"a": "x", "keyed": [{"name": "q", "v": 1}, {"name": "p", "v": 2}], "atomic": [4], "map": {"k": "v", "l": "w"}}});
    let old = json!({"spec": {"a": "x", "keyed": [{"name": "p", "v": 2}], "atomic": [4], "map": {"k": "v"}}});
    let sites = rule_sites(at, &new, Some(&old));
    let found: Vec<_> = sites
        .iter()
        .map(|site| (site.path.as_str(), site.old.is_some(), site.applies(&site.rules[0])))
        .collect();
    assert_eq!(
        found,
        [
            ("spec", true, true),
            ("spec.atomic[0]", false, false),
            ("spec.keyed[0].v", false, true),
            ("spec.keyed[1].v", true, true),
            ("spec.map[k]", true, true),
            ("spec.map[l]", false, true),
        ]
    );
    let by_path = |path: &str| sites.iter().find(|site| site.path == path).unwrap();
    let unchanged = by_path("spec.keyed[1].v");
    assert!(unchanged.forgives(&unchanged.rules[0]));
    assert!(!by_path("spec.keyed[0].v").forgives(&by_path("spec.keyed[0].v").rules[0]));
    assert!(
        !by_path("spec").forgives(&by_path("spec").rules[0]),
        "transition rules are never forgiven"
    );
    let optional = by_path("spec.map[l]");
    assert_eq!(optional.old_self(&optional.rules[0]), OldSelf::Optional(None));
    assert_eq!(
        optional.failure(&optional.rules[0], None).to_string(),
        "spec.map[l]: Forbidden: no"
    );
    assert_eq!(
        by_path("spec").failure(&by_path("spec").rules[0], None).to_string(),
        "spec: Invalid value: failed rule: self.a == oldSelf.a"
    );
    assert_eq!(rule_sites(at, &new, None).len(), 6);
}

#[test]
fn built_in_pods_are_checked_for_types() {
    let pod = kubernetes().kind(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
    let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [
        {"name": "c", "ports": [{"containerPort": "http"}], "resources": {"limits": {"cpu": "1x", "memory": "1Gi"}}},
    ]}});
    let errors: Vec<_> = validate(pod, &value, None).iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].starts_with("spec.containers[0].ports[0].containerPort: Invalid value: \"string\""));
    assert!(errors[1].starts_with("spec.containers[0].resources.limits.cpu: Invalid value: \"1x\": quantities must"));
}
