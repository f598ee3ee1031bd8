//! Times as Go reads and writes them.

use jiff::Timestamp;

use crate::ports::{format_micro_time, format_time};

/// One of the two ways in which Kubernetes writes times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    /// `metav1.Time`: seconds; parts of a second are read and forgotten.
    Seconds,
    /// `metav1.MicroTime`: exactly six digits after the point.
    Micros,
}

impl TimeFormat {
    /// The text in the one way in which Go writes it; `None` if it is written so already, or is no time.
    pub(crate) fn rewritten(self, text: &str) -> Option<String> {
        let length = match self {
            Self::Seconds => "2006-01-02T15:04:05Z".len(),
            Self::Micros => "2006-01-02T15:04:05.000000Z".len(),
        };
        if text.len() == length && text.ends_with('Z') {
            return None;
        }
        let time: Timestamp = text.parse().ok()?;
        Some(match self {
            Self::Seconds => format_time(time),
            Self::Micros => format_micro_time(time),
        })
    }

    /// What Go's parser says about a text that is no time.
    pub(crate) fn problem(self, text: &str) -> Option<String> {
        let (layout, fraction) = match self {
            Self::Seconds => ("2006-01-02T15:04:05Z07:00", None),
            Self::Micros => ("2006-01-02T15:04:05.000000Z07:00", Some(".000000")),
        };
        let about = |detail: String| Some(format!("parsing time {text:?} as {layout:?}: {detail}"));
        let cannot = |rest: &str, piece: &str| about(format!("cannot parse {rest:?} as {piece:?}"));
        let mut rest = text;
        for piece in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
            match after(rest, piece) {
                Some(next) => rest = next,
                None => return cannot(rest, piece),
            }
        }
        match fraction {
            Some(piece) => match after(rest, piece) {
                Some(next) => rest = next,
                None => return cannot(rest, piece),
            },
            None => {
                if let Some(digits) = rest.strip_prefix('.').filter(|digits| digits.starts_with(is_digit)) {
                    rest = digits.trim_start_matches(is_digit);
                }
            }
        }
        let offset = match rest.strip_prefix(['+', '-']) {
            Some(numbers) => after(numbers, "07")
                .and_then(|rest| after(rest, ":"))
                .and_then(|rest| after(rest, "00")),
            None => rest.strip_prefix('Z'),
        };
        match offset {
            None => cannot(rest, "Z07:00"),
            Some("") if text.parse::<Timestamp>().is_err() => about("it is out of range".to_owned()),
            Some("") => None,
            Some(extra) => about(format!("extra text: {extra:?}")),
        }
    }
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

/// What follows a piece of a layout: digits where it has digits, else itself.
fn after<'a>(text: &'a str, piece: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(piece.len())?;
    let fits = |(found, wanted): (char, char)| {
        if is_digit(wanted) {
            is_digit(found)
        } else {
            found == wanted
        }
    };
    start.chars().zip(piece.chars()).all(fits).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_one_way() {
        let (seconds, micros) = (TimeFormat::Seconds, TimeFormat::Micros);
        assert_eq!(seconds.rewritten("2026-01-01T00:00:00Z"), None);
        assert_eq!(
            seconds.rewritten("2026-01-01T02:00:01.5+02:00").as_deref(),
            Some("2026-01-01T00:00:01Z")
        );
        assert_eq!(micros.rewritten("2026-01-01T00:00:00.000001Z"), None);
        assert_eq!(
            micros.rewritten("2026-01-01T02:00:00.500000+02:00").as_deref(),
            Some("2026-01-01T00:00:00.500000Z")
        );
        assert_eq!(seconds.rewritten("yesterday"), None);
    }

    #[test]
    fn what_is_no_time_is_told_as_go_tells_it() {
        let (seconds, micros) = (TimeFormat::Seconds, TimeFormat::Micros);
        for good in [
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.123456789Z",
            "2026-01-01T00:00:00-08:00",
        ] {
            assert_eq!(seconds.problem(good), None, "{good}");
        }
        assert_eq!(
            seconds.problem("yesterday").as_deref(),
            Some(r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#)
        );
        assert_eq!(
            micros.problem("2026-01-01T00:00:01.5Z").as_deref(),
            Some(
                r#"parsing time "2026-01-01T00:00:01.5Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".5Z" as ".000000""#
            )
        );
        assert!(seconds.problem("2026-01-01T00:00:00").is_some());
        assert!(seconds.problem("2026-01-01T00:00:00Zulu").is_some());
        assert!(seconds.problem("2026-02-31T00:00:00Z").is_some());
        assert_eq!(micros.problem("2026-01-01T00:00:01.500000Z"), None);
    }
}
