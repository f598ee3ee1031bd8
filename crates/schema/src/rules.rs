//! Where CEL rules have to be evaluated: every place with `x-kubernetes-validations`, its value and the old value that
//! corresponds to it.
//!
//! Correspondence follows Kubernetes: fields and map keys by name, elements of keyed lists by key, elements of other lists
//! not at all. Nothing is evaluated here; [`RuleSite`] says what a rule may see and how its failure is reported.

use serde_json::Value;

use crate::constraints::Rule;
use crate::errors::{ErrorKind, FieldError};
use crate::model::{Cursor, MapValues, Type};
use crate::path::Path;
use crate::validate::correlate;

/// One place in an object that has rules.
#[derive(Debug)]
pub struct RuleSite<'v, 's> {
    /// The field, empty for the object itself.
    pub path: String,
    /// The rules there.
    pub rules: &'s [Rule],
    /// The type of the value.
    pub schema: Cursor<'s>,
    /// The value; never null.
    pub value: &'v Value,
    /// The corresponding old value.
    pub old: Option<&'v Value>,
    /// Whether the value is a whole Kubernetes object: rules then see apiVersion, kind and metadata.name as well.
    pub is_object: bool,
    ratchet: Option<(&'v Value, &'v Value)>,
}

/// What `oldSelf` is for a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OldSelf<'v> {
    /// Not defined.
    Undefined,
    /// The old value.
    Value(&'v Value),
    /// A CEL optional.
    Optional(Option<&'v Value>),
}

impl<'v> RuleSite<'v, '_> {
    /// Whether the rule is to be evaluated at all: transition rules need an old value, unless theirs is optional.
    pub fn applies(&self, rule: &Rule) -> bool {
        self.old.is_some() || rule.optional_old_self.unwrap_or(false) || !rule.uses_old_self()
    }

    /// What the rule sees as `oldSelf`.
    pub fn old_self(&self, rule: &Rule) -> OldSelf<'v> {
        match (rule.uses_old_self(), rule.optional_old_self.unwrap_or(false), self.old) {
            (false, ..) | (true, false, None) => OldSelf::Undefined,
            (true, true, old) => OldSelf::Optional(old),
            (true, false, Some(old)) => OldSelf::Value(old),
        }
    }

    /// Whether a failure of the rule is only a warning: the rule does not look at the old value and nothing has changed.
    pub fn forgives(&self, rule: &Rule) -> bool {
        !rule.uses_old_self() && self.ratchet.is_some_and(|(new, old)| new == old)
    }

    /// The error of a failed rule; `message` is the result of its message expression, if it has one that worked.
    pub fn failure(&self, rule: &Rule, message: Option<String>) -> FieldError {
        let stated = rule.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let detail = message
            .or_else(|| stated.map(str::to_owned))
            .unwrap_or_else(|| format!("failed rule: {}", rule.rule.trim()));
        let path = join(&self.path, rule.field_path.as_deref().unwrap_or_default());
        let kind = rule
            .reason
            .as_deref()
            .and_then(ErrorKind::from_reason)
            .unwrap_or(ErrorKind::Invalid);
        let hides_value = matches!(self.schema.node().ty, Type::Object | Type::Array);
        match kind {
            ErrorKind::Forbidden => FieldError::forbidden(path, detail),
            ErrorKind::Required => FieldError::required(path, detail),
            kind => {
                let detail = if kind == ErrorKind::Duplicate {
                    String::new()
                } else {
                    detail
                };
                let kind = if kind == ErrorKind::Duplicate {
                    kind
                } else {
                    ErrorKind::Invalid
                };
                let mut error = FieldError::new(kind, path, self.value.clone(), detail);
                error.value = error.value.filter(|_| !hides_value);
                error
            }
        }
    }

    /// The error of a rule that could not be evaluated.
    pub fn evaluation_error(&self, rule: &Rule, problem: &str) -> FieldError {
        let stated = rule.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let detail = format!("{problem} evaluating rule: {}", stated.unwrap_or(rule.rule.trim()));
        FieldError::invalid(self.path.clone(), self.schema.node().ty.name().into(), detail)
    }
}

/// The error that stands for all rules when [`FieldError::blocks_rules`] holds for another one.
pub fn rules_not_checked() -> FieldError {
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                  complete validation";
    FieldError::invalid("", Value::Null, detail)
}

