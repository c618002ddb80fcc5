//! Retries, timeouts, panics and priorities of reconciles.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use evenkeel::journal::Outcome;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel::queue::CauseKind;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::harness::{World, each, key, map, next, quiet, recording, start, stop, until};

#[tokio::test(start_paused = true)]
async fn every_object_that_exists_is_reconciled_once_at_start() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create_map(name).await;
    }
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let mut keys =
        vec![next(&mut received).await, next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys, [key("a"), key("b"), key("c")]);
    quiet(&mut received).await;
    let records = controller.journal().records();
    assert!(records.iter().all(|record| record.causes.kinds().contains(CauseKind::Listed)));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn failures_double_the_backoff_and_success_resets_it() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let runs = AtomicU32::new(0);
    let reconciler = each::<ConfigMap, _, _>(move |_, _, _| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let _ = sender.try_send(Instant::now());
        // Three failures, a success that requeues, a failure, then success.
        let outcome = match run {
            0..3 | 4 => Err("not yet".into()),
            3 => Ok(Action::requeue_after(Duration::from_secs(9))),
            _ => Ok(Action::done()),
        };
        async { outcome }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let mut last = next(&mut received).await;
    for expected in [5, 10, 20, 9_000, 5] {
        let now = next(&mut received).await;
        assert_eq!((now - last).as_millis(), expected);
        last = now;
    }
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn terminal_error_is_recorded_and_not_retried() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let reconciler = each::<ConfigMap, _, _>(move |key, _, _| {
        let _ = sender.try_send(key);
        async { Err(terminal("the spec makes no sense")) }
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    quiet(&mut received).await;
    assert_eq!(controller.queue().failures(&key("a")), 0);
    let record = controller.journal().records().pop().unwrap();
    assert_eq!(record.outcome, Outcome::Terminal("the spec makes no sense".into()));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn typed_error_is_found_in_the_journal() {
    #[derive(Debug, thiserror::Error)]
    enum DnsError {
        #[error("no zone {0}")]
        NoZone(String),
        #[error("the record is invalid")]
        Invalid(#[source] evenkeel::BoxError),
        #[error(transparent)]
        Client(#[from] evenkeel::client::Error),
    }

    struct Dns;
    impl Reconciler<DnsError> for Dns {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action, DnsError> {
            match cx.key().name() {
                "zone" => Err(DnsError::NoZone("example.com".to_owned())),
                "invalid" => Err(DnsError::Invalid(terminal("no address").into_boxed())),
                _ => {
                    cx.client().create(&map("zone")).await?;
                    Ok(Action::done())
                }
            }
        }
    }

    let world = World::new().await;
    for name in ["invalid", "taken", "zone"] {
        world.create_map(name).await;
    }
    let manager = world.manager();
    // A shared reconciler has the same error type.
    let controller = manager.controller(Arc::new(Dns)).register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    let mut outcomes = std::collections::BTreeMap::new();
    while outcomes.len() < 3 {
        let record = follower.recv().await.unwrap();
        outcomes.insert(record.key.name().to_owned(), record.outcome.clone());
    }
    let invalid = &outcomes["invalid"];
    assert_eq!(*invalid, Outcome::Terminal("the record is invalid: no address".into()));
    assert!(matches!(invalid.find(), Some(DnsError::Invalid(_))));
    let zone = &outcomes["zone"];
    assert_eq!(*zone, Outcome::Failed("no zone example.com".into()));
    assert!(matches!(zone.find(), Some(DnsError::NoZone(zone)) if zone == "example.com"));
    let taken = &outcomes["taken"];
    assert!(matches!(taken.find(), Some(DnsError::Client(error)) if error.is_already_exists()));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn error_with_retry_after_is_retried_after_the_delay() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let reconciler = each::<ConfigMap, _, _>(move |_, _, _| {
        let _ = sender.try_send(Instant::now());
        async { Err(retry_after("try later", Duration::from_secs(7))) }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let first = next(&mut received).await;
    assert_eq!((next(&mut received).await - first).as_secs(), 7);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn panic_is_an_error_of_its_key_only() {
    let world = World::new().await;
    world.create_map("bad").await;
    world.create_map("good").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let panics = AtomicU32::new(0);
    let reconciler = each::<ConfigMap, _, _>(move |key, _, _| {
        if key.name() == "bad" && panics.fetch_add(1, Ordering::Relaxed) < 3 {
            panic!("bug in the reconciler");
        }
        let _ = sender.try_send(key);
        async { Ok(Action::done()) }
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let mut keys = [next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys, [key("bad"), key("good")]);
    let panicked = controller
        .journal()
        .records()
        .iter()
        .filter(|record| record.outcome == Outcome::Panicked("bug in the reconciler".into()))
        .count();
    assert_eq!(panicked, 3);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_cancelled_and_retried() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let runs = AtomicU32::new(0);
    let reconciler = each::<ConfigMap, _, _>(move |_, _, _| {
        let _ = sender.try_send(Instant::now());
        let first = runs.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok(Action::done())
        }
    });
    let limit = Duration::from_secs(30);
    let controller = manager.controller(reconciler).reconcile_timeout(limit).register().unwrap();
    let running = start(&manager);
    let first = next(&mut received).await;
    let second = next(&mut received).await;
    assert_eq!(second - first, limit + Duration::from_millis(5));
    quiet(&mut received).await;
    let outcomes: Vec<Outcome> =
        controller.journal().records().iter().map(|record| record.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::TimedOut(limit), Outcome::Done]);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn retry_keeps_its_priority_unless_set() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let runs = AtomicU32::new(0);
    let reconciler = each::<ConfigMap, _, _>(move |_, _, _| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let _ = sender.try_send(run);
        async move {
            match run {
                0 => Err("not yet".into()),
                1 => Ok(Action::requeue_after(Duration::from_secs(1)).with_priority(7)),
                _ => Ok(Action::done()),
            }
        }
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let queue = controller.queue().clone();
    let running = start(&manager);
    for _ in 0..3 {
        next(&mut received).await;
    }
    quiet(&mut received).await;
    drop(queue);
    let priorities: Vec<i32> =
        controller.journal().records().iter().map(|record| record.priority).collect();
    assert_eq!(priorities, [evenkeel::queue::LOW_PRIORITY, evenkeel::queue::LOW_PRIORITY, 7]);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_reconcile_are_one_more_reconcile_after_it() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(4096);
    let (release, hold) = tokio::sync::watch::channel(false);
    let reconciler = each::<ConfigMap, _, _>(move |_, object: Option<Arc<ConfigMap>>, _| {
        let _ = sender.try_send(object.and_then(|map| map.data.clone()).unwrap_or_default().len());
        let mut hold = hold.clone();
        async move {
            let _ = hold.wait_for(|released| *released).await;
            Ok(Action::done())
        }
    });
    manager.controller(reconciler).workers(4).register().unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, 0);
    let admin = evenkeel::kube::Api::<ConfigMap>::namespaced(world.admin(), "default");
    for count in 1..=5 {
        let data: serde_json::Map<_, _> =
            (0..count).map(|n| (format!("k{n}"), "v".into())).collect();
        let patch = serde_json::json!({ "data": data });
        let parameters = evenkeel::kube::api::PatchParams::default();
        admin.patch("a", &parameters, &evenkeel::kube::api::Patch::Merge(patch)).await.unwrap();
    }
    quiet(&mut received).await;
    release.send(true).unwrap();
    assert_eq!(next(&mut received).await, 5);
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn panic_outside_of_the_future_does_not_end_a_worker() {
    #[derive(Debug)]
    struct Wordless;
    impl std::fmt::Display for Wordless {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words")
        }
    }
    impl std::error::Error for Wordless {}
    struct Clumsy;
    impl Drop for Clumsy {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }
    let world = World::new().await;
    for name in ["drop", "fine", "text"] {
        world.create_map(name).await;
    }
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let reconciler = evenkeel::reconciler_fn(move |map: Arc<ConfigMap>, cx: Context<ConfigMap>| {
        let sender = sender.clone();
        async move {
            let _ = sender.try_send(map.name_any());
            match map.name_any().as_str() {
                "text" if cx.failures() == 0 => Err(Wordless.into()),
                "drop" if cx.failures() == 0 => {
                    let _clumsy = Clumsy;
                    std::future::pending().await
                }
                _ => Ok(Action::done()),
            }
        }
    });
    let limit = Duration::from_secs(1);
    let controller = manager.controller(reconciler).reconcile_timeout(limit).register().unwrap();
    let running = start(&manager);
    let mut names = Vec::new();
    for _ in 0..5 {
        names.push(next(&mut received).await);
    }
    names.sort_unstable();
    assert_eq!(names, ["drop", "drop", "fine", "text", "text"]);
    until(|| controller.reconcile_counts().success == 3).await;
    let counts = controller.reconcile_counts();
    assert_eq!((counts.panics, counts.error, counts.active, counts.workers), (2, 2, 0, 1));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn reconcile_counts_are_by_outcome() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        world.create_map(name).await;
    }
    let manager = world.manager();
    let reconciler =
        evenkeel::reconciler_fn(|map: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
            let again = cx.causes().kinds().contains(evenkeel::queue::CauseKind::Listed);
            match map.name_any().as_str() {
                "a" if again => Ok(Action::requeue()),
                "b" if again => Ok(Action::requeue_after(Duration::from_secs(1))),
                "c" if again => Err("once".into()),
                "d" => Err(terminal("never")),
                _ => Ok(Action::done()),
            }
        });
    let controller = manager.controller(reconciler).workers(2).register().unwrap();
    let running = start(&manager);
    until(|| controller.reconcile_counts().success == 4).await;
    let counts = controller.reconcile_counts();
    assert_eq!((counts.requeue, counts.requeue_after, counts.error, counts.terminal), (1, 1, 2, 1));
    assert_eq!((counts.workers, counts.panics, counts.timeouts), (2, 0, 0));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_can_be_shared_with_the_program() {
    struct Counting(AtomicUsize);
    impl Reconciler for Counting {
        type Object = ConfigMap;
        async fn reconcile(&self, _: &Context<ConfigMap>) -> Result<Action> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Action::done())
        }
    }
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    manager.controller(counting.clone()).register().unwrap();
    let running = start(&manager);
    until(|| counting.0.load(Ordering::Relaxed) > 0).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn on_reconcile_is_called_for_each_reconcile() {
    let world = World::new().await;
    world.create_map("a").await;
    let (sender, mut seen) = mpsc::channel(16);
    let manager = Manager::builder("test")
        .on_reconcile(move |record| {
            let _ = sender.try_send((record.controller.to_string(), record.key.clone()));
        })
        .build(world.client());
    let (reconciler, _received) = recording::<ConfigMap>();
    let running = start(&manager);
    manager.controller(reconciler).named("late").register().unwrap();
    assert_eq!(next(&mut seen).await, ("late".to_owned(), key("a")));
    stop(&manager, running).await;
}
