//! Quantities in their canonical form.
//!
//! The API stores `1000m` as `1` and `1024Mi` as `1Gi`: a quantity keeps its family of suffixes and takes the largest
//! one that leaves a whole number. Numbers without quotes become text.

use coppice_schema::{Cursor, Type};
use serde_json::{Value, json};

/// Decimal suffixes by power of a thousand, from nano.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Binary suffixes by power of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Everything is counted in billionths.
const NANO: i128 = 1_000_000_000;

/// Writes all quantities of an object in their canonical form.
pub(super) fn canonicalise(at: Cursor<'_>, value: &mut Value) {
    if !at.has_quantities() {
        return;
    }
    if at.node().ty == Type::Quantity {
        let text = match &*value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return,
        };
        if let Some(canonical) = canonical(&text) {
            *value = json!(canonical);
        }
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(inner) = at.field(name) {
                    canonicalise(inner, member);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(inner) = at.items() {
                elements.iter_mut().for_each(|element| canonicalise(inner, element));
            }
        }
        _ => {}
    }
}

/// The canonical form of a quantity; nothing when it is none, or too large or too fine to be counted exactly.
pub(super) fn canonical(text: &str) -> Option<String> {
    let (nanos, family) = read(text)?;
    Some(match family {
        Family::Binary => binary(nanos),
        Family::Decimal => decimal(nanos),
        Family::Exponential => exponential(nanos),
    })
}

/// Whether one quantity is greater than another; not when either is none.
pub(super) fn is_greater(left: &Value, right: &Value) -> bool {
    let amount = |value: &Value| read(value.as_str()?).map(|(nanos, _)| nanos);
    matches!((amount(left), amount(right)), (Some(left), Some(right)) if left > right)
}

/// The suffixes a quantity is written with.
enum Family {
    Binary,
    Decimal,
    Exponential,
}

fn read(text: &str) -> Option<(i128, Family)> {
    let text = text.trim();
    let split = text
        .find(|character: char| !matches!(character, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(split);
    if let Some(power) = BINARY.iter().position(|known| *known == suffix && !suffix.is_empty()) {
        let scale = NANO.checked_mul(1024_i128.checked_pow(u32::try_from(power).ok()?)?)?;
        return Some((parse(digits, scale)?, Family::Binary));
    }
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).filter(|exponent| !exponent.is_empty()) {
        let exponent: i32 = exponent.parse().ok()?;
        let scale = 10_i128.checked_pow(u32::try_from(9 + exponent).ok()?)?;
        return Some((parse(digits, scale)?, Family::Exponential));
    }
    let power = DECIMAL.iter().position(|known| *known == suffix)?;
    Some((
        parse(digits, 1000_i128.checked_pow(u32::try_from(power).ok()?)?)?,
        Family::Decimal,
    ))
}

/// A decimal number times `scale`, exactly.
fn parse(digits: &str, scale: i128) -> Option<i128> {
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let number = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    let fraction = fraction.trim_end_matches('0');
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = number(whole)?
        .checked_mul(scale)?
        .checked_add(number(fraction)?.checked_mul(scale)? / divisor)?;
    Some(if negative { -scaled } else { scaled })
}

fn decimal(nanos: i128) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let mut rest = nanos;
    let mut power = 0;
    while rest % 1000 == 0 && power + 1 < DECIMAL.len() {
        rest /= 1000;
        power += 1;
    }
    format!("{rest}{}", DECIMAL[power])
}

fn binary(nanos: i128) -> String {
    if nanos % NANO != 0 {
        return decimal(nanos);
    }
    let mut rest = nanos / NANO;
    let mut power = 0;
    while rest != 0 && rest % 1024 == 0 && power + 1 < BINARY.len() {
        rest /= 1024;
        power += 1;
    }
    format!("{rest}{}", BINARY[power])
}

fn exponential(nanos: i128) -> String {
    let mut rest = nanos;
    let mut exponent = -9;
    while rest != 0 && rest % 1000 == 0 {
        rest /= 1000;
        exponent += 3;
    }
    if rest == 0 || exponent == 0 {
        rest.to_string()
    } else {
        format!("{rest}e{exponent}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_take_their_largest_suffix() {
        let cases = [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100Ki", "100Ki"),
            ("0", "0"),
            ("0Gi", "0"),
            ("2e3", "2e3"),
            ("12e6", "12e6"),
            ("-1000m", "-1"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(canonical("x"), None);
        assert_eq!(canonical("1Zi"), None);
    }
}
