//! Emits structural CRD schemas: a type with everything it refers to written in place, the way controller-gen does it.
//!
//! Zero defaults are left out, true defaults kept. Embedded object metadata is an object without stated fields, as
//! controller-gen has it unless told otherwise. Recursive types cannot be written this way; a type met again inside itself
//! becomes a free-form object.
//!
//! What comes out for PodSpec, MetricSpec, ResourceClaimTemplateSpec and Condition was compared with the reference CRDs
//! (controller-gen 0.17.3, Kubernetes 1.35): apart from descriptions they agree.

use serde_json::{Map, Value, json};

use crate::model::{Cursor, ListType, MapType, MapValues, Node, NodeId, Slot, SlotDefault, Type};

/// The pattern controller-gen writes for quantities.
pub(crate) const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl Cursor<'_> {
    /// This type as an inlined structural schema.
    pub fn to_structural(self) -> Value {
        let mut path = Vec::new();
        Value::Object(self.structural_words(MapType::Unset, &mut path))
    }

    fn structural_words(self, map: MapType, path: &mut Vec<NodeId>) -> Map<String, Value> {
        let node = self.node();
        let mut out = Map::new();
        if path.contains(&self.id) {
            out.insert("type".into(), json!("object"));
            out.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
            return out;
        }
        if node.name.as_deref() == Some(OBJECT_META) {
            out.insert("type".into(), json!("object"));
            return out;
        }
        path.push(self.id);
        if let Some(description) = &node.description {
            out.insert("description".into(), json!(description));
        }
        match node.ty {
            Type::Any => {}
            Type::IntOrString | Type::Quantity => {
                out.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
                out.insert("x-kubernetes-int-or-string".into(), json!(true));
                if node.ty == Type::Quantity {
                    out.insert("pattern".into(), json!(QUANTITY_PATTERN));
                }
            }
            ty => {
                out.insert("type".into(), json!(ty.name()));
            }
        }
        if let Some(format) = &node.format {
            out.insert("format".into(), json!(format));
        }
        if node.nullable {
            out.insert("nullable".into(), json!(true));
        }
        if !node.fields.is_empty() {
            let fields = node.fields.iter();
            let fields = fields.map(|field| (field.name.to_string(), self.structural_use(&field.slot, path)));
            out.insert("properties".into(), Value::Object(fields.collect()));
        }
        match &node.values {
            None => {}
            Some(MapValues::Any) => {
                out.insert("additionalProperties".into(), json!(true));
            }
            Some(MapValues::Typed(slot)) => {
                out.insert("additionalProperties".into(), self.structural_use(slot, path));
            }
        }
        if let Some(slot) = &node.items {
            out.insert("items".into(), self.structural_use(slot, path));
        }
        if !node.required.is_empty() {
            out.insert("required".into(), json!(node.required));
        }
        constraint_words(self, &mut out);
        extension_words(node, &mut out);
        rule_words(node, &mut out);
        if map != MapType::Unset {
            out.insert("x-kubernetes-map-type".into(), json!(map.name()));
        }
        if node.preserve_unknown {
            out.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
        }
        if node.embedded_resource {
            out.insert("x-kubernetes-embedded-resource".into(), json!(true));
        }
        path.pop();
        out
    }

    fn structural_use(self, slot: &Slot, path: &mut Vec<NodeId>) -> Value {
        let mut out = self.at(slot).structural_words(slot.map, path);
        if let SlotDefault::Value(value) = &slot.default {
            out.insert("default".into(), value.clone());
        }
        Value::Object(out)
    }
}

/// List and map types.
pub(crate) fn extension_words(node: &Node, out: &mut Map<String, Value>) {
    match &node.list {
        ListType::Unset => {}
        ListType::Atomic => {
            out.insert("x-kubernetes-list-type".into(), json!("atomic"));
        }
        ListType::Set => {
            out.insert("x-kubernetes-list-type".into(), json!("set"));
        }
        ListType::Map(keys) => {
            out.insert("x-kubernetes-list-type".into(), json!("map"));
            out.insert("x-kubernetes-list-map-keys".into(), json!(keys));
        }
    }
    if node.map != MapType::Unset {
        out.insert("x-kubernetes-map-type".into(), json!(node.map.name()));
    }
}

/// `x-kubernetes-validations`.
pub(crate) fn rule_words(node: &Node, out: &mut Map<String, Value>) {
    if node.rules.is_empty() {
        return;
    }
    let rules = node.rules.iter().map(|rule| {
        let mut words = Map::from_iter([("rule".to_owned(), json!(rule.rule))]);
        let texts = [
            ("message", &rule.message),
            ("messageExpression", &rule.message_expression),
            ("reason", &rule.reason),
            ("fieldPath", &rule.field_path),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                words.insert(key.to_owned(), json!(text));
            }
        }
        if let Some(optional) = rule.optional_old_self {
            words.insert("optionalOldSelf".to_owned(), json!(optional));
        }
        Value::Object(words)
    });
    out.insert("x-kubernetes-validations".into(), rules.collect());
}

/// Enumerations, bounds, patterns and combinations.
pub(crate) fn constraint_words(at: Cursor<'_>, out: &mut Map<String, Value>) {
    let Some(constraints) = &at.node().constraints else {
        return;
    };
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    if !constraints.enumeration.is_empty() {
        put("enum", json!(constraints.enumeration));
    }
    if let Some(pattern) = &constraints.pattern {
        put("pattern", json!(pattern.source()));
    }
    let numbers = [
        ("minimum", &constraints.minimum),
        ("maximum", &constraints.maximum),
        ("multipleOf", &constraints.multiple_of),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            put(key, json!(number));
        }
    }
    let counts = [
        ("minLength", constraints.min_length),
        ("maxLength", constraints.max_length),
        ("minItems", constraints.min_items),
        ("maxItems", constraints.max_items),
        ("minProperties", constraints.min_properties),
        ("maxProperties", constraints.max_properties),
    ];
    for (key, count) in counts {
        if let Some(count) = count {
            put(key, json!(count));
        }
    }
    let flags = [
        ("exclusiveMinimum", constraints.exclusive_minimum),
        ("exclusiveMaximum", constraints.exclusive_maximum),
        ("uniqueItems", constraints.unique_items),
    ];
    for (key, on) in flags {
        if on {
            put(key, json!(true));
        }
    }
    let combinations = [
        ("allOf", &constraints.all_of),
        ("anyOf", &constraints.any_of),
        ("oneOf", &constraints.one_of),
    ];
    for (key, list) in combinations {
        if !list.is_empty() {
            put(key, list.iter().map(|id| at.set.cursor(*id).to_structural()).collect());
        }
    }
    if let Some(not) = constraints.not {
        put("not", at.set.cursor(not).to_structural());
    }
}
