//! Choices that follow from a seed alone, the same on every machine and in every version of this repository's lock file.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What makes the choices of one case.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// True in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the choices.
    pub(super) fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Some of the choices, in their order: any number of them, none as well.
    pub(super) fn some<T: Clone>(&mut self, choices: &[T]) -> Vec<T> {
        choices.iter().filter(|_| self.chance(50)).cloned().collect()
    }
}
