//! Reproducible randomness: a generator whose numbers follow from its seed, and the alphabet of
//! generated names.

/// The letters and digits of generated names and hashes, as in upstream's package `rand`: without
/// vowels and digits that resemble them, so that they form no words.
pub const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// SplitMix64. Small, fast, and the same on every machine; its numbers are distinct, not secret.
///
/// ```
/// use evenkeel_types::random::SplitMix64;
///
/// let mut random = SplitMix64(0);
/// assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
/// assert_ne!(random.next(), SplitMix64(1).next());
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(
    /// The state; at first the seed.
    pub u64,
);

impl SplitMix64 {
    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
