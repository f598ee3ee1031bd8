//! The canonical template as a JSON value, with the defaults written out or left out.
//!
//! Owns nothing but the building of the value: order, content and defaults come from the walk. Keys are inserted in
//! canonical order, so that the text of the value is canonical too, whatever map `serde_json` is built with.

use serde_json::{Map, Number, Value};

use super::order::whole;
use super::walk::Sink;
use crate::quantity::Quantity;

enum Open {
    Object(Map<String, Value>, String),
    List(Vec<Value>),
}

/// Builds a JSON value from what the walk reports; `DEFAULTS` decides whether fields that hold their default are in it.
#[derive(Default)]
pub(super) struct Materialiser<const DEFAULTS: bool> {
    open: Vec<Open>,
    finished: Value,
}

impl<const DEFAULTS: bool> Materialiser<DEFAULTS> {
    pub(super) fn into_value(self) -> Value {
        self.finished
    }

    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::Object(object, key)) => {
                object.insert(std::mem::take(key), value);
            }
            Some(Open::List(elements)) => elements.push(value),
            None => self.finished = value,
        }
    }
}

impl<const DEFAULTS: bool> Sink for Materialiser<DEFAULTS> {
    const KEEPS_DEFAULTS: bool = DEFAULTS;

    fn begin_object(&mut self) {
        self.open.push(Open::Object(Map::new(), String::new()));
    }

    fn key(&mut self, name: &str) {
        if let Some(Open::Object(_, key)) = self.open.last_mut() {
            name.clone_into(key);
        }
    }

    fn end_object(&mut self) {
        if let Some(Open::Object(object, _)) = self.open.pop() {
            self.put(Value::Object(object));
        }
    }

    fn begin_list(&mut self, length: usize) {
        self.open.push(Open::List(Vec::with_capacity(length)));
    }

    fn end_list(&mut self) {
        if let Some(Open::List(elements)) = self.open.pop() {
            self.put(Value::Array(elements));
        }
    }

    fn null(&mut self) {
        self.put(Value::Null);
    }

    fn flag(&mut self, value: bool) {
        self.put(Value::Bool(value));
    }

    fn number(&mut self, value: &Number) {
        let integer = whole(value).and_then(Number::from_i128);
        self.put(Value::Number(integer.unwrap_or_else(|| value.clone())));
    }

    fn integer(&mut self, value: i64) {
        self.put(Value::from(value));
    }

    fn text(&mut self, value: &str) {
        self.put(Value::from(value));
    }

    fn quantity(&mut self, value: Quantity) {
        self.put(Value::from(value.to_string()));
    }
}
