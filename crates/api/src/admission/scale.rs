//! New sizes of existing cliques and scaling groups, whether written to the object or to its `scale`.
//!
//! A size is a wish: an autoscaler may write any. One below the minimum is not refused, because the writer
//! would be stuck (a wake-up from 0 that begins with 1 would never begin); the gang is then as small as the size, and the
//! writer is warned. Only a size that can mean nothing is refused. Never looks at a creation, and never at anything but
//! sizes.

use super::{FieldError, FieldPath, Outcome};

/// A change of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// The size until now.
    pub from: i32,
    /// The new size.
    pub to: i32,
    /// The units that must be there for the object to count as available; none when it is not known.
    pub min_available: Option<i32>,
}

impl Resize {
    /// Whether it is about a change at all.
    pub const fn is_none(self) -> bool {
        self.from == self.to
    }

    /// What is to be said of it.
    pub fn judge(self) -> Outcome {
        let mut found = Outcome::default();
        if self.is_none() {
            return found;
        }
        let at = FieldPath::root("spec").field("replicas");
        let Self { to, min_available, .. } = self;
        if to < 0 {
            found
                .errors
                .push(FieldError::invalid(at, to, "must be 0 or more; with 0 it is idle"));
        } else if let Some(minimum) = min_available
            && (1..minimum).contains(&to)
        {
            found.warnings.push(format!(
                "{at}: {to} is below minAvailable, which is {minimum}: its gang is placed with {to} until it is scaled up; \
                 scale to 0 or to {minimum} and more"
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(from: i32, to: i32, min_available: Option<i32>) -> (bool, usize) {
        let outcome = Resize {
            from,
            to,
            min_available,
        }
        .judge();
        (outcome.is_admitted(), outcome.warnings.len())
    }

    #[test]
    fn a_size_below_the_minimum_is_admitted_with_a_warning() {
        assert_eq!(judged(4, 2, Some(3)), (true, 1));
        assert_eq!(judged(0, 1, Some(3)), (true, 1));
        for (to, minimum) in [(3, Some(3)), (9, Some(3)), (0, Some(3)), (1, None), (1, Some(1))] {
            assert_eq!(judged(5, to, minimum), (true, 0), "{to} {minimum:?}");
        }
    }

    #[test]
    fn a_negative_size_is_refused_unless_it_is_not_new() {
        assert_eq!(judged(4, -1, Some(3)), (false, 0));
        assert_eq!(judged(-1, -1, Some(3)), (true, 0));
    }
}
