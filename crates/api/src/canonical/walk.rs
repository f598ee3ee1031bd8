//! The one walk over a pod template that applies the facts.
//!
//! Owns the canonical order and content: whatever reads a template's meaning does so by giving this walk a [`Sink`].
//! Borrows the template and sorts references in two scratch stacks, so that nothing of the template is copied. Assumes nothing
//! about the JSON: a value of an unexpected type is taken as it stands. Never fails.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::TemplateView;
use super::facts::{Field, Kind, Object, POD_SPEC};
use super::fill::{Filled, Surroundings, filled};
use super::order::{Ranked, amount, is_absent, push_in_key_order, same_amount};
use crate::quantity::Quantity;

/// What receives the canonical template, field by field, in canonical order.
pub(super) trait Sink {
    /// Whether fields that hold their default are reported. An identity leaves them out: a default learnt later
    /// then changes no identity of a template that says nothing about the field.
    const KEEPS_DEFAULTS: bool;

    fn begin_object(&mut self);
    fn key(&mut self, name: &str);
    fn end_object(&mut self);
    fn begin_list(&mut self, length: usize);
    fn end_list(&mut self);
    fn null(&mut self);
    fn flag(&mut self, value: bool);
    fn number(&mut self, value: &Number);
    fn integer(&mut self, value: i64);
    fn text(&mut self, value: &str);
    fn quantity(&mut self, value: Quantity);
}

/// Walks a whole template: its labels, its annotations and its pod spec.
pub(super) fn walk_template<S: Sink>(template: &TemplateView<'_>, sink: &mut S) {
    sink.begin_object();
    sink.key("metadata");
    sink.begin_object();
    texts(template.annotations, "annotations", sink);
    texts(template.labels, "labels", sink);
    sink.end_object();
    sink.key("spec");
    let mut walk = Walk {
        surroundings: Surroundings {
            host_network: template.spec.get("hostNetwork") == Some(&Value::Bool(true)),
        },
        priority_class: template.priority_class.filter(|name| !name.is_empty()),
        entries: Vec::with_capacity(64),
        elements: Vec::with_capacity(64),
    };
    walk.object(&POD_SPEC, template.spec, sink);
    sink.end_object();
}

fn texts<S: Sink>(entries: &BTreeMap<String, String>, name: &str, sink: &mut S) {
    if entries.is_empty() {
        return;
    }
    sink.key(name);
    sink.begin_object();
    for (key, value) in entries {
        sink.key(key);
        sink.text(value);
    }
    sink.end_object();
}

struct Walk<'a> {
    surroundings: Surroundings,
    priority_class: Option<&'a str>,
    /// Stack of the entries of the objects on the way down, each object's part sorted by key.
    entries: Vec<(&'a str, &'a Value)>,
    /// Stack of the elements of the sets on the way down, each set's part sorted by its keys.
    elements: Vec<Ranked<'a>>,
}

impl<'a> Walk<'a> {
    fn object<S: Sink>(&mut self, facts: &'static Object, object: &'a Map<String, Value>, sink: &mut S) {
        let start = self.push_entries(object);
        let end = self.entries.len();
        let mut next = start;
        sink.begin_object();
        for field in facts.fields {
            let mut explicit = None;
            while next < end {
                let (name, value) = self.entries[next];
                match name.cmp(field.name) {
                    Ordering::Less => self.unknown(name, value, sink),
                    Ordering::Equal => explicit = Some(value),
                    Ordering::Greater => break,
                }
                next += 1;
            }
            self.field(field, explicit, object, sink);
        }
        for index in next..end {
            let (name, value) = self.entries[index];
            self.unknown(name, value, sink);
        }
        sink.end_object();
        self.entries.truncate(start);
    }

    /// Pushes an object's entries in key order, whatever order the map itself keeps, and returns where they start.
    fn push_entries(&mut self, object: &'a Map<String, Value>) -> usize {
        let start = self.entries.len();
        self.entries
            .extend(object.iter().map(|(key, value)| (key.as_str(), value)));
        let pushed = &mut self.entries[start..];
        if !pushed.is_sorted_by(|left, right| left.0 <= right.0) {
            pushed.sort_unstable_by(|left, right| left.0.cmp(right.0));
        }
        start
    }

    fn unknown<S: Sink>(&mut self, name: &str, value: &'a Value, sink: &mut S) {
        if !is_absent(Kind::Any, value) {
            sink.key(name);
            self.any(value, sink);
        }
    }

    fn field<S: Sink>(
        &mut self,
        field: &'static Field,
        explicit: Option<&'a Value>,
        object: &'a Map<String, Value>,
        sink: &mut S,
    ) {
        // Most fields of most objects are absent, and only these two then say something to an identity.
        let derived = matches!(field.kind, Kind::PriorityClass | Kind::ServiceAccount);
        if explicit.is_none() && !derived && !S::KEEPS_DEFAULTS {
            return;
        }
        match field.kind {
            Kind::Superseded => return,
            Kind::Requests => return self.requests(explicit, object.get("limits"), sink),
            Kind::PriorityClass if self.priority_class.is_some() => {
                sink.key(field.name);
                return sink.text(self.priority_class.unwrap_or_default());
            }
            _ => {}
        }
        let mut present = explicit.filter(|value| !is_absent(field.kind, value));
        if matches!(field.kind, Kind::ServiceAccount) && present.is_none() {
            present = object
                .get("serviceAccount")
                .filter(|value| !is_absent(field.kind, value));
        }
        let default = filled(field.fill, object, self.surroundings);
        match (present, default) {
            (Some(value), default) if !default.as_ref().is_some_and(|default| default.equals(value)) => {
                sink.key(field.name);
                self.value(field.kind, value, sink);
            }
            (_, Some(default)) if S::KEEPS_DEFAULTS => {
                sink.key(field.name);
                self.filled(&default, sink);
            }
            _ => {}
        }
    }

