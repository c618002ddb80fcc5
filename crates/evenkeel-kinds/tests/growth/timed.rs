//! Measures how the time of a function grows with its input.

use std::time::Duration;

/// Faster work cannot be measured reliably.
const NEGLIGIBLE: Duration = Duration::from_millis(3);
/// Ratio of the larger to the smaller input.
pub(crate) const FACTOR: usize = 8;
/// Maximum ratio of times. Linear work takes eight times as long, and slightly more because of
/// caches and sorting. Quadratic work takes sixty-four times as long, or less if other work is
/// included.
const LIMIT: f64 = 18.0;

/// Returns the ratio of the times of two runs, the larger with [`FACTOR`] times the input, if the
/// work is superlinear.
///
/// Other processes can only slow a run down, through the caches. The minimum of several runs is
/// used, and more runs are made before work counts as superlinear, so a busy machine makes the test
/// slower but does not make it fail.
pub(crate) fn superlinear(large: impl Fn(), mut small: impl FnMut()) -> Option<f64> {
    let mut most = time(&large);
    if most < NEGLIGIBLE {
        return None;
    }
    // The first run also prepares the input.
    small();
    let mut least = time(&mut small);
    for _ in 0..8 {
        if most.as_secs_f64() < LIMIT * least.as_secs_f64() {
            return None;
        }
        most = most.min(time(&large));
        if most < NEGLIGIBLE {
            return None;
        }
        least = least.min(time(&mut small));
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
