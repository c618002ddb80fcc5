//! Wall-clock time, injected: conditions, events and the journal carry it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Where wall-clock time comes from.
///
/// Timers always come from tokio. Under tokio's paused clock, [`Clock::starting_at`] makes the wall
/// clock follow them, and a run replays.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<(Timestamp, Instant)>>);

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that shows `start` now and moves with tokio's time.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Some(Arc::new((start, Instant::now()))))
    }

    /// What time it is.
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

    /// How long ago `then` was; zero when it lies ahead.
    #[must_use]
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or_default()
    }
}
