//! Resource quantities as whole numbers of thousandths.
//!
//! Owns the reading of the API's quantity notation. What is smaller than a thousandth is rounded up, as Kubernetes does
//! when it compares requests with capacity.

/// Reads a quantity in thousandths; nothing if it is not one.
pub(crate) fn milli(text: &str) -> Option<i128> {
    let text = text.trim();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let fraction_scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let (numerator, denominator) = factor(suffix)?;
    let numerator = digits.checked_mul(numerator)?.checked_mul(1000)?;
    let denominator = fraction_scale.checked_mul(denominator)?;
    // Round away from zero.
    Some(sign * ((numerator + denominator - 1) / denominator))
}

fn factor(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    let decimal = |power: u32| Some((10_i128.pow(power), 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let scale = 10_i128
                .checked_pow(power.unsigned_abs())
                .filter(|_| power.abs() <= 18)?;
            Some(if power < 0 { (1, scale) } else { (scale, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_is_read() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1000),
            ("250m", 250),
            ("1.5", 1500),
            (".5", 500),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("1e3", 1_000_000),
            ("5E-1", 500),
            ("100u", 1),
            ("1n", 1),
            ("-3", -3000),
            ("8", 8000),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_not_a_number() {
        for text in ["", ".", "1.2.3", "abc", "1Q", "1 Gi", "e3", "1e99"] {
            assert_eq!(milli(text), None, "{text}");
        }
    }
}
