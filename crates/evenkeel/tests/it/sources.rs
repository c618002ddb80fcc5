//! Cache sync, watches, sources and predicates of controllers.

use evenkeel::controller::Phase;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use evenkeel::prelude::*;
use evenkeel::queue::CauseKind;
use evenkeel::{Source, Watch};

use crate::harness::{Fault, TIMEOUT, World, key, next, quiet, recording, start, stop, until};

const FORBIDDEN: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,
    "reason":"Forbidden","message":"pods is forbidden: User \"x\" cannot list resource \"pods\""}"#;

#[tokio::test(start_paused = true)]
async fn no_reconcile_runs_before_all_caches_have_synced() {
    let world = World::new().await;
    world.create_map("a").await;
    world.rule(
        |request| {
            if request.uri().path().ends_with("/pods") { Fault::Hang } else { Fault::None }
        },
    );
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).owns::<Pod>().register().unwrap();
    let running = start(&manager);
    quiet(&mut received).await;
    assert_eq!(controller.phase(), Phase::Syncing(vec!["watch of Pod".into()]));
    assert!(!manager.readiness().is_ready());
    world.rule(|_| Fault::None);
    manager.stop();
    running.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn watch_that_does_not_sync_is_reported_with_the_error_and_recovers() {
    let world = World::new().await;
    world.create_map("a").await;
    world.rule(|request| {
        let pods = request.uri().path().ends_with("/pods");
        if pods { Fault::Respond(403, FORBIDDEN) } else { Fault::None }
    });
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).owns::<Pod>().register().unwrap();
    let (other, mut other_keys) = recording::<ConfigMap>();
    manager.controller(other).named("other").register().unwrap();
    let running = start(&manager);
    // The other controllers run.
    assert_eq!(next(&mut other_keys).await, key("a"));
    until(|| matches!(controller.phase(), Phase::SyncTimedOut(_))).await;
    let Phase::SyncTimedOut(error) = controller.phase() else { panic!() };
    assert!(error.contains("watch of Pod"), "{error}");
    assert!(error.contains("cannot list resource"), "{error}");
    quiet(&mut received).await;
    // The permission is granted; no restart is needed.
    world.rule(|_| Fault::None);
    assert_eq!(next(&mut received).await, key("a"));
    until(|| manager.readiness().is_ready()).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_type_shows_in_readiness_within_seconds() {
    let world = World::new().await;
    world.rule(|request| {
        let pods = request.uri().path().ends_with("/pods");
        if pods { Fault::Respond(403, FORBIDDEN) } else { Fault::None }
    });
    let manager = world.manager();
    let (reconciler, _received) = recording::<ConfigMap>();
    manager.controller(reconciler).owns::<Pod>().register().unwrap();
    let running = start(&manager);
    let begun = tokio::time::Instant::now();
    let forbidden =
        || {
            manager.readiness().checks.iter().any(|check| {
                check.problem.as_ref().is_some_and(|text| text.contains("cannot list"))
            })
        };
    until(forbidden).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_reconciled_as_absent() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let reconciler = crate::harness::each::<ConfigMap, _, _>(move |_, object, _| {
        let _ = sender.try_send(object.is_some());
        async { Ok(Action::done()) }
    });
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    assert!(next(&mut received).await);
    let api = evenkeel::kube::Api::<ConfigMap>::namespaced(world.admin(), "default");
    api.delete("a", &Default::default()).await.unwrap();
    assert!(!next(&mut received).await);
    let record = controller.journal().records().pop().unwrap();
    assert!(record.causes.kinds().contains(CauseKind::Deleted), "{record}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn sources_are_named_in_the_causes() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let (trigger, source) = Source::channel("billing");
    let every = Source::interval("hourly", Duration::from_secs(3600), |_| vec![key("timed")]);
    let controller =
        manager.controller(reconciler).source(source).source(every).register().unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, key("timed"));
    assert!(trigger.send(key("called")).await);
    assert_eq!(next(&mut received).await, key("called"));
    let record = controller.journal().records().pop().unwrap();
    assert_eq!(record.causes.to_string(), "billing external");
    let begun = tokio::time::Instant::now();
    tokio::time::timeout(TIMEOUT * 10, received.recv()).await.unwrap().unwrap();
    assert!(begun.elapsed() > Duration::from_secs(3500));
    stop(&manager, running).await;
    assert!(!trigger.send(key("late")).await);
}

