//! Deterministic random choices from a seed (splitmix64), the same on every machine.

/// A deterministic random number generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator for one sequence of a seed.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Self(seed ^ 0x5EED_0FE7_EA5E_ED01);
        random.0 = random.next().wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder is negligible for bounds this small.
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap_or(0)
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
