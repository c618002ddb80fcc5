//! A month of virtual time: tasks, watches, caches and memory stay as they are.
//!
//! `cargo xtask campaign soak 0..30` runs 30 days, a day per seed; CI runs a quarter of a day.

use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use evenkeel::kube::Api;
use evenkeel::kube::api::DeleteParams;
use evenkeel::prelude::*;
use tokio::time::{Instant, sleep};

use crate::harness::{World, each, start, stop, until};

/// The objects at any time.
const OBJECTS: u64 = 20;

/// How often the oldest object is replaced by a new one.
const CHURN: Duration = Duration::from_secs(600);

/// What must not grow.
#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    tasks: usize,
    requests: usize,
    config_maps: usize,
    children: usize,
}

/// Returns the resident memory of this process in bytes, where the system reports it.
fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[tokio::test(start_paused = true)]
async fn nothing_grows_in_a_long_run() {
    let days = std::env::var("EVENKEEL_SEEDS").ok().map(|text| {
        let (from, to) = text.split_once("..").expect("EVENKEEL_SEEDS is a range FROM..TO");
        to.parse::<u32>().unwrap() - from.parse::<u32>().unwrap()
    });
    let slices = days.unwrap_or(4);
    // A slice is a day, or in CI an hour and a half.
    let slice = Duration::from_secs(if days.is_some() { 86_400 } else { 5_400 });
    let world = World::new().await;
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(|key, object, client| async move {
        if object.is_none() {
            return Ok(Action::done());
        }
        let mut child = ServiceAccount::default();
        child.metadata.name = Some(key.name().to_owned());
        child.metadata.namespace = Some("default".to_owned());
        let now = format!("{:?}", Instant::now());
        child.metadata.annotations = Some([("at".to_owned(), now)].into());
        client.apply(&child).force().await?;
        Ok(Action::requeue_after(Duration::from_secs(300)))
    });
    let controller = manager.controller(reconciler).reads::<ServiceAccount>().register().unwrap();
    let running = start(&manager);
    for index in 0..OBJECTS {
        world.create_map(&format!("map-{index}")).await;
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(world.admin());
    let children: Api<ServiceAccount> = Api::default_namespaced(world.admin());
    let client = manager.client().clone();
    let (mut oldest, mut samples) = (0, Vec::new());
    for _ in 0..slices {
        let end = Instant::now() + slice;
        while Instant::now() < end {
            world.create_map(&format!("map-{}", oldest + OBJECTS)).await;
            let name = format!("map-{oldest}");
            maps.delete(&name, &DeleteParams::default()).await.unwrap();
            children.delete(&name, &DeleteParams::default()).await.unwrap();
            oldest += 1;
            sleep(CHURN).await;
            // The record of the test itself.
            world.requests();
        }
        let count = usize::try_from(OBJECTS).unwrap();
        until(|| controller.queue().is_empty() && controller.queue().processing() == 0).await;
        let sizes = Sizes {
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            requests: world.open(),
            config_maps: client.list::<ConfigMap>().await.unwrap().len(),
            children: client.list::<ServiceAccount>().await.unwrap().len(),
        };
        assert_eq!([sizes.config_maps, sizes.children], [count; 2]);
        samples.push((sizes, memory()));
    }
    let counts = controller.reconcile_counts();
    stop(&manager, running).await;
    println!("{slices} slices of {slice:?}, {} reconciles: {samples:?}", counts.requeue_after);
    // The first slices fill the event windows and the journal.
    let warm = samples.len() / 3;
    let [first, last] = [&samples[warm], &samples[samples.len() - 1]];
    assert_eq!(first.0, last.0);
    if let (Some(before), Some(after), Some(_)) = (first.1, last.1, days) {
        let growth = after as f64 / before as f64 - 1.0;
        let per_day = growth / f64::from(slices - u32::try_from(warm).unwrap());
        println!("memory {before} to {after} bytes: {:.4} % per day", per_day * 100.0);
        assert!(per_day <= 0.001, "memory grows by {:.4} % per day", per_day * 100.0);
    }
}
