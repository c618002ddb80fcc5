//! The same operator written for Evenkeel and for kube-runtime, against the same server: the
//! processor time, the wake-ups and the time it takes until every object is in its final state.
//!
//! Each primary gets one ConfigMap by server-side apply and a status with a condition. The operator
//! is a process of its own and so is the server; what the server takes is not counted. *Converge*
//! starts with nothing but the primaries; *restart* starts where everything is as it should be.

mod objects;

mod ours;

mod rival;

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::cache::Side;
use crate::figure::{Figure, Report, Target};
use crate::probe::{self, Stopwatch};
use crate::server::Process;

const PRIMARIES: usize = 5_000;

/// How many reconciles may run at a time, on both sides.
const WORKERS: u16 = 8;

/// How many other processes keep the machine busy in the second part.
const BUSY: usize = 20;

/// What an operator's process measured from its start to the last object.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// Processor time, all threads, in seconds.
    processor: f64,
    /// Elapsed time, in seconds.
    elapsed: f64,
    reconciles: f64,
    /// How often a thread went to sleep until it was woken.
    sleeps: f64,
}

/// Processor time of both operators on a machine of their own.
pub(crate) async fn converge(report: &mut Report) -> anyhow::Result<()> {
    let [[ours, ours_again], [rival, rival_again]] =
        [both(Side::Ours, WORKERS).await?, both(Side::Rival, WORKERS).await?];
    for (what, ours, rival) in [
        ("converge of 5,000 objects, processor time", ours, rival),
        ("restart of those, processor time", ours_again, rival_again),
    ] {
        report.add(&Figure {
            what,
            unit: "s",
            ours: ours.processor,
            target: Some(Target::Faster(1.0)),
            rival: Some(rival.processor),
        });
        let per = |count: f64| count / PRIMARIES as f64;
        let mut add = |what, ours, rival| {
            report.add(&Figure { what, unit: "", ours, target: None, rival: Some(rival) });
        };
        add("  reconciles per object", per(ours.reconciles), per(rival.reconciles));
        add("  thread wake-ups per object", per(ours.sleeps), per(rival.sleeps));
    }
    Ok(())
}

/// Elapsed time of both operators while other processes want the processors too.
pub(crate) async fn busy(report: &mut Report) -> anyhow::Result<()> {
    let others = Spinning::start(BUSY)?;
    for (what, again, workers) in [
        ("converge beside 20 busy processes, 8 workers", "  restart, 8 workers", WORKERS),
        ("converge beside 20 busy processes, 1 worker", "  restart, 1 worker", 1),
    ] {
        let [ours, ours_again] = both(Side::Ours, workers).await?;
        let [rival, rival_again] = both(Side::Rival, workers).await?;
        for (what, ours, rival) in [(what, ours, rival), (again, ours_again, rival_again)] {
            let target = Some(Target::Faster(1.0));
            let (ours, rival) = (ours.elapsed, Some(rival.elapsed));
            report.add(&Figure { what, unit: "s", ours, target, rival });
        }
    }
    drop(others);
    Ok(())
}

/// Converges and restarts one side's operator against a server of its own.
async fn both(side: Side, workers: u16) -> anyhow::Result<[Measured; 2]> {
    let server = Process::start()?;
    objects::fill(&server.endpoint, PRIMARIES).await?;
    Ok([run(side, &server, workers)?, run(side, &server, workers)?])
}

/// Measures in a process of its own.
fn run(side: Side, server: &Process, workers: u16) -> anyhow::Result<Measured> {
    let side = side.to_possible_value().context("a side without a name")?;
    let output = Command::new(std::env::current_exe()?)
        .args(["converge-operator", side.get_name(), &server.endpoint.url()])
        .arg(workers.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| format!("the operator printed {text:?}"))
}

/// The process that measures.
#[expect(clippy::print_stdout, reason = "its result")]
pub(crate) async fn child(side: Side, url: &str, workers: u16) -> anyhow::Result<()> {
    let client = crate::server::client(url)?;
    let progress = Progress::start()?;
    match side {
        Side::Ours => ours::run(client, workers, progress.clone()).await?,
        Side::Rival => rival::run(client, workers, progress.clone()).await?,
    }
    println!("{}", serde_json::to_string(&progress.measured()?)?);
    Ok(())
}

/// Which objects are in their final state, and what it took.
struct Progress {
    watch: Stopwatch,
    reconciled: Mutex<Reconciled>,
    all: Notify,
}

#[derive(Default)]
struct Reconciled {
    count: usize,
    settled: HashSet<String>,
}

impl Progress {
    fn start() -> anyhow::Result<std::sync::Arc<Self>> {
        let watch = Stopwatch::start();
        Ok(Self { watch, reconciled: Mutex::default(), all: Notify::new() }.into())
    }

    /// Counts a reconcile of this object, which found it in its final state or not.
    fn reconciled(&self, name: &str, settled: bool) {
        let mut reconciled = self.reconciled.lock();
        reconciled.count += 1;
        if settled && !reconciled.settled.contains(name) {
            reconciled.settled.insert(name.to_owned());
            if reconciled.settled.len() == PRIMARIES {
                self.all.notify_one();
            }
        }
    }

    /// Waits until all are in their final state.
    async fn done(&self) {
        self.all.notified().await;
    }

    fn measured(&self) -> anyhow::Result<Measured> {
        Ok(Measured {
            elapsed: self.watch.elapsed().as_secs_f64(),
            processor: probe::process_cpu_time()?.as_secs_f64(),
            sleeps: probe::wake_ups("self")? as f64,
            reconciles: self.reconciled.lock().count as f64,
        })
    }
}

/// Processes that do nothing but compute; they end when this is dropped.
struct Spinning(Vec<Child>);

impl Spinning {
    fn start(count: usize) -> anyhow::Result<Self> {
        let mut spinning = Self(Vec::with_capacity(count));
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            spinning.0.push(command.arg("spin").stdin(Stdio::null()).spawn()?);
        }
        Ok(spinning)
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The busy process itself. It ends by itself if the parent does not end it.
pub(crate) fn spin() {
    let watch = Stopwatch::start();
    while watch.elapsed() < Duration::from_secs(600) {
        std::hint::spin_loop();
    }
}
