//! Poisoned keys: of all objects 1 % panic, 1 % hang and 1 % always conflict. The others converge,
//! and new events of them are not delayed.
//!
//! `cargo xtask campaign poisoned 0..1` runs 10,000 objects, CI 1,000.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::{Patch, PatchParams};
use evenkeel::prelude::*;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::harness::{World, each, start, stop, until};

/// How long a reconcile takes.
const WORK: Duration = Duration::from_millis(20);

/// The time between two events.
const PACE: Duration = Duration::from_millis(1);

/// The workers: more than hanging objects, since each of those occupies one until its timeout.
fn workers(objects: u64) -> usize {
    usize::try_from(objects / 50 + 40).unwrap()
}

/// What an object does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Poison {
    Panic,
    Hang,
    Conflict,
}

fn poison(name: &str) -> Option<Poison> {
    match name.rsplit('-').next().unwrap().parse::<u64>().unwrap() % 100 {
        0 => Some(Poison::Panic),
        1 => Some(Poison::Hang),
        2 => Some(Poison::Conflict),
        _ => None,
    }
}

/// The objects that converged, and how long the events of healthy objects took, ascending.
struct Outcome {
    converged: usize,
    latencies: Vec<Duration>,
}

async fn run(objects: u64, poisoned: bool) -> Outcome {
    let world = World::new().await;
    let names: Vec<String> = (0..objects).map(|index| format!("map-{index}")).collect();
    for name in &names {
        world.create_map(name).await;
    }
    let healthy: Vec<&String> = names.iter().filter(|name| poison(name).is_none()).collect();
    let converged = Arc::new(Mutex::new(BTreeSet::new()));
    let sent = Arc::new(Mutex::new(BTreeMap::<String, Instant>::new()));
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let (done, times, events) = (converged.clone(), latencies.clone(), sent.clone());
    let reconciler = each::<ConfigMap, _, _>(move |key, _, client| {
        let (done, times, events) = (done.clone(), times.clone(), events.clone());
        async move {
            match poison(key.name()).filter(|_| poisoned) {
                Some(Poison::Panic) => panic!("poisoned"),
                Some(Poison::Hang) => std::future::pending().await,
                Some(Poison::Conflict) => {
                    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}});
                    client.patch::<ConfigMap>(&key, &Patch::Merge(stale)).await?;
                }
                None => sleep(WORK).await,
            }
            done.lock().insert(key.name().to_owned());
            if let Some(sent) = events.lock().remove(key.name()) {
                times.lock().push(sent.elapsed());
            }
            Ok(Action::done())
        }
    });
    let manager = world.manager();
    let controller = manager.controller(reconciler).workers(workers(objects));
    controller.reconcile_timeout(Duration::from_secs(60)).register().unwrap();
    let running = start(&manager);
    let all = || healthy.iter().all(|name| converged.lock().contains(*name));
    until(all).await;

    let api: Api<ConfigMap> = Api::default_namespaced(world.admin());
    for (index, name) in healthy.iter().enumerate() {
        sent.lock().insert((*name).clone(), Instant::now());
        let change = Patch::Merge(json!({"data": {"change": index.to_string()}}));
        api.patch(name, &PatchParams::default(), &change).await.unwrap();
        sleep(PACE).await;
    }
    until(|| sent.lock().is_empty()).await;
    // Hanging reconciles end with the grace period.
    manager.stop();
    drop(running.ended().await);
    let mut latencies = std::mem::take(&mut *latencies.lock());
    latencies.sort();
    let converged = converged.lock().len();
    Outcome { converged, latencies }
}

fn p99(latencies: &[Duration]) -> Duration {
    latencies[latencies.len() * 99 / 100]
}

#[tokio::test(start_paused = true)]
async fn poisoned_keys_do_not_delay_others() {
    let objects = if std::env::var_os("EVENKEEL_SEEDS").is_some() { 10_000 } else { 1_000 };
    let [clean, poisoned] = [run(objects, false).await, run(objects, true).await];
    let healthy = usize::try_from(objects / 100 * 97).unwrap();
    assert_eq!(clean.converged, usize::try_from(objects).unwrap());
    assert_eq!(poisoned.converged, healthy);
    assert_eq!(poisoned.latencies.len(), healthy);
    let [before, after] = [&clean, &poisoned].map(|it| p99(&it.latencies));
    println!(
        "{healthy} of {objects} objects converged; p99 of an event {before:?}, {after:?} beside poison"
    );
    assert!(after <= before.mul_f64(1.1), "{before:?}, {after:?} beside poison");
}

#[tokio::test(start_paused = true)]
async fn one_worker_survives_panics_and_conflicts() {
    let world = World::new().await;
    for name in ["map-100", "map-102", "map-3"] {
        world.create_map(name).await;
    }
    let done = Arc::new(Mutex::new(0));
    let count = done.clone();
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(move |key, _, _| {
        let count = count.clone();
        async move {
            assert!(poison(key.name()).is_none(), "poisoned");
            *count.lock() += 1;
            Ok(Action::done())
        }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    until(|| *done.lock() == 1).await;
    stop(&manager, running).await;
}
