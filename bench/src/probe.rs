//! What is read off the machine: elapsed time, processor time, memory.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// A running stopwatch. Real time, whatever tokio's clock does.
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

/// The time this thread has spent on a processor.
pub(crate) fn thread_cpu_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("no schedstat")?;
    let nanos = text.split(' ').next().unwrap_or("").parse().context("odd schedstat")?;
    Ok(Duration::from_nanos(nanos))
}

/// The time all threads of this process have spent on a processor.
pub(crate) fn process_cpu_time() -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task").context("no threads")? {
        let text = fs::read_to_string(thread?.path().join("schedstat")).context("no schedstat")?;
        nanos += text.split(' ').next().unwrap_or("").parse::<u64>().context("odd schedstat")?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// The memory a process keeps in RAM, in bytes. `self` is a process too.
pub(crate) fn resident(process: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).context("no such process")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().context("odd VmRSS")?;
    Ok(kilobytes * 1024.0)
}

/// How often the threads of a process have gone to sleep, and so been woken.
pub(crate) fn wake_ups(process: &str) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task")).context("no such process")? {
        let text = fs::read_to_string(thread?.path().join("status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.context("no count of switches")?.trim().parse::<u64>()?;
    }
    Ok(sum)
}

/// How many files and threads this process has open.
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

/// How long each thing is repeated that [`best`] measures.
const PATIENCE: Duration = Duration::from_millis(300);

/// The time of one call in the fastest round. A round is as many calls as take a millisecond.
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
    while watch.elapsed() < PATIENCE {
        fastest = fastest.min(round(calls));
    }
    fastest / calls
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
