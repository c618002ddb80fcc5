//! The cache of the runtime compared with kube-runtime's reflector, with the same server.
//!
//! Each measurement runs in a new process, because memory freed by an earlier one would distort it.
//! The server runs in the same process, so that no network is measured; its memory is included
//! before and after.

pub(super) mod objects;

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use evenkeel::cache::TypeOptions;
use evenkeel::{Key, Kind, Manager, Object};
use futures_util::{FutureExt as _, StreamExt as _};
use kube::{Api, Client};
use kube_runtime::reflector::{self, ObjectRef, Store};
use kube_runtime::{WatchStreamExt as _, watcher};
use serde::{Deserialize, Serialize};

use self::objects::{NAMESPACES, Widget};
use crate::figure::{Figure, Report, Target};
use crate::probe::{Stopwatch, resident, thread_cpu_time};

const OBJECTS: usize = 100_000;

/// The number of objects that are read repeatedly; decoded, they fit into the budget.
const HOT: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    Ours,
    Rival,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Objects {
    Pods,
    Widgets,
}

/// The result of a process; times in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// CPU time per object from the first request to a synced store, including the server's.
    sync: f64,
    /// Memory per object after the sync.
    bytes: f64,
    /// Memory of all objects after each was read once, decoded.
    swept: f64,
    /// Time of one get of a hot object through the client.
    get: f64,
    /// Time per object of a list of a namespace.
    listed: f64,
}

pub(crate) fn cache(report: &mut Report) -> anyhow::Result<()> {
    for (objects, share) in [(Objects::Widgets, 3.0), (Objects::Pods, 5.0)] {
        let ours = run(Side::Ours, objects)?;
        let rival = run(Side::Rival, objects)?;
        let mut add = |what: &'static str, unit, ours, target, rival| {
            report.add(&Figure { what, unit, ours, target: Some(target), rival });
        };
        let named = |pods, widgets| if objects == Objects::Pods { pods } else { widgets };
        add(
            named("sync of 100,000 pods, each", "sync of 100,000 custom resources, each"),
            "µs",
            ours.sync / 1e3,
            Target::Faster(2.5),
            Some(rival.sync / 1e3),
        );
        add("  memory of each", "bytes", ours.bytes, Target::Faster(share), Some(rival.bytes));
        if objects == Objects::Pods {
            add("  … at most", "bytes", ours.bytes, Target::AtMost(4_500.0), None);
            let most = (64 << 20) as f64 + 4_500.0 * OBJECTS as f64;
            add(
                "  all after a sweep of typed reads",
                "MB",
                ours.swept / 1e6,
                Target::AtMost(most / 1e6),
                Some(rival.swept / 1e6),
            );
        }
        let bound = Target::Faster(1.0 / 1.5);
        add("  get of a hot one", "ns", ours.get, bound, Some(rival.get));
        add(
            "  list of a namespace, each",
            "ns",
            ours.listed,
            Target::AtMost(100.0),
            Some(rival.listed),
        );
    }
    Ok(())
}

/// Starts a server with `count` pods.
pub(crate) async fn pods(count: usize) -> anyhow::Result<evenkeel_apiserver::ApiServer> {
    objects::fill(Objects::Pods, count).await
}

