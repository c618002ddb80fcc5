//! Lists all objects of a type whose decoded size exceeds the cache's budget: 50,000 pods.
//!
//! The rivals are controller-runtime's cached client, which deep-copies every object it lists, and
//! kube-runtime's store, which keeps every object decoded. Each runs in its own process, and so
//! does the server, so that its time and memory are not counted.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::ValueEnum as _;
use evenkeel::Object;
use evenkeel::cache::TypeOptions;
use evenkeel::{Kind, prelude::*};
use futures_util::StreamExt as _;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kube_runtime::reflector::{self, Store};
use kube_runtime::{WatchStreamExt as _, watcher};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::cache::{Side, objects};
use crate::figure::{Figure, Report, Target};
use crate::probe::{process_cpu_time, resident};
use crate::server::{Process, TOKEN};

const PODS: usize = 50_000;

/// The number of rounds; the fastest counts.
const ROUNDS: usize = 3;

/// The cost of a list: CPU time in milliseconds and memory in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Usage {
    time: f64,
    /// The memory of the process while the result is held, or the peak while iterating.
    memory: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// The memory of the process after the sync.
    synced: f64,
    /// All objects in one result.
    list: Usage,
    /// All objects, decoded one at a time.
    lazy: Option<Usage>,
}

/// The memory allowed for decoded objects: the default budget of the cache plus 20 %.
const MOST: f64 = 1.2 * (64 << 20) as f64;

pub(crate) async fn list(report: &mut Report) -> anyhow::Result<()> {
    let server = Process::start()?;
    fill(&server).await?;
    let ours = run(Side::Ours, &server)?;
    let kube = run(Side::Rival, &server)?;
    let go = controller_runtime(report, &server)?;
    let lazy = ours.lazy.context("no lazy list")?;
    let mut add = |what, unit, ours, target, rival| {
        report.add(&Figure { what, unit, ours, target, rival });
    };
    let faster = Some(Target::Faster(1.0));
    let go_time = go.as_ref().map(|go| go.list.time);
    add("50,000 pods, one at a time: CPU (Go's list)", "ms", lazy.time, faster, go_time);
    let growth = |usage: Usage| (usage.memory - ours.synced).max(0.0) / 1e6;
    add("  memory beyond the cache", "MB", growth(lazy), Some(Target::AtMost(MOST / 1e6)), None);
    add("  list of all, held: CPU (Go's list)", "ms", ours.list.time, faster, go_time);
    let go_growth = go.map(|go| (go.list.memory - go.synced) / 1e6);
    add("  … memory beyond the cache (Go's)", "MB", growth(ours.list), None, go_growth);
    add("  … CPU (kube-runtime's)", "ms", ours.list.time, None, Some(kube.list.time));
    add(
        "  memory of the cache (kube-runtime's)",
        "MB",
        ours.synced / 1e6,
        None,
        Some(kube.synced / 1e6),
    );
    Ok(())
}