/// A path below a place, from a rule's `fieldPath`: `.spec.a['b']` becomes `spec.a[b]`.
fn join(base: &str, field_path: &str) -> String {
    let plain = field_path.replace("['", "[").replace("']", "]");
    match (base.is_empty(), plain.strip_prefix('.')) {
        (_, None) => format!("{base}{plain}"),
        (true, Some(rest)) => rest.to_owned(),
        (false, Some(rest)) => format!("{base}.{rest}"),
    }
}

impl Rule {
    /// Whether the rule or its text mentions `oldSelf` outside of string literals.
    pub fn uses_old_self(&self) -> bool {
        let mut quote: Option<char> = None;
        let mut word = String::new();
        let mut escaped = false;
        for character in self.rule.chars().chain([' ']) {
            if let Some(open) = quote {
                quote = (escaped || character != open).then_some(open);
                escaped = !escaped && character == '\\';
                continue;
            }
            if character.is_alphanumeric() || character == '_' {
                word.push(character);
                continue;
            }
            if word == "oldSelf" {
                return true;
            }
            word.clear();
            if matches!(character, '"' | '\'') {
                quote = Some(character);
            }
        }
        false
    }
}

/// All places of a whole object that have rules, outermost first.
pub fn rule_sites<'v, 's>(at: Cursor<'s>, value: &'v Value, old: Option<&'v Value>) -> Vec<RuleSite<'v, 's>> {
    let mut walk = Walk { sites: Vec::new() };
    let ratchet = Ratchet {
        current: old.map(|old| (value, old)),
        parent: None,
    };
    walk.visit(at, at, value, old, ratchet, true, &Path::ROOT);
    walk.sites
}

struct Walk<'v, 's> {
    sites: Vec<RuleSite<'v, 's>>,
}

/// The pair of values whose equality forgives failures: this place's, or the nearest above that has an old value.
#[derive(Clone, Copy)]
struct Ratchet<'v> {
    current: Option<(&'v Value, &'v Value)>,
    parent: Option<(&'v Value, &'v Value)>,
}

impl<'v> Ratchet<'v> {
    fn child(self, pair: Option<(&'v Value, &'v Value)>) -> Self {
        match self.current {
            None => self,
            Some(current) => Self {
                current: pair,
                parent: Some(current),
            },
        }
    }
}

impl<'v, 's> Walk<'v, 's> {
    /// `spine` is the type that declares the value, `rules` the one whose rules apply: they differ inside `allOf`.
    #[allow(clippy::too_many_arguments)]
    fn visit(
        &mut self,
        spine: Cursor<'s>,
        rules: Cursor<'s>,
        value: &'v Value,
        old: Option<&'v Value>,
        ratchet: Ratchet<'v>,
        is_root: bool,
        path: &Path<'_>,
    ) {
        if value.is_null() || !rules.has_rules() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let node = rules.node();
        if !node.rules.is_empty() {
            self.sites.push(RuleSite {
                path: path.to_field_path(),
                rules: &node.rules,
                schema: spine,
                value,
                old,
                is_object: is_root || spine.node().embedded_resource,
                ratchet: ratchet.current.or(ratchet.parent),
            });
        }
        if let Some(constraints) = &node.constraints {
            for id in &constraints.all_of {
                let inner = Ratchet {
                    current: None,
                    parent: ratchet.parent,
                };
                self.visit(spine, rules.set.cursor(*id), value, old, inner, is_root, path);
            }
        }
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let Some(slot) = spine.field_slot(name) else { continue };
                    let declared = node.field(name).map(|field| &field.slot);
                    let applied = match (declared, &node.values) {
                        (Some(slot), _) | (None, Some(MapValues::Typed(slot))) => rules.at(slot),
                        _ => continue,
                    };
                    let old_child = old.and_then(|old| old.get(name));
                    let type_field = is_root && matches!(name.as_str(), "apiVersion" | "kind");
                    let ratchet = if type_field {
                        Ratchet {
                            current: None,
                            parent: None,
                        }
                    } else {
                        ratchet.child(old_child.map(|old| (child, old)))
                    };
                    let step = if declared.is_some() {
                        path.field(name)
                    } else {
                        path.key(name)
                    };
                    self.visit(spine.at(slot), applied, child, old_child, ratchet, false, &step);
                }
            }
            Value::Array(list) => {
                let (Some(items), Some(applied)) = (spine.items(), rules.items()) else {
                    return;
                };
                for (index, element) in list.iter().enumerate() {
                    let old_element = old.and_then(|old| correlate::element(spine.node(), old, element));
                    let ratchet = ratchet.child(old_element.map(|old| (element, old)));
                    self.visit(items, applied, element, old_element, ratchet, false, &path.index(index));
                }
            }
            _ => {}
        }
    }
}
