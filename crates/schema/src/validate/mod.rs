//! Structural validation, with Kubernetes' error kinds and words.
//!
//! Walks value and schema together once and reports every mistake. With an old value, mistakes in parts that did not
//! change are forgiven (ratcheting): objects are compared by field, keyed lists by key, all other lists only as a whole.
//! Duplicates in set and keyed lists are a second walk ([`validate_lists`]) because Kubernetes forgives those only for
//! the object as a whole. CEL rules are not evaluated here.

mod combine;
pub(crate) mod correlate;
mod formats;
mod lists;
mod scalars;

use serde_json::{Map, Value};

pub use lists::validate_lists;

use crate::errors::{ErrorKind, FieldError};
use crate::model::{Cursor, MapValues, Node, Type};
use crate::path::Path;

/// Everything structural about a new object, in the order Kubernetes reports it: the schema, then list duplicates. With
/// an old object, unchanged parts are forgiven.
pub fn validate(at: Cursor<'_>, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_schema(at, value, old);
    if old.is_none_or(|old| validate_lists(at, old).is_empty()) {
        errors.extend(validate_lists(at, value));
    }
    errors
}

/// The schema alone, without list duplicates.
pub fn validate_schema(at: Cursor<'_>, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut walk = Walk::default();
    walk.check(at, value, old, &Path::ROOT);
    walk.errors
}

/// The state of one walk. `matches` counts what was right: among failing alternatives, the one that got furthest is the
/// one whose errors are shown.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) errors: Vec<FieldError>,
    pub(crate) matches: u32,
}

impl Walk {
    pub(crate) fn check(&mut self, at: Cursor<'_>, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        let before = self.errors.len();
        self.check_strictly(at, value, old, path);
        if self.errors.len() > before && old == Some(value) {
            self.errors.truncate(before);
        }
    }

    fn check_strictly(&mut self, at: Cursor<'_>, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        let node = at.node();
        if node.ty != Type::Any || node.format.is_some() {
            self.check_type(node, value, path);
            self.matches += 1;
        }
        if value.is_null() {
            self.check_enumeration(node, value, path);
            return;
        }
        self.matches += 3;
        if node.constraints.is_some() {
            self.check_combinations(at, value, old, path);
        }
        match value {
            Value::String(text) => self.check_string(node, text, path),
            Value::Number(number) => self.check_number(node, number, path),
            Value::Array(list) => self.check_list(at, list, old, path),
            _ => {}
        }
        self.check_enumeration(node, value, path);
        if let Value::Object(map) = value {
            self.check_object(at, map, old, path);
        }
    }

    fn check_type(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        if value.is_null() {
            if node.ty != Type::Any && !node.nullable {
                self.wrong_type(path, type_words(node.ty), "null");
            }
            return;
        }
        let found = type_of(value);
        let fits = match node.ty {
            Type::Any => node.format.is_none(),
            Type::Number => matches!(found, "number" | "integer"),
            Type::Integer => found == "integer" || is_whole(value),
            Type::IntOrString => matches!(found, "integer" | "string") || is_whole(value),
            Type::Quantity => matches!(found, "integer" | "number" | "string"),
            ty => ty.name() == found,
        };
        if let Some(format) = formats::effective(node) {
            let is_textual = matches!(value, Value::String(_) | Value::Array(_));
            if !is_textual && !fits {
                // The reference names formats instead of types here.
                self.wrong_type(path, format, format_of(value));
                return;
            }
            if is_textual && !matches!(node.ty, Type::Integer | Type::Number) {
                self.matches += 1;
                return;
            }
        }
        if fits || node.ty == Type::Any {
            self.matches += 1;
            return;
        }
        self.wrong_type(path, type_words(node.ty), found);
        // Generated schemas state the two types of an int-or-string a second time, as alternatives.
        if node.ty == Type::IntOrString {
            let detail = format!("{:?} must validate at least one schema (anyOf)", path.to_dotted());
            self.errors.push(FieldError::invalid("", "".into(), detail));
            self.wrong_type(path, "integer", found);
            if value.is_number() {
                self.out_of_range(path, "integer", None);
            }
        }
    }