    fn filled<S: Sink>(&mut self, default: &Filled<'a>, sink: &mut S) {
        match default {
            Filled::Text(text) => sink.text(text),
            Filled::Integer(integer) => sink.integer(*integer),
            Filled::Flag(flag) => sink.flag(*flag),
            Filled::Sibling(value) => self.any(value, sink),
            Filled::EmptyDir => {
                sink.begin_object();
                sink.end_object();
            }
        }
    }

    fn value<S: Sink>(&mut self, kind: Kind, value: &'a Value, sink: &mut S) {
        match (kind, value) {
            (Kind::Object(facts), Value::Object(object)) => self.object(facts, object, sink),
            (Kind::List(facts), Value::Array(elements)) => {
                sink.begin_list(elements.len());
                for element in elements {
                    self.value(Kind::Object(facts), element, sink);
                }
                sink.end_list();
            }
            (Kind::Set(keys, facts), Value::Array(elements)) => {
                let start = self.elements.len();
                push_in_key_order(keys, facts, elements, &mut self.elements);
                sink.begin_list(elements.len());
                for index in start..self.elements.len() {
                    self.value(Kind::Object(facts), self.elements[index].element, sink);
                }
                sink.end_list();
                self.elements.truncate(start);
            }
            (Kind::Quantity | Kind::PlainQuantity, amount) => self.amount(amount, sink),
            (Kind::Quantities, Value::Object(amounts)) => {
                let start = self.push_entries(amounts);
                sink.begin_object();
                for index in start..self.entries.len() {
                    let (name, amount) = self.entries[index];
                    sink.key(name);
                    self.amount(amount, sink);
                }
                sink.end_object();
                self.entries.truncate(start);
            }
            (Kind::TextsByKey, Value::Object(texts)) => {
                let start = self.push_entries(texts);
                sink.begin_object();
                for index in start..self.entries.len() {
                    let (name, text) = self.entries[index];
                    sink.key(name);
                    if text.is_null() {
                        sink.text("");
                    } else {
                        self.any(text, sink);
                    }
                }
                sink.end_object();
                self.entries.truncate(start);
            }
            (_, other) => self.any(other, sink),
        }
    }

    /// A value about whose parts nothing is known.
    fn any<S: Sink>(&mut self, value: &'a Value, sink: &mut S) {
        match value {
            Value::Null => sink.null(),
            Value::Bool(flag) => sink.flag(*flag),
            Value::Number(number) => sink.number(number),
            Value::String(text) => sink.text(text),
            Value::Array(elements) => {
                sink.begin_list(elements.len());
                for element in elements {
                    self.any(element, sink);
                }
                sink.end_list();
            }
            Value::Object(object) => {
                let start = self.push_entries(object);
                sink.begin_object();
                for index in start..self.entries.len() {
                    let (name, value) = self.entries[index];
                    self.unknown(name, value, sink);
                }
                sink.end_object();
                self.entries.truncate(start);
            }
        }
    }

    fn amount<S: Sink>(&mut self, value: &'a Value, sink: &mut S) {
        match amount(value) {
            Some(quantity) => sink.quantity(quantity),
            None => self.any(value, sink),
        }
    }

    /// The requests of a container, where each limit without a request stands for one.
    fn requests<S: Sink>(&mut self, requests: Option<&'a Value>, limits: Option<&'a Value>, sink: &mut S) {
        let explicit = match requests {
            Some(Value::Object(explicit)) => Some(explicit),
            Some(other) if !is_absent(Kind::Quantities, other) => {
                sink.key("requests");
                return self.any(other, sink);
            }
            _ => None,
        };
        let limits = limits.and_then(Value::as_object);
        let start = self.entries.len();
        if let Some(explicit) = explicit {
            self.push_entries(explicit);
        }
        let is_default = |name: &str, amount: &Value| {
            limits
                .and_then(|limits| limits.get(name))
                .is_some_and(|limit| same_amount(limit, amount))
        };
        if S::KEEPS_DEFAULTS {
            let missing = limits.into_iter().flatten().filter(|(name, limit)| {
                same_amount(limit, limit) && !explicit.is_some_and(|explicit| explicit.contains_key(*name))
            });
            self.entries.extend(missing.map(|(name, limit)| (name.as_str(), limit)));
            self.entries[start..].sort_unstable_by(|left, right| left.0.cmp(right.0));
        } else {
            let mut kept = start;
            for index in start..self.entries.len() {
                let (name, amount) = self.entries[index];
                if !is_default(name, amount) {
                    self.entries[kept] = (name, amount);
                    kept += 1;
                }
            }
            self.entries.truncate(kept);
        }
        if self.entries.len() > start {
            sink.key("requests");
            sink.begin_object();
            for index in start..self.entries.len() {
                let (name, amount) = self.entries[index];
                sink.key(name);
                self.amount(amount, sink);
            }
            sink.end_object();
            self.entries.truncate(start);
        }
    }
}
