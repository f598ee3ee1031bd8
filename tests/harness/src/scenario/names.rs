//! Texts about names that are not known: the list of valid ones, and the one probably meant.

/// "`aply`; did you mean `apply`? Valid: apply, create".
pub(crate) fn one_of(unknown: &str, valid: &[&str]) -> String {
    let hint = nearest(unknown, valid)
        .map(|name| format!("did you mean `{name}`? "))
        .unwrap_or_default();
    format!("`{unknown}`; {hint}valid: {}", valid.join(", "))
}

/// The valid name that differs least, if it differs little enough to be a slip.
fn nearest<'a>(unknown: &str, valid: &[&'a str]) -> Option<&'a str> {
    let limit = (unknown.chars().count() / 3).max(1);
    valid
        .iter()
        .map(|name| (distance(&unknown.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// The number of single-letter insertions, removals and replacements between two words.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_get_a_hint_and_other_words_do_not() {
        assert_eq!(
            one_of("aply", &["create", "apply"]),
            "`aply`; did you mean `apply`? valid: create, apply"
        );
        assert_eq!(
            one_of("killnode", &["killNode", "killPod"]),
            "`killnode`; did you mean `killNode`? valid: killNode, killPod"
        );
        assert_eq!(
            one_of("explode", &["create", "apply"]),
            "`explode`; valid: create, apply"
        );
    }
}
