//! The injected clocks: wall-clock time for conditions, events and the journal, and a monotonic clock
//! for leases.

mod monotonic;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

pub use monotonic::MonotonicClock;

/// A wall clock.
///
/// Timers always use tokio. With tokio's paused clock, [`Clock::starting_at`] returns a wall clock
/// that follows it, so that runs are reproducible.
///
/// ```
/// let clock = evenkeel::Clock::system();
/// assert!(clock.since(clock.now()) < std::time::Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<(Timestamp, Instant)>>);

impl Clock {
    /// Returns the system clock.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// Returns a clock that starts at `start` and follows tokio's clock.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Some(Arc::new((start, Instant::now()))))
    }

    /// Returns whether it follows tokio's clock.
    pub(crate) fn follows_tokio(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.0.as_deref() {
            None => Timestamp::now(),
            Some((start, since)) => {
                let passed = Instant::now().duration_since(*since);
                start.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Returns the time since `then`; zero if it is in the future.
    #[must_use]
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or_default()
    }
}
