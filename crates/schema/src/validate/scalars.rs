//! Strings and numbers: lengths, patterns, bounds, formats.

use serde_json::{Number, Value};

use super::Walk;
use super::formats;
use crate::errors::{ErrorKind, FieldError};
use crate::gotext;
use crate::model::{Node, Type};
use crate::path::Path;

/// Whether a value is the allowed one. As in the reference, numbers are first converted to the type of the allowed value:
/// fractions are cut off for whole numbers, and a number stands for the character with that code.
pub(super) fn same(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Number(allowed), Value::Number(value)) if allowed.is_f64() => allowed.as_f64() == value.as_f64(),
        (Value::Number(allowed), Value::Number(value)) if value.is_f64() => {
            value.as_f64().map(f64::trunc) == allowed.as_f64()
        }
        (Value::String(allowed), Value::Number(value)) => {
            let code = value
                .as_u64()
                .and_then(|code| u32::try_from(code).ok())
                .and_then(char::from_u32);
            code.is_some_and(|character| allowed.chars().eq([character]))
        }
        _ => allowed == value,
    }
}

impl Walk {
    pub(super) fn check_string(&mut self, node: &Node, text: &str, path: &Path<'_>) {
        self.check_string_constraints(node, text, path);
        if node.ty == Type::Quantity && !formats::is_quantity(text) {
            let detail = "quantities must match the regular expression \
                          '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
            self.errors
                .push(FieldError::invalid(path.to_dotted(), text.into(), detail));
        }
        let Some(format) = formats::effective(node) else { return };
        if formats::matches(format, text) == Some(false) {
            let name = path.to_dotted();
            let detail = format!("{name} in body must be of type {format}: {}", gotext::quote(text));
            self.errors
                .push(FieldError::new(ErrorKind::TypeInvalid, name, text.into(), detail));
        }
    }

    /// Only the first of these mistakes is reported.
    fn check_string_constraints(&mut self, node: &Node, text: &str, path: &Path<'_>) {
        let Some(constraints) = &node.constraints else { return };
        if constraints.min_length.is_some() || constraints.max_length.is_some() {
            let length = text.chars().count() as u64;
            if let Some(most) = constraints.max_length.filter(|most| length > *most) {
                self.errors.push(FieldError::too_long(path.to_dotted(), most));
                return;
            }
            if let Some(fewest) = constraints.min_length.filter(|fewest| length < *fewest) {
                let name = path.to_dotted();
                let detail = format!("{name} in body should be at least {fewest} chars long");
                self.errors.push(FieldError::invalid(name, text.into(), detail));
                return;
            }
        }
        let Some(pattern) = &constraints.pattern else { return };
        let name = || path.to_dotted();
        match pattern.is_match(text) {
            Some(true) => {}
            Some(false) => {
                let detail = format!("{} in body should match '{}'", name(), pattern.source());
                self.errors.push(FieldError::invalid(name(), text.into(), detail));
            }
            None => {
                let source = pattern.source();
                let detail = format!("{} in body should match '{source}, but pattern is invalid'", name());
                self.errors.push(FieldError::invalid(name(), text.into(), detail));
            }
        }
    }

    pub(super) fn check_number(&mut self, node: &Node, number: &Number, path: &Path<'_>) {
        self.matches += 1;
        self.check_range(node, number, path);
        let Some(constraints) = &node.constraints else { return };
        if let Some(factor) = &constraints.multiple_of {
            self.check_multiple(number, factor, path);
        }
        if let Some(least) = &constraints.minimum {
            let exclusive = constraints.exclusive_minimum;
            if is_less(number, least) || (exclusive && is_equal(number, least)) {
                let words = if exclusive {
                    "greater than"
                } else {
                    "greater than or equal to"
                };
                self.out_of_bounds(number, words, least, path);
            }
        }
        if let Some(most) = &constraints.maximum {
            let exclusive = constraints.exclusive_maximum;
            if is_less(most, number) || (exclusive && is_equal(number, most)) {
                let words = if exclusive {
                    "less than"
                } else {
                    "less than or equal to"
                };
                self.out_of_bounds(number, words, most, path);
            }
        }
    }

    fn out_of_bounds(&mut self, number: &Number, words: &str, bound: &Number, path: &Path<'_>) {
        let name = path.to_dotted();
        let detail = format!("{name} in body should be {words} {}", whole_text(bound));
        self.errors
            .push(FieldError::invalid(name, Value::Number(number.clone()), detail));
    }

    fn check_multiple(&mut self, number: &Number, factor: &Number, path: &Path<'_>) {
        let is_multiple = match (number.as_i64(), factor.as_i64()) {
            (Some(number), Some(factor)) => factor != 0 && number % factor == 0,
            _ => match (number.as_f64(), factor.as_f64()) {
                (Some(number), Some(factor)) => {
                    let ratio = if factor < 1.0 {
                        1.0 / factor * number
                    } else {
                        number / factor
                    };
                    super::is_json_integer(ratio)
                }
                _ => false,
            },
        };
        if !is_multiple {
            let name = path.to_dotted();
            let detail = format!("{name} in body should be a multiple of {}", whole_text(factor));
            self.errors
                .push(FieldError::invalid(name, Value::Number(number.clone()), detail));
        }
    }

    fn check_range(&mut self, node: &Node, number: &Number, path: &Path<'_>) {
        let format = node.format.as_deref().unwrap_or_default();
        let fits = match (node.ty, format) {
            (Type::Integer, "int32") => whole(number).is_some_and(|whole| i32::try_from(whole).is_ok()),
            (Type::Integer, _) => whole(number).is_some_and(|whole| i64::try_from(whole).is_ok()),
            (Type::Number, "float") => number.as_f64().is_none_or(|float| float.abs() <= f64::from(f32::MAX)),
            _ => true,
        };
        if fits {
            return;
        }
        let known = matches!(format, "int32" | "int64" | "float" | "double");
        self.out_of_range(path, node.ty.name(), known.then_some(format));
    }

    pub(super) fn out_of_range(&mut self, path: &Path<'_>, ty: &str, format: Option<&str>) {
        let format = format.map_or_else(
            || "(default format)".to_owned(),
            |format| format!("with format {format}"),
        );
        let detail = format!("Checked value must be of type {ty} {format} in {}", path.to_dotted());
        self.errors.push(FieldError::invalid("", "".into(), detail));
    }
}

fn whole(number: &Number) -> Option<i128> {
    if let Some(value) = number.as_i64() {
        return Some(value.into());
    }
    if let Some(value) = number.as_u64() {
        return Some(value.into());
    }
    #[allow(clippy::cast_possible_truncation)]
    number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() < 1e30)
        .map(|float| float as i128)
}

/// Bounds print as whole numbers where they are.
fn whole_text(number: &Number) -> String {
    whole(number).map_or_else(|| gotext::number(number), |whole| whole.to_string())
}

fn is_less(left: &Number, right: &Number) -> bool {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left < right,
        _ => left.as_f64() < right.as_f64(),
    }
}

fn is_equal(left: &Number, right: &Number) -> bool {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left == right,
        _ => left.as_f64() == right.as_f64(),
    }
}
