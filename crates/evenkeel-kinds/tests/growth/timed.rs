//! Measures how the time of a function grows with its input.

use std::time::Duration;

/// Faster work cannot be measured reliably.
const NEGLIGIBLE: Duration = Duration::from_millis(3);
/// Ratio of the larger to the smaller input.
const FACTOR: usize = 8;
/// Maximum ratio of times. Linear work takes eight times as long, and slightly more because of
/// caches and sorting. Quadratic work takes sixty-four times as long, or less if other work is
/// included.
const LIMIT: f64 = 18.0;
/// Maximum ratio of the times for twice the larger input and for the larger input. An input that
/// fits in the cache can be so much faster that linear work exceeds [`LIMIT`]; neither of these two
/// fits. Linear work takes twice as long, and work that exceeds [`LIMIT`] because a part of it is
/// quadratic takes 3.3 times as long.
const DOUBLED: f64 = 2.7;

/// Returns the ratio of the times for [`FACTOR`] times `n` and for `n` elements if the work is
/// superlinear.
///
/// Other processes can only slow a run down, through the caches. The minimum of several runs is
/// used, and more runs are made before work counts as superlinear, so a busy machine makes the test
/// slower but does not make it fail.
pub(crate) fn superlinear(n: usize, mut work: impl FnMut(usize)) -> Option<f64> {
    let large = FACTOR * n;
    if time(|| work(large)) < NEGLIGIBLE {
        return None;
    }
    let ratio = exceeds(LIMIT, large, n, &mut work)?;
    exceeds(DOUBLED, 2 * large, large, &mut work)?;
    Some(ratio)
}

/// Returns the ratio of the times for `large` and for `small` elements if it exceeds `limit` in
/// every one of several runs.
fn exceeds(limit: f64, large: usize, small: usize, mut work: impl FnMut(usize)) -> Option<f64> {
    let (mut most, mut least) = (Duration::MAX, Duration::MAX);
    // The first run also prepares the input.
    work(small);
    for _ in 0..8 {
        most = most.min(time(|| work(large)));
        least = least.min(time(|| work(small)));
        if most < NEGLIGIBLE || most.as_secs_f64() < limit * least.as_secs_f64() {
            return None;
        }
    }
    Some(most.as_secs_f64() / least.as_secs_f64())
}

fn time(mut work: impl FnMut()) -> Duration {
    let start = now();
    work();
    now().saturating_sub(start)
}

/// Returns the CPU time of this thread, which excludes other processes.
#[cfg(target_os = "linux")]
fn now() -> Duration {
    // The kernel updates the value when it schedules.
    std::thread::yield_now();
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat is readable");
    let nanoseconds = stat.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.expect("schedstat starts with a number"))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the time that work takes is what is measured")]
fn now() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}
