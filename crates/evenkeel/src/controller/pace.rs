//! Keys that run hot: how often each was reconciled lately, and how long it has to rest.
//!
//! Every loop shows here, whatever keeps it going: a requeue without delay, an error that is retried
//! at once, a write that sets off the next reconcile, events that never cease. A key may run in
//! bursts; one that goes on faster than ten times a second is slowed down to that in two steps.
//! Other keys and the workers are not held up: it is the key that rests.

use std::hash::BuildHasher as _;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tokio::time::Instant;

use crate::key::Key;

/// How many reconciles a key may be ahead of [`RATE`] before it has to rest.
const BURST: f64 = 200.0;

/// How many before it rests for long.
const LONG_BURST: f64 = 700.0;

/// Reconciles a second that a key may do for ever.
const RATE: f64 = 10.0;

const SHORT_REST: Duration = Duration::from_millis(10);
const LONG_REST: Duration = Duration::from_millis(100);

/// Keys are forgotten this often, those that are not ahead of the rate.
const SWEEP: Duration = Duration::from_secs(10);

/// How far the keys of one controller are ahead of the rate.
#[derive(Default)]
pub(super) struct Pace {
    /// By the hash of the key: should two share one, they share the rest.
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
    fn sink(&mut self, now: Instant) {
        self.ahead -= now.saturating_duration_since(self.at).as_secs_f64() * RATE;
        self.at = now;
    }
}

/// What a key that runs hot has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// How long it is not run again.
    pub(super) delay: Duration,
    /// Whether this begins a hot phase, which is to be reported.
    pub(super) begins: bool,
}

impl Pace {
    /// Counts a reconcile of `key` that ends now.
    pub(super) fn ran(&mut self, key: &Key, now: Instant) -> Option<Rest> {
        self.sweep(now);
        let fresh = || Level { ahead: 0.0, at: now, reported: false };
        let level = self.levels.entry(self.hasher.hash_one(key)).or_insert_with(fresh);
        level.sink(now);
        level.ahead = level.ahead.max(0.0) + 1.0;
        if level.ahead <= BURST {
            // Reported again only after it has cooled down.
            level.reported &= level.ahead > BURST / 2.0;
            return None;
        }
        let delay = if level.ahead > LONG_BURST { LONG_REST } else { SHORT_REST };
        Some(Rest { delay, begins: !std::mem::replace(&mut level.reported, true) })
    }

    /// Forgets keys that are not ahead, now and then, so that memory follows what is busy.
    fn sweep(&mut self, now: Instant) {
        let last = *self.swept.get_or_insert(now);
        if now.saturating_duration_since(last) < SWEEP {
            return;
        }
        self.swept = Some(now);
        self.levels.retain(|_, level| {
            level.sink(now);
            level.ahead > 0.0
        });
        self.levels.shrink_to(2 * self.levels.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the key as fast as it may, and gives how often it ran until `end`.
    async fn run_until(pace: &mut Pace, key: &Key, end: Instant) -> usize {
        let mut runs = 0;
        while Instant::now() < end {
            runs += 1;
            if let Some(rest) = pace.ran(key, Instant::now()) {
                tokio::time::advance(rest.delay).await;
            }
        }
        runs
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_never_rests_is_slowed_to_ten_times_a_second() {
        let (mut pace, key) = (Pace::default(), Key::cluster("hot"));
        let start = Instant::now();
        let first = run_until(&mut pace, &key, start + Duration::from_secs(10)).await;
        assert!((700..=850).contains(&first), "{first}");
        let later = run_until(&mut pace, &key, start + Duration::from_secs(70)).await;
        assert!((590..=610).contains(&later), "{later}");
        assert_eq!(pace.ran(&Key::cluster("other"), Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_a_hot_phase_is_reported_once() {
        let (mut pace, key) = (Pace::default(), Key::cluster("a"));
        let rests = |pace: &mut Pace, runs: usize| {
            let rests: Vec<_> = (0..runs).filter_map(|_| pace.ran(&key, Instant::now())).collect();
            rests.iter().filter(|rest| rest.begins).count()
        };
        assert_eq!(rests(&mut pace, 200), 0);
        assert_eq!(rests(&mut pace, 50), 1);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(rests(&mut pace, 200), 0);
        assert_eq!(rests(&mut pace, 50), 1, "it had cooled down");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_not_hot_are_forgotten() {
        let mut pace = Pace::default();
        for number in 0..1000 {
            assert_eq!(pace.ran(&Key::cluster(&number.to_string()), Instant::now()), None);
        }
        tokio::time::advance(SWEEP).await;
        pace.ran(&Key::cluster("last"), Instant::now());
        assert_eq!(pace.levels.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn ten_times_a_second_may_go_on_for_ever() {
        let (mut pace, key) = (Pace::default(), Key::cluster("a"));
        for _ in 0..5_000 {
            assert_eq!(pace.ran(&key, Instant::now()), None);
            tokio::time::advance(Duration::from_millis(101)).await;
        }
    }
}
