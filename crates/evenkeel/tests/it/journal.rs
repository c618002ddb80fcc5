//! The journal, alarms and events.

use evenkeel::journal::WriteResult;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::Patch;
use evenkeel::prelude::*;
use serde_json::json;

use crate::harness::{World, each, key, next, quiet, start, stop};

#[tokio::test(start_paused = true)]
async fn record_has_causes_reads_writes_and_outcome() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let reconciler = each::<ConfigMap, _, _>(move |key, _, client| {
        let sender = sender.clone();
        async move {
            client.get::<ConfigMap>(&key.sibling("other")).await?;
            let patch = Patch::Merge(json!({"data": {"seen": "yes"}}));
            client.patch::<ConfigMap>(&key, &patch).await?;
            let _ = sender.try_send(());
            Ok(Action::done())
        }
    });
    let controller = manager.controller(reconciler).named("seer").register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    next(&mut received).await;
    let record = follower.recv().await.unwrap();
    assert_eq!(record.key, key("a"));
    assert_eq!(record.reads.len(), 2, "its own object, and the other: {:?}", record.reads);
    let [write] = &record.writes[..] else { panic!("{:?}", record.writes) };
    let WriteResult::Changed { fields, .. } = &write.result else { panic!("{write:?}") };
    assert_eq!(fields.iter().map(|field| field.path.as_str()).collect::<Vec<_>>(), ["data"]);
    // The write of the first run triggers the second, which changes nothing.
    next(&mut received).await;
    let record = follower.recv().await.unwrap();
    assert_eq!(record.writes[0].result, WriteResult::Unchanged);
    let text = record.to_string();
    assert!(text.starts_with("ConfigMap default/a ("), "{text}");
    assert!(text.ends_with("): updated (content); 1 unchanged; done"), "{text}");
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_is_bounded() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut received) = crate::harness::recording::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    for n in 0..1000 {
        controller.enqueue(key(&n.to_string()), "test");
    }
    for _ in 0..1000 {
        next(&mut received).await;
    }
    quiet(&mut received).await;
    assert_eq!(controller.journal().records().len(), 256);
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    assert!(maps.list(&Default::default()).await.unwrap().items.is_empty());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn events_are_merged_into_series_and_limited_per_object() {
    use evenkeel::k8s_openapi::api::events::v1::Event;
    struct Recorder;
    impl Reconciler for Recorder {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            cx.event("Seen", "the ConfigMap was reconciled");
            for n in 0..100 {
                cx.warning_event(&format!("Noise{n}"), "again");
            }
            Ok(Action::done())
        }
    }
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let controller = manager.controller(Recorder).named("recorder").register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    follower.recv().await.unwrap();
    for _ in 0..5 {
        controller.enqueue(key("a"), "again");
        follower.recv().await.unwrap();
    }
    // Recorded events are written before the manager has stopped.
    stop(&manager, running).await;
    let events = Api::<Event>::namespaced(world.admin(), "default");
    let events = events.list(&Default::default()).await.unwrap().items;
    let seen: Vec<&Event> =
        events.iter().filter(|event| event.reason.as_deref() == Some("Seen")).collect();
    let [seen] = &seen[..] else { panic!("{} events", seen.len()) };
    assert!(seen.series.as_ref().is_some_and(|series| series.count >= 2), "{seen:?}");
    assert_eq!(seen.reporting_controller.as_deref(), Some("recorder"));
    assert_eq!(seen.regarding.as_ref().unwrap().name.as_deref(), Some("a"));
    assert_eq!(events.len(), 25, "events per object are limited");
}

