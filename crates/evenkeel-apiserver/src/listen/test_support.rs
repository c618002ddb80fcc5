//! The fixed clock of the listener's tests.

/// 2027-01-15, the current time in these tests.
pub(crate) const NOW: u64 = 1_800_000_000;
