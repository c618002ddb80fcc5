//! An API server that is down for an hour, and what follows.

use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use evenkeel::leader::LeaderElection;
use evenkeel::prelude::*;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::harness::{Fault, Running, World, key, next, recording, start, stop, until};

const HOUR: Duration = Duration::from_secs(3600);
/// The longest step of the backoff, with its jitter.
const BACKOFF_STEP: Duration = Duration::from_secs(60);

/// A manager that reconciles ConfigMaps and caches two more types.
async fn operator(
    world: &World,
    election: Option<LeaderElection>,
) -> (Manager, Running, mpsc::Receiver<Key>) {
    world.create_map("a").await;
    let manager = Manager::builder("test")
        .deterministic(1, "2026-01-01T00:00:00Z".parse().unwrap())
        .leader_election(election)
        .build(world.client());
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager
        .controller(reconciler)
        .reads::<ServiceAccount>()
        .reads_with::<Secret>(TypeOptions::new().namespaces(["default"]))
        .register()
        .unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, key("a"));
    (manager, running, received)
}

/// Lets the API server be down for an hour; returns the requests meanwhile.
async fn outage(world: &World) -> Vec<String> {
    world.requests();
    world.rule(|_| Fault::Refuse);
    world.break_connections();
    sleep(HOUR).await;
    world.requests()
}

/// Returns the lists among the requests; not the checks of the history, which read one object.
fn lists(requests: &[String]) -> usize {
    let list = |line: &&String| {
        line.starts_with("GET")
            && (!line.contains("watch=true") || line.contains("sendInitialEvents"))
            && !line.ends_with("limit=1")
            && !line.contains("/leases")
    };
    requests.iter().filter(list).count()
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_api_server_costs_few_requests_and_no_relist() {
    let world = World::new().await;
    let (manager, running, mut received) = operator(&world, None).await;
    let requests = outage(&world).await;
    // One per type and backoff step, of at least 30 seconds after the first minute.
    assert!(requests.len() < 3 * 130, "{} requests in an hour", requests.len());
    assert!(!manager.readiness().is_ready());
    world.create_map("b").await;
    world.rule(|_| Fault::None);
    let begun = Instant::now();
    assert_eq!(next(&mut received).await, key("b"));
    assert!(begun.elapsed() <= BACKOFF_STEP, "{:?}", begun.elapsed());
    until(|| manager.readiness().is_ready()).await;
    assert!(begun.elapsed() <= BACKOFF_STEP, "{:?}", begun.elapsed());
    sleep(Duration::from_secs(60)).await;
    let requests = world.requests();
    assert_eq!(lists(&requests), 0, "watches are resumed: {requests:#?}");
    assert!(received.try_recv().is_err(), "nothing else has changed");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_returns_empty_after_an_hour_is_listed_once_per_type() {
    let world = World::new().await;
    let (manager, running, mut received) = operator(&world, None).await;
    outage(&world).await;
    // Its history begins anew.
    world.replace_server().await;
    world.create_map("fresh").await;
    world.rule(|_| Fault::None);
    let begun = Instant::now();
    let mut keys = [next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys, [key("a"), key("fresh")], "one is gone, one is new");
    assert!(begun.elapsed() <= BACKOFF_STEP, "{:?}", begun.elapsed());
    until(|| manager.readiness().is_ready()).await;
    sleep(Duration::from_secs(60)).await;
    assert!(manager.client().get::<ConfigMap>(&key("a")).await.unwrap().is_none());
    assert_eq!(manager.client().list::<ConfigMap>().await.unwrap().len(), 1);
    let requests = world.requests();
    // Watches from versions that the new server does not have are rejected first.
    assert!(lists(&requests) <= 2 * 3, "{requests:#?}");
    assert!(requests.len() < 60, "{requests:#?}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_replaced_behind_its_address_leaves_no_phantom_objects() {
    let world = World::new().await;
    let (manager, running, mut received) = operator(&world, None).await;
    world.requests();
    world.replace_server().await;
    world.break_connections();
    world.create_map("fresh").await;
    let begun = Instant::now();
    let mut keys = [next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys, [key("a"), key("fresh")]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(manager.client().list::<ConfigMap>().await.unwrap().len(), 1);
    let requests = world.requests();
    assert!(lists(&requests) <= 2 * 3, "{requests:#?}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_elected_again_within_a_retry_after_an_hour_without_the_api_server() {
    let world = World::new().await;
    let options = LeaderElection::new().namespace("default").reelect(true);
    let (manager, running, mut received) = operator(&world, Some(options)).await;
    let requests = outage(&world).await;
    assert!(!manager.leader_elections()[0].is_leader());
    assert!(manager.leader_elections()[0].check().is_err());
    let leases = requests.iter().filter(|line| line.contains("/leases")).count();
    // Every retry period, with jitter, and the watch.
    assert!((800..2000).contains(&leases), "{leases} requests for the lease");
    world.rule(|_| Fault::None);
    let begun = Instant::now();
    manager.elected().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(next(&mut received).await, key("a"), "a new term reconciles everything");
    assert!(begun.elapsed() < BACKOFF_STEP);
    stop(&manager, running).await;
}
