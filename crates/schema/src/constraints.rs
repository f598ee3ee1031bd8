//! Value constraints and CEL rules of a node.
//!
//! Data only: `validate` applies the constraints, the server evaluates the rules. Patterns are compiled on first use.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Number, Value};

use crate::model::NodeId;

/// What a value must satisfy beyond its type.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Constraints {
    /// The allowed values; empty for no restriction.
    pub enumeration: Vec<Value>,
    /// Regular expression a string must contain a match of.
    pub pattern: Option<Pattern>,
    /// Smallest allowed number.
    pub minimum: Option<Number>,
    /// The minimum itself is not allowed.
    pub exclusive_minimum: bool,
    /// Largest allowed number.
    pub maximum: Option<Number>,
    /// The maximum itself is not allowed.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this.
    pub multiple_of: Option<Number>,
    /// Fewest characters.
    pub min_length: Option<u64>,
    /// Most characters.
    pub max_length: Option<u64>,
    /// Fewest elements.
    pub min_items: Option<u64>,
    /// Most elements.
    pub max_items: Option<u64>,
    /// No two elements are equal.
    pub unique_items: bool,
    /// Fewest fields.
    pub min_properties: Option<u64>,
    /// Most fields.
    pub max_properties: Option<u64>,
    /// All of these hold.
    pub all_of: Vec<NodeId>,
    /// At least one of these holds.
    pub any_of: Vec<NodeId>,
    /// Exactly one of these holds.
    pub one_of: Vec<NodeId>,
    /// This does not hold.
    pub not: Option<NodeId>,
}

/// A regular expression, compiled when first matched.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// Keeps the expression; it is compiled later.
    pub fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            compiled: OnceLock::new(),
        }
    }

    /// The expression as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the text contains a match; `None` if the expression does not compile.
    pub fn is_match(&self, text: &str) -> Option<bool> {
        self.compiled
            .get_or_init(|| Regex::new(&self.source).ok())
            .as_ref()
            .map(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The CEL expression.
    pub rule: Box<str>,
    /// Message when the rule fails.
    pub message: Option<Box<str>>,
    /// CEL expression that yields the message.
    pub message_expression: Option<Box<str>>,
    /// `FieldValueInvalid` and so on.
    pub reason: Option<Box<str>>,
    /// Path of the field to blame, relative to the rule's place.
    pub field_path: Option<Box<str>>,
    /// `optionalOldSelf`: the rule also runs without an old value.
    pub optional_old_self: Option<bool>,
}
