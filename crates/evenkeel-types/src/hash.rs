//! The hash that upstream uses for names and labels.

/// Returns the 32-bit FNV-1a hash of `bytes`. It is stored in names and labels of objects, so the
/// function must never change.
///
/// ```
/// assert_eq!(evenkeel_types::hash::fnv1a(*b"foobar"), 0xbf9c_f968);
/// ```
#[must_use]
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.into_iter().fold(0x811c_9dc5, step)
}
