//! The source of time and randomness.
//!
//! Nothing else in the server reads the wall clock or random bits, so a server with a seed and
//! tokio's paused clock replays the same run, uids included.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

use evenkeel_types::random::{NAME_ALPHABET, SplitMix64};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The clock and random number generator of one server.
pub(crate) struct ClockRng {
    clock: Clock,
    random: Mutex<SplitMix64>,
}

enum Clock {
    System,
    /// Starts at a fixed time and advances with tokio's clock, paused or not.
    Virtual {
        epoch: Timestamp,
        started: Instant,
    },
}

impl ClockRng {
    /// Uses the system clock and a random seed.
    pub(crate) fn system() -> Self {
        Self {
            clock: Clock::System,
            random: Mutex::new(SplitMix64(RandomState::new().hash_one(0))),
        }
    }

    /// Makes a reproducible source: wall-clock time is 2026-01-01T00:00:00Z plus the time that
    /// tokio's clock has advanced, and all names, uids and jitters follow from `seed`.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn seeded(seed: u64) -> Self {
        let epoch = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
        let clock = Clock::Virtual { epoch, started: Instant::now() };
        Self { clock, random: Mutex::new(SplitMix64(seed)) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match &self.clock {
            Clock::System => {
                #[expect(clippy::disallowed_methods, reason = "this is the injected clock")]
                let now = SystemTime::now();
                Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH)
            }
            Clock::Virtual { epoch, started } => {
                let passed = jiff::SignedDuration::try_from(started.elapsed()).unwrap_or_default();
                epoch.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Returns the current time in the form objects carry: RFC 3339, whole seconds, UTC.
    pub(crate) fn timestamp(&self) -> String {
        rfc3339(self.now())
    }

    pub(crate) fn uid(&self) -> String {
        let (high, low) = {
            let mut random = self.lock();
            (random.next(), random.next())
        };
        // Version 4, variant 1, like every uid in Kubernetes.
        let high = high & !0xf000 | 0x4000;
        let low = low & !(0b11 << 62) | (0b10 << 62);
        let bits = u128::from(high) << 64 | u128::from(low);
        let mut text = String::with_capacity(36);
        for at in 0..32 {
            if matches!(at, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            let digit = (bits >> (4 * (31 - at))) as usize & 0xf;
            text.push(char::from(b"0123456789abcdef"[digit]));
        }
        text
    }

    /// Returns the random suffix of a generated name.
    pub(crate) fn name_suffix(&self) -> String {
        let mut random = self.lock();
        let mut index = || below(&mut random, NAME_ALPHABET.len() as u64) as usize;
        (0..5).map(|_| char::from(NAME_ALPHABET[index()])).collect()
    }

    /// Returns a random number in `0..bound`, or 0 if `bound` is 0.
    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        below(&mut self.lock(), bound)
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, SplitMix64> {
        self.random.lock()
    }
}

impl fmt::Debug for ClockRng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.clock {
            Clock::System => "ClockRng(system)",
            Clock::Virtual { .. } => "ClockRng(seeded)",
        })
    }
}

/// Formats a time as RFC 3339 with whole seconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    PRINTER.timestamp_to_string(&time)
}

/// Returns a random number in `0..bound`, or 0 if `bound` is 0.
fn below(random: &mut SplitMix64, bound: u64) -> u64 {
    if bound == 0 { 0 } else { ((u128::from(random.next()) * u128::from(bound)) >> 64) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn same_seed_gives_same_uids_and_names() {
        let (a, b) = (ClockRng::seeded(7), ClockRng::seeded(7));
        assert_eq!((a.uid(), a.name_suffix()), (b.uid(), b.name_suffix()));
        assert_ne!(a.uid(), ClockRng::seeded(8).uid());
    }

    #[test]
    fn uid_is_a_version_4_uuid() {
        let uid = ClockRng::system().uid();
        let parts: Vec<&str> = uid.split('-').collect();
        assert_eq!(parts.iter().map(|p| p.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts[2].starts_with('4') && "89ab".contains(&parts[3][..1]), "{uid}");
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_follows_tokio() {
        let clock_rng = ClockRng::seeded(1);
        assert_eq!(clock_rng.timestamp(), "2026-01-01T00:00:00Z");
        tokio::time::advance(std::time::Duration::from_secs(90)).await;
        assert_eq!(clock_rng.timestamp(), "2026-01-01T00:01:30Z");
    }
}
