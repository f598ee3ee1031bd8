//! Small words and measures that all texts share.

/// A number and what it counts: `1 replica`, `2 replicas`.
pub fn count(number: impl Into<i64>, noun: &str) -> String {
    let number = number.into();
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// How many columns of a terminal a line takes; colours take none.
pub fn columns_of(line: &str) -> usize {
    let (mut columns, mut escaped) = (0, false);
    for letter in line.chars() {
        match (escaped, letter) {
            (false, '\x1b') => escaped = true,
            (false, _) => columns += 1,
            (true, letter) => escaped = !letter.is_ascii_alphabetic(),
        }
    }
    columns
}
