//! String formats that Kubernetes checks. A format that is not listed here is never a mistake.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::model::{Node, Type};

macro_rules! pattern {
    ($text:literal) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("the pattern is well-formed"));
        &*PATTERN
    }};
}

/// The format that counts for a node: one that is unknown, or does not belong to the type, does not.
pub(super) fn effective(node: &Node) -> Option<&str> {
    let format = node.format.as_deref()?;
    let counts = match node.ty {
        Type::String | Type::Any | Type::IntOrString => matches(format, "").is_some(),
        Type::Integer => matches!(format, "int32" | "int64"),
        Type::Number => matches!(format, "float" | "double"),
        _ => false,
    };
    counts.then_some(format)
}

/// Whether a text has the format; `None` if the format is not one that is checked.
pub(super) fn matches(format: &str, text: &str) -> Option<bool> {
    Some(match format.replace('-', "").as_str() {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "byte" => is_base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "hostname" => is_hostname(text),
        "email" => pattern!(r#"^([^<>]*<)?[^\s@<>"]+@[^\s@<>"]+>?$"#).is_match(text),
        "uri" => pattern!(r"^([A-Za-z][A-Za-z0-9+.-]*:\S+|/\S*)$").is_match(text),
        "mac" => is_mac(text),
        "uuid" => pattern!(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").is_match(text),
        "uuid3" => pattern!(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$").is_match(text),
        "uuid4" => {
            pattern!(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$").is_match(text)
        }
        "uuid5" => {
            pattern!(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$").is_match(text)
        }
        "hexcolor" => pattern!(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").is_match(text),
        "ssn" => pattern!(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$").is_match(text),
        "bsonobjectid" => pattern!(r"^[0-9a-fA-F]{24}$").is_match(text),
        "password" => true,
        "k8sshortname" => text.len() <= 63 && pattern!(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").is_match(text),
        "k8slongname" => {
            text.len() <= 253
                && pattern!(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").is_match(text)
        }
        _ => return None,
    })
}

fn is_date(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| text.get(range).and_then(|digits| digits.parse::<u32>().ok());
    if !pattern!(r"^\d{4}-\d{2}-\d{2}$").is_match(text) {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else {
        return false;
    };
    if !is_date(date) {
        return false;
    }
    let shape = pattern!(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
    shape
        .captures(time)
        .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

fn is_duration(text: &str) -> bool {
    text == "0"
        || pattern!(r"^[+-]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$").is_match(text)
        || pattern!(
            r"(?i)\d+\s*(nanos?|nanoseconds?|micros?|microseconds?|millis?|milliseconds?|seconds?|secs?|minutes?|mins?|hours?|days?|weeks?|wks?|ns|us|µs|ms|s|m|h|hr|d|w)"
        )
        .is_match(text)
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && text.len().is_multiple_of(4) && pattern!(r"^[A-Za-z0-9+/]*={0,2}$").is_match(text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let Some(bits) = bits.parse::<u8>().ok().filter(|_| plain) else {
        return false;
    };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_hostname(text: &str) -> bool {
    let shape = pattern!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
    );
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && shape.is_match(text)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize| -> Option<usize> {
        let parts: Vec<&str> = text.split(separator).collect();
        let hex = |part: &&str| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts.iter().all(hex).then_some(parts.len())
    };
    let bytes = [6, 8, 20];
    groups(':', 2)
        .or_else(|| groups('-', 2))
        .is_some_and(|count| bytes.contains(&count))
        || groups('.', 4).is_some_and(|count| bytes.contains(&(count * 2)))
}

/// A resource quantity: a decimal number and an optional suffix or exponent.
pub(super) fn is_quantity(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let (number, suffix) = rest.split_at(digits);
    let well_formed =
        number.bytes().filter(|byte| *byte == b'.').count() <= 1 && number.bytes().any(|byte| byte.is_ascii_digit());
    let exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let known = matches!(suffix, "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E")
        || matches!(suffix, "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei");
    well_formed && (known || suffix.strip_prefix(['e', 'E']).is_some_and(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        let cases = [
            ("date-time", "2024-02-29T12:00:00Z", true),
            ("date-time", "2023-02-29T12:00:00Z", false),
            ("date-time", "2024-01-01T24:00:00Z", false),
            ("date-time", "2024-01-01t00:00:00.123+02:00", true),
            ("date", "2024-13-01", false),
            ("duration", "1h30m", true),
            ("duration", "5 seconds", true),
            ("duration", "soon", false),
            ("byte", "aGVsbG8=", true),
            ("byte", "%%%", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "10.0.0.256", false),
            ("ipv6", "fd00::1", true),
            ("ipv6", "10.0.0.1", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("hostname", "a.example.com", true),
            ("hostname", "a..b", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("mac", "00:00:5e:00:53:01", true),
            ("mac", "00:00:5e", false),
            ("k8s-short-name", "my-name", true),
            ("k8s-short-name", "My-Name", false),
        ];
        for (format, text, expected) in cases {
            assert_eq!(matches(format, text), Some(expected), "{format} {text}");
        }
        assert_eq!(matches("flavour", "x"), None);
    }

    #[test]
    fn quantities() {
        for good in ["1", "100m", "1.5Gi", ".5", "1e3", "1E-3", "-2k", "+1", "1E", "0"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "m", "1.2.3", "1 Gi", "1gi", "1e", "--1", "1Gii", "."] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
