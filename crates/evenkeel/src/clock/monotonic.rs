//! The monotonic clock of leader election.
//!
//! A lease is valid for a time that the processes measure by themselves. While the system is
//! suspended, the lease still expires for the others, but tokio's clock stands still. So this
//! clock counts suspend where the system has a clock that does.
//!
//! Its rate can be set: all clocks in a process follow one tokio clock, so clock skew between
//! processes cannot be tested otherwise.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A timer of tokio that was set before a suspend fires late by the time of the suspend, so the time
/// is read again after this.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// A monotonic clock, which counts the time during which the system is suspended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
///
/// use evenkeel::leader::MonotonicClock;
///
/// let clock = MonotonicClock::tokio();
/// clock.set_rate(1.5);
/// tokio::time::sleep(Duration::from_secs(10)).await;
/// assert_eq!(clock.now(), Duration::from_secs(15));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MonotonicClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// The time of the system clock at the start, if it is read.
    system_start: Option<Duration>,
    speed: Mutex<Speed>,
    changed: Notify,
}

/// The rate, and both times when it was set.
#[derive(Clone, Copy, Debug)]
struct Speed {
    rate: f64,
    source: Duration,
    local: Duration,
}

impl MonotonicClock {
    /// Returns a clock that counts suspend: `CLOCK_BOOTTIME` on Linux.
    ///
    /// It is never behind tokio's clock, so it can be used with tokio's paused clock, too.
    #[must_use]
    pub fn system() -> Self {
        Self::new(since_boot())
    }

    /// Returns a clock that follows tokio's clock exactly, for reproducible runs.
    #[must_use]
    pub fn tokio() -> Self {
        Self::new(None)
    }

    fn new(system_start: Option<Duration>) -> Self {
        let speed = Speed { rate: 1.0, source: Duration::ZERO, local: Duration::ZERO };
        let (speed, changed) = (Mutex::new(speed), Notify::new());
        Self(Arc::new(Inner { start: Instant::now(), system_start, speed, changed }))
    }

    /// Sets how fast the clock runs from now on; 1 is real time.
    ///
    /// A rate that is not a positive number is ignored.
    pub fn set_rate(&self, rate: f64) {
        if !rate.is_finite() || rate <= 0.0 {
            return;
        }
        let source = self.source();
        let mut speed = self.0.speed.lock();
        *speed = Speed { rate, source, local: speed.local(source) };
        drop(speed);
        self.0.changed.notify_waiters();
    }

    /// Moves the clock forward, as a suspend of the system does.
    pub fn advance(&self, by: Duration) {
        let mut speed = self.0.speed.lock();
        speed.local = speed.local.saturating_add(by);
        drop(speed);
        self.0.changed.notify_waiters();
    }

    /// Returns the time since the clock was created.
    #[must_use]
    pub fn now(&self) -> Duration {
        let source = self.source();
        self.0.speed.lock().local(source)
    }

    /// Returns the time since the clock was created, at rate 1.
    fn source(&self) -> Duration {
        let elapsed = self.0.start.elapsed();
        let system = self.0.system_start.zip(since_boot());
        let system = system.map(|(start, now)| now.saturating_sub(start));
        elapsed.max(system.unwrap_or_default())
    }

    /// Waits until the clock shows `time`.
    pub async fn sleep_until(&self, time: Duration) {
        loop {
            // Created before the clock is read, so that no change of the rate is missed.
            let changed = self.0.changed.notified();
            let left = time.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            let rate = self.0.speed.lock().rate;
            // Rounded up, so that the last wait is not followed by a shorter one.
            let mut wait = Duration::from_secs_f64(left.as_secs_f64() / rate)
                .saturating_add(Duration::from_nanos(u64::from(rate != 1.0)));
            if self.0.system_start.is_some() {
                wait = wait.min(READ_INTERVAL);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Runs `work` for at most `limit`; returns `None` if it takes longer.
    pub(crate) async fn timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let end = self.now().saturating_add(limit);
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep_until(end) => None,
        }
    }
}

impl Speed {
    fn local(&self, source: Duration) -> Duration {
        let passed = source.saturating_sub(self.source);
        let passed = if self.rate == 1.0 { passed } else { passed.mul_f64(self.rate) };
        self.local.saturating_add(passed)
    }
}

/// Returns the time since boot, including suspend.
#[cfg(any(target_os = "android", target_os = "linux"))]
fn since_boot() -> Option<Duration> {
    read(rustix::time::ClockId::Boottime)
}

/// Returns a time that includes suspend: on these systems, unlike on Linux, `CLOCK_MONOTONIC` does.
#[cfg(target_vendor = "apple")]
fn since_boot() -> Option<Duration> {
    read(rustix::time::ClockId::Monotonic)
}

/// Other systems have no such clock, or tokio's clock is one.
#[cfg(not(any(target_os = "android", target_os = "linux", target_vendor = "apple")))]
fn since_boot() -> Option<Duration> {
    None
}

#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
fn read(clock: rustix::time::ClockId) -> Option<Duration> {
    Duration::try_from(rustix::time::clock_gettime(clock)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_clock_runs_at_its_rate_from_when_it_is_set() {
        let clock = MonotonicClock::tokio();
        tokio::time::sleep(4 * SECOND).await;
        clock.set_rate(0.5);
        tokio::time::sleep(4 * SECOND).await;
        clock.set_rate(2.0);
        tokio::time::sleep(4 * SECOND).await;
        clock.set_rate(f64::NAN);
        clock.set_rate(-1.0);
        assert_eq!(clock.now(), 14 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_follows_the_rate_while_it_waits() {
        let clock = MonotonicClock::tokio();
        let begun = Instant::now();
        let faster = async {
            tokio::time::sleep(4 * SECOND).await;
            clock.set_rate(3.0);
        };
        futures_util::future::join(clock.sleep_until(10 * SECOND), faster).await;
        // Tokio's timers have a resolution of one millisecond.
        let elapsed = begun.elapsed();
        assert!(elapsed >= 6 * SECOND && elapsed < 6 * SECOND + SECOND / 100, "{elapsed:?}");
        clock.set_rate(0.7);
        clock.sleep_until(12 * SECOND).await;
        assert!(clock.now() >= 12 * SECOND && clock.now() < 12 * SECOND + SECOND / 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_after_a_suspend() {
        let clock = MonotonicClock::tokio();
        let begun = Instant::now();
        let suspend = async {
            tokio::time::sleep(SECOND).await;
            clock.advance(20 * SECOND);
        };
        futures_util::future::join(clock.sleep_until(10 * SECOND), suspend).await;
        assert_eq!((begun.elapsed(), clock.now()), (SECOND, 21 * SECOND));
    }

    #[tokio::test]
    async fn the_system_clock_keeps_up_with_real_time() {
        let clock = MonotonicClock::system();
        let begun = Instant::now();
        clock.sleep_until(Duration::from_millis(20)).await;
        assert!(begun.elapsed() >= Duration::from_millis(15), "{:?}", begun.elapsed());
        assert!(clock.now() >= begun.elapsed());
        assert_eq!(since_boot().is_some(), cfg!(unix));
    }

    #[tokio::test(start_paused = true)]
    async fn the_system_clock_follows_a_paused_clock_of_tokio() {
        let clock = MonotonicClock::system();
        tokio::time::sleep(3600 * SECOND).await;
        assert!(clock.now() >= 3600 * SECOND);
    }
}