#[tokio::test(start_paused = true)]
async fn reconcile_loop_raises_one_alarm_with_the_field() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let reconciler =
        each::<ConfigMap, _, _>(move |key, object: Option<Arc<ConfigMap>>, client| async move {
            let Some(object) = object else { return Ok(Action::done()) };
            let count: u32 = object
                .data
                .as_ref()
                .and_then(|data| data.get("count"))
                .map_or(0, |count| count.parse().unwrap());
            if count < 30 {
                let patch = Patch::Merge(json!({"data": {"count": (count + 1).to_string()}}));
                client.patch::<ConfigMap>(&key, &patch).await?;
            }
            Ok(Action::done())
        });
    let controller = manager.controller(reconciler).register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    for _ in 0..31 {
        follower.recv().await.unwrap();
    }
    let alarms = controller.journal().alarms();
    let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
    let text = alarm.to_string();
    assert!(text.starts_with("reconcile loop: 10 consecutive reconciles of default/a "), "{text}");
    assert!(text.ends_with("changed data.count"), "{text}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn contested_field_raises_one_alarm_with_the_other_manager() {
    let world = World::new().await;
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let reconciler = each::<ConfigMap, _, _>(move |_, _, client| {
        let sender = sender.clone();
        async move {
            let mut wanted = crate::harness::map("fought");
            wanted.data = Some([("mode".to_owned(), "ours".to_owned())].into());
            client.apply(&wanted).force().await?;
            let _ = sender.try_send(());
            Ok(Action::done())
        }
    });
    let controller = manager.controller(reconciler).named("ours").register().unwrap();
    let running = start(&manager);
    controller.enqueue(key("fought"), "begin");
    for _ in 0..6 {
        next(&mut received).await;
        // Its own write triggers one more reconcile, which changes nothing.
        quiet_after(&mut received).await;
        let theirs = Patch::Merge(json!({"data": {"mode": "theirs", "note": "mine"}}));
        let parameters = evenkeel::kube::api::PatchParams {
            field_manager: Some("rival".to_owned()),
            ..Default::default()
        };
        maps.patch("fought", &parameters, &theirs).await.unwrap();
    }
    next(&mut received).await;
    quiet_after(&mut received).await;
    let alarms = controller.journal().alarms();
    let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
    let text = alarm.to_string();
    assert!(text.starts_with("data.mode of ConfigMap default/fought is contested"), "{text}");
    assert!(text.ends_with("last other field manager: rival"), "{text}");
    stop(&manager, running).await;
}

