//! Durations as Go writes them: `4h`, `15m0s`, `1h30m`, `1.5h`, `300ms`, `-2s`.
//!
//! A signed number of nanoseconds that fits 64 bits, so at most about 292 years. Reading is exact up to the
//! nanosecond (what is finer is cut off); writing gives the canonical form that Go gives.

use std::fmt;
use std::str::FromStr;
use std::time::Duration as StandardDuration;

/// A signed duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    nanoseconds: i64,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form number-unit, number-unit, ...
    #[error("is not a duration: write a number and a unit (h, m, s, ms, us, ns), such as \"4h\" or \"1h30m\"")]
    Malformed,
    /// A number without a unit, or with one that is not known.
    #[error("has a number without a known unit: write h, m, s, ms, us or ns after each number, such as \"90s\"")]
    Unit,
    /// More than 64 bits of nanoseconds.
    #[error("is longer than the longest duration, which is about 292 years")]
    TooLong,
}

const NANOSECOND: i64 = 1;
const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl Duration {
    /// From nanoseconds.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self { nanoseconds }
    }

    /// From whole seconds; the longest duration when it does not fit.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_nanoseconds(seconds.saturating_mul(SECOND))
    }

    /// In nanoseconds.
    pub const fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// Whether it is more than nothing.
    pub const fn is_positive(self) -> bool {
        self.nanoseconds > 0
    }

    /// As an unsigned duration; none when negative.
    pub fn to_standard(self) -> Option<StandardDuration> {
        u64::try_from(self.nanoseconds).ok().map(StandardDuration::from_nanos)
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(DurationError::Malformed);
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (whole, after) = digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(DurationError::Malformed);
            }
            let (unit, after) = unit(after)?;
            rest = after;
            total += number(whole, unit)? + part(fraction, unit);
            if total > i128::from(i64::MAX) + i128::from(negative) {
                return Err(DurationError::TooLong);
            }
        }
        let signed = if negative { -total } else { total };
        let nanoseconds = i64::try_from(signed).map_err(|_| DurationError::TooLong)?;
        Ok(Self { nanoseconds })
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn unit(text: &str) -> Result<(i64, &str), DurationError> {
    let end = text
        .bytes()
        .position(|byte| byte == b'.' || byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let unit = match name {
        "ns" => NANOSECOND,
        // The micro sign and the Greek letter look the same and Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return Err(DurationError::Unit),
    };
    Ok((unit, rest))
}

fn number(text: &str, unit: i64) -> Result<i128, DurationError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number: i64 = text.parse().map_err(|_| DurationError::TooLong)?;
    Ok(i128::from(number) * i128::from(unit))
}

/// The nanoseconds of a decimal fraction of a unit. Seventeen digits decide every nanosecond of an hour.
fn part(text: &str, unit: i64) -> i128 {
    let mut nanoseconds: i128 = 0;
    let mut scale: i128 = 1;
    for digit in text.bytes().take(17) {
        nanoseconds = nanoseconds * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    nanoseconds * i128::from(unit) / scale
}

impl fmt::Display for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.nanoseconds.unsigned_abs();
        if self.nanoseconds < 0 {
            formatter.write_str("-")?;
        }
        let (second, minute, hour) = (SECOND as u64, MINUTE as u64, HOUR as u64);
        match total {
            0 => formatter.write_str("0s"),
            1..1_000 => write!(formatter, "{total}ns"),
            1_000..1_000_000 => decimal(formatter, total, MICROSECOND as u64, "\u{b5}s"),
            1_000_000..1_000_000_000 => decimal(formatter, total, MILLISECOND as u64, "ms"),
            _ => {
                if total >= hour {
                    write!(formatter, "{}h", total / hour)?;
                }
                if total >= minute {
                    write!(formatter, "{}m", total % hour / minute)?;
                }
                decimal(formatter, total % minute, second, "s")
            }
        }
    }
}

fn decimal(formatter: &mut fmt::Formatter<'_>, value: u64, unit: u64, name: &str) -> fmt::Result {
    write!(formatter, "{}", value / unit)?;
    let fraction = value % unit;
    if fraction != 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(formatter, ".{}", digits.trim_end_matches('0'))?;
    }
    formatter.write_str(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_like_go() {
        for (text, nanoseconds, canonical) in [
            ("4h", 4 * HOUR, "4h0m0s"),
            ("15m0s", 15 * MINUTE, "15m0s"),
            ("1h30m", 90 * MINUTE, "1h30m0s"),
            ("1.5h", 90 * MINUTE, "1h30m0s"),
            ("300ms", 300 * MILLISECOND, "300ms"),
            ("-2s", -2 * SECOND, "-2s"),
            ("+5s", 5 * SECOND, "5s"),
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("0s", 0, "0s"),
            (".5s", SECOND / 2, "500ms"),
            ("1.s", SECOND, "1s"),
            ("1us", MICROSECOND, "1\u{b5}s"),
            ("1.5\u{3bc}s", 1500, "1.5\u{b5}s"),
            ("1h0.000000001s", HOUR + 1, "1h0m0.000000001s"),
            ("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
            ("0.3333333333333333333h", 20 * MINUTE - 1, "19m59.999999999s"),
        ] {
            let duration: Duration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(duration.nanoseconds(), nanoseconds, "{text}");
            assert_eq!(duration.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(duration), "{canonical}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for (text, error) in [
            ("", DurationError::Malformed),
            ("-", DurationError::Malformed),
            (".", DurationError::Malformed),
            ("h", DurationError::Malformed),
            (".s", DurationError::Malformed),
            ("4", DurationError::Unit),
            ("4 h", DurationError::Unit),
            ("1d", DurationError::Unit),
            ("4h5", DurationError::Unit),
            ("--1s", DurationError::Malformed),
            ("1h-1m", DurationError::Unit),
            ("2562047h47m16.854775808s", DurationError::TooLong),
            ("99999999999999999999h", DurationError::TooLong),
        ] {
            assert_eq!(text.parse::<Duration>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn negative_durations_are_not_standard_ones() {
        assert_eq!(Duration::from_seconds(-1).to_standard(), None);
        assert_eq!(
            Duration::from_seconds(2).to_standard(),
            Some(StandardDuration::from_secs(2))
        );
        assert!(!Duration::default().is_positive());
    }
}
