//! Reads the facts format. Equal anonymous types become one node, so that thousands of string fields cost one.

use std::collections::HashMap;

use serde_json::Value;

use crate::SchemaError;
use crate::constraints::{Constraints, Pattern};
use crate::model::{
    Definitions, Field, GroupVersionKind, ListType, MapType, MapValues, Node, NodeId, PatchFacts, Slot, SlotDefault,
    Type,
};

/// Reads a facts text that is complete: everything referred to is defined.
pub fn read(text: &str) -> Result<Definitions, SchemaError> {
    let set = read_fragment(text)?;
    let undefined = set.nodes.iter().find(|node| node.name.is_some() && is_empty(node));
    match undefined.and_then(|node| node.name.as_deref()) {
        Some(name) => Err(SchemaError::new(format!("{name} is referred to but not defined"))),
        None => Ok(set),
    }
}

/// Reads a facts text that may refer to definitions which are added later.
pub fn read_fragment(text: &str) -> Result<Definitions, SchemaError> {
    let mut reader = Reader {
        set: Definitions::default(),
        anonymous: HashMap::new(),
    };
    let mut current: Option<(NodeId, Node)> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let result = match line.strip_prefix("  ") {
            Some(field) => reader.field(field, current.as_mut()),
            None => {
                if let Some((id, node)) = current.take() {
                    reader.set.define(id, node);
                }
                reader.definition(line).map(|next| current = Some(next))
            }
        };
        result.map_err(|error| error.inside(&format!("line {number}")))?;
    }
    if let Some((id, node)) = current {
        reader.set.define(id, node);
    }
    Ok(reader.set)
}

fn is_empty(node: &Node) -> bool {
    node.ty == Type::Any && !node.preserve_unknown
}

struct Reader<'t> {
    set: Definitions,
    anonymous: HashMap<(&'t str, String), NodeId>,
}

/// The attributes of one line, before they are put where they belong.
#[derive(Default)]
struct Attributes {
    required: bool,
    default: Option<Value>,
    list: Option<ListType>,
    map: MapType,
    patch: Option<PatchFacts>,
    constraints: Option<Constraints>,
    kinds: Vec<GroupVersionKind>,
}

impl<'t> Reader<'t> {
    fn definition(&mut self, line: &'t str) -> Result<(NodeId, Node), SchemaError> {
        let mut words = line.split(' ');
        if words.next() != Some("def") {
            return Err(SchemaError::new("expected `def`"));
        }
        let id = self
            .set
            .declare(words.next().ok_or_else(|| SchemaError::new("missing name"))?);
        if !is_empty(self.set.node(id)) {
            return Err(SchemaError::new("defined twice"));
        }
        let mut words = words.peekable();
        let mut node = if words.next_if_eq(&"=").is_some() {
            let token = words.next().ok_or_else(|| SchemaError::new("missing type"))?;
            let mut node = self.type_node(token)?;
            node.name = None;
            node
        } else {
            Node {
                ty: Type::Object,
                ..Node::default()
            }
        };
        let attributes = attributes(words)?;
        node.map = attributes.map;
        node.kinds = attributes.kinds;
        if let Some(list) = attributes.list {
            node.list = list;
        }
        Ok((id, node))
    }

    fn field(&mut self, line: &'t str, current: Option<&mut (NodeId, Node)>) -> Result<(), SchemaError> {
        let (_, owner) = current.ok_or_else(|| SchemaError::new("field outside a definition"))?;
        let mut words = line.split(' ');
        let name = words
            .next()
            .filter(|name| !name.is_empty())
            .ok_or_else(|| SchemaError::new("missing name"))?;
        let token = words.next().ok_or_else(|| SchemaError::new("missing type"))?;
        let rest: Vec<&str> = words.collect();
        let attributes = attributes(rest.iter().copied())?;
        // Everything that shapes the type, and so may not be shared with other types.
        let shape: String = rest
            .iter()
            .filter(|word| shapes_type(word))
            .flat_map(|word| [word, " "])
            .collect();
        let mut slot = self.slot(token, &shape, &attributes)?;
        if let Some(default) = attributes.default {
            slot.default = SlotDefault::Value(default);
        }
        slot.patch = attributes.patch.map(Box::new);
        if attributes.required {
            owner.required.push(name.into());
        }
        owner.fields.insert(Field {
            name: name.into(),
            slot,
        });
        Ok(())
    }

