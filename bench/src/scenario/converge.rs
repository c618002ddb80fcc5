//! Runs the same operator written for Evenkeel and for kube-runtime against the same server: CPU
//! time, wake-ups and elapsed time until every object has converged.
//!
//! Each primary has one ConfigMap, written by server-side apply, and a status with a condition. The
//! operator and the server are separate processes; the server's cost is not counted. *Converge*
//! starts with only the primaries; *restart* starts with all objects converged.

mod objects;

mod ours;

mod rival;

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use evenkeel::Manager;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;

use crate::figure::{Figure, Report, Target};
use crate::probe::{self, Stopwatch};
use crate::server::Process;

const PRIMARIES: usize = 5_000;

/// Number of concurrent reconciles, on both sides.
const WORKERS: u16 = 8;

/// Number of other busy processes in the second part.
const BUSY: usize = 20;

/// How an operator is written and connects to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operator {
    /// For Evenkeel, with the manager's own connection.
    Ours,
    /// For Evenkeel, with a `kube::Client` created by the program.
    OursWithClient,
    /// For kube-runtime.
    Rival,
}

/// What the process of an operator measured from its start until all objects converged.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// CPU time of all threads, in seconds.
    cpu: f64,
    /// Elapsed time, in seconds.
    elapsed: f64,
    reconciles: f64,
    /// Number of polls of a reconcile: one to start it, and one for each wake-up.
    polls: f64,
    /// Number of times a thread slept until it was woken.
    wake_ups: f64,
}

/// Measures the CPU time of the operators on an otherwise idle machine.
pub(crate) async fn converge(report: &mut Report) -> anyhow::Result<()> {
    let [ours, ours_restart] = converge_and_restart(Operator::Ours, WORKERS).await?;
    let [with_client, with_client_restart] =
        converge_and_restart(Operator::OursWithClient, WORKERS).await?;
    let [rival, rival_restart] = converge_and_restart(Operator::Rival, WORKERS).await?;
    for (what, ours, with_client, rival) in [
        ("converge of 5,000 objects, CPU time", ours, with_client, rival),
        ("restart of those, CPU time", ours_restart, with_client_restart, rival_restart),
    ] {
        report.add(&Figure {
            what,
            unit: "s",
            ours: ours.cpu,
            target: Some(Target::Faster(1.0)),
            rival: Some(rival.cpu),
        });
        let per = |count: f64| count / PRIMARIES as f64;
        let mut add = |what, ours, rival| {
            report.add(&Figure { what, unit: "", ours, target: None, rival: Some(rival) });
        };
        add("  reconciles per object", per(ours.reconciles), per(rival.reconciles));
        add("  thread wake-ups per object", per(ours.wake_ups), per(rival.wake_ups));
        let polls = |measured: &Measured| measured.polls / measured.reconciles;
        add("  polls of a reconcile", polls(&ours), polls(&rival));
        add("  … with a kube::Client of the program", polls(&with_client), polls(&rival));
    }
    Ok(())
}

/// Measures the elapsed time of both operators while other processes keep the CPUs busy.
pub(crate) async fn busy(report: &mut Report) -> anyhow::Result<()> {
    let others = BusyProcesses::start(BUSY)?;
    for (what, restart, workers) in [
        ("converge with 20 busy processes, 8 workers", "  restart, 8 workers", WORKERS),
        ("converge with 20 busy processes, 1 worker", "  restart, 1 worker", 1),
    ] {
        let [ours, ours_restart] = converge_and_restart(Operator::Ours, workers).await?;
        let [rival, rival_restart] = converge_and_restart(Operator::Rival, workers).await?;
        for (what, ours, rival) in [(what, ours, rival), (restart, ours_restart, rival_restart)] {
            let target = Some(Target::Faster(1.0));
            let (ours, rival) = (ours.elapsed, Some(rival.elapsed));
            report.add(&Figure { what, unit: "s", ours, target, rival });
        }
    }
    drop(others);
    Ok(())
}

/// Converges and restarts an operator with a new server.
async fn converge_and_restart(operator: Operator, workers: u16) -> anyhow::Result<[Measured; 2]> {
    let server = Process::start()?;
    objects::fill(&server.endpoint, PRIMARIES).await?;
    Ok([run(operator, &server, workers)?, run(operator, &server, workers)?])
}

