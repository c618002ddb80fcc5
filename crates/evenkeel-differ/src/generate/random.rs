//! Deterministic random choices from a seed the same on every machine.

use evenkeel_types::random::SplitMix64;

/// A deterministic random number generator.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Creates the generator for one sequence of a seed.
    pub fn new(seed: u64, number: u64) -> Self {
        let first = SplitMix64(seed ^ 0x5EED_0FE7_EA5E_ED01).next();
        Self(SplitMix64(first.wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03))))
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder is negligible for bounds this small.
        usize::try_from(self.0.next() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// Returns true in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns an index, chosen by weight.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}
