//! A whole operator: its cost when idle, and its restart with many existing objects.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::figure::{Figure, Report, Target};
use crate::probe::{self, Stopwatch, milliseconds, resident};
use crate::server::{self, Process};

const PRIMARIES: usize = 50_000;
const WORKERS: usize = 8;

/// The simulated latency of an API request in each reconcile.
const WORK: Duration = Duration::from_millis(2);

/// The interval of changes during the restart.
const EVERY: Duration = Duration::from_millis(10);

/// Starts an operator with many existing objects. Each must be reconciled once, and a concurrent
/// change must not wait until all other objects are reconciled.
pub(crate) async fn restart(report: &mut Report) -> anyhow::Result<()> {
    let server = server::build().await?;
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for number in 0..PRIMARIES {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{number:05}"));
        maps.create(&PostParams::default(), &map).await?;
    }

    let seen: Arc<Mutex<ReconcileLog>> = Arc::default();
    let log = seen.clone();
    let reconciler = reconciler_fn(move |map: Arc<ConfigMap>, _| {
        log.lock().record(&map);
        async {
            tokio::time::sleep(WORK).await;
            Ok(Action::done())
        }
    });
    let manager = Manager::builder("bench").build(client);
    manager.controller(reconciler).workers(WORKERS).register()?;
    let watch = Stopwatch::start();
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));

    // From the end, so that the initial reconcile of the object has not run yet.
    let (mut times, mut changed) = (Vec::new(), 0);
    while seen.lock().objects.len() < PRIMARIES {
        let name = format!("map-{:05}", PRIMARIES - 1 - changed % PRIMARIES);
        changed += 1;
        let patch = Patch::Merge(json!({"data": {"changed": changed.to_string()}}));
        let start = Instant::now();
        let version = maps.patch(&name, &Default::default(), &patch).await?;
        let version = version.metadata.resource_version.unwrap_or_default();
        times.push((name, version, start));
        tokio::time::sleep(EVERY).await;
    }
    let all = watch.elapsed();
    manager.stop();
    running.join_next().await.context("the manager did not start")???;

    let seen = seen.lock();
    let reconciles: usize = seen.objects.values().map(|object| object.count).sum();
    let mut waits = Vec::new();
    for (name, version, start) in times {
        let object = seen.objects.get(&name).context("not reconciled")?;
        // The last changes may not be reconciled before the manager stops.
        if let Some((_, at)) = object.versions.iter().find(|(seen, _)| *seen >= parse(&version)) {
            waits.push(at.duration_since(start));
        }
    }
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    let add = |what, unit, ours, target| Figure { what, unit, ours, target, rival: None };
    report.add(&add("restart with 50,000 objects: all reconciled", "s", all.as_secs_f64(), None));
    let twice = reconciles.saturating_sub(PRIMARIES + changed) as f64;
    report.add(&add(
        "  reconciles beyond one per object and change",
        "",
        twice,
        Some(Target::AtMost(0.0)),
    ));
    let bound = Some(Target::AtMost(1_000.0));
    report.add(&add("  latency of a change meanwhile, p99", "ms", milliseconds(p99), bound));
    Ok(())
}

/// The reconciles of each object, with time and resourceVersion.
#[derive(Default)]
struct ReconcileLog {
    objects: HashMap<String, ObjectLog>,
}

#[derive(Default)]
struct ObjectLog {
    count: usize,
    versions: Vec<(u64, Instant)>,
}

impl ReconcileLog {
    fn record(&mut self, map: &ConfigMap) {
        let version = parse(map.metadata.resource_version.as_deref().unwrap_or_default());
        let object = self.objects.entry(map.name_any()).or_default();
        object.count += 1;
        object.versions.push((version, Instant::now()));
    }
}

fn parse(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// How long an idle operator is measured.
const IDLE: Duration = Duration::from_secs(10);

/// Measures an idle operator with ten informers in a child process, alone and with everything that a
/// manager can serve.
pub(crate) async fn idle(report: &mut Report) -> anyhow::Result<()> {
    idle_operator(report, "idle operator with ten informers: memory", false, 15.0).await?;
    idle_operator(report, "idle operator with everything on: memory", true, 20.0).await
}

async fn idle_operator(
    report: &mut Report,
    what: &'static str,
    everything: bool,
    megabytes: f64,
) -> anyhow::Result<()> {
    let server = Process::start()?;
    let operator = Operator::start(&server, everything)?;
    // Its caches are synced by then.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let memory = resident(&operator.id())?;
    let before = probe::wake_ups(&operator.id())?;
    tokio::time::sleep(IDLE).await;
    let woken = probe::wake_ups(&operator.id())? - before;
    let target = Some(Target::AtMost(megabytes));
    report.add(&Figure { what, unit: "MB", ours: memory / 1e6, target, rival: None });
    let per_second = woken as f64 / IDLE.as_secs_f64();
    // A leader renews its lease every two seconds.
    let target = (!everything).then_some(Target::AtMost(0.5));
    report.add(&Figure { what: "  wake-ups", unit: "/s", ours: per_second, target, rival: None });
    Ok(())
}

/// The operator process, killed on drop.
struct Operator(Child);

impl Operator {
    fn start(server: &Process, everything: bool) -> anyhow::Result<Self> {
        let mut command = Command::new(executable()?);
        command.args([&server.endpoint.url(), server::TOKEN]).stdin(Stdio::null());
        if everything {
            command.arg("--everything");
        }
        Ok(Self(command.spawn()?))
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds the idle operator and returns its path. It is an executable of its own, since the pages of
/// an executable count as memory, and this one contains the API server and the rivals.
fn executable() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments =
        ["build", "--release", "--quiet", "-p", "evenkeel-bench", "--bin", "idle-operator"];
    let built = Command::new(cargo).args(arguments).status().context("no cargo")?;
    anyhow::ensure!(built.success(), "cannot build idle-operator: {built}");
    Ok(std::env::current_exe()?.with_file_name("idle-operator"))
}
