//! Resource amounts ("1", "500m", "1.5Gi", "12e6") compared by value.
//!
//! Owns the exact reading of Kubernetes quantities. Amounts are held in billionths, as the API server does: what is
//! finer than that is rounded away from zero. Assumes nothing about the resource. Never uses floating point and never
//! panics: an amount too large to hold is an error, and callers decide what that means to them.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A resource amount, exact to a billionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: i128,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the form of a quantity.
    #[error(
        "{0:?} is not a quantity: write a decimal number with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent (12e6)"
    )]
    Malformed(String),
    /// The amount is beyond about 10^29 units.
    #[error("quantity {0:?} is too large: it must be below 10^29")]
    OutOfRange(String),
}

enum Scale {
    Ten(i32),
    Two(u32),
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// An amount of whole units.
    #[must_use]
    pub fn from_units(units: i64) -> Self {
        Self {
            nanos: i128::from(units) * NANOS_PER_UNIT,
        }
    }

    /// The amount in billionths.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The amount in thousandths, rounded away from zero; `None` beyond the range of `i64`.
    #[must_use]
    pub fn millis(self) -> Option<i64> {
        i64::try_from(divide_away_from_zero(self.nanos, 1_000_000)).ok()
    }

    /// The amount in whole units, rounded away from zero; `None` beyond the range of `i64`.
    #[must_use]
    pub fn units(self) -> Option<i64> {
        i64::try_from(divide_away_from_zero(self.nanos, NANOS_PER_UNIT)).ok()
    }

    /// Whether the amount is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum, or `None` when it cannot be held.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.nanos.checked_add(other.nanos).map(|nanos| Self { nanos })
    }

    /// The difference, or `None` when it cannot be held.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.nanos.checked_sub(other.nanos).map(|nanos| Self { nanos })
    }

    /// The product with a count, or `None` when it cannot be held.
    #[must_use]
    pub fn checked_mul(self, count: i64) -> Option<Self> {
        self.nanos.checked_mul(i128::from(count)).map(|nanos| Self { nanos })
    }

    /// Reads a quantity from JSON, where it may be a string or a number.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => text.parse(),
            Value::Number(number) => match number.as_i64() {
                Some(units) => Ok(Self::from_units(units)),
                None => number.to_string().parse(),
            },
            other => Err(QuantityError::Malformed(other.to_string())),
        }
    }
}

fn divide_away_from_zero(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    if dividend % divisor == 0 {
        quotient
    } else {
        quotient + dividend.signum()
    }
}

