//! The backoff of a reflector.
//!
//! One backoff covers all failures, so that the request rate to a failing server decreases whatever
//! the failure is.

use std::time::Duration;

use tokio::time::Instant;

use crate::random::Random;

const INITIAL: Duration = Duration::from_millis(800);
const MAX: Duration = Duration::from_secs(30);
/// The backoff is reset after this time without a failure.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Exponential backoff with jitter of up to the delay itself.
pub(super) struct Backoff {
    next: Duration,
    /// When the last delay ended.
    ended: Option<Instant>,
    random: Random,
}

impl Backoff {
    pub(super) fn new(random: Random) -> Self {
        Self { next: INITIAL, ended: None, random }
    }

    /// Begins again with the shortest delay.
    pub(super) fn reset(&mut self) {
        self.next = INITIAL;
    }

    /// Returns the delay after a failure; at least `retry_after`, if the server sent it.
    pub(super) fn delay(&mut self, retry_after: Option<Duration>) -> Duration {
        let now = Instant::now();
        if self.ended.is_some_and(|ended| now.saturating_duration_since(ended) > RESET_AFTER) {
            self.reset();
        }
        let base = self.next;
        self.next = (base * 2).min(MAX);
        let delay = self.random.range(base, base * 2).max(retry_after.unwrap_or_default());
        self.ended = Some(now + delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_to_the_cap_and_reset_after_two_minutes() {
        let mut backoff = Backoff::new(Random::new(1));
        for base in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let base = Duration::from_millis(base);
            let delay = backoff.delay(None);
            assert!(base <= delay && delay < base * 2, "{delay:?} for {base:?}");
            tokio::time::advance(delay).await;
        }
        tokio::time::advance(RESET_AFTER).await;
        assert!(backoff.delay(None) >= MAX, "exactly two minutes do not reset it");
        tokio::time::advance(2 * MAX + RESET_AFTER + Duration::from_millis(1)).await;
        assert!(backoff.delay(None) < 2 * INITIAL);
    }

    #[tokio::test(start_paused = true)]
    async fn delay_is_at_least_retry_after() {
        let mut backoff = Backoff::new(Random::new(1));
        assert_eq!(backoff.delay(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert!(backoff.delay(Some(Duration::from_millis(1))) >= 2 * INITIAL);
    }
}
