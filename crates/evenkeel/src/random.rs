//! Seeded pseudo-random numbers for jitter and generated names; not for secrets.
//!
//! All users of randomness get a stream injected, so that a run with a seed is reproducible.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use evenkeel_types::random::SplitMix64;

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    /// Creates the stream of a seed; equal seeds give equal streams.
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// Creates a stream from entropy.
    pub(crate) fn from_entropy() -> Self {
        Self::new(RandomState::new().hash_one(0_u8))
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a duration in `low..high`, or `low` if the range is empty.
    pub(crate) fn range(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from(high.saturating_sub(low).as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is below `span`, and nearly uniform.
        let nanos = (u128::from(self.next()) * u128::from(span)) >> 64;
        low + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let stream: Vec<_> = (0..100).map(|_| one.next()).collect();
        assert!(stream.iter().all(|&number| number == other.next()));
        assert_ne!(Random::new(8).next(), stream[0]);
        assert_ne!(Random::from_entropy().next(), Random::from_entropy().next());
    }

    #[test]
    fn range_is_respected_and_covered() {
        let mut random = Random::new(1);
        let (low, high) = (Duration::from_secs(300), Duration::from_secs(600));
        let drawn: Vec<_> = (0..1000).map(|_| random.range(low, high)).collect();
        assert!(drawn.iter().all(|&drawn| low <= drawn && drawn < high));
        assert!(drawn.iter().any(|&drawn| drawn < Duration::from_secs(310)));
        assert!(drawn.iter().any(|&drawn| drawn > Duration::from_secs(590)));
        assert_eq!(random.range(high, low), high);
        assert_eq!(random.range(low, low), low);
    }
}
