//! Strings and numbers: lengths, patterns, bounds, formats.

use serde_json::{Number, Value};

use super::Walk;
use super::formats;
use crate::errors::{ErrorKind, FieldError};
use crate::gotext;
use crate::model::{Node, Type};
use crate::path::Path;

/// Equality of an enumeration value and a value; 1 and 1.0 are the same number.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => left == right,
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
        let Some(format) = &node.format else { return };
        if matches!(node.ty, Type::String | Type::Any) && formats::matches(format, text) == Some(false) {
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
                    (ratio - ratio.round()).abs() < 1e-9
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
            (Type::Integer, _) => whole(number).is_none_or(|whole| i64::try_from(whole).is_ok()) || !is_whole(number),
            (Type::Number, "float") => number.as_f64().is_none_or(|float| float.abs() <= f64::from(f32::MAX)),
            _ => true,
        };
        // A fraction is a type mistake already.
        if fits || (node.ty == Type::Integer && !is_whole(number)) {
            return;
        }
        let ty = node.ty.name();
        let format = if matches!(format, "int32" | "int64" | "float" | "double") {
            format!("with format {format}")
        } else {
            "(default format)".to_owned()
        };
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

fn is_whole(number: &Number) -> bool {
    whole(number).is_some()
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