/// Creates the pods.
async fn fill(server: &Process) -> anyhow::Result<()> {
    const CONNECTIONS: usize = 8;
    let mut connection = server.endpoint.connect().await?;
    for at in 0..objects::NAMESPACES {
        let name = objects::namespace(at);
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let (status, _) =
            connection.exchange(Method::POST, "/api/v1/namespaces", body.into()).await?;
        anyhow::ensure!(status.is_success(), "cannot create namespace {name}: {status}");
    }
    let mut tasks = JoinSet::new();
    for first in 0..CONNECTIONS {
        let endpoint = server.endpoint.clone();
        tasks.spawn(async move {
            let mut connection = endpoint.connect().await?;
            for at in (first..PODS).step_by(CONNECTIONS) {
                let key = objects::key(at);
                let path = Kind::of::<Pod>().path(key.namespace());
                let body = objects::pod(&key).to_string();
                let (status, _) = connection.exchange(Method::POST, &path, body.into()).await?;
                anyhow::ensure!(status.is_success(), "cannot create a pod: {status}");
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Measures in a child process.
fn run(side: Side, server: &Process) -> anyhow::Result<Measured> {
    let side = side.to_possible_value().context("unnamed side")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["list-all", side.get_name(), &server.endpoint.url()]);
    read(&mut command)
}

fn read(command: &mut Command) -> anyhow::Result<Measured> {
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| format!("the process printed {text:?}"))
}

/// Builds and runs the Go program, if Go is installed.
fn controller_runtime(report: &Report, server: &Process) -> anyhow::Result<Option<Measured>> {
    let what = "  beside controller-runtime";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("rival/controller-runtime");
    let program = std::env::temp_dir().join(format!("evenkeel-bench-list-{}", std::process::id()));
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output();
    match built {
        Err(error) => {
            report.skip(what, &format!("Go cannot be run: {error}"));
            return Ok(None);
        }
        Ok(built) if !built.status.success() => {
            report.skip(what, &format!("{}", String::from_utf8_lossy(&built.stderr)));
            return Ok(None);
        }
        Ok(_) => {}
    }
    let measured = read(Command::new(&program).args([&server.endpoint.url(), TOKEN]));
    let _ = std::fs::remove_file(&program);
    measured.map(Some)
}

/// Runs in the child process.
#[expect(clippy::print_stdout, reason = "the result of the process")]
pub(crate) async fn child(side: Side, url: &str) -> anyhow::Result<()> {
    let client = crate::server::client(url)?;
    let measured = match side {
        Side::Ours => ours::<Pod>(client).await?,
        Side::Rival => rival::<Pod>(client).await?,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

async fn ours<K: Object>(client: Client) -> anyhow::Result<Measured> {
    let manager = Manager::builder("bench").build(client);
    let cache = manager.cache();
    let kind = Kind::of::<K>();
    cache.declare(&kind, TypeOptions::new())?;
    let informer = cache.informer(&kind)?;
    informer.wait_until_synced().await?;
    let synced = resident("self")?;
    anyhow::ensure!(informer.list().entries()?.len() == PODS, "objects are missing");

    let mut lazy = Usage { time: f64::MAX, memory: 0.0 };
    for _ in 0..ROUNDS {
        let busy = process_cpu_time()?;
        let (mut count, mut memory) = (0, 0.0_f64);
        for pod in manager.client().list::<K>().lazy().await? {
            black_box(pod?);
            count += 1;
            if count % 5_000 == 0 {
                memory = memory.max(resident("self")?);
            }
        }
        lazy.least((process_cpu_time()? - busy).as_secs_f64() * 1e3, memory);
    }

    let mut list = Usage { time: f64::MAX, memory: 0.0 };
    for _ in 0..ROUNDS {
        let busy = process_cpu_time()?;
        let pods = manager.client().list::<K>().await?;
        let memory = resident("self")?;
        black_box(&pods);
        drop(pods);
        list.least((process_cpu_time()? - busy).as_secs_f64() * 1e3, memory);
    }
    Ok(Measured { synced, list, lazy: Some(lazy) })
}

impl Usage {
    /// Keeps the minimum time and the maximum memory.
    fn least(&mut self, time: f64, memory: f64) {
        self.time = self.time.min(time);
        self.memory = self.memory.max(memory);
    }
}

async fn rival<K: Object>(client: Client) -> anyhow::Result<Measured> {
    let (store, writer): (Store<K>, _) = reflector::store();
    let stream = watcher(Api::<K>::all(client), watcher::Config::default().streaming_lists());
    let mut stream = std::pin::pin!(stream.default_backoff().reflect(writer));
    let mut ready = std::pin::pin!(store.wait_until_ready());
    loop {
        tokio::select! {
            biased;
            ready = &mut ready => break ready?,
            event = stream.next() => { event.context("the stream ended")??; }
        }
    }
    let synced = resident("self")?;
    anyhow::ensure!(store.len() == PODS, "objects are missing");
    let mut list = Usage { time: f64::MAX, memory: 0.0 };
    for _ in 0..ROUNDS {
        let busy = process_cpu_time()?;
        let pods = store.state();
        let memory = resident("self")?;
        drop(black_box(pods));
        list.least((process_cpu_time()? - busy).as_secs_f64() * 1e3, memory);
    }
    Ok(Measured { synced, list, lazy: None })
}
