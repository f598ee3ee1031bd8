//! Reads the structural schema of a CustomResourceDefinition version (`openAPIV3Schema`).
//!
//! Descriptions are kept: they are what `kubectl explain` shows. It assumes the schema passed the structural checks of
//! CRD validation and reads leniently what those would refuse.

use serde_json::{Map, Number, Value};

use crate::SchemaError;
use crate::constraints::{Constraints, Pattern, Rule};
use crate::model::{Definitions, Field, MapValues, Node, NodeId, Slot, SlotDefault, Type};
use crate::openapi::{list_type, map_type, object, strings};

impl Definitions {
    /// A set holding one structural schema, and its root.
    pub fn from_structural(schema: &Value) -> Result<(Self, NodeId), SchemaError> {
        let mut set = Self::default();
        let root = set.structural(schema)?;
        Ok((set, root))
    }

    /// Adds a structural schema and returns its root.
    pub fn structural(&mut self, schema: &Value) -> Result<NodeId, SchemaError> {
        let node = self.structural_node(schema)?;
        Ok(self.push(node))
    }

    fn structural_slot(&mut self, schema: &Value) -> Result<Slot, SchemaError> {
        let mut slot = Slot::plain(self.structural(schema)?);
        if let Some(default) = schema.get("default") {
            slot.default = SlotDefault::Value(default.clone());
        }
        Ok(slot)
    }

    fn structural_node(&mut self, schema: &Value) -> Result<Node, SchemaError> {
        let schema = object(schema)?;
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let mut node = Node {
            format: text("format").map(Into::into),
            description: text("description").map(Into::into),
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            required: strings(schema.get("required")),
            rules: rules(schema.get("x-kubernetes-validations")),
            ..Node::default()
        };
        node.ty = match text("type") {
            _ if flag("x-kubernetes-int-or-string") => Type::IntOrString,
            None | Some("") => Type::Any,
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some(other) => return Err(SchemaError::new(format!("unknown type {other}"))),
        };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let slot = self.structural_slot(property).map_err(|error| error.inside(name))?;
                node.fields.insert(Field {
                    name: name.as_str().into(),
                    slot,
                });
            }
        }
        match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => node.values = Some(MapValues::Any),
            Some(values) => {
                let slot = self
                    .structural_slot(values)
                    .map_err(|error| error.inside("additionalProperties"))?;
                node.values = Some(MapValues::Typed(slot));
            }
        }
        if let Some(items) = schema.get("items") {
            node.items = Some(self.structural_slot(items).map_err(|error| error.inside("items"))?);
        }
        node.list = list_type(schema)?;
        node.map = map_type(schema)?;
        let constraints = self.constraints(schema, node.ty)?;
        node.constraints = (constraints != Constraints::default()).then(|| Box::new(constraints));
        Ok(node)
    }

    fn constraints(&mut self, schema: &Map<String, Value>, ty: Type) -> Result<Constraints, SchemaError> {
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let count = |key: &str| schema.get(key).and_then(Value::as_u64);
        let number = |key: &str| -> Option<Number> { schema.get(key).and_then(Value::as_number).cloned() };
        let mut constraints = Constraints {
            enumeration: schema
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            pattern: schema.get("pattern").and_then(Value::as_str).map(Pattern::new),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag("uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            ..Constraints::default()
        };
        let mut alternatives = |key: &str| -> Result<Vec<NodeId>, SchemaError> {
            let list = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            list.map(|one| self.structural(one))
                .collect::<Result<_, _>>()
                .map_err(|error| error.inside(key))
        };
        constraints.all_of = alternatives("allOf")?;
        constraints.one_of = alternatives("oneOf")?;
        // The alternatives of an int-or-string repeat what its type says.
        if ty != Type::IntOrString || !is_int_or_string(schema.get("anyOf")) {
            constraints.any_of = alternatives("anyOf")?;
        }
        if let Some(not) = schema.get("not") {
            constraints.not = Some(self.structural(not).map_err(|error| error.inside("not"))?);
        }
        Ok(constraints)
    }
}

fn is_int_or_string(any_of: Option<&Value>) -> bool {
    let types = |list: &Vec<Value>| -> Vec<String> {
        list.iter()
            .filter_map(|one| one.get("type")?.as_str())
            .map(str::to_owned)
            .collect()
    };
    any_of
        .and_then(Value::as_array)
        .is_some_and(|list| types(list) == ["integer", "string"])
}

fn rules(list: Option<&Value>) -> Vec<Rule> {
    let text = |rule: &Value, key: &str| rule.get(key).and_then(Value::as_str).map(Box::<str>::from);
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|rule| Rule {
            rule: text(rule, "rule").unwrap_or_default(),
            message: text(rule, "message"),
            message_expression: text(rule, "messageExpression"),
            reason: text(rule, "reason"),
            field_path: text(rule, "fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        })
        .collect()
}
