//! What metrics and tracing cost: their part of a reconcile, and a scrape.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use evenkeel::manager::{BindAddress, RunError};
use evenkeel::metrics::{Buckets, Counter, Histogram, Registry};
use evenkeel::prelude::*;
use evenkeel::{ControllerHandle, Key};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tracing::subscriber::NoSubscriber;

use crate::figure::{Figure, Report, Target};
use crate::probe::{Stopwatch, best, median, milliseconds, thread_cpu_time};
use crate::server;

const OBJECTS: usize = 10_000;
const ROUNDS: usize = 15;

/// Measures no-op reconciles of cached objects on one thread, and what of that time metrics and
/// tracing take. Metrics cannot be switched off, so the operations of one reconcile are measured
/// alone; tracing is measured by reconciles with and without a subscriber that records nothing.
pub(crate) async fn overhead(report: &mut Report) -> anyhow::Result<()> {
    let (manager, mut running) = start(1, OBJECTS).await?;
    let controller = manager.controllers().into_iter().next().context("no controller")?;
    let keys = keys(OBJECTS);
    reconcile_all(&controller, &keys).await?;
    let mut without = Vec::new();
    for _ in 0..ROUNDS {
        without.push(reconcile_all(&controller, &keys).await?);
    }
    let guard = tracing::subscriber::set_default(NoSubscriber::new());
    let mut with = Vec::new();
    for _ in 0..ROUNDS {
        with.push(reconcile_all(&controller, &keys).await?);
    }
    drop(guard);
    manager.stop();
    running.join_next().await.context("the manager did not start")???;

    let nanos = |times: Vec<Duration>| {
        let fastest = times.into_iter().min().unwrap_or_default();
        fastest.as_secs_f64() * 1e9 / OBJECTS as f64
    };
    let (without, with) = (nanos(without), nanos(with));
    let metrics = metrics_of_a_reconcile()?.as_secs_f64() * 1e9;
    let tracing = (with - without).max(0.0);
    let bare = without - metrics;
    let add = |what, unit, ours, target| Figure { what, unit, ours, target, rival: None };
    report.add(&add("no-op reconcile of a cached object", "ns", with, None));
    report.add(&add("  of which metrics", "ns", metrics, None));
    report.add(&add("  of which tracing with a no-op subscriber", "ns", tracing, None));
    let share = 100.0 * (metrics + tracing) / bare;
    report.add(&add("  both, of the rest", "%", share, Some(Target::AtMost(3.0))));
    Ok(())
}

/// Returns the time of the operations on metrics that a reconcile without an error does.
fn metrics_of_a_reconcile() -> anyhow::Result<Duration> {
    let registry = Registry::new();
    let one = ["controller"];
    let wide = Buckets::exponential(10e-9, 10.0, 12);
    // The duration of a reconcile is printed twice.
    let (time, _) = Histogram::pair(Buckets::new(&RECONCILE_TIMES), wide.clone());
    let queue = registry.histograms("queue", "", one, wide)?.with(["bench"]);
    let count =
        |name| Ok::<Counter, anyhow::Error>(registry.counters(name, "", one)?.with(["bench"]));
    let (success, cause) = (count("success_total")?, count("cause_total")?);
    let observe = |histogram: &Histogram, duration: Duration| {
        histogram.observe_duration(std::hint::black_box(duration));
    };
    Ok(best(|| {
        success.inc();
        cause.inc();
        observe(&time, Duration::from_nanos(700));
        observe(&queue, Duration::from_micros(1500));
    }))
}

/// As many bounds as those of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_TIMES: [f64; 40] = {
    let mut bounds = [0.0; 40];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = 0.005 * (at + 1) as f64;
        at += 1;
    }
    bounds
};

const CONTROLLERS: usize = 100;
const QUEUE_OPERATIONS: usize = 1_000_000;
const SCRAPED_OBJECTS: usize = 1_000;

/// Scrapes an operator with 100 controllers after a million queue operations.
pub(crate) async fn scrape(report: &mut Report) -> anyhow::Result<()> {
    let (manager, mut running) = start(CONTROLLERS, SCRAPED_OBJECTS).await?;
    let controllers = manager.controllers();
    let keys = keys(SCRAPED_OBJECTS);
    // Each reconcile adds a key, takes it and completes it.
    for _ in 0..QUEUE_OPERATIONS / CONTROLLERS / SCRAPED_OBJECTS {
        for controller in &controllers {
            reconcile_all(controller, &keys).await?;
        }
    }
    let address = manager.metrics_address().context("no metrics server")?;
    let mut times = Vec::new();
    let mut size = 0;
    for _ in 0..21 {
        let watch = Stopwatch::start();
        size = get(address).await?;
        times.push(watch.elapsed());
    }
    manager.stop();
    running.join_next().await.context("the manager did not start")???;
    let add = |what, unit, ours, target| Figure { what, unit, ours, target, rival: None };
    let time = milliseconds(median(times));
    report.add(&add("scrape of 100 controllers", "ms", time, Some(Target::AtMost(5.0))));
    report.add(&add("  size", "kB", size as f64 / 1e3, None));
    Ok(())
}

/// Gets `/metrics` over a new connection and returns the size of the response.
async fn get(address: SocketAddr) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    anyhow::ensure!(response.starts_with(b"HTTP/1.1 200"), "/metrics does not return 200");
    Ok(response.len())
}

type Running = JoinSet<Result<(), RunError>>;

/// Starts an operator whose controllers do nothing with `objects` objects of an in-process server.
async fn start(controllers: usize, objects: usize) -> anyhow::Result<(Manager, Running)> {
    let server = server::build().await?;
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for key in keys(objects) {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(key.name().to_owned());
        maps.create(&PostParams::default(), &map).await?;
    }
    let manager = Manager::builder("bench")
        .metrics_bind_address(BindAddress::At((Ipv4Addr::LOCALHOST, 0).into()))
        .metrics_secure(false)
        .build(client);
    for number in 0..controllers {
        let reconciler = reconciler_fn(|_: Arc<ConfigMap>, _| async { Ok(Action::done()) });
        manager
            .controller(reconciler)
            .named(&format!("controller-{number}"))
            .workers(1)
            .register()?;
    }
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));
    manager.wait_until_synced().await?;
    for controller in manager.controllers() {
        reconciled(&controller, objects as u64).await;
    }
    Ok((manager, running))
}

fn keys(objects: usize) -> Vec<Key> {
    (0..objects).map(|number| Key::namespaced("default", &format!("map-{number:05}"))).collect()
}

/// Reconciles every key once and returns the CPU time of that.
async fn reconcile_all(controller: &ControllerHandle, keys: &[Key]) -> anyhow::Result<Duration> {
    let before = controller.reconcile_counts().success;
    let begin = thread_cpu_time()?;
    for key in keys {
        controller.enqueue(key.clone(), "bench");
    }
    reconciled(controller, before + keys.len() as u64).await;
    Ok(thread_cpu_time()? - begin)
}

async fn reconciled(controller: &ControllerHandle, count: u64) {
    while controller.reconcile_counts().success < count {
        tokio::task::yield_now().await;
    }
}
