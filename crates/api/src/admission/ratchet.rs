//! What an update brings in, as against what was there before.

use std::collections::{BTreeMap, BTreeSet};

use super::{FieldError, Outcome};

/// The findings about the new object that are not also findings about the old one.
///
/// Two errors are the same when they say the same of the same thing with the same value. One old error excuses one new
/// error, so a second duplicate beside an old one is still found.
pub(super) fn new_findings(new: Outcome, old: &Outcome) -> Outcome {
    let mut excused: BTreeMap<String, usize> = BTreeMap::new();
    for error in &old.errors {
        *excused.entry(identity(error)).or_default() += 1;
    }
    let mut fresh = |error: &FieldError| match excused.get_mut(&identity(error)) {
        Some(left @ 1..) => {
            *left -= 1;
            false
        }
        _ => true,
    };
    let known: BTreeSet<&String> = old.warnings.iter().collect();
    Outcome {
        errors: new.errors.into_iter().filter(|error| fresh(error)).collect(),
        warnings: new
            .warnings
            .into_iter()
            .filter(|warning| !known.contains(warning))
            .collect(),
    }
}

fn identity(error: &FieldError) -> String {
    let FieldError {
        path,
        kind,
        bad_value,
        detail,
    } = error;
    let value = bad_value.as_ref().map(ToString::to_string);
    format!("{}\n{kind:?}\n{value:?}\n{detail}", path.identity())
}

#[cfg(test)]
mod tests {
    use super::super::FieldPath;
    use super::*;

    fn outcome(errors: Vec<FieldError>) -> Outcome {
        Outcome {
            errors,
            warnings: vec![],
        }
    }

    #[test]
    fn old_errors_excuse_equal_new_ones_one_by_one() {
        let at = |index, value: &str| FieldError::duplicate(FieldPath::root("list").item(index, "k"), value, "");
        let old = outcome(vec![at(0, "x")]);
        assert!(new_findings(outcome(vec![at(5, "x")]), &old).is_admitted());
        assert_eq!(
            new_findings(outcome(vec![at(5, "x"), at(6, "x")]), &old).errors,
            vec![at(6, "x")]
        );
        assert_eq!(new_findings(outcome(vec![at(0, "y")]), &old).errors, vec![at(0, "y")]);
    }

    #[test]
    fn old_warnings_are_not_repeated() {
        let with = |warnings: &[&str]| Outcome {
            errors: vec![],
            warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(new_findings(with(&["a", "b"]), &with(&["a"])), with(&["b"]));
    }
}