/// Receives until no more items arrive.
async fn quiet_after(received: &mut tokio::sync::mpsc::Receiver<()>) {
    while tokio::time::timeout(Duration::from_secs(20), received.recv()).await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn unchanged_apply_of_an_uncached_type_is_recorded_as_unchanged() {
    use evenkeel::journal::WriteResult;
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let reconciler =
        evenkeel::reconciler_fn(|_: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
            let mut child = evenkeel::k8s_openapi::api::core::v1::ServiceAccount::default();
            child.metadata.name = Some("child".to_owned());
            cx.apply_owned(child).await?;
            let again = cx.causes().kinds().contains(evenkeel::queue::CauseKind::Listed);
            Ok(if again { Action::requeue() } else { Action::done() })
        });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    crate::harness::until(|| controller.reconcile_counts().success == 1).await;
    let records = controller.journal().records();
    let written: Vec<_> = records.iter().map(|record| &record.writes[0].result).collect();
    assert!(matches!(written[0], WriteResult::Changed { .. }), "{}", records[0]);
    assert_eq!(*written[1], WriteResult::Unchanged, "{}", records[1]);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn recreated_objects_do_not_make_a_field_contested() {
    let world = World::new().await;
    let manager = world.manager();
    let reconciler =
        evenkeel::reconciler_fn(|_: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
            cx.finalize("example.com/x", |_| async { Ok(()) }).await?;
            Ok(Action::done())
        });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    for _ in 0..8 {
        world.create_map("a").await;
        let soon = || tokio::time::sleep(Duration::from_millis(10));
        while maps.get("a").await.unwrap().metadata.finalizers.is_none() {
            soon().await;
        }
        maps.delete("a", &Default::default()).await.unwrap();
        while maps.get_opt("a").await.unwrap().is_some() {
            soon().await;
        }
    }
    let alarms = controller.journal().alarms();
    assert!(alarms.is_empty(), "{alarms:?}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_changes_are_not_attributed_to_a_write() {
    let world = World::new().await;
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    let mut seeded = crate::harness::map("a");
    seeded.data = Some([("seed".to_owned(), "1".to_owned())].into());
    maps.create(&Default::default(), &seeded).await.unwrap();
    // The cache stays stale, as it is for a moment on every cluster.
    world.freeze();
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(move |_, _, client| {
        let maps = maps.clone();
        async move {
            let theirs = Patch::Merge(json!({
                "metadata": {"labels": {"theirs": "1"}}, "data": {"seed": "2", "theirs": "1"},
            }));
            maps.patch("a", &Default::default(), &theirs).await?;
            let mut ours = crate::harness::map("a");
            ours.data = Some([("ours".to_owned(), "1".to_owned())].into());
            client.apply(&ours).await?;
            Ok(Action::done())
        }
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    let record = follower.recv().await.unwrap();
    assert_eq!(record.writes[0].to_string(), "apply ConfigMap default/a (data.ours)");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_the_last_finalizer_is_a_change() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let reconciler =
        evenkeel::reconciler_fn(|_: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
            cx.finalize("example.com/x", |_| async { Ok(()) }).await?;
            Ok(Action::done())
        });
    let controller = manager.controller(reconciler).register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    let added = follower.recv().await.unwrap();
    let finalizers = "patch ConfigMap default/a (metadata.finalizers)";
    assert_eq!(added.writes[0].to_string(), finalizers);
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    maps.delete("a", &Default::default()).await.unwrap();
    let removed = loop {
        let record = follower.recv().await.unwrap();
        if !record.writes.is_empty() {
            break record;
        }
    };
    assert_eq!(removed.writes[0].to_string(), finalizers);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_not_compared_with_the_object_that_it_scales() {
    use evenkeel::k8s_openapi::api::apps::v1::Deployment;
    use evenkeel::k8s_openapi::api::autoscaling::v1::Scale;
    let world = World::new().await;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    deployments.create(&Default::default(), &deployment).await.unwrap();
    let manager = world.manager();
    let reconciler = each::<Deployment, _, _>(|key, _, client| async move {
        let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
        client.subresource::<Deployment>(&key, "scale").patch::<Scale>(&patch).await?;
        Ok(Action::done())
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    let record = follower.recv().await.unwrap();
    assert_eq!(record.writes[0].to_string(), "patch Deployment.apps/scale default/web");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_logged_with_fields_and_a_constant_message() {
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(|| Log)
        .finish();
    // Global: a subscriber of one thread could miss spans that other threads enter first.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(|key, _, client| async move {
        let patch = Patch::Merge(json!({"data": {"n": 1}}));
        client.patch::<ConfigMap>(&key, &patch).await?;
        Ok(Action::done())
    });
    let controller = manager.controller(reconciler).named("seer").register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    let record = follower.recv().await.unwrap();
    stop(&manager, running).await;
    let text = LOG.with_borrow(|log| String::from_utf8_lossy(log).into_owned());
    let line = text.lines().find(|line| line.contains("reconcile failed")).unwrap();
    let span = r#"reconcile{controller=seer kind="ConfigMap" namespace="default" name="a""#;
    assert!(line.contains(span), "{line}");
    let fields = "reconcile failed outcome=failed duration=";
    assert!(line.contains(fields), "{line}");
    assert!(line.contains("causes=listed writes=patch ConfigMap a failed error="), "{line}");
    let WriteResult::Failed(message) = &record.writes[0].result else { panic!("{record}") };
    assert_eq!(line.matches(message.as_str()).count(), 1, "{line}");
}

thread_local! {
    /// The log of the test of this thread.
    static LOG: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