/// Measures in a separate process.
fn run(operator: Operator, server: &Process, workers: u16) -> anyhow::Result<Measured> {
    let operator = operator.to_possible_value().context("the operator has no name")?;
    let output = Command::new(std::env::current_exe()?)
        .args(["converge-operator", operator.get_name(), &server.endpoint.url()])
        .arg(workers.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| format!("the operator printed {text:?}"))
}

/// The entry point of the measuring process.
#[expect(clippy::print_stdout, reason = "the result is printed")]
pub(crate) async fn child(operator: Operator, url: &str, workers: u16) -> anyhow::Result<()> {
    let progress = Progress::start()?;
    let manager = Manager::builder("bench");
    match operator {
        Operator::Ours => {
            let kubeconfig = Kubeconfig::write(url)?;
            let manager = manager.kubeconfig(kubeconfig.0.clone()).connect().await?;
            ours::run(&manager, workers, progress.clone()).await?;
        }
        Operator::OursWithClient => {
            let manager = manager.build(crate::server::client(url)?);
            ours::run(&manager, workers, progress.clone()).await?;
        }
        Operator::Rival => {
            rival::run(crate::server::client(url)?, workers, progress.clone()).await?;
        }
    }
    println!("{}", serde_json::to_string(&progress.measured()?)?);
    Ok(())
}

/// A kubeconfig for the server at a URL. Removed on drop.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn write(url: &str) -> anyhow::Result<Self> {
        let cluster = json!({ "server": url, "insecure-skip-tls-verify": true });
        let config = json!({
            "clusters": [{ "name": "bench", "cluster": cluster }],
            "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": "bench" } }],
            "users": [{ "name": "bench", "user": { "token": crate::server::TOKEN } }],
            "current-context": "bench",
        });
        let name = format!("evenkeel-bench-{}.kubeconfig", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        std::fs::write(&file.0, config.to_string())?;
        Ok(file)
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The objects that have converged, and the cost.
struct Progress {
    watch: Stopwatch,
    polls: AtomicU64,
    reconciled: Mutex<Reconciled>,
    all: Notify,
}

#[derive(Default)]
struct Reconciled {
    count: usize,
    converged: HashSet<String>,
}

impl Progress {
    fn start() -> anyhow::Result<Arc<Self>> {
        let (watch, polls) = (Stopwatch::start(), AtomicU64::new(0));
        Ok(Self { watch, polls, reconciled: Mutex::default(), all: Notify::new() }.into())
    }

    /// Runs the reconcile and counts its polls.
    async fn count_polls<F: Future>(self: Arc<Self>, reconcile: F) -> F::Output {
        let mut reconcile = pin!(reconcile);
        let poll = |context: &mut std::task::Context<'_>| {
            self.polls.fetch_add(1, Ordering::Relaxed);
            reconcile.as_mut().poll(context)
        };
        std::future::poll_fn(poll).await
    }

    /// Counts a reconcile of an object, and whether it had converged.
    fn reconciled(&self, name: &str, converged: bool) {
        let mut reconciled = self.reconciled.lock();
        reconciled.count += 1;
        if converged && !reconciled.converged.contains(name) {
            reconciled.converged.insert(name.to_owned());
            if reconciled.converged.len() == PRIMARIES {
                self.all.notify_one();
            }
        }
    }

    /// Waits until all objects have converged.
    async fn done(&self) {
        self.all.notified().await;
    }

    fn measured(&self) -> anyhow::Result<Measured> {
        Ok(Measured {
            elapsed: self.watch.elapsed().as_secs_f64(),
            cpu: probe::process_cpu_time()?.as_secs_f64(),
            wake_ups: probe::wake_ups("self")? as f64,
            reconciles: self.reconciled.lock().count as f64,
            polls: self.polls.load(Ordering::Relaxed) as f64,
        })
    }
}

/// Processes that only use CPU. Killed on drop.
struct BusyProcesses(Vec<Child>);

impl BusyProcesses {
    fn start(count: usize) -> anyhow::Result<Self> {
        let mut processes = Self(Vec::with_capacity(count));
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            processes.0.push(command.arg("spin").stdin(Stdio::null()).spawn()?);
        }
        Ok(processes)
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The entry point of a busy process. It ends after ten minutes if the parent does not kill it.
pub(crate) fn spin() {
    let watch = Stopwatch::start();
    while watch.elapsed() < Duration::from_secs(600) {
        std::hint::spin_loop();
    }
}