fn scale_of(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "n" => Scale::Ten(-9),
        "u" => Scale::Ten(-6),
        "m" => Scale::Ten(-3),
        "" => Scale::Ten(0),
        "k" => Scale::Ten(3),
        "M" => Scale::Ten(6),
        "G" => Scale::Ten(9),
        "T" => Scale::Ten(12),
        "P" => Scale::Ten(15),
        "E" => Scale::Ten(18),
        "Ki" => Scale::Two(10),
        "Mi" => Scale::Two(20),
        "Gi" => Scale::Two(30),
        "Ti" => Scale::Two(40),
        "Pi" => Scale::Two(50),
        "Ei" => Scale::Two(60),
        _ => Scale::Ten(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// The digits of a number as one integer; `None` when it does not fit.
fn mantissa_of(whole: &str, fraction: &str) -> Option<u128> {
    whole.bytes().chain(fraction.bytes()).try_fold(0_u128, |sum, digit| {
        sum.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
    })
}

/// `mantissa × 10^exponent`, rounded up to a whole number; `None` when it does not fit.
fn shift(mantissa: u128, exponent: i64) -> Option<u128> {
    if mantissa == 0 {
        return Some(0);
    }
    let power = u32::try_from(exponent.unsigned_abs())
        .ok()
        .and_then(|places| 10_u128.checked_pow(places));
    match (power, exponent >= 0) {
        (Some(power), true) => mantissa.checked_mul(power),
        (Some(power), false) => Some(mantissa.div_ceil(power)),
        (None, true) => None,
        // The divisor exceeds every mantissa, and something is never rounded down to nothing.
        (None, false) => Some(1),
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || QuantityError::Malformed(text.to_owned());
        let out_of_range = || QuantityError::OutOfRange(text.to_owned());

        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let scale = scale_of(suffix).ok_or_else(malformed)?;

        let fraction = fraction.trim_end_matches('0');
        let mantissa = mantissa_of(whole, fraction).ok_or_else(out_of_range)?;
        let places = i64::try_from(fraction.len()).map_err(|_| out_of_range())?;
        let nanos = match scale {
            Scale::Ten(exponent) => shift(mantissa, i64::from(exponent) - places + 9),
            Scale::Two(exponent) => mantissa
                .checked_mul(1_u128 << exponent)
                .and_then(|scaled| shift(scaled, 9 - places)),
        };
        let magnitude = nanos
            .and_then(|nanos| i128::try_from(nanos).ok())
            .ok_or_else(out_of_range)?;
        Ok(Self {
            nanos: if negative { -magnitude } else { magnitude },
        })
    }
}

/// The shortest of the common spellings: whole multiples of 1024 with a binary suffix, other whole amounts without a
/// suffix, fractions with `m`, `u` or `n`.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (divisor, suffix) in [(NANOS_PER_UNIT, ""), (1_000_000, "m"), (1_000, "u"), (1, "n")] {
            if self.nanos % divisor != 0 {
                continue;
            }
            let mut amount = self.nanos / divisor;
            let mut binary = "";
            if suffix.is_empty() && amount != 0 {
                for name in BINARY_SUFFIXES {
                    if amount % 1024 != 0 {
                        break;
                    }
                    amount /= 1024;
                    binary = name;
                }
            }
            return write!(formatter, "{amount}{binary}{suffix}");
        }
        unreachable!("every whole number is a multiple of one")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nanos(text: &str) -> i128 {
        text.parse::<Quantity>()
            .unwrap_or_else(|error| panic!("{error}"))
            .nanos()
    }

    #[test]
    fn spellings_of_one_amount_are_equal() {
        for spellings in [
            &[
                "1", "1000m", "1e0", "1E0", "+1", "01", "1.0", "1.", "1000000u", "0.001k", "1e+0", "10e-1",
            ][..],
            &["0.5Gi", "512Mi", "536870912", "524288Ki", ".5Gi"],
            &["0", "-0", "0m", "0Ki", "0e5", "0.000"],
            &["100m", "0.1", "0.10", "1e-1"],
            &["2E", "2e18", "2000P"],
            &["-1.5", "-1500m"],
        ] {
            for spelling in spellings {
                assert_eq!(nanos(spelling), nanos(spellings[0]), "{spelling}");
            }
        }
    }

    #[test]
    fn finer_than_a_billionth_is_rounded_away_from_zero() {
        assert_eq!(nanos("0.1n"), 1);
        assert_eq!(nanos("-1.1n"), -2);
        assert_eq!(nanos("1e-400"), 1);
        assert_eq!(nanos("0e-400"), 0);
        assert_eq!(nanos("0.0000000000000000000001Ki"), 1);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            "+",
            "-",
            ".",
            "1 Gi",
            "1.2.3",
            "1gi",
            "1K",
            "abc",
            "1e",
            "1e1.5",
            "--1",
            "1mi",
            "1Eix",
            "١",
            "e3",
            "1e99999999999",
        ] {
            assert_eq!(
                text.parse::<Quantity>(),
                Err(QuantityError::Malformed(text.to_owned())),
                "{text:?}"
            );
        }
        assert!(Quantity::from_json(&json!(null)).is_err());
        assert!(Quantity::from_json(&json!(true)).is_err());
        assert!(Quantity::from_json(&json!(["1"])).is_err());
    }

    #[test]
    fn what_cannot_be_held_is_out_of_range() {
        let digits = "9".repeat(200);
        for text in ["1e40", "99999999999999999999Ei", digits.as_str(), "-1e2147483647"] {
            assert_eq!(
                text.parse::<Quantity>(),
                Err(QuantityError::OutOfRange(text.to_owned()))
            );
        }
    }

    #[test]
    fn json_numbers_are_quantities() {
        assert_eq!(Quantity::from_json(&json!(3)), Ok(Quantity::from_units(3)));
        assert_eq!(Quantity::from_json(&json!(0.1)).map(Quantity::nanos), Ok(100_000_000));
        assert_eq!(
            Quantity::from_json(&json!(u64::MAX)).map(Quantity::nanos),
            Ok(i128::from(u64::MAX) * NANOS_PER_UNIT)
        );
    }

    #[test]
    fn it_is_written_in_a_common_spelling() {
        for (text, written) in [
            ("0", "0"),
            ("0.5Gi", "512Mi"),
            ("1536Mi", "1536Mi"),
            ("2048Mi", "2Gi"),
            ("1000", "1000"),
            ("1.5", "1500m"),
            ("-3", "-3"),
            ("1u", "1u"),
            ("7n", "7n"),
        ] {
            assert_eq!(
                text.parse::<Quantity>().map(|quantity| quantity.to_string()),
                Ok(written.to_owned())
            );
        }
    }

    #[test]
    fn whole_and_thousandth_views_round_away_from_zero() {
        let amount: Quantity = "1.0001".parse().expect("a quantity");
        assert_eq!((amount.units(), amount.millis()), (Some(2), Some(1001)));
        let large: Quantity = "100000E".parse().expect("a quantity");
        assert_eq!(large.units(), None);
        assert_eq!(Quantity::from_units(2).checked_mul(3), Some(Quantity::from_units(6)));
        assert_eq!(
            Quantity::from_units(2).checked_sub(Quantity::from_units(3)),
            Some(Quantity::from_units(-1))
        );
    }

    proptest! {
        #[test]
        fn writing_and_reading_give_the_same_amount(amount in any::<i64>(), scale in prop::sample::select(vec!["n", "u", "m", "", "k", "Ki", "Mi", "Gi"])) {
            let quantity: Quantity = format!("{amount}{scale}").parse().expect("in range");
            prop_assert_eq!(quantity.to_string().parse::<Quantity>(), Ok(quantity));
        }

        #[test]
        fn order_is_the_order_of_the_numbers(left in any::<i32>(), right in any::<i32>()) {
            let read = |value: i32| format!("{value}m").parse::<Quantity>().expect("in range");
            prop_assert_eq!(read(left).cmp(&read(right)), left.cmp(&right));
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[-+]?[0-9.]{0,50}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
