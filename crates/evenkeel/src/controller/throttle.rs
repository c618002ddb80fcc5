//! Throttles keys that are reconciled in a hot loop.
//!
//! The cause of the loop does not matter: a requeue without delay, an error that is retried
//! immediately, a write that triggers the next reconcile, a stream of events. Bursts are allowed; a
//! key that stays above ten reconciles per second is slowed down to that rate in two steps. Other
//! keys and the workers are not delayed.

use std::hash::BuildHasher as _;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tokio::time::Instant;

use crate::key::Key;

/// The number of reconciles above [`RATE`] after which a key is delayed.
const BURST: f64 = 200.0;

/// The number after which the delay is long.
const LONG_BURST: f64 = 700.0;

/// The sustained number of reconciles per second and key.
const RATE: f64 = 10.0;

const SHORT_DELAY: Duration = Duration::from_millis(10);
const LONG_DELAY: Duration = Duration::from_millis(100);

/// How often keys below the rate are removed.
const SWEEP: Duration = Duration::from_secs(10);

/// Leaky buckets of the keys of one controller.
#[derive(Default)]
pub(super) struct Throttle {
    /// By the hash of the key: keys with equal hashes share a bucket.
    levels: HashMap<u64, Level, RandomState>,
    hasher: RandomState,
    swept: Option<Instant>,
}

struct Level {
    ahead: f64,
    at: Instant,
    reported: bool,
}

impl Level {
    fn decay(&mut self, now: Instant) {
        self.ahead -= now.saturating_duration_since(self.at).as_secs_f64() * RATE;
        self.at = now;
    }
}

/// The delay of a throttled key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ThrottleDelay {
    /// How long the next reconcile is delayed.
    pub(super) delay: Duration,
    /// Whether throttling begins with this reconcile, which raises an alarm.
    pub(super) begins: bool,
}

impl Throttle {
    /// Counts a reconcile of `key` that ends now; returns the delay if the key is throttled.
    pub(super) fn record(&mut self, key: &Key, now: Instant) -> Option<ThrottleDelay> {
        self.sweep(now);
        let fresh = || Level { ahead: 0.0, at: now, reported: false };
        let level = self.levels.entry(self.hasher.hash_one(key)).or_insert_with(fresh);
        level.decay(now);
        level.ahead = level.ahead.max(0.0) + 1.0;
        if level.ahead <= BURST {
            // Reported again only after the level has fallen by half.
            level.reported &= level.ahead > BURST / 2.0;
            return None;
        }
        let delay = if level.ahead > LONG_BURST { LONG_DELAY } else { SHORT_DELAY };
        Some(ThrottleDelay { delay, begins: !std::mem::replace(&mut level.reported, true) })
    }

    /// Removes keys below the rate at intervals, so that memory is bounded by the busy keys.
    fn sweep(&mut self, now: Instant) {
        let last = *self.swept.get_or_insert(now);
        if now.saturating_duration_since(last) < SWEEP {
            return;
        }
        self.swept = Some(now);
        self.levels.retain(|_, level| {
            level.decay(now);
            level.ahead > 0.0
        });
        self.levels.shrink_to(2 * self.levels.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the key as fast as allowed; returns the number of runs until `end`.
    async fn run_until(throttle: &mut Throttle, key: &Key, end: Instant) -> usize {
        let mut runs = 0;
        while Instant::now() < end {
            runs += 1;
            if let Some(delay) = throttle.record(key, Instant::now()) {
                tokio::time::advance(delay.delay).await;
            }
        }
        runs
    }

    #[tokio::test(start_paused = true)]
    async fn hot_key_is_throttled_to_ten_per_second() {
        let (mut throttle, key) = (Throttle::default(), Key::cluster("hot"));
        let start = Instant::now();
        let first = run_until(&mut throttle, &key, start + Duration::from_secs(10)).await;
        assert!((700..=850).contains(&first), "{first}");
        let later = run_until(&mut throttle, &key, start + Duration::from_secs(70)).await;
        assert!((590..=610).contains(&later), "{later}");
        assert_eq!(throttle.record(&Key::cluster("other"), Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn burst_is_allowed_and_throttling_is_reported_once() {
        let (mut throttle, key) = (Throttle::default(), Key::cluster("a"));
        let reports = |throttle: &mut Throttle, runs: usize| {
            let delays: Vec<_> =
                (0..runs).filter_map(|_| throttle.record(&key, Instant::now())).collect();
            delays.iter().filter(|delay| delay.begins).count()
        };
        assert_eq!(reports(&mut throttle, 200), 0);
        assert_eq!(reports(&mut throttle, 50), 1);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(reports(&mut throttle, 200), 0);
        assert_eq!(reports(&mut throttle, 50), 1, "the level had fallen");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_below_the_rate_are_removed() {
        let mut throttle = Throttle::default();
        for number in 0..1000 {
            assert_eq!(throttle.record(&Key::cluster(&number.to_string()), Instant::now()), None);
        }
        tokio::time::advance(SWEEP).await;
        throttle.record(&Key::cluster("last"), Instant::now());
        assert_eq!(throttle.levels.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn ten_per_second_is_never_throttled() {
        let (mut throttle, key) = (Throttle::default(), Key::cluster("a"));
        for _ in 0..5_000 {
            assert_eq!(throttle.record(&key, Instant::now()), None);
            tokio::time::advance(Duration::from_millis(101)).await;
        }
    }
}