    fn wrong_type(&mut self, path: &Path<'_>, expected: &str, found: &str) {
        let name = path.to_dotted();
        let detail = format!("{name} in body must be of type {expected}: \"{found}\"");
        self.errors
            .push(FieldError::new(ErrorKind::TypeInvalid, name, found.into(), detail));
    }

    fn check_enumeration(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        let Some(constraints) = &node.constraints else { return };
        let allowed = &constraints.enumeration;
        if !allowed.is_empty() && !allowed.iter().any(|one| scalars::same(one, value)) {
            self.errors
                .push(FieldError::not_supported(path.to_dotted(), value.clone(), allowed));
        }
    }

    fn check_list(&mut self, at: Cursor<'_>, list: &[Value], old: Option<&Value>, path: &Path<'_>) {
        let node = at.node();
        if let Some(items) = at.items() {
            for (index, element) in list.iter().enumerate() {
                let old_element = old.and_then(|old| correlate::element(node, old, element));
                self.check(items, element, old_element, &path.index(index));
            }
        }
        self.matches += 1;
        let Some(constraints) = &node.constraints else { return };
        let size = list.len() as u64;
        if let Some(fewest) = constraints.min_items.filter(|fewest| size < *fewest) {
            let name = path.to_dotted();
            let detail = format!("{name} in body should have at least {fewest} items");
            self.errors.push(FieldError::invalid(name, list.len().into(), detail));
        }
        if let Some(most) = constraints.max_items.filter(|most| size > *most) {
            self.errors
                .push(FieldError::too_many(path.to_dotted(), list.len(), most));
        }
        if constraints.unique_items && lists::has_duplicates(list) {
            let name = path.to_dotted();
            let detail = format!("{name} in body shouldn't contain duplicates");
            self.errors.push(FieldError::invalid(name, "".into(), detail));
        }
    }

    fn check_object(&mut self, at: Cursor<'_>, map: &Map<String, Value>, old: Option<&Value>, path: &Path<'_>) {
        let node = at.node();
        if let Some(constraints) = &node.constraints {
            let size = map.len() as u64;
            if let Some(fewest) = constraints.min_properties.filter(|fewest| size < *fewest) {
                let name = path.to_dotted();
                let detail = format!("{name} in body should have at least {fewest} properties");
                self.errors.push(FieldError::invalid(name, map.len().into(), detail));
            }
            if let Some(most) = constraints.max_properties.filter(|most| size > *most) {
                self.errors
                    .push(FieldError::too_many(path.to_dotted(), map.len(), most));
            }
        }
        if let Some(MapValues::Typed(slot)) = &node.values {
            for (name, child) in map {
                if node.field(name).is_none() {
                    let old_child = old.and_then(|old| old.get(name));
                    self.check(at.at(slot), child, old_child, &path.field(name));
                }
            }
        }
        for (name, child) in map {
            if let Some(field) = node.field(name) {
                // The type of a stored object is always what it is now, so its fields cannot be unchanged.
                let forgives = !(path.is_root() && matches!(name.as_str(), "apiVersion" | "kind"));
                let old_child = old.filter(|_| forgives).and_then(|old| old.get(name));
                self.check(at.at(&field.slot), child, old_child, &path.field(name));
            }
        }
        for name in &node.required {
            if !map.contains_key(&**name) {
                self.errors.push(FieldError::required(path.field(name).to_dotted(), ""));
            }
        }
    }
}

fn type_words(ty: Type) -> &'static str {
    match ty {
        Type::IntOrString => "integer,string",
        Type::Quantity => "number,string",
        ty => ty.name(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn format_of(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        _ => "",
    }
}

fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(is_json_integer)
}

/// Whether a float is a whole number that JSON can carry without loss.
fn is_json_integer(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    float.abs() <= LARGEST && (float - float.round()).abs() <= 1e-9 * float.abs()
}
