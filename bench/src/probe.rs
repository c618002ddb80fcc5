//! Measurements of the machine: elapsed time, CPU time, memory, wake-ups.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// A running stopwatch of real time, independent of tokio's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
        let now = Instant::now();
        Self(now)
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Returns the CPU time of this thread.
pub(crate) fn thread_cpu_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("no schedstat")?;
    let nanos = text.split(' ').next().unwrap_or("").parse().context("invalid schedstat")?;
    Ok(Duration::from_nanos(nanos))
}

/// Returns the CPU time of all threads of this process.
pub(crate) fn process_cpu_time() -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task").context("no threads")? {
        let text = fs::read_to_string(thread?.path().join("schedstat")).context("no schedstat")?;
        nanos +=
            text.split(' ').next().unwrap_or("").parse::<u64>().context("invalid schedstat")?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Returns the resident memory of a process in bytes. `process` is a process id or `self`.
pub(crate) fn resident(process: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).context("no such process")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().context("invalid VmRSS")?;
    Ok(kilobytes * 1024.0)
}

/// Returns the number of voluntary context switches of a process: how often a thread was woken.
pub(crate) fn wake_ups(process: &str) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task")).context("no such process")? {
        let text = fs::read_to_string(thread?.path().join("status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.context("no voluntary_ctxt_switches")?.trim().parse::<u64>()?;
    }
    Ok(sum)
}

/// Returns the number of open files and threads of this process.
pub(crate) fn handles() -> anyhow::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count() + fs::read_dir("/proc/self/task")?.count())
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How long [`best`] repeats a measurement.
const REPEAT_FOR: Duration = Duration::from_millis(300);

/// Returns the time per call in the fastest round. A round repeats the call for a millisecond.
pub(crate) fn best<T>(mut call: impl FnMut() -> T) -> Duration {
    let mut round = |calls: u32| {
        let watch = Stopwatch::start();
        for _ in 0..calls {
            std::hint::black_box(call());
        }
        watch.elapsed()
    };
    let mut calls = 1;
    while round(calls) < Duration::from_millis(1) {
        calls *= 2;
    }
    let mut fastest = Duration::MAX;
    let watch = Stopwatch::start();
    while watch.elapsed() < REPEAT_FOR {
        fastest = fastest.min(round(calls));
    }
    fastest / calls
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
