//! How long to wait before the API server is asked again.
//!
//! One back-off serves all that can fail in a reflector, so a server in trouble sees less and less
//! of it whatever the trouble is.

use std::time::Duration;

use tokio::time::Instant;

use crate::random::Random;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// After this long without a failure the next one counts as the first.
const QUIET: Duration = Duration::from_secs(120);

/// Doubling delays, each stretched by up to its own length so that clients do not come in step.
pub(super) struct Backoff {
    next: Duration,
    /// When the last delay was over.
    over: Option<Instant>,
    random: Random,
}

impl Backoff {
    pub(super) fn new(random: Random) -> Self {
        Self { next: FIRST, over: None, random }
    }

    /// The delay for a failure now; at least `asked`, if the server asked for one.
    pub(super) fn delay(&mut self, asked: Option<Duration>) -> Duration {
        let now = Instant::now();
        if self.over.is_some_and(|over| now.saturating_duration_since(over) > QUIET) {
            self.next = FIRST;
        }
        let base = self.next;
        self.next = (base * 2).min(LONGEST);
        let delay = self.random.range(base, base * 2).max(asked.unwrap_or_default());
        self.over = Some(now + delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_to_the_cap_and_start_over_after_two_quiet_minutes() {
        let mut backoff = Backoff::new(Random::new(1));
        for base in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let base = Duration::from_millis(base);
            let delay = backoff.delay(None);
            assert!(base <= delay && delay < base * 2, "{delay:?} for {base:?}");
            tokio::time::advance(delay).await;
        }
        tokio::time::advance(QUIET).await;
        assert!(backoff.delay(None) >= LONGEST, "two minutes and no more are not yet quiet");
        tokio::time::advance(2 * LONGEST + QUIET + Duration::from_millis(1)).await;
        assert!(backoff.delay(None) < 2 * FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_asks_for_is_the_least() {
        let mut backoff = Backoff::new(Random::new(1));
        assert_eq!(backoff.delay(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert!(backoff.delay(Some(Duration::from_millis(1))) >= 2 * FIRST);
    }
}
