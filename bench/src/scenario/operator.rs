//! A whole operator: what it takes when there is nothing to do, and how it comes back to a cluster
//! full of objects.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use evenkeel::cache::TypeOptions;
use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::api::{Patch, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::figure::{Figure, Report, Target};
use crate::probe::{self, Stopwatch, milliseconds, resident};
use crate::server::{self, Process};

const PRIMARIES: usize = 50_000;
const WORKERS: usize = 8;

/// What a reconcile waits for, as it would for an answer of the API server.
const WORK: Duration = Duration::from_millis(2);

/// How often somebody changes an object meanwhile.
const EVERY: Duration = Duration::from_millis(10);

/// An operator starts where there are many objects already. Each has to be looked at once, and who
/// changes one meanwhile should not have to wait until all others have had their turn.
pub(crate) async fn restart(report: &mut Report) -> anyhow::Result<()> {
    let server = server::build().await?;
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for number in 0..PRIMARIES {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{number:05}"));
        maps.create(&PostParams::default(), &map).await?;
    }

    let seen: Arc<Mutex<Seen>> = Arc::default();
    let noting = seen.clone();
    let reconciler = reconciler_fn(move |map: Arc<ConfigMap>, _| {
        noting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).note(&map);
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

    // Changed from the far end, so that the initial look has not been there yet.
    let (mut times, mut changed) = (Vec::new(), 0);
    while seen.lock().map_or(0, |seen| seen.objects.len()) < PRIMARIES {
        let name = format!("map-{:05}", PRIMARIES - 1 - changed % PRIMARIES);
        changed += 1;
        let patch = Patch::Merge(json!({"data": {"changed": changed.to_string()}}));
        let begun = Instant::now();
        let version = maps.patch(&name, &Default::default(), &patch).await?;
        let version = version.metadata.resource_version.unwrap_or_default();
        times.push((name, version, begun));
        tokio::time::sleep(EVERY).await;
    }
    let all = watch.elapsed();
    manager.stop();
    running.join_next().await.context("it does not run")???;

    let seen = seen.lock().map_err(|_| anyhow::anyhow!("a reconcile panicked"))?;
    let looks: usize = seen.objects.values().map(|look| look.count).sum();
    let mut waits = Vec::new();
    for (name, version, begun) in times {
        let look = seen.objects.get(&name).context("not looked at")?;
        // The last ones may be changed after everything else is done.
        if let Some((_, at)) = look.versions.iter().find(|(seen, _)| *seen >= parse(&version)) {
            waits.push(at.duration_since(begun));
        }
    }
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    let add = |what, unit, ours, target| Figure { what, unit, ours, target, rival: None };
    report.add(&add("restart with 50,000 objects: all looked at", "s", all.as_secs_f64(), None));
    let twice = looks.saturating_sub(PRIMARIES + changed) as f64;
    report.add(&add(
        "  looks beyond one each and one a change",
        "",
        twice,
        Some(Target::AtMost(0.0)),
    ));
    let bound = Some(Target::AtMost(1_000.0));
    report.add(&add("  a change meanwhile until it is seen, p99", "ms", milliseconds(p99), bound));
    Ok(())
}

/// Which objects were looked at, and when at which version.
#[derive(Default)]
struct Seen {
    objects: HashMap<String, Look>,
}

#[derive(Default)]
struct Look {
    count: usize,
    versions: Vec<(u64, Instant)>,
}

impl Seen {
    fn note(&mut self, map: &ConfigMap) {
        let version = parse(map.metadata.resource_version.as_deref().unwrap_or_default());
        let look = self.objects.entry(map.name_any()).or_default();
        look.count += 1;
        look.versions.push((version, Instant::now()));
    }
}

fn parse(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// How long an idle operator is watched.
const IDLE: Duration = Duration::from_secs(10);

/// An operator with ten informers in a process of its own, and nothing for it to do.
pub(crate) async fn idle(report: &mut Report) -> anyhow::Result<()> {
    let server = Process::start()?;
    let operator = Operator::start(&server)?;
    // It has listed everything by then; what it needed for that is given back or not.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let memory = resident(&operator.id())?;
    let before = probe::wake_ups(&operator.id())?;
    tokio::time::sleep(IDLE).await;
    let woken = probe::wake_ups(&operator.id())? - before;
    report.add(&Figure {
        what: "idle operator with ten informers: memory",
        unit: "MB",
        ours: memory / 1e6,
        target: Some(Target::AtMost(15.0)),
        rival: None,
    });
    report.add(&Figure {
        what: "  how often it wakes up",
        unit: "/s",
        ours: woken as f64 / IDLE.as_secs_f64(),
        target: Some(Target::AtMost(0.5)),
        rival: None,
    });
    Ok(())
}

/// The process with the operator; it ends when this is dropped.
struct Operator(Child);

impl Operator {
    fn start(server: &Process) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["operator", &server.endpoint.url()]).stdin(Stdio::null());
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

/// The operator itself.
pub(crate) async fn child(url: &str) -> anyhow::Result<()> {
    let manager = Manager::builder("bench").build(server::client(url)?);
    let reconciler = reconciler_fn(|_: Arc<Deployment>, _| async { Ok(Action::done()) });
    manager
        .controller(reconciler)
        .owns::<ReplicaSet>()
        .owns::<StatefulSet>()
        .owns::<DaemonSet>()
        .owns::<Job>()
        .owns::<CronJob>()
        .owns::<Pod>()
        .owns::<PersistentVolumeClaim>()
        .reads::<ConfigMap>()
        .reads_with::<Secret>(TypeOptions::new().cluster_wide_secrets())
        .register()?;
    Ok(manager.run().await?)
}