    fn slot(&mut self, token: &'t str, shape: &str, attributes: &Attributes) -> Result<Slot, SchemaError> {
        let (token, zero) = split_zero(token);
        let mut slot = if is_reference(token) {
            Slot {
                map: attributes.map,
                ..Slot::plain(self.set.declare(token))
            }
        } else if let Some(id) = self.anonymous.get(&(token, shape.to_owned())) {
            Slot::plain(*id)
        } else {
            let mut node = self.type_node(token)?;
            node.map = attributes.map;
            if let Some(list) = &attributes.list {
                node.list = list.clone();
            }
            node.constraints = attributes.constraints.clone().map(Box::new);
            let id = self.set.push(node);
            self.anonymous.insert((token, shape.to_owned()), id);
            Slot::plain(id)
        };
        if zero {
            slot.default = SlotDefault::Zero;
        }
        Ok(slot)
    }

    fn type_node(&mut self, token: &'t str) -> Result<Node, SchemaError> {
        let inner = |open: char, close: char| token.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(element) = inner('[', ']') {
            let items = self.slot(element, "", &Attributes::default())?;
            return Ok(Node {
                ty: Type::Array,
                items: Some(items),
                ..Node::default()
            });
        }
        if let Some(value) = inner('{', '}') {
            let values = self.slot(value, "", &Attributes::default())?;
            return Ok(Node {
                ty: Type::Object,
                values: Some(MapValues::Typed(values)),
                ..Node::default()
            });
        }
        let (base, format) = token
            .split_once(':')
            .map_or((token, None), |(base, format)| (base, Some(format)));
        let ty = match base {
            "any" => Type::Any,
            "object" => Type::Object,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "int-or-string" => Type::IntOrString,
            "quantity" => Type::Quantity,
            other => return Err(SchemaError::new(format!("unknown type {other}"))),
        };
        let preserve_unknown = matches!(ty, Type::Any | Type::Object);
        Ok(Node {
            ty,
            format: format.map(Into::into),
            preserve_unknown,
            ..Node::default()
        })
    }
}

fn split_zero(token: &str) -> (&str, bool) {
    token.strip_suffix('=').map_or((token, false), |token| (token, true))
}

/// Definition names have dots; base types do not, and lists and maps start with a bracket.
fn is_reference(token: &str) -> bool {
    !token.starts_with(['[', '{']) && token.contains('.')
}

fn shapes_type(word: &str) -> bool {
    word != "required"
        && !["default=", "patch=", "merge="]
            .iter()
            .any(|prefix| word.starts_with(prefix))
}

fn attributes<'w>(words: impl Iterator<Item = &'w str>) -> Result<Attributes, SchemaError> {
    let mut found = Attributes::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "required" => found.required = true,
            "default" => found.default = Some(json(value)?),
            "list" => {
                found.list = Some(match value {
                    "atomic" => ListType::Atomic,
                    "set" => ListType::Set,
                    "map" => ListType::Map(Vec::new()),
                    other => return Err(SchemaError::new(format!("unknown list type {other}"))),
                });
            }
            "keys" => found.list = Some(ListType::Map(value.split(',').map(Into::into).collect())),
            "map" => {
                found.map = match value {
                    "atomic" => MapType::Atomic,
                    "granular" => MapType::Granular,
                    other => return Err(SchemaError::new(format!("unknown map type {other}"))),
                }
            }
            "patch" => found.patch.get_or_insert_default().add_strategy(value)?,
            "merge" => found.patch.get_or_insert_default().merge_key = Some(value.into()),
            "kind" => {
                let (api_version, kind) = value
                    .rsplit_once('/')
                    .ok_or_else(|| SchemaError::new(format!("kind {value} has no version")))?;
                found.kinds.push(GroupVersionKind::from_api_version(api_version, kind));
            }
            _ => constraint(found.constraints.get_or_insert_default(), key, value)?,
        }
    }
    Ok(found)
}

fn constraint(constraints: &mut Constraints, key: &str, value: &str) -> Result<(), SchemaError> {
    let count = || {
        value
            .parse::<u64>()
            .map_err(|_| SchemaError::new(format!("{key}: {value} is not a number")))
    };
    match key {
        "enum" => match json(value)? {
            Value::Array(values) => constraints.enumeration = values,
            _ => return Err(SchemaError::new("enum is not a list")),
        },
        "pattern" => {
            constraints.pattern = Some(Pattern::new(json(value)?.as_str().unwrap_or_default()));
        }
        "min-length" => constraints.min_length = Some(count()?),
        "max-length" => constraints.max_length = Some(count()?),
        "min-items" => constraints.min_items = Some(count()?),
        "max-items" => constraints.max_items = Some(count()?),
        "minimum" => constraints.minimum = json(value)?.as_number().cloned(),
        "maximum" => constraints.maximum = json(value)?.as_number().cloned(),
        other => return Err(SchemaError::new(format!("unknown word {other}"))),
    }
    Ok(())
}

fn json(text: &str) -> Result<Value, SchemaError> {
    serde_json::from_str(text).map_err(|error| SchemaError::new(format!("{text}: {error}")))
}
