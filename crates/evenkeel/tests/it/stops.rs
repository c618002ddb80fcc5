//! Stops at random moments: every run ends within the grace period and leaves nothing behind.
//!
//! `cargo xtask campaign stops 1..1001` runs one stop per seed.

use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use evenkeel::leader::LeaderElection;
use evenkeel::manager::RunError;
use evenkeel::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::handovers::seeds;
use crate::harness::{Fault, World, each, map, until};

/// Beyond the grace period: to cancel what is left.
const MARGIN: Duration = Duration::from_millis(500);

/// A generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }
}

/// What happens to the API server, from a random moment on.
fn fault(kind: u64) -> impl Fn(&http::Request<evenkeel::kube::client::Body>) -> Fault {
    move |request| match kind {
        0..=3 => Fault::None,
        4 => Fault::Hang,
        5 => Fault::HangAfterRequest,
        6 => Fault::Refuse,
        7 => Fault::Respond(503, "busy"),
        _ if request.uri().path().contains("/leases") => Fault::Hang,
        _ => Fault::None,
    }
}

async fn run(seed: u64) -> Result<Duration, String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create_map(name).await;
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let election = (random.below(2) == 0).then(|| LeaderElection::new().namespace("default"));
    let leading = election.is_some();
    let manager = Manager::builder("test")
        .deterministic(seed, "2026-01-01T00:00:00Z".parse().unwrap())
        .leader_election(election)
        .build(world.client());
    let work = random.millis(3000);
    let reconciler = each::<ConfigMap, _, _>(move |key, _, client| async move {
        sleep(work).await;
        let mut change = map(key.name());
        change.data = Some([("at".to_owned(), format!("{:?}", Instant::now()))].into());
        client.apply(&change).force().await?;
        Ok(Action::requeue_after(Duration::from_millis(100)))
    });
    manager
        .controller(reconciler)
        .reads::<ServiceAccount>()
        .watches_with::<Secret>(TypeOptions::new().namespaces(["default"]), |_, _| Vec::new())
        .workers(2)
        .register()
        .unwrap();
    let drain = random.millis(5000);
    let run = move |stop: evenkeel::manager::Stop| async move {
        stop.requested().await;
        sleep(drain).await;
        Ok(())
    };
    manager.spawn_without_leader_election("every replica", run).unwrap();
    manager.spawn("leader", run).unwrap();
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));

    let kind = random.below(10);
    sleep(Duration::from_micros(random.below(20_000))).await;
    sleep(random.millis(4).saturating_mul(1000)).await;
    world.rule(fault(kind));
    if kind == 6 {
        world.break_connections();
    }
    sleep(random.millis(3).saturating_mul(1000)).await;
    let begun = Instant::now();
    manager.stop();
    let ended = tokio::time::timeout(Duration::from_secs(3600), running.join_next()).await;
    let took = begun.elapsed();
    match ended.map_err(|_| "it does not end")?.unwrap().unwrap() {
        Ok(()) => {}
        // A reconcile waits for a response.
        Err(RunError::ShutdownTimedOut { .. }) if kind >= 4 => {}
        Err(RunError::LeaderElectionLost(_)) if kind >= 4 && leading => {}
        Err(error) => return Err(evenkeel::chain(&error)),
    }
    if took > Duration::from_secs(30) + MARGIN {
        return Err(format!("the stop took {took:?}"));
    }
    drop((manager, running));
    let clean = async { until(|| world.open() == 0 && tasks() <= before).await };
    if tokio::time::timeout(Duration::from_secs(5), clean).await.is_err() {
        let left = tasks() - before;
        return Err(format!("left behind: {} requests, {left} tasks", world.open()));
    }
    world.requests();
    sleep(Duration::from_secs(120)).await;
    match world.requests() {
        requests if requests.is_empty() => Ok(took),
        requests => Err(format!("requests after the end: {requests:?}")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_any_moment_ends_in_time_and_leaves_nothing_behind() {
    let (mut count, mut longest) = (0, Duration::ZERO);
    for seed in seeds(1..41) {
        match run(seed).await {
            Ok(took) => longest = longest.max(took),
            Err(error) => panic!("seed {seed}: {error}"),
        }
        count += 1;
    }
    println!("{count} stops; the longest took {longest:?}");
}
