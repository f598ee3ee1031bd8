//! Index allocation: the lowest index that no row holds.
//!
//! Density: the lowest free index is never greater than the number of rows that hold one, so every index is below the
//! membership right after its insert, and without departures the indices of n rows are exactly 0..n.

use std::collections::BTreeSet;

/// The indices of a clique that are held.
#[derive(Clone, Debug)]
pub struct Indices {
    max: u32,
    held: BTreeSet<u32>,
}

impl Indices {
    /// None held, of `0..max`.
    pub fn new(max: u32) -> Self {
        Self {
            max,
            held: BTreeSet::new(),
        }
    }

    /// Takes an index; false when it is held already or out of bounds.
    pub fn hold(&mut self, index: u32) -> bool {
        index < self.max && self.held.insert(index)
    }

    /// Takes the index that a node had before when it is free, else the lowest free one; none when all are held.
    pub fn allocate(&mut self, former: Option<u32>) -> Option<u32> {
        if let Some(former) = former
            && self.hold(former)
        {
            return Some(former);
        }
        let mut lowest = 0;
        for held in &self.held {
            if *held != lowest {
                break;
            }
            lowest += 1;
        }
        self.hold(lowest).then_some(lowest)
    }

    /// Whether an index is held.
    pub fn is_held(&self, index: u32) -> bool {
        self.held.contains(&index)
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn holes_are_filled_first_and_former_indices_win() {
        let mut indices = Indices::new(4);
        assert!(indices.hold(0) && indices.hold(2));
        assert!(!indices.hold(2) && !indices.hold(4));
        assert_eq!(indices.allocate(Some(3)), Some(3));
        assert_eq!(indices.allocate(Some(0)), Some(1));
        assert_eq!(indices.allocate(None), None);
    }

    proptest! {
        #[test]
        fn the_lowest_free_index_is_never_above_the_number_held(held in prop::collection::btree_set(0..40_u32, 0..40)) {
            let mut indices = Indices::new(64);
            for index in &held {
                indices.hold(*index);
            }
            let lowest = indices.allocate(None).unwrap();
            prop_assert!(lowest as usize <= held.len());
            prop_assert!(!held.contains(&lowest));
            prop_assert!((0..lowest).all(|below| held.contains(&below)));
        }
    }
}
