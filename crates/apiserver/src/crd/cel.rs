//! Evaluating the CEL rules of custom resources.
//!
//! Which rule is evaluated where, on which old value and how its failure reads is decided by `coppice-schema`; here
//! values become CEL values (declared fields escaped, numbers and times by their schema) and programs run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use coppice_schema::{Cursor, FieldError, OldSelf, Rule, RuleSite, Type, rule_sites};
use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, Program, Value as CelValue};
use parking_lot::Mutex;
use serde_json::Value;

/// Compiled rules by their text.
#[derive(Default)]
pub(super) struct Programs {
    compiled: Mutex<BTreeMap<Box<str>, Compiled>>,
}

type Compiled = Result<Arc<Program>, String>;

impl Programs {
    /// Complaints of the rules of a schema about an object.
    pub(super) fn check(&self, at: Cursor<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for site in rule_sites(at, object, old) {
            let value = to_cel(Some(site.schema), site.value, site.is_object);
            for rule in site.rules.iter().filter(|rule| site.applies(rule)) {
                if let Some(error) = self.judge(&site, rule, &value) {
                    errors.push(error);
                }
            }
        }
        errors
    }

    fn judge(&self, site: &RuleSite<'_, '_>, rule: &Rule, value: &CelValue) -> Option<FieldError> {
        let result = self.evaluate(site, rule, &rule.rule, value);
        match result {
            Ok(CelValue::Bool(true)) => None,
            _ if site.forgives(rule) => None,
            Ok(CelValue::Bool(false)) => {
                let stated = rule.message_expression.as_deref();
                let message = stated.and_then(|expression| self.evaluate(site, rule, expression, value).ok());
                let message = match message {
                    Some(CelValue::String(text)) if !text.trim().is_empty() => Some(text.to_string()),
                    _ => None,
                };
                Some(site.failure(rule, message))
            }
            Ok(other) => Some(site.evaluation_error(rule, &format!("the result {other:?} is not a bool"))),
            Err(problem) => Some(site.evaluation_error(rule, &problem)),
        }
    }

    fn evaluate(
        &self,
        site: &RuleSite<'_, '_>,
        rule: &Rule,
        expression: &str,
        value: &CelValue,
    ) -> Result<CelValue, String> {
        let program = self.program(expression)?;
        let mut context = Context::default();
        context.register_all();
        context.add_variable_from_value("self", value.clone());
        let old = |old: &Value| to_cel(Some(site.schema), old, site.is_object);
        match site.old_self(rule) {
            OldSelf::Undefined => {}
            OldSelf::Value(value) => context.add_variable_from_value("oldSelf", old(value)),
            OldSelf::Optional(value) => {
                let optional = value.map_or_else(OptionalValue::none, |value| OptionalValue::of(old(value)));
                context.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(optional)));
            }
        }
        program.execute(&context).map_err(|error| error.to_string())
    }

    fn program(&self, expression: &str) -> Compiled {
        let mut compiled = self.compiled.lock();
        if let Some(found) = compiled.get(expression) {
            return found.clone();
        }
        let program = Program::compile(expression)
            .map(Arc::new)
            .map_err(|error| format!("compilation failed: {error}"));
        compiled.insert(expression.into(), program.clone());
        program
    }
}

/// A value as CEL sees it through its schema.
fn to_cel(at: Option<Cursor<'_>>, value: &Value, whole_object: bool) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => {
            let is_double = at.is_some_and(|at| at.node().ty == Type::Number);
            match (number.as_i64(), is_double) {
                (Some(integer), false) => CelValue::Int(integer),
                _ => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => text_to_cel(at, text),
        Value::Array(items) => {
            let item_schema = at.and_then(Cursor::items);
            CelValue::List(Arc::new(
                items.iter().map(|item| to_cel(item_schema, item, false)).collect(),
            ))
        }
        Value::Object(members) => {
            let mut map = HashMap::with_capacity(members.len());
            for (name, member) in members {
                let declared = at.is_some_and(|at| at.node().field(name).is_some());
                let key = if declared || at.is_none() {
                    escape(name)
                } else {
                    name.clone()
                };
                let shown = if whole_object && name == "metadata" {
                    name_only(member)
                } else {
                    member.clone()
                };
                let schema = at.and_then(|at| at.field(name));
                map.insert(Key::String(Arc::new(key)), to_cel(schema, &shown, false));
            }
            CelValue::Map(Map { map: Arc::new(map) })
        }
    }
}