/// Measures in a child process.
fn run(side: Side, objects: Objects) -> anyhow::Result<Measured> {
    let word = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let output = Command::new(std::env::current_exe()?)
        .arg("sync")
        .arg(word(&|| side.to_possible_value()))
        .arg(word(&|| objects.to_possible_value()))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| {
        format!("it printed {text:?} and {:?}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Runs in the child process.
#[expect(clippy::print_stdout, reason = "the result of the process")]
pub(crate) async fn child(side: Side, objects: Objects) -> anyhow::Result<()> {
    let server = objects::fill(objects, OBJECTS).await?;
    let client = Client::new(server.service(), "default");
    let measured = match (side, objects) {
        (Side::Ours, Objects::Pods) => ours::<k8s_openapi::api::core::v1::Pod>(client).await?,
        (Side::Ours, Objects::Widgets) => ours::<Widget>(client).await?,
        (Side::Rival, Objects::Pods) => rival::<k8s_openapi::api::core::v1::Pod>(client).await?,
        (Side::Rival, Objects::Widgets) => rival::<Widget>(client).await?,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// The memory and CPU time used by a sync.
struct Usage {
    memory: f64,
    time: std::time::Duration,
}

impl Usage {
    fn start() -> anyhow::Result<Self> {
        Ok(Self { memory: resident("self")?, time: thread_cpu_time()? })
    }

    fn stop(&self) -> anyhow::Result<(f64, f64)> {
        let time = thread_cpu_time()? - self.time;
        let memory = resident("self")? - self.memory;
        Ok((time.as_nanos() as f64 / OBJECTS as f64, memory))
    }
}

/// Returns the mean time of `count` calls, with pseudo-random indexes.
fn timed(count: usize, mut call: impl FnMut(usize)) -> f64 {
    let watch = Stopwatch::start();
    let mut at = 1;
    for _ in 0..count {
        at = (at * 7_919 + 13) % OBJECTS;
        call(at);
    }
    watch.elapsed().as_nanos() as f64 / count as f64
}

async fn ours<K: Object>(client: Client) -> anyhow::Result<Measured> {
    let usage = Usage::start()?;
    let manager = Manager::builder("bench").build(client);
    let (client, cache) = (manager.client(), manager.cache());
    let kind = Kind::of::<K>();
    cache.declare(&kind, TypeOptions::new())?;
    let informer = cache.informer(&kind)?;
    informer.wait_until_synced().await?;
    let (sync, memory) = usage.stop()?;
    anyhow::ensure!(informer.stats().objects == OBJECTS, "objects are missing");

    for entry in informer.list().entries()? {
        black_box(cache.typed::<K>(&entry)?);
    }
    let (_, swept) = usage.stop()?;

    let keys: Vec<Key> = (0..HOT).map(objects::key).collect();
    let read = |key: &Key| client.get::<K>(key).now_or_never()?.ok()?;
    anyhow::ensure!(keys.iter().all(|key| read(key).is_some()), "an object is missing");
    let get = timed(1_000_000, |at| {
        black_box(read(&keys[at % HOT]));
    });
    let per_namespace = OBJECTS / NAMESPACES;
    let list = timed(1_000, |at| {
        let namespace = objects::namespace(at % NAMESPACES);
        let found = informer.list().in_namespace(&namespace).entries().unwrap_or_default();
        assert_eq!(black_box(found).len(), per_namespace);
    });
    let listed = list / per_namespace as f64;
    Ok(Measured { sync, bytes: memory / OBJECTS as f64, swept, get, listed })
}

async fn rival<K: Object>(client: Client) -> anyhow::Result<Measured> {
    let usage = Usage::start()?;
    let api: Api<K> = Api::all(client);
    let (store, writer): (Store<K>, _) = reflector::store();
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream.reflect(writer));
    let ready = store.wait_until_ready();
    let mut ready = std::pin::pin!(ready);
    loop {
        tokio::select! {
            biased;
            ready = &mut ready => break ready?,
            event = stream.next() => { event.context("the stream ended")??; }
        }
    }
    let (sync, memory) = usage.stop()?;
    anyhow::ensure!(store.len() == OBJECTS, "objects are missing");

    for object in store.state() {
        black_box(object);
    }
    let (_, swept) = usage.stop()?;

    let keys: Vec<ObjectRef<K>> = (0..HOT)
        .map(|at| {
            let key = objects::key(at);
            ObjectRef::new(key.name()).within(key.namespace().unwrap_or_default())
        })
        .collect();
    anyhow::ensure!(keys.iter().all(|key| store.get(key).is_some()), "an object is missing");
    let get = timed(1_000_000, |at| {
        black_box(store.get(&keys[at % HOT]));
    });
    let per_namespace = OBJECTS / NAMESPACES;
    let list = timed(100, |at| {
        let namespace = objects::namespace(at % NAMESPACES);
        let in_it = |object: &Arc<K>| object.meta().namespace.as_deref() == Some(&namespace);
        let found: Vec<_> = store.state().into_iter().filter(in_it).collect();
        assert_eq!(black_box(found).len(), per_namespace);
    });
    let listed = list / per_namespace as f64;
    Ok(Measured { sync, bytes: memory / OBJECTS as f64, swept, get, listed })
}
