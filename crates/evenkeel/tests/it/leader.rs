//! Leader election: which replica acts, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::chain;
use evenkeel::controller::Phase;
use evenkeel::k8s_openapi::api::coordination::v1::Lease;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::k8s_openapi::api::events::v1::Event;
use evenkeel::kube::Api;
use evenkeel::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use evenkeel::leader::{LeaderElection, LeaderElectionLost};
use evenkeel::manager::{RegisterError, RunError};
use evenkeel::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::harness::{World, map, next, recording, until};
use crate::replicas::{LEASE, Network, Replica, Work};

const SECOND: Duration = Duration::from_secs(1);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

fn replica(network: &Network, identity: &str) -> Replica {
    Replica::new(network, identity, LeaderElection::new(), RENEW_DEADLINE, Work::default())
}

/// Starts replicas one after the other; the first is the leader.
async fn started<const N: usize>(network: &Network, mut replicas: [Replica; N]) -> [Replica; N] {
    for replica in &mut replicas {
        replica.start();
        // The first has the lease, the others have seen it.
        sleep(SECOND).await;
    }
    let first = replicas[0].identity.clone();
    network.until("the first write", |commits| commits.writer == first).await;
    replicas
}

fn lost(ended: Result<(), RunError>) -> LeaderElectionLost {
    match ended.unwrap_err() {
        RunError::LeaderElectionLost(lost) => lost,
        other => panic!("{}", chain(&other)),
    }
}

