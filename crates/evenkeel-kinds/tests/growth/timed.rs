//! How the time of some work grows with its input.

use std::time::Duration;

/// Work that is faster than this cannot hurt, and cannot be measured.
const NEGLIGIBLE: Duration = Duration::from_millis(3);
/// How much more input the larger run has.
pub(crate) const FACTOR: usize = 8;
/// Linear work takes eight times as long, and a little more because of caches and sorting;
/// quadratic work takes sixty-four times as long, or less where other work is done beside it.
const LIMIT: f64 = 18.0;

/// The ratio of the times of two runs, the larger with [`FACTOR`] times the input of the smaller,
/// if it is that of superlinear work.
///
/// Other processes can only make a run longer, by way of the caches. So the minimum of several runs
/// counts, and more runs are made before work counts as superlinear: a busy machine makes the test
/// slower, and does not make it fail.
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

/// Processor time of this thread: that of other processes does not count.
#[cfg(target_os = "linux")]
fn now() -> Duration {
    // The system brings the figure up to date when it looks for another thread to run.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("is readable");
    let nanoseconds = stat.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.expect("starts with a number"))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the time that work takes is what is measured")]
fn now() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}