/// A value as CEL sees it without a schema: names as they are.
fn plain(value: &Value) -> CelValue {
    match value {
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(members) => {
            let entries = members
                .iter()
                .map(|(name, member)| (Key::String(Arc::new(name.clone())), plain(member)));
            CelValue::Map(Map {
                map: Arc::new(entries.collect()),
            })
        }
        scalar => to_cel(None, scalar, false),
    }
}

/// Evaluates a condition over untyped variables.
pub(crate) fn evaluate_condition(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
    let program = Program::compile(expression).map_err(|error| format!("compilation failed: {error}"))?;
    let mut context = Context::default();
    context.register_all();
    for (name, value) in variables {
        context.add_variable_from_value(*name, plain(value));
    }
    match program.execute(&context) {
        Ok(CelValue::Bool(result)) => Ok(result),
        Ok(_) => Err("the result is not a bool".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Rules see only the name of an object's metadata.
fn name_only(metadata: &Value) -> Value {
    let mut kept = serde_json::Map::new();
    for name in ["name", "generateName"] {
        if let Some(value) = metadata.get(name) {
            kept.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(kept)
}

fn text_to_cel(at: Option<Cursor<'_>>, text: &str) -> CelValue {
    let plain = || CelValue::String(Arc::new(text.to_owned()));
    let function = match at.and_then(|at| at.node().format.as_deref()) {
        Some("date-time") => "timestamp",
        Some("duration") => "duration",
        _ => return plain(),
    };
    let Ok(program) = Program::compile(&format!("{function}(text)")) else {
        return plain();
    };
    let mut context = Context::default();
    context.add_variable_from_value("text", plain());
    program.execute(&context).unwrap_or_else(|_| plain())
}

/// Field names that are no identifiers in CEL are written with these replacements.
fn escape(name: &str) -> String {
    const RESERVED: [&str; 19] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
    ];
    if RESERVED.contains(&name) || matches!(name, "void" | "while") {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use coppice_schema::Definitions;
    use serde_json::json;

    use super::*;

    fn check(rule: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [rule],
            "properties": {"a": {"type": "integer"}, "b-c": {"type": "string"}, "q": {"type": "number"},
                "m": {"type": "object", "additionalProperties": {"type": "string"}}}}}});
        let (definitions, root) = Definitions::from_structural(&schema).unwrap();
        let errors = Programs::default().check(definitions.cursor(root), new, old);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_decide() {
        let rule = json!({"rule": "self.a > 0", "message": "a must be positive"});
        assert!(check(&rule, &json!({"spec": {"a": 1}}), None).is_empty());
        let errors = check(&rule, &json!({"spec": {"a": 0}}), None);
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].starts_with("spec: Invalid value: ") && errors[0].ends_with("a must be positive"),
            "{errors:?}"
        );
    }

    #[test]
    fn transition_rules_need_an_old_value() {
        let rule = json!({"rule": "self.a >= oldSelf.a"});
        assert!(check(&rule, &json!({"spec": {"a": 1}}), None).is_empty());
        assert!(check(&rule, &json!({"spec": {"a": 2}}), Some(&json!({"spec": {"a": 1}}))).is_empty());
        assert_eq!(
            check(&rule, &json!({"spec": {"a": 1}}), Some(&json!({"spec": {"a": 2}}))).len(),
            1
        );
    }

    #[test]
    fn an_optional_old_value_is_an_optional() {
        let rule = json!({"rule": "!oldSelf.hasValue() || oldSelf.value().a == self.a", "optionalOldSelf": true});
        assert!(check(&rule, &json!({"spec": {"a": 1}}), None).is_empty());
        assert!(check(&rule, &json!({"spec": {"a": 1}}), Some(&json!({"spec": {"a": 1}}))).is_empty());
        assert_eq!(
            check(&rule, &json!({"spec": {"a": 1}}), Some(&json!({"spec": {"a": 2}}))).len(),
            1
        );
        let rule = json!({"rule": "oldSelf.orValue(self).a == self.a", "optionalOldSelf": true});
        assert!(check(&rule, &json!({"spec": {"a": 1}}), None).is_empty());
    }

    #[test]
    fn names_and_numbers_follow_the_schema() {
        let rule = json!({"rule": "self.b__dash__c == 'x' && self.q < 2.5 && self.m['k-k'] == 'v'"});
        assert!(check(&rule, &json!({"spec": {"b-c": "x", "q": 2, "m": {"k-k": "v"}}}), None).is_empty());
    }

    #[test]
    fn messages_may_be_computed() {
        let rule = json!({"rule": "self.a > 0", "messageExpression": "'a is ' + string(self.a)"});
        let errors = check(&rule, &json!({"spec": {"a": -1}}), None);
        assert!(errors[0].ends_with("a is -1"), "{errors:?}");
    }
}