/// Checks that no process did what it must not do.
fn check(network: &Network, replicas: &[&Replica]) {
    for replica in replicas {
        assert_eq!(replica.link.violations(), [""; 0], "{}", replica.identity);
    }
    assert_eq!(network.commits().foreign, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_of_three_replicas_leads_and_the_others_stand_by() {
    let network = Network::new(1).await;
    let replicas = ["a", "b", "c"].map(|name| replica(&network, name));
    let replicas = started(&network, replicas).await;
    for replica in &replicas[1..] {
        replica.link.requests();
    }
    sleep(60 * SECOND).await;
    let leaders: Vec<bool> = replicas.iter().map(Replica::is_leader).collect();
    assert_eq!(leaders, [true, false, false]);
    for replica in &replicas[1..] {
        assert!(replica.manager.readiness().is_ready(), "{:?}", replica.manager.readiness());
        assert_eq!(&*replica.manager.leader_elections()[0].holder(), "a");
        let requests = replica.link.requests();
        assert!(requests.keys().all(|it| it.starts_with("WATCH")), "{requests:?}");
    }
    check(&network, &replicas.each_ref());
    let lease = network.leases().get(LEASE).await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some("a"));
    assert_eq!(lease.lease_duration_seconds, Some(15));
    assert_eq!(lease.lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_within_a_second_of_a_graceful_stop() {
    let network = Network::new(1).await;
    let drain = Work { drain: 3 * SECOND, ..Work::default() };
    let slow = Replica::new(&network, "a", LeaderElection::new(), RENEW_DEADLINE, drain);
    let [mut first, second] = started(&network, [slow, replica(&network, "b")]).await;
    let begun = Instant::now();
    let stop = async {
        first.stop().await.unwrap();
        begun.elapsed()
    };
    let taken = async {
        network.until("the takeover", |commits| commits.writer == "b").await;
        begun.elapsed()
    };
    let (stopped, taken) = futures_util::future::join(stop, taken).await;
    assert!(stopped >= 3 * SECOND, "its work had ended: {stopped:?}");
    assert!(taken >= 3 * SECOND && taken < 4 * SECOND, "{taken:?}");
    check(&network, &[&first, &second]);
    let lease = network.leases().get(LEASE).await.unwrap().spec.unwrap();
    assert_eq!(lease.lease_transitions, Some(1));
    assert_eq!(second.manager.fencing_token(), Some(1));
    assert_eq!(first.manager.fencing_token(), None);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_within_twenty_seconds_of_a_crash() {
    let network = Network::new(1).await;
    let [mut first, second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    let begun = Instant::now();
    first.kill().await;
    network.until("the takeover", |commits| commits.writer == "b").await;
    let taken = begun.elapsed();
    assert!(taken > 12 * SECOND && taken < 20 * SECOND, "{taken:?}");
    check(&network, &[&first, &second]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_a_rival_can_hold_the_lease() {
    let network = Network::new(1).await;
    let [mut first, second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    let begun = Instant::now();
    first.link.set(|state| state.lease_cut = true);
    let error = lost(first.ended().await);
    let stopped = begun.elapsed();
    assert!(stopped <= RENEW_DEADLINE, "counted from the last renewal: {stopped:?}");
    let text = error.to_string();
    let begin = "Lease default/operator was not renewed within 10s; the last attempt failed: ";
    assert!(text.starts_with(begin), "{text}");
    assert_eq!(network.commits().holder, "a", "the lease has not expired");
    network.until("the takeover", |commits| commits.writer == "b").await;
    assert!(begun.elapsed() > 12 * SECOND);
    check(&network, &[&first, &second]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_leader_sends_nothing_when_it_continues() {
    let network = Network::new(1).await;
    let [mut first, second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    // The deadline has passed, but the lease has not expired.
    first.pause(11 * SECOND).await;
    assert_eq!(network.commits().holder, "a");
    assert!(matches!(lost(first.ended().await), LeaderElectionLost::NotRenewed { .. }));
    network.until("the takeover", |commits| commits.writer == "b").await;
    check(&network, &[&first, &second]);
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_of_the_lease_is_survived() {
    let network = Network::new(1).await;
    let [first, _second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    first.link.set(|state| state.lease_cut = true);
    sleep(4 * SECOND).await;
    first.link.set(|state| state.lease_cut = false);
    sleep(60 * SECOND).await;
    assert!(first.is_leader(), "one hanging request leaves time for another");
    check(&network, &[&first]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_at_once_when_the_lease_is_deleted_or_taken() {
    for taken in [false, true] {
        let network = Network::new(1).await;
        let [mut first] = started(&network, [replica(&network, "a")]).await;
        let begun = Instant::now();
        if taken {
            let thief = json!({ "spec": { "holderIdentity": "thief" } });
            let patch = Patch::Merge(&thief);
            network.leases().patch(LEASE, &PatchParams::default(), &patch).await.unwrap();
        } else {
            network.leases().delete(LEASE, &DeleteParams::default()).await.unwrap();
        }
        let error = lost(first.ended().await);
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        let lease = "default/operator".to_owned();
        let expected = match taken {
            true => LeaderElectionLost::Taken { lease, holder: "thief".to_owned() },
            false => LeaderElectionLost::Deleted { lease },
        };
        assert_eq!(error, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_others_to_the_lease_survive_and_do_not_end_the_term() {
    let network = Network::new(1).await;
    let [first] = started(&network, [replica(&network, "a")]).await;
    let change = json!({
        "metadata": { "labels": { "team": "shop" }, "annotations": { "note": "ours" } },
    });
    let patch = Patch::Merge(&change);
    network.leases().patch(LEASE, &PatchParams::default(), &patch).await.unwrap();
    sleep(30 * SECOND).await;
    assert!(first.is_leader());
    assert_eq!(first.manager.leader_elections()[0].slow_paths(), 1);
    let lease = network.leases().get(LEASE).await.unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["team"], "shop");
    assert_eq!(lease.metadata.annotations.unwrap()["note"], "ours");
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_polled_if_watching_it_is_forbidden() {
    let network = Network::new(1).await;
    let second = replica(&network, "b");
    second.link.set(|state| state.watch_forbidden = true);
    let [mut first, second] = started(&network, [replica(&network, "a"), second]).await;
    second.link.requests();
    sleep(60 * SECOND).await;
    let requests = second.link.requests();
    let (polls, watches) = (requests["GET leases"], requests.get("WATCH leases"));
    assert!((13..=30).contains(&polls) && watches.is_none(), "{requests:?}");
    let begun = Instant::now();
    first.stop().await.unwrap();
    network.until("the takeover", |commits| commits.writer == "b").await;
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn remote_times_are_not_compared_with_the_local_clock() {
    for time in ["1999-01-01T00:00:00.000000Z", "2199-01-01T00:00:00.000000Z"] {
        let network = Network::new(1).await;
        let lease: Lease = serde_json::from_value(json!({
            "metadata": { "name": LEASE },
            "spec": {
                "holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": time,
                "acquireTime": time, "leaseTransitions": 6,
            },
        }))
        .unwrap();
        network.leases().create(&PostParams::default(), &lease).await.unwrap();
        let begun = Instant::now();
        let [_first] = started(&network, [replica(&network, "a")]).await;
        assert!(begun.elapsed() >= 15 * SECOND, "{:?}", begun.elapsed());
        assert!(begun.elapsed() < 17 * SECOND, "{:?}", begun.elapsed());
        let lease = network.leases().get(LEASE).await.unwrap().spec.unwrap();
        assert_eq!(lease.lease_transitions, Some(7));
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_never_becomes_the_leader() {
    let network = Network::new(1).await;
    let [mut first, mut second] =
        started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    // Work of every replica takes long to stop.
    let drain = |stop: evenkeel::manager::Stop| async move {
        stop.requested().await;
        sleep(20 * SECOND).await;
        Ok(())
    };
    second.manager.spawn_without_leader_election("slow", drain).unwrap();
    sleep(SECOND).await;
    second.manager.stop();
    first.stop().await.unwrap();
    second.ended().await.unwrap();
    assert_eq!(network.commits().writer, "a");
    assert_eq!(network.commits().holder, "");
    check(&network, &[&first, &second]);
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_is_added_late_waits_for_the_election() {
    let network = Network::new(1).await;
    let [mut first, second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    let (sender, mut received) = mpsc::channel(8);
    for (replica, name) in [(&first, "a"), (&second, "b")] {
        let sender = sender.clone();
        let run = move |stop: evenkeel::manager::Stop| async move {
            let _ = sender.try_send(name);
            stop.requested().await;
            Ok(())
        };
        replica.manager.spawn("late", run).unwrap();
    }
    sleep(60 * SECOND).await;
    assert_eq!(received.try_recv(), Ok("a"));
    assert!(received.try_recv().is_err(), "the standby waits");
    first.stop().await.unwrap();
    assert_eq!(next(&mut received).await, "b");
}

#[tokio::test(start_paused = true)]
async fn elections_are_recorded_as_events_of_the_lease() {
    let network = Network::new(1).await;
    let [mut first] = started(&network, [replica(&network, "a")]).await;
    first.stop().await.unwrap();
    let events: Api<Event> = Api::namespaced(network.admin(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let notes: Vec<_> = events
        .iter()
        .filter(|event| event.regarding.as_ref().unwrap().kind.as_deref() == Some("Lease"))
        .map(|event| {
            assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
            assert_eq!(event.regarding.as_ref().unwrap().name.as_deref(), Some(LEASE));
            event.note.clone().unwrap()
        })
        .collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.contains(&"a became leader".to_owned()), "{notes:?}");
    assert!(notes.contains(&"a stopped leading".to_owned()), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_ignores_the_end_of_the_grace_period_keeps_the_lease() {
    let network = Network::new(1).await;
    let drain = Work { drain: 3600 * SECOND, ..Work::default() };
    let endless = Replica::new(&network, "a", LeaderElection::new(), RENEW_DEADLINE, drain);
    let [mut first, second] = started(&network, [endless, replica(&network, "b")]).await;
    let error = first.stop().await.unwrap_err();
    assert!(matches!(error, RunError::ShutdownTimedOut { .. }), "{error}");
    assert_eq!(network.commits().holder, "a", "not released: messages may be on their way");
    network.until("the takeover", |commits| commits.writer == "b").await;
    check(&network, &[&first, &second]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_leader_stands_for_election_again_if_configured() {
    let network = Network::new(1).await;
    let options = LeaderElection::new().reelect(true);
    let again = Replica::new(&network, "a", options, RENEW_DEADLINE, Work::default());
    let [first, mut second] = started(&network, [again, replica(&network, "b")]).await;
    let once = first.manager.spawn("once", |_| async { Ok(()) }).unwrap_err();
    assert!(matches!(&once, RegisterError::RunsOnce(name) if name == "once"), "{once}");
    first.link.set(|state| state.lease_cut = true);
    network.until("the takeover", |commits| commits.writer == "b").await;
    assert!(!first.is_leader());
    first.link.set(|state| state.lease_cut = false);
    sleep(30 * SECOND).await;
    second.stop().await.unwrap();
    network.until("the second term", |commits| commits.writer == "a").await;
    assert_eq!(first.manager.fencing_token(), Some(2));
    check(&network, &[&first, &second]);
}

#[tokio::test(start_paused = true)]
async fn health_fails_when_a_standby_does_not_reach_the_api_server() {
    let network = Network::new(1).await;
    let [_first, second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    let election = second.manager.leader_elections().remove(0);
    assert_eq!(election.check(), Ok(()));
    second.link.set(|state| state.lease_cut = true);
    sleep(30 * SECOND).await;
    assert_eq!(election.check(), Ok(()));
    sleep(30 * SECOND).await;
    let problem = election.check().unwrap_err();
    assert!(problem.starts_with("Lease default/operator could not be read for "), "{problem}");
    assert_eq!(election.check_leader(), Ok(()), "a restart would not help");
    assert!(!second.manager.readiness().is_ready());
    second.link.set(|state| state.lease_cut = false);
    sleep(60 * SECOND).await;
    assert_eq!(election.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn health_fails_when_a_process_has_lost_the_lease_and_still_runs() {
    let network = Network::new(1).await;
    let [mut first] = started(&network, [replica(&network, "a")]).await;
    let election = first.manager.leader_elections().remove(0);
    first.link.set(|state| state.lease_cut = true);
    lost(first.ended().await);
    sleep(60 * SECOND).await;
    let problem = election.check().unwrap_err();
    assert!(problem.starts_with("leader election lost: Lease default/operator"), "{problem}");
    assert_eq!(election.check_leader(), Err(problem));
}

/// The limit that the documentation of the module states.
#[tokio::test(start_paused = true)]
async fn beyond_the_margin_a_late_write_of_the_former_leader_is_committed() {
    let network = Network::new(1).await;
    let [mut first, second] = started(&network, ["a", "b"].map(|it| replica(&network, it))).await;
    first.link.set(|state| {
        state.lease_cut = true;
        state.delay = 60 * SECOND;
    });
    lost(first.ended().await);
    network.until("the takeover", |commits| commits.writer == "b").await;
    sleep(60 * SECOND).await;
    assert!(!network.commits().foreign.is_empty(), "sent in time, committed too late");
    assert_eq!(first.link.violations(), [""; 0]);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_warm_standby_reconciles_everything_after_the_takeover_without_a_list() {
    let world = World::new().await;
    for name in ["x", "y"] {
        world.create_map(name).await;
    }
    let options = || LeaderElection::new().id("warm").namespace("default");
    let manager = |identity: &str| {
        Manager::builder("test")
            .deterministic(1, "2026-01-01T00:00:00Z".parse().unwrap())
            .leader_election(options().identity(identity))
            .build(world.client())
    };
    let (first, second) = (manager("a"), manager("b"));
    let (reconciler, mut led) = recording::<ConfigMap>();
    first.controller(reconciler).register().unwrap();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let standby = second.controller(reconciler).register().unwrap();
    let leading = crate::harness::start(&first);
    assert_eq!(next(&mut led).await.name(), "x");
    let standing = crate::harness::start(&second);
    second.wait_until_synced().await.unwrap();
    assert_eq!(standby.phase(), Phase::Standby);
    assert!(second.readiness().is_ready());
    assert_eq!(standby.queue().len(), 2);
    sleep(60 * SECOND).await;
    assert!(received.try_recv().is_err(), "a standby does not reconcile");
    world.requests();
    crate::harness::stop(&first, leading).await;
    let mut keys = [next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys.each_ref().map(Key::name), ["x", "y"]);
    assert_eq!(standby.phase(), Phase::Running);
    let lists = |request: &String| {
        request.starts_with("GET /api/v1/configmaps") && !request.contains("watch=true")
    };
    assert_eq!(world.requests().iter().filter(|it| lists(it)).count(), 0);
    crate::harness::stop(&second, standing).await;
}

#[tokio::test(start_paused = true)]
async fn controllers_with_their_own_lease_are_elected_independently() {
    let world = World::new().await;
    world.create_map("x").await;
    let (sender, mut received) = mpsc::channel(64);
    let manager = |identity: &'static str, first: &str, second: &str| {
        let manager = Manager::builder("test")
            .deterministic(1, "2026-01-01T00:00:00Z".parse().unwrap())
            .leader_election(LeaderElection::new().namespace("default").identity(identity))
            .build(world.client());
        for name in [first, second] {
            let (name, sender) = (name.to_owned(), sender.clone());
            let lease = format!("lease-of-{name}");
            let reconciler = evenkeel::reconciler_fn({
                let name = name.clone();
                move |_: Arc<ConfigMap>, cx: Context<ConfigMap>| {
                    let _ = sender.try_send((identity, name.clone(), cx.fencing_token()));
                    async { Ok(Action::done()) }
                }
            });
            manager.controller(reconciler).named(&name).lease(&lease).register().unwrap();
        }
        manager
    };
    let first = manager("a", "one", "two");
    let running = crate::harness::start(&first);
    let mut seen = vec![next(&mut received).await, next(&mut received).await];
    seen.sort();
    let expected = |name: &str| ("a", name.to_owned(), Some(0));
    assert_eq!(seen, [expected("one"), expected("two")]);
    let second = manager("b", "two", "three");
    let other = crate::harness::start(&second);
    assert_eq!(next(&mut received).await, ("b", "three".to_owned(), Some(0)));
    assert!(second.readiness().is_ready());
    crate::harness::stop(&first, running).await;
    assert_eq!(next(&mut received).await, ("b", "two".to_owned(), Some(1)));
    crate::harness::stop(&second, other).await;
}

#[tokio::test(start_paused = true)]
async fn a_reelected_controller_reconciles_every_object_again() {
    let network = Network::new(1).await;
    let maps: Api<ConfigMap> = Api::namespaced(network.admin(), "default");
    maps.create(&PostParams::default(), &map("other")).await.unwrap();
    let options = LeaderElection::new().reelect(true);
    let mut first = Replica::idle(&network, "a", options, RENEW_DEADLINE);
    let (sender, mut received) = mpsc::channel(64);
    let cancelled = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let count = cancelled.clone();
    let reconciler = crate::harness::each::<ConfigMap, _, _>(move |key, _, client| {
        let (sender, counted) = (sender.clone(), Counted(count.clone()));
        async move {
            let _ = sender.try_send(key.name().to_owned());
            if key.name() == "other" {
                sleep(30 * SECOND).await;
                // The request is refused: this process is no longer the leader.
                let _ = client.live().get::<ConfigMap>(&key).await;
            }
            std::mem::forget(counted);
            Ok(Action::done())
        }
    });
    let controller = first.manager.controller(reconciler).workers(2).register().unwrap();
    first.start();
    let mut names = [next(&mut received).await, next(&mut received).await];
    names.sort();
    assert_eq!(names, ["other", "state"]);
    let thief = json!({ "spec": { "holderIdentity": "thief" } });
    let patch = Patch::Merge(&thief);
    network.leases().patch(LEASE, &PatchParams::default(), &patch).await.unwrap();
    until(|| controller.phase() == Phase::Standby).await;
    assert_eq!(cancelled.load(Ordering::SeqCst), 1, "the running reconcile is cancelled");
    let mut names = [next(&mut received).await, next(&mut received).await];
    names.sort();
    assert_eq!(names, ["other", "state"], "in the second term");
    assert_eq!(first.manager.fencing_token(), Some(1));
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn invalid_options_are_an_error_of_the_run() {
    let world = World::new().await;
    let options = LeaderElection::new().renew_deadline(20 * SECOND);
    let manager = Manager::builder("test").leader_election(options).build(world.client());
    let error = crate::harness::start(&manager).ended().await.unwrap_err();
    let text = chain(&error);
    assert!(text.starts_with("invalid options of leader election: the lease duration"), "{text}");
    let manager = Manager::builder("My Operator").leader_election(LeaderElection::new());
    let manager = manager.build(world.client());
    let error = chain(&crate::harness::start(&manager).ended().await.unwrap_err());
    assert!(error.contains("\"My Operator\" is not a valid name of a Lease"), "{error}");
}
