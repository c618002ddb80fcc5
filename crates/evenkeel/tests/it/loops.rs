//! Hot loops are throttled with an alarm; long-running reconciles are cancelled.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::journal::{Alarm, Outcome};
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::api::Patch;
use evenkeel::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::harness::{World, each, key, next, start, stop, until};

/// Runs a controller on the ConfigMap `hot` for a minute; returns the number of runs and the
/// alarms.
async fn minute_of(reconciler: impl Reconciler<Object = ConfigMap>) -> (u64, Vec<Alarm>) {
    let world = World::new().await;
    world.create_map("hot").await;
    let manager = world.manager();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    sleep(Duration::from_secs(60)).await;
    let counts = controller.reconcile_counts();
    let alarms = controller.journal().alarms();
    stop(&manager, running).await;
    (counts.success + counts.requeue_after + counts.error, alarms)
}

fn hot(alarms: &[Alarm]) -> Vec<String> {
    let hot = alarms.iter().filter(|alarm| matches!(alarm, Alarm::Throttled { .. }));
    hot.map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn requeue_without_delay_is_throttled_with_an_alarm() {
    let (runs, alarms) = minute_of(each::<ConfigMap, _, _>(|_, _, _| async {
        Ok(Action::requeue_after(Duration::ZERO))
    }))
    .await;
    assert!((700..2_000).contains(&runs), "{runs}");
    let hot = hot(&alarms);
    assert_eq!(hot.len(), 1, "{alarms:?}");
    assert!(hot[0].starts_with("default/hot is reconciled in a hot loop"), "{}", hot[0]);
    assert!(hot[0].contains("requeued after 0ns"), "{}", hot[0]);
}

#[tokio::test(start_paused = true)]
async fn error_retried_immediately_is_throttled_with_an_alarm() {
    let (runs, alarms) = minute_of(each::<ConfigMap, _, _>(|_, _, _| async {
        Err(evenkeel::retry_after("not yet", Duration::ZERO))
    }))
    .await;
    assert!((700..2_000).contains(&runs), "{runs}");
    let hot = hot(&alarms);
    assert!(hot.len() == 1 && hot[0].contains("not yet"), "{alarms:?}");
}

#[tokio::test(start_paused = true)]
async fn reconcile_loop_is_throttled_with_an_alarm() {
    let count = AtomicU64::new(0);
    let (runs, alarms) = minute_of(each::<ConfigMap, _, _>(move |key, _, client| {
        let count = count.fetch_add(1, Ordering::Relaxed).to_string();
        async move {
            let patch = Patch::Merge(json!({"data": {"count": count}}));
            client.patch::<ConfigMap>(&key, &patch).await?;
            Ok(Action::done())
        }
    }))
    .await;
    assert!((700..2_000).contains(&runs), "{runs}");
    assert_eq!(hot(&alarms).len(), 1, "{alarms:?}");
    assert!(alarms.iter().any(|alarm| matches!(alarm, Alarm::ReconcileLoop { .. })), "{alarms:?}");
}

#[tokio::test(start_paused = true)]
async fn throttled_key_does_not_block_other_keys() {
    let world = World::new().await;
    world.create_map("hot").await;
    let manager = world.manager();
    let (sender, mut received) = mpsc::channel(64);
    let reconciler = each::<ConfigMap, _, _>(move |key, _, _| {
        let hot = key.name() == "hot";
        if !hot {
            let _ = sender.try_send(());
        }
        async move { Ok(if hot { Action::requeue_after(Duration::ZERO) } else { Action::done() }) }
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    until(|| !controller.journal().alarms().is_empty()).await;
    sleep(Duration::from_secs(30)).await;
    let begun = Instant::now();
    controller.enqueue(key("other"), "a test");
    next(&mut received).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn long_reconcile_raises_an_alarm_and_is_cancelled_after_ten_minutes() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(|key, _, _| async move {
        if key.name() == "a" {
            std::future::pending::<()>().await;
        }
        Ok(Action::done())
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let begun = Instant::now();
    let running = start(&manager);
    until(|| !controller.journal().alarms().is_empty()).await;
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(
        controller.journal().alarms()[0].to_string(),
        "the reconcile of default/a has been running for 60s and occupies one of 1 worker(s); it \
         is cancelled after 600s"
    );
    // The only worker is occupied until then.
    controller.enqueue(key("b"), "a test");
    until(|| controller.reconcile_counts().success == 1).await;
    assert_eq!(begun.elapsed().as_secs(), 600);
    let outcome = controller.journal().records()[0].outcome.clone();
    assert_eq!(outcome, Outcome::TimedOut(Duration::from_secs(600)));
    stop(&manager, running).await;
}
