//! Why something reconciled, and what it did.

use evenkeel::journal::Written;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::Patch;
use evenkeel::prelude::*;
use serde_json::json;

use crate::harness::{World, each, key, next, quiet, start, stop};

#[tokio::test(start_paused = true)]
async fn a_record_tells_cause_reads_writes_and_outcome() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut told) = tokio::sync::mpsc::channel(4096);
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
    next(&mut told).await;
    let record = follower.recv().await.unwrap();
    assert_eq!(record.key, key("a"));
    assert_eq!(record.reads.len(), 2, "its own object, and the other: {:?}", record.reads);
    let [write] = &record.writes[..] else { panic!("{:?}", record.writes) };
    let Written::Changed { fields, .. } = &write.written else { panic!("{write:?}") };
    assert_eq!(fields.iter().map(|field| field.path.as_str()).collect::<Vec<_>>(), ["data"]);
    // The second run is set off by the first one's write, and changes nothing.
    next(&mut told).await;
    let record = follower.recv().await.unwrap();
    assert_eq!(record.writes[0].written, Written::Nothing);
    let text = record.to_string();
    assert!(text.starts_with("ConfigMap updated"), "{text}");
    assert!(text.ends_with("patch ConfigMap default/a (no change); done"), "{text}");
    quiet(&mut told).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_is_bounded() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut told) = crate::harness::telling::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    for n in 0..1000 {
        controller.trigger(key(&n.to_string()), "test");
    }
    for _ in 0..1000 {
        next(&mut told).await;
    }
    quiet(&mut told).await;
    assert_eq!(controller.journal().records().len(), 256);
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    assert!(maps.list(&Default::default()).await.unwrap().items.is_empty());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn events_are_told_once_counted_when_repeated_and_bounded_per_object() {
    use evenkeel::k8s_openapi::api::events::v1::Event;
    struct Herald;
    impl Reconciler for Herald {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            cx.announce("Seen", "the map was looked at");
            for n in 0..100 {
                cx.warn("Noise", &format!("message {n}"));
            }
            Ok(Action::done())
        }
    }
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let controller = manager.controller(Herald).named("herald").register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    follower.recv().await.unwrap();
    for _ in 0..5 {
        controller.trigger(key("a"), "again");
        follower.recv().await.unwrap();
    }
    // What was announced is written before the manager has ended.
    stop(&manager, running).await;
    let events = Api::<Event>::namespaced(world.admin(), "default");
    let events = events.list(&Default::default()).await.unwrap().items;
    let seen: Vec<&Event> =
        events.iter().filter(|event| event.reason.as_deref() == Some("Seen")).collect();
    let [seen] = &seen[..] else { panic!("{} events", seen.len()) };
    assert!(seen.series.as_ref().is_some_and(|series| series.count >= 2), "{seen:?}");
    assert_eq!(seen.reporting_controller.as_deref(), Some("herald"));
    assert_eq!(seen.regarding.as_ref().unwrap().name.as_deref(), Some("a"));
    assert_eq!(events.len(), 25, "no object floods the cluster");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_itself_busy_is_named_once_with_the_field() {
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
    assert!(text.starts_with("default/a is spinning"), "{text}");
    assert!(text.ends_with("changed data.count"), "{text}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_field_that_two_writers_flip_is_named_once_with_the_other() {
    let world = World::new().await;
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    let manager = world.manager();
    let (sender, mut told) = tokio::sync::mpsc::channel(4096);
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
    controller.trigger(key("fought"), "begin");
    for _ in 0..6 {
        next(&mut told).await;
        // Its own write brings it up once more, and then there is nothing to do.
        quiet_after(&mut told).await;
        let theirs = Patch::Merge(json!({"data": {"mode": "theirs", "note": "mine"}}));
        let parameters = evenkeel::kube::api::PatchParams {
            field_manager: Some("rival".to_owned()),
            ..Default::default()
        };
        maps.patch("fought", &parameters, &theirs).await.unwrap();
    }
    next(&mut told).await;
    quiet_after(&mut told).await;
    let alarms = controller.journal().alarms();
    let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
    let text = alarm.to_string();
    assert!(text.starts_with("data.mode of ConfigMap default/fought is fought over"), "{text}");
    assert!(text.ends_with("rival wrote to the object last"), "{text}");
    stop(&manager, running).await;
}

/// Takes what comes until nothing does.
async fn quiet_after(told: &mut tokio::sync::mpsc::Receiver<()>) {
    while tokio::time::timeout(Duration::from_secs(20), told.recv()).await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changed_nothing_is_noted_so_though_its_type_is_not_cached() {
    use evenkeel::journal::Written;
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let reconciler = evenkeel::objects(|_: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
        let mut child = evenkeel::k8s_openapi::api::core::v1::ServiceAccount::default();
        child.metadata.name = Some("child".to_owned());
        cx.apply(child).await?;
        let again = cx.causes().kinds().contains(evenkeel::queue::CauseKind::Listed);
        Ok(if again { Action::requeue() } else { Action::done() })
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    crate::harness::until(|| controller.totals().success == 1).await;
    let records = controller.journal().records();
    let written: Vec<_> = records.iter().map(|record| &record.writes[0].written).collect();
    assert!(matches!(written[0], Written::Changed { .. }), "{}", records[0]);
    assert_eq!(*written[1], Written::Nothing, "{}", records[1]);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_come_and_go_under_one_name_are_no_fight() {
    let world = World::new().await;
    let manager = world.manager();
    let reconciler = evenkeel::objects(|_: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
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
