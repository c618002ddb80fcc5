//! Starting managers, adding controllers, stopping.

use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::chain;
use evenkeel::controller::Phase;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::kube::Api;
use evenkeel::kube::api::PostParams;
use evenkeel::manager::{NotSynced, RegisterError, RunError, Runnable, Stop};
use evenkeel::prelude::*;
use tokio::sync::mpsc;

use crate::harness::{
    Fault, TIMEOUT, World, each, key, next, quiet, recording, start, stop, until,
};

#[tokio::test(start_paused = true)]
async fn running_reconciles_finish_on_stop_and_none_start() {
    let world = World::new().await;
    for name in ["a", "b"] {
        world.create_map(name).await;
    }
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let reconciler = each::<ConfigMap, _, _>(move |_, _, _| {
        let sender = sender.clone();
        async move {
            let _ = sender.try_send("begun");
            tokio::time::sleep(Duration::from_secs(20)).await;
            let _ = sender.try_send("ended");
            Ok(Action::done())
        }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, "begun");
    let begun = tokio::time::Instant::now();
    manager.stop();
    running.ended().await.unwrap();
    assert_eq!(next(&mut received).await, "ended");
    assert!(received.recv().await.is_none(), "the second object is left for the next process");
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn controllers_beyond_the_grace_period_are_cancelled_and_named() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let reconciler = each::<ConfigMap, _, _>(move |key, _, _| {
        let _ = sender.try_send(key);
        std::future::pending::<Result<Action>>()
    });
    let limit = Duration::from_secs(3600);
    let controller = manager
        .controller(reconciler)
        .named("endless")
        .reconcile_timeout(limit)
        .register()
        .unwrap();
    let running = start(&manager);
    next(&mut received).await;
    assert_eq!(controller.reconcile_counts().active, 1);
    let begun = tokio::time::Instant::now();
    manager.stop();
    let error = running.ended().await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    assert!(
        matches!(&error, RunError::ShutdownTimedOut { names, .. } if names == &["endless"]),
        "{error}"
    );
    assert!(received.recv().await.is_none(), "its worker has ended");
    let counts = controller.reconcile_counts();
    assert_eq!((counts.active, counts.timeouts, counts.error), (0, 0, 0), "it did not time out");
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_fails_ends_the_manager_with_its_error() {
    let world = World::new().await;
    let manager = world.manager();
    manager
        .spawn_without_leader_election("probe", |_| async { Err("the disk is full".into()) })
        .unwrap();
    let error = start(&manager).ended().await.unwrap_err();
    assert_eq!(chain(&error), "probe failed: the disk is full");
}

#[tokio::test(start_paused = true)]
async fn runnables_stop_in_the_order_of_controller_runtime() {
    struct Work(mpsc::Sender<&'static str>);
    impl Runnable for Work {
        async fn run(self, stop: Stop) -> Result<()> {
            stop.requested().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = self.0.try_send("leader");
            Ok(())
        }
    }
    let world = World::new().await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    manager.add(Work(sender.clone())).unwrap();
    manager
        .spawn_without_leader_election("always", move |stop| async move {
            stop.requested().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let _ = sender.try_send("always");
            Ok(())
        })
        .unwrap();
    let running = start(&manager);
    // Both have started by then.
    tokio::time::sleep(Duration::from_millis(1)).await;
    stop(&manager, running).await;
    assert_eq!(next(&mut received).await, "always");
    assert_eq!(next(&mut received).await, "leader");
}

#[tokio::test(start_paused = true)]
async fn controllers_can_be_added_while_running_and_not_after() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let running = start(&manager);
    tokio::task::yield_now().await;
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager.controller(reconciler).register().unwrap();
    assert_eq!(next(&mut received).await, key("a"));
    stop(&manager, running).await;
    let (late, _received) = recording::<ConfigMap>();
    let error = manager.controller(late).named("late").register().unwrap_err();
    assert!(matches!(error, RegisterError::Stopping), "{error}");
    let error = start(&manager).ended().await.unwrap_err();
    assert!(matches!(error, RunError::AlreadyRun), "{error}");
}

#[tokio::test(start_paused = true)]
async fn controller_names_are_unique_per_manager() {
    let world = World::new().await;
    world.create_map("a").await;
    let (one, other) = (world.manager(), world.manager());
    let (reconciler, mut received) = recording::<ConfigMap>();
    one.controller(reconciler).register().unwrap();
    let (same, _) = recording::<ConfigMap>();
    let error = one.controller(same).register().unwrap_err();
    assert!(error.to_string().contains("\"configmap\" is already registered"), "{error}");
    let (reconciler, mut other_received) = recording::<ConfigMap>();
    other.controller(reconciler).register().unwrap();
    let (first, second) = (start(&one), start(&other));
    assert_eq!(next(&mut received).await, key("a"));
    assert_eq!(next(&mut other_received).await, key("a"));
    stop(&one, first).await;
    world.create_map("b").await;
    assert_eq!(next(&mut other_received).await, key("b"));
    quiet(&mut received_or_closed(received)).await;
    stop(&other, second).await;
}

/// Checks that no item arrives; the senders may be dropped.
fn received_or_closed(receiver: mpsc::Receiver<Key>) -> mpsc::Receiver<Key> {
    receiver
}

#[tokio::test(start_paused = true)]
async fn stop_in_any_phase_leaves_no_tasks() {
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Counted {
        fn new() -> Self {
            LIVE.fetch_add(1, Ordering::SeqCst);
            Self
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            LIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let world = World::new().await;
    world.create_map("a").await;
    for millis in [0_u64, 1, 2, 5, 10, 100, 5_000] {
        let manager = world.manager();
        let counted = Arc::new(Counted::new());
        let reconciler = each::<ConfigMap, _, _>(move |_, _, _| {
            let counted = counted.clone();
            async move {
                let _held = counted;
                tokio::time::sleep(Duration::from_millis(3)).await;
                Ok(Action::requeue_after(Duration::from_millis(1)))
            }
        });
        manager.controller(reconciler).register().unwrap();
        let running = start(&manager);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        stop(&manager, running).await;
        drop(manager);
        until(|| LIVE.load(Ordering::SeqCst) == 0).await;
    }
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    // The remaining tasks are the clients' buffers, which end with the clients.
    assert!(alive < 20, "{alive} tasks are left");
}

#[tokio::test(start_paused = true)]
async fn stop_before_start_starts_nothing() {
    let world = World::new().await;
    world.rule(|_| crate::harness::Fault::Hang);
    let manager = world.manager();
    manager.caches::<ConfigMap>(evenkeel::cache::TypeOptions::new()).unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    for needs_leader_election in [false, true] {
        let begun = begun.clone();
        let run = move |_| async move {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        match needs_leader_election {
            true => manager.spawn("worker", run).unwrap(),
            false => manager.spawn_without_leader_election("worker", run).unwrap(),
        }
    }
    let (reconciler, _received) = crate::harness::recording::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop(&manager, running).await;
    assert_eq!(begun.load(Ordering::SeqCst), 0, "the caches had not synced");
    assert!(controller.journal().records().is_empty());
    let never = world.manager();
    never.stop();
    let running = start(&never);
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_runnable_stops_the_manager_with_its_message() {
    let world = World::new().await;
    for late in [false, true] {
        let manager = world.manager();
        let run = move |_| {
            assert!(late, "at once");
            async move { panic!("later") }
        };
        manager.spawn_without_leader_election("shaky", run).unwrap();
        let error = chain(&start(&manager).ended().await.unwrap_err());
        assert!(error.starts_with("shaky failed: panicked: "), "{error}");
        assert!(error.contains(if late { "later" } else { "at once" }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_run_stops_everything() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (reconciler, mut received) = crate::harness::recording::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    // The cache keeps the informer of a type that is read.
    manager.client().get::<ConfigMap>(&key("a")).await.unwrap();
    drop(running);
    until(|| controller.phase() == evenkeel::controller::Phase::Stopped).await;
    world.requests();
    world.create_map("b").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(world.requests().is_empty(), "a watch is still running");
    assert!(manager.client().get::<ConfigMap>(&key("a")).await.is_err());
    assert!(manager.spawn_without_leader_election("late", |_| async { Ok(()) }).is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_unwritable_events() {
    let world = World::new().await;
    world.create_map("a").await;
    world.rule(|request| match request.uri().path().contains("/events") {
        true => crate::harness::Fault::Hang,
        false => crate::harness::Fault::None,
    });
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(64);
    let reconciler = evenkeel::reconciler_fn(move |_: Arc<ConfigMap>, cx: Context<ConfigMap>| {
        cx.event("Seen", "it was there");
        let _ = sender.try_send(());
        async { Ok(Action::done()) }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    stop(&manager, running).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn types_cached_while_running_stay_cached() {
    let world = World::new().await;
    let manager = world.manager();
    let running = start(&manager);
    tokio::time::sleep(Duration::from_secs(1)).await;
    manager.caches::<ConfigMap>(evenkeel::cache::TypeOptions::new()).unwrap();
    until(|| manager.cache().health().iter().any(|health| health.synced)).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_every_replica_stops_before_those_of_the_leader() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (everywhere, mut received) = crate::harness::recording::<ConfigMap>();
    let (leading, mut led) = crate::harness::recording::<ConfigMap>();
    let first =
        manager.controller(everywhere).named("every").needs_leader_election(false).register();
    let first = first.unwrap();
    let second = manager.controller(leading).named("leading").register().unwrap();
    let phase = first.clone();
    let watch = move |stop: Stop| async move {
        stop.requested().await;
        // Runnables of the leader stop after those of every replica.
        assert_eq!(phase.phase(), evenkeel::controller::Phase::Stopped);
        Ok(())
    };
    manager.spawn("observer", watch).unwrap();
    let running = start(&manager);
    next(&mut received).await;
    next(&mut led).await;
    stop(&manager, running).await;
    assert_eq!(second.phase(), evenkeel::controller::Phase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn metadata_only_type_is_rejected_where_whole_objects_are_needed() {
    let world = World::new().await;
    let manager = world.manager();
    let idle = || each::<Secret, _, _>(|_, _, _| async { Ok(Action::done()) });
    let in_default = || TypeOptions::new().namespaces(["default"]);
    let sparing = Watch::owned::<ConfigMap, Secret>().metadata_only();
    let sparing = manager.controller(idle()).cached(in_default()).named("sparing").watch(sparing);
    sparing.register().unwrap();
    // Metadata suffices for this watch.
    let mapped = Watch::mapped_metadata::<ConfigMap>(|_, _| Vec::new());
    let modest = manager.controller(idle()).cached(in_default()).named("modest").watch(mapped);
    modest.register().unwrap();
    let greedy = || manager.controller(idle()).cached(in_default()).named("greedy");
    let needs = [greedy().reads::<ConfigMap>(), greedy().owns::<ConfigMap>()];
    for greedy in needs {
        let error = chain(&greedy.register().unwrap_err());
        for part in ["\"greedy\"", "ConfigMap", "\"sparing\"", "metadata"] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_is_synced_when_its_caches_are_listed_and_its_workers_run() {
    let world = World::new().await;
    world.create_map("a").await;
    // Responses to lists of Secrets are delayed.
    let hold = Arc::new(AtomicUsize::new(1));
    let held = hold.clone();
    world.rule(move |request| match request.uri().path() {
        "/api/v1/secrets" if held.load(Ordering::Relaxed) == 1 => Fault::Respond(503, "busy"),
        _ => Fault::None,
    });
    let manager = world.manager();
    manager.caches::<Secret>(TypeOptions::new().cluster_wide_secrets()).unwrap();
    let (reconciler, _received) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let minute = Duration::from_secs(60);
    tokio::time::timeout(minute, manager.wait_until_synced())
        .await
        .expect_err("Secrets are not listed");
    hold.store(0, Ordering::Relaxed);
    tokio::time::timeout(TIMEOUT, manager.wait_until_synced()).await.unwrap().unwrap();
    assert_eq!(controller.phase(), Phase::Running);
    assert!(manager.client().list::<Secret>().await.is_ok());
    stop(&manager, running).await;
    assert_eq!(manager.wait_until_synced().await, Err(NotSynced));
}

#[tokio::test(start_paused = true)]
async fn manager_that_stops_before_it_is_synced_returns_not_synced() {
    let world = World::new().await;
    world.rule(|_| Fault::Respond(503, "busy"));
    let manager = world.manager();
    let (reconciler, _received) = recording::<ConfigMap>();
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let (synced, ()) = futures_util::future::join(manager.wait_until_synced(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        manager.stop();
    })
    .await;
    assert_eq!(synced, Err(NotSynced));
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_of_registration_names_each_cause_once() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, _received) = recording::<Secret>();
    let register = || -> Result<()> {
        manager.controller(reconciler).named("vault").register()?;
        Ok(())
    };
    let printed = format!("{:?}", register().unwrap_err());
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "controller \"vault\" cannot be registered");
    assert!(lines[1].starts_with("  caused by: caching all Secrets of the cluster"), "{printed}");
    assert_eq!(lines.len(), 2, "{printed}");
}

#[tokio::test(start_paused = true)]
async fn watches_take_options_for_their_type() {
    let world = World::new().await;
    let manager = world.manager();
    let all = || TypeOptions::new().cluster_wide_secrets();
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager
        .controller(reconciler)
        .owns_with::<Secret>(all())
        .watches_with::<Secret>(all(), |secret, _| vec![Key::of(secret)])
        .register()
        .unwrap();
    let running = start(&manager);
    let secrets: Api<Secret> = Api::namespaced(world.admin(), "default");
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(next(&mut received).await, key("s"));
    stop(&manager, running).await;
}
