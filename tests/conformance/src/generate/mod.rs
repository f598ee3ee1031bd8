//! Cases made from a seed: what nobody thought of writing into the corpus.
//!
//! A case takes one kind and a few names, and creates, changes, reads and deletes objects in an order and with contents that
//! follow from the seed; most requests are right, some are not. Because names, fields and values are few, requests meet:
//! two managers apply the same field, a finalizer holds what is created again, a stale version is used. The case ends with
//! a watch over everything that happened in it.
//!
//! Where two servers answer differently, [`mod@smaller`] makes the case small enough to be read and put into the corpus.

mod content;
mod dice;
mod gadget;
mod kinds;
mod pods;
mod requests;
mod smaller;

pub use gadget::definition;
pub use smaller::smaller;

use crate::corpus::Case;
use dice::Dice;

/// The case of a seed. Its name, and so its namespace, is `generated-` with the seed.
pub fn case(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let kind = dice.one(&kinds::KINDS);
    Case {
        case: format!("generated-{seed}"),
        steps: requests::steps(&mut dice, kind),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_case() {
        for seed in 0..20 {
            assert_eq!(format!("{:?}", case(seed)), format!("{:?}", case(seed)));
        }
        assert_ne!(format!("{:?}", case(1)), format!("{:?}", case(2)));
    }

    #[test]
    fn a_thousand_cases_use_every_kind_and_every_verb() {
        let cases: Vec<Case> = (0..1000).map(case).collect();
        let steps = || cases.iter().flat_map(|case| &case.steps);
        for kind in &kinds::KINDS {
            let collection = format!("POST {}", kind.collection);
            assert!(steps().any(|step| step.request == collection), "{collection}");
        }
        let verbs: BTreeSet<&str> = steps().filter_map(|step| step.request.split(' ').next()).collect();
        assert_eq!(verbs, BTreeSet::from(["DELETE", "GET", "PATCH", "POST", "PUT"]));
        let media: BTreeSet<&str> = steps()
            .filter_map(|step| step.headers.get("content-type").map(String::as_str))
            .collect();
        assert_eq!(media.len(), 4, "{media:?}");
    }
}
