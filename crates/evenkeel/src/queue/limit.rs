//! Rate limiting: backoff per key, and a token bucket for all keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The delay of a retry by the number of consecutive failures.
///
/// ```
/// use std::time::Duration;
/// use evenkeel::queue::Backoff;
///
/// let backoff = Backoff::default();
/// assert_eq!(backoff.delay(1), Duration::from_millis(5));
/// assert_eq!(backoff.delay(4), Duration::from_millis(40));
/// assert_eq!(backoff.delay(1_000), Duration::from_secs(1_000));
/// ```
#[derive(Clone)]
pub struct Backoff(Curve);

#[derive(Clone)]
enum Curve {
    Exponential { base: Duration, max: Duration },
    Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl Backoff {
    /// Returns an exponential backoff: `base` after the first failure, doubled after each further
    /// one, at most `max`.
    #[must_use]
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self(Curve::Exponential { base, max })
    }

    /// Returns a custom backoff; `delay` gets the number of consecutive failures.
    ///
    /// It is called while the queue is locked, so it must return quickly and not use the queue.
    ///
    /// ```
    /// use std::time::Duration;
    /// use evenkeel::queue::Backoff;
    ///
    /// // Three fast retries, then one per minute.
    /// let backoff = Backoff::custom(|failures| match failures {
    ///     ..=3 => Duration::from_millis(100),
    ///     _ => Duration::from_secs(60),
    /// });
    /// assert_eq!(backoff.delay(4), Duration::from_secs(60));
    /// ```
    pub fn custom(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self(Curve::Custom(Arc::new(delay)))
    }

    /// Returns the delay after this many consecutive failures.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        match &self.0 {
            Curve::Exponential { base, max } => {
                let factor = 1_u64 << failures.saturating_sub(1).min(63);
                Duration::from_nanos(nanos(*base).saturating_mul(factor)).min(*max)
            }
            Curve::Custom(delay) => delay(failures),
        }
    }
}

/// 5 ms, doubling up to 1000 s.
impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Curve::Exponential { base, max } => write!(f, "{base:?} doubling to {max:?}"),
            Curve::Custom(_) => f.write_str("custom"),
        }
    }
}

/// A rate limit of the retries of all keys: a `burst`, then one per `every`.
///
/// ```
/// use std::time::Duration;
/// use evenkeel::queue::TokenBucket;
///
/// // Ten per second, with bursts of up to a hundred.
/// let bucket = TokenBucket { every: Duration::from_millis(100), burst: 100 };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// The interval at which a token is added.
    pub every: Duration,
    /// The initial and maximum number of tokens.
    pub burst: u32,
}

/// The state of a bucket, as the time at which it is full again.
#[derive(Debug)]
pub(crate) struct Tokens {
    bucket: TokenBucket,
    full_at: u64,
}

impl Tokens {
    pub(crate) fn new(bucket: TokenBucket) -> Self {
        Self { bucket, full_at: 0 }
    }

    /// Reserves a token; returns the time until it is available.
    pub(crate) fn reserve(&mut self, now: u64) -> Duration {
        let every = nanos(self.bucket.every);
        self.full_at = self.full_at.max(now).saturating_add(every);
        let depth = every.saturating_mul(u64::from(self.bucket.burst));
        Duration::from_nanos(self.full_at.saturating_sub(depth).saturating_sub(now))
    }
}

/// Converts a duration to the unit of the queue's clock; saturates after 500 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn backoff_doubles_to_its_cap_and_never_overflows() {
        let backoff = Backoff::exponential(MS, 1000 * Duration::from_secs(1));
        let delays: Vec<_> = (1..=5).map(|failures| backoff.delay(failures)).collect();
        assert_eq!(delays, [MS, 2 * MS, 4 * MS, 8 * MS, 16 * MS]);
        for failures in [21, 32, 33, 64, 1000, u32::MAX] {
            assert_eq!(backoff.delay(failures), Duration::from_secs(1000), "{failures}");
        }
        let none = Backoff::exponential(Duration::ZERO, Duration::MAX);
        assert_eq!(none.delay(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn tokens_allow_a_burst_then_a_rate() {
        let mut tokens = Tokens::new(TokenBucket { every: MS, burst: 3 });
        let delays: Vec<_> = (0..5).map(|_| tokens.reserve(1_000_000_000)).collect();
        assert_eq!(delays, [Duration::ZERO, Duration::ZERO, Duration::ZERO, MS, 2 * MS]);
    }

    #[test]
    fn tokens_refill_up_to_the_burst() {
        let mut tokens = Tokens::new(TokenBucket { every: MS, burst: 2 });
        for _ in 0..2 {
            tokens.reserve(0);
        }
        assert_eq!(tokens.reserve(0), MS);
        let later = nanos(Duration::from_secs(60));
        let delays: Vec<_> = (0..3).map(|_| tokens.reserve(later)).collect();
        assert_eq!(delays, [Duration::ZERO, Duration::ZERO, MS]);
    }

    #[test]
    fn bucket_without_burst_allows_its_rate() {
        let mut tokens = Tokens::new(TokenBucket { every: MS, burst: 0 });
        assert_eq!(tokens.reserve(0), MS);
        assert_eq!(tokens.reserve(0), 2 * MS);
    }
}