#[tokio::test(start_paused = true)]
async fn referenced_objects_enqueue_the_objects_that_reference_them() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager
        .index::<ConfigMap>("secret", |map| {
            map.data.iter().filter_map(|data| data.get("secret").cloned()).collect()
        })
        .unwrap();
    manager
        .controller(reconciler)
        .watch(
            Watch::mapped::<Secret>(|secret, cx| {
                cx.select::<ConfigMap>()
                    .index("secret", secret.metadata.name.as_deref().unwrap_or(""))
                    .keys()
            })
            .cached(evenkeel::cache::TypeOptions::new().namespaces(["default"])),
        )
        .register()
        .unwrap();
    let running = start(&manager);
    let maps = evenkeel::kube::Api::<ConfigMap>::namespaced(world.admin(), "default");
    for (name, secret) in [("a", "one"), ("b", "two"), ("c", "one")] {
        let mut map = crate::harness::map(name);
        map.data = Some([("secret".to_owned(), secret.to_owned())].into());
        maps.create(&Default::default(), &map).await.unwrap();
        next(&mut received).await;
    }
    let secrets = evenkeel::kube::Api::<Secret>::namespaced(world.admin(), "default");
    let mut secret = Secret::default();
    secret.metadata.name = Some("one".to_owned());
    secrets.create(&Default::default(), &secret).await.unwrap();
    let mut keys = [next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys, [key("a"), key("c")]);
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn watch_added_while_running_lasts_until_its_guard_is_dropped() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    until(|| controller.phase() == Phase::Running).await;
    let pods = evenkeel::kube::Api::<Pod>::namespaced(world.admin(), "default");
    let create = async |name: &str| {
        let pod = serde_json::json!({"metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    };
    let guard = controller.watch(Watch::mapped::<Pod>(|_, _| vec![key("mapped")])).unwrap();
    create("one").await;
    assert_eq!(next(&mut received).await, key("mapped"));
    // A read does not keep the informer.
    assert!(manager.client().get::<Pod>(&key("one")).await.unwrap().is_some());
    drop(guard);
    world.requests();
    create("two").await;
    quiet(&mut received).await;
    assert!(!world.requests().iter().any(|request| request.contains("pods")));
    assert!(manager.cache().health().iter().all(|health| health.kind.kind() != "Pod"));
    stop(&manager, running).await;
}

/// kube-runtime has one backoff for all watches of a controller, so a failing watch delays the
/// events of all others.
#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_does_not_delay_the_others() {
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).owns::<Pod>().register().unwrap();
    let running = start(&manager);
    until(|| controller.phase() == Phase::Running).await;
    // Pods are forbidden from now on, and their watch ends.
    world.rule(|request| {
        let pods = request.uri().path().ends_with("/pods");
        if pods { Fault::Respond(403, FORBIDDEN) } else { Fault::None }
    });
    tokio::time::sleep(Duration::from_secs(1200)).await;
    until(|| !manager.readiness().is_ready()).await;
    for n in 0..20 {
        let begun = tokio::time::Instant::now();
        world.create_map(&format!("map-{n}")).await;
        next(&mut received).await;
        assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    world.rule(|_| Fault::None);
    until(|| manager.readiness().is_ready()).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn type_may_be_removed_and_added_while_the_controller_runs() {
    use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    #[derive(
        CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
    )]
    #[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
    struct WidgetSpec {
        size: i32,
    }
    let world = World::new().await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<Widget>();
    let optional = TypeOptions::new().optional();
    manager.controller(reconciler).cached(optional).register().unwrap();
    let (other, mut other_keys) = recording::<ConfigMap>();
    manager.controller(other).register().unwrap();
    let running = start(&manager);
    world.create_map("a").await;
    assert_eq!(next(&mut other_keys).await, key("a"));
    until(|| manager.readiness().is_ready()).await;

    let definitions = evenkeel::kube::Api::<CustomResourceDefinition>::all(world.admin());
    definitions.create(&Default::default(), &Widget::crd()).await.unwrap();
    let widgets = evenkeel::kube::Api::<Widget>::namespaced(world.admin(), "default");
    let widget = Widget::new("w", WidgetSpec { size: 1 });
    let created = async {
        while widgets.create(&Default::default(), &widget).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, created).await.unwrap();
    assert_eq!(next(&mut received).await, key("w"));

    definitions.delete("widgets.example.com", &Default::default()).await.unwrap();
    assert_eq!(next(&mut received).await, key("w"), "the object is deleted with its type");
    world.create_map("b").await;
    assert_eq!(next(&mut other_keys).await, key("b"));
    until(|| manager.readiness().is_ready()).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn resync_enqueues_at_low_priority_without_a_list() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let hourly = TypeOptions::new().resync(Duration::from_secs(400));
    let controller = manager.controller(reconciler).cached(hourly).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    world.requests();
    next(&mut received).await;
    let record = controller.journal().records().pop().unwrap();
    assert!(record.causes.kinds().contains(CauseKind::Resync), "{record}");
    assert_eq!(record.priority, evenkeel::queue::LOW_PRIORITY);
    assert!(world.requests().iter().all(|request| request.contains("watch")));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn interval_source_starts_after_the_cache_sync() {
    let world = World::new().await;
    world.create_map("a").await;
    let slow = world.clone();
    world.rule(|_| Fault::Hang);
    let manager = world.manager();
    manager.index::<ConfigMap>("all", |_| vec!["all".to_owned()]).unwrap();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = calls.clone();
    let hourly = Source::interval("hourly", Duration::from_secs(3600), move |cx| {
        let round = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        assert_ne!(round, 1, "one panic ends nothing");
        cx.select::<ConfigMap>().index("all", "all").keys()
    });
    let never = evenkeel::predicate::Predicate::new(|_| false);
    let controller =
        manager.controller(reconciler).source(hourly).filter_object(never).register().unwrap();
    let running = start(&manager);
    tokio::time::sleep(Duration::from_secs(5)).await;
    slow.rule(|_| Fault::None);
    assert_eq!(next(&mut received).await, key("a"));
    let begun = tokio::time::Instant::now();
    tokio::time::timeout(TIMEOUT * 20, received.recv()).await.unwrap().unwrap();
    assert!(begun.elapsed() > Duration::from_secs(7000), "{:?}", begun.elapsed());
    assert!(controller.reconcile_counts().panics == 0);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn event_is_mapped_while_the_outcome_of_another_write_is_unknown() {
    use evenkeel::k8s_openapi::api::core::v1::ServiceAccount;
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    manager.index::<ConfigMap>("all", |_| vec!["all".to_owned()]).unwrap();
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager
        .controller(reconciler)
        .watches::<ServiceAccount>(|_, cx| cx.select::<ConfigMap>().index("all", "all").keys())
        .register()
        .unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, key("a"));
    crate::harness::quiet(&mut received).await;
    // The request does not reach the server, so that no event resolves the unknown outcome.
    world.rule(|request| match *request.method() {
        http::Method::POST => Fault::Respond(504, "{}"),
        _ => Fault::None,
    });
    manager.client().create(&crate::harness::map("lost")).await.unwrap_err();
    let accounts = evenkeel::kube::Api::<ServiceAccount>::namespaced(world.admin(), "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("x".to_owned());
    accounts.create(&Default::default(), &account).await.unwrap();
    assert_eq!(next(&mut received).await, key("a"));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn predicates_on_changes_lose_no_deletion_in_any_combination() {
    use evenkeel::predicate::{Predicate, generation_changed, labels_changed};
    let never = || Predicate::new(|_| false);
    let always = || Predicate::new(|_| true);
    let combinations = [
        generation_changed(),
        generation_changed().or(never()),
        never().or(labels_changed()),
        generation_changed().and(always()),
        !(generation_changed().and(always())),
        !labels_changed(),
        Predicate::new(|_| panic!("an opinion of its own")),
    ];
    for predicate in combinations {
        let world = World::new().await;
        world.create_map("a").await;
        let manager = world.manager();
        let (reconciler, mut received) = recording::<ConfigMap>();
        let name = format!("{predicate:?}");
        let controller = manager.controller(reconciler).filter(predicate).register().unwrap();
        let running = start(&manager);
        until(|| controller.phase() == evenkeel::controller::Phase::Running).await;
        while tokio::time::timeout(Duration::from_secs(1), received.recv()).await.is_ok() {}
        let api = evenkeel::kube::Api::<ConfigMap>::namespaced(world.admin(), "default");
        api.delete("a", &Default::default()).await.unwrap();
        let came = tokio::time::timeout(TIMEOUT, received.recv()).await;
        assert_eq!(came.ok().flatten(), Some(key("a")), "{name}");
        stop(&manager, running).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_update_of_a_type_without_generations_is_a_change() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    let changed = evenkeel::predicate::generation_changed();
    manager.controller(reconciler).filter_object(changed).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    let api = evenkeel::kube::Api::<ConfigMap>::namespaced(world.admin(), "default");
    let patch = evenkeel::client::Patch::Merge(serde_json::json!({"data": {"a": "b"}}));
    api.patch("a", &Default::default(), &patch).await.unwrap();
    assert_eq!(next(&mut received).await, key("a"));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn only_watches_with_resync_are_resynced() {
    use evenkeel::Watch;
    use evenkeel::k8s_openapi::api::core::v1::ServiceAccount;
    let world = World::new().await;
    let accounts = evenkeel::kube::Api::<ServiceAccount>::namespaced(world.admin(), "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("x".to_owned());
    accounts.create(&Default::default(), &account).await.unwrap();
    for resync in [false, true] {
        let manager = world.manager();
        let (reconciler, mut received) = recording::<ConfigMap>();
        let watch = Watch::mapped::<ServiceAccount>(|_, _| vec![key("of-x")]);
        let watch = watch.cached(TypeOptions::new().resync(Duration::from_secs(20)));
        let watch = if resync { watch.resynced() } else { watch };
        manager.controller(reconciler).watch(watch).register().unwrap();
        let running = start(&manager);
        next(&mut received).await;
        let again = tokio::time::timeout(Duration::from_secs(100), received.recv()).await;
        assert_eq!(again.is_ok(), resync);
        stop(&manager, running).await;
    }
}
