//! The documented behaviour of informers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_apiserver::{Attributes, Authorizer, Decision};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};

use super::*;
use crate::error::chain;

#[tokio::test(start_paused = true)]
async fn every_handler_gets_the_initial_list_before_it_counts_as_synced() {
    let stage = Stage::new().await;
    for name in ["a", "b", "c"] {
        stage.create(name, "1").await;
    }
    let informer = stage.informer();
    let logs = [Log::default(), Log::default()];
    let subscriptions = logs.each_ref().map(|log| informer.subscribe(log.handler()));
    for (log, subscription) in logs.iter().zip(&subscriptions) {
        subscription.wait_until_synced().await.unwrap();
        assert_eq!(
            log.take(),
            ["default/a initial 1", "default/b initial 1", "default/c initial 1"]
        );
    }
    stage.set("b", "2").await;
    stage.delete("a").await;
    stage.create("d", "1").await;
    stage.caught_up(&informer).await;
    run_ready_tasks().await;
    for log in logs {
        assert_eq!(log.take(), ["default/b 1 → 2", "default/a deleted 1", "default/d added 1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn late_handler_gets_the_stored_objects_then_each_change_once() {
    let stage = Stage::new().await;
    stage.create("a", "0").await;
    let informer = stage.informer();
    informer.wait_until_synced().await.unwrap();
    let mut seen = Vec::new();
    for round in 1..=50 {
        // Each subscribes at another point between a write and its event.
        stage.set("a", &format!("{round}")).await;
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        let log = Log::default();
        seen.push((informer.subscribe(log.handler()), log));
    }
    stage.caught_up(&informer).await;
    for (subscription, log) in seen {
        subscription.wait_until_synced().await.unwrap();
        run_ready_tasks().await;
        let log = log.take();
        let first = log[0].strip_prefix("default/a initial ").unwrap().to_owned();
        let rest: Vec<_> =
            log[1..].iter().map(|line| line.strip_prefix("default/a ").unwrap()).collect();
        let from: u32 = first.parse().unwrap();
        let wanted: Vec<_> = (from..50).map(|at| format!("{at} → {}", at + 1)).collect();
        assert_eq!(rest, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn resync_reaches_only_subscribers_that_request_it_without_a_list() {
    let mut test = TestCache::new(TypeOptions::new().resync(Duration::from_secs(3600)));
    test.list(5, [&*raw("a", "u1", 1, "1"), &*raw("b", "u2", 2, "1")]);
    let (with, without) = (Log::default(), Log::default());
    let wants = test.informer.subscribe_resynced(with.handler());
    let _rest = test.informer.subscribe(without.handler());
    wants.wait_until_synced().await.unwrap();
    with.take();
    tokio::time::advance(Duration::from_secs(3600 * 9 / 10 - 1)).await;
    run_ready_tasks().await;
    assert!(with.take().is_empty());
    tokio::time::advance(Duration::from_secs(3600 * 2 / 10 + 1)).await;
    run_ready_tasks().await;
    // The server of this test never responds and is not needed.
    assert_eq!(with.take(), ["default/a again 1", "default/b again 1"]);
    assert_eq!(without.take(), ["default/a initial 1", "default/b initial 1"]);
}

#[tokio::test(start_paused = true)]
async fn transform_runs_once_per_state_and_a_failure_skips_one_object() {
    let stage = Stage::new().await;
    let options = TypeOptions::new().namespaces(["default"]).transform(|object| {
        let data = &mut object["data"]["value"];
        match data.as_str() {
            Some("bad") => Err("this one is bad"),
            Some(text) => {
                *data = format!("{text}!").into();
                Ok(())
            }
            None => Ok(()),
        }
    });
    stage.cache.declare(&Kind::of::<ConfigMap>(), options).unwrap();
    stage.create("a", "1").await;
    stage.create("b", "bad").await;
    let informer = stage.informer();
    informer.wait_until_synced().await.unwrap();
    let get = |name: &str| informer.get(&Key::namespaced("default", name)).unwrap();
    assert_eq!(value(&get("a").unwrap()), "1!");
    assert!(get("b").is_none());
    let stats = informer.stats();
    assert_eq!((stats.rejections, stats.rejected.len()), (1, 1));
    assert!(stats.rejected["default/b"].contains("this one is bad"), "{stats:?}");
    stage.set("a", "2").await;
    stage.set("b", "good").await;
    stage.create("c", "3").await;
    stage.caught_up(&informer).await;
    let values = ["a", "b", "c"].map(|name| value(&get(name).unwrap()));
    assert_eq!(values, ["2!", "good!", "3!"]);
    assert!(informer.stats().rejected.is_empty());
}

#[tokio::test(start_paused = true)]
async fn undeclared_type_is_rejected_with_a_hint_and_not_watched() {
    let stage = Stage::new().await;
    let kind = Kind::of::<Pod>();
    let error = stage.cache.get(&kind, &Key::namespaced("default", "a")).unwrap_err();
    assert!(matches!(error, ReadError::Undeclared { .. }));
    assert!(error.to_string().contains(".reads::<Pod>()"), "{error}");
    assert!(stage.cache.list(&kind).entries().is_err());
    assert!(stage.cache.informer(&kind).is_err());
    assert!(stage.cache.stats().types.is_empty());
}

/// Rejects requests for Pods while enabled.
struct NoPods(Arc<AtomicBool>);

impl Authorizer for NoPods {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let pods =
            attributes.resource.as_ref().is_some_and(|requested| requested.resource == "pods");
        if pods && self.0.load(Ordering::Relaxed) {
            return Decision::Deny("pods are forbidden".to_owned());
        }
        Decision::Allow
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_type_is_reported_within_seconds_and_others_run() {
    let on = Arc::new(AtomicBool::new(true));
    let server = ApiServer::builder().seed(1).authorizer(NoPods(on.clone())).build().await.unwrap();
    let cache = Cache::new(Client::new(server.service(), "default"), CacheOptions::default());
    let (pods, maps) = (Kind::of::<Pod>(), Kind::of::<ConfigMap>());
    cache.declare(&pods, TypeOptions::new()).unwrap();
    cache.declare(&maps, TypeOptions::new()).unwrap();
    let (pods, maps) = (cache.informer(&pods).unwrap(), cache.informer(&maps).unwrap());
    maps.wait_until_synced().await.unwrap();
    let before = tokio::time::Instant::now();
    let error = pods.wait_until_synced().await.unwrap_err();
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    assert!(chain(&error).contains("pods are forbidden"), "{error}");
    let read = pods.get(&Key::namespaced("default", "a")).unwrap_err();
    assert!(chain(&read).contains("pods are forbidden"), "{read}");
    let health = cache.health();
    let ready: Vec<_> = health.iter().map(Health::is_ready).collect();
    assert_eq!(ready, [true, false], "{health:?}");
    assert_eq!(health[1].failure.as_ref().unwrap().reason, FailureReason::Forbidden);
    // It recovers once the permission is granted.
    on.store(false, Ordering::Relaxed);
    tokio::time::timeout(Duration::from_secs(120), async {
        while pods.wait_until_synced().await.is_err() {}
    })
    .await
    .unwrap();
    assert!(cache.health().iter().all(Health::is_ready));
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn optional_type_follows_its_crd() {
    let stage = Stage::new().await;
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "widgets");
    let kind = Kind::dynamic(&resource, true);
    stage.cache.declare(&kind, TypeOptions::new().optional()).unwrap();
    let informer = stage.cache.informer(&kind).unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let events = log.clone();
    let subscription = informer.subscribe(move |event| {
        let verb = match event {
            ObjectEvent::Added { .. } => "added",
            ObjectEvent::Deleted { .. } => "deleted",
            _ => "changed",
        };
        events.lock().push(format!("{} {verb}", event.object().meta().key()));
    });
    // There are no objects, and no failure.
    subscription.wait_until_synced().await.unwrap();
    assert_eq!(informer.list().entries().unwrap().len(), 0);
    let health = informer.health();
    assert!(health.is_ready() && health.absent, "{health:?}");

    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let widgets: Api<DynamicObject> =
        Api::namespaced_with(stage.client.clone(), "default", &resource);
    for _ in 0..2 {
        definitions.create(&PostParams::default(), &definition()).await.unwrap();
        widgets.create(&PostParams::default(), &DynamicObject::new("a", &resource)).await.unwrap();
        wait(|| informer.list().entries().unwrap().len() == 1).await;
        assert!(!informer.health().absent);
        definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
        wait(|| informer.health().absent).await;
        assert_eq!(informer.list().entries().unwrap().len(), 0);
        run_ready_tasks().await;
        let events = std::mem::take(&mut *log.lock());
        let (first, last) = (events.first().unwrap(), events.last().unwrap());
        assert_eq!((&**first, &**last), ("default/a added", "default/a deleted"), "{events:?}");
    }
}

/// Advances time until the condition is met.
async fn wait(until: impl Fn() -> bool) {
    for _ in 0..600 {
        if until() {
            return;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        run_ready_tasks().await;
    }
    panic!("it does not come to pass");
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_dropped_ends_the_watch_and_frees_the_memory() {
    let stage = Stage::new().await;
    stage.create("a", "1").await;
    let informer = stage.informer();
    let kind = informer.kind().clone();
    informer.wait_until_synced().await.unwrap();
    let entry = Arc::downgrade(&informer.list().entries().unwrap()[0]);
    let shared = Arc::downgrade(&informer.0.0);

    let other = stage.informer();
    drop(informer);
    run_ready_tasks().await;
    assert_eq!(other.list().entries().unwrap().len(), 1, "kept by another handle");

    let subscription = other.subscribe(drop);
    drop(other);
    run_ready_tasks().await;
    assert!(entry.upgrade().is_some(), "kept by a subscription");

    drop(subscription);
    run_ready_tasks().await;
    assert!(entry.upgrade().is_none());
    assert!(shared.upgrade().is_none(), "freed");
    assert!(stage.cache.stats().types.is_empty());

    // It can be started again.
    let informer = stage.cache.informer(&kind).unwrap();
    informer.wait_until_synced().await.unwrap();
    assert_eq!(informer.list().entries().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_answered_by_the_informer_that_runs_and_by_none_that_was_stopped() {
    let stage = Stage::new().await;
    stage.create("a", "1").await;
    let kind = Kind::of::<ConfigMap>();
    stage.cache.declare(&kind, TypeOptions::new()).unwrap();
    let (a, none) = (Key::namespaced("default", "a"), Key::namespaced("default", "none"));
    let read = |key: &Key| {
        stage.cache.get(&kind, key).map(|found| found.as_deref().map(value).unwrap_or_default())
    };
    for value in ["1", "2", "3"] {
        stage.set("a", value).await;
        let informer = stage.cache.informer(&kind).unwrap();
        let error = read(&a).unwrap_err();
        assert!(matches!(error, ReadError::NotSynced { .. }), "{error}");
        informer.wait_until_synced().await.unwrap();
        assert_eq!((&*read(&a).unwrap(), &*read(&none).unwrap()), (value, ""));

        // A stopped informer has no objects, which must not be returned as absence.
        let contents = informer.0.0.contents.clone();
        assert!(contents.get_ready(&a).is_some());
        drop(informer);
        run_ready_tasks().await;
        assert_eq!(contents.store.len(), 0);
        assert!(contents.get_ready(&a).is_none() && contents.get_ready(&none).is_none());
    }
    // The first read of an unwatched type starts a watch.
    assert!(matches!(read(&a), Err(ReadError::NotSynced { .. })));
    stage.cache.stop().await;
    assert!(matches!(read(&a), Err(ReadError::Stopped { .. })));
    assert!(matches!(read(&none), Err(ReadError::Stopped { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_declaration_does_not_cover_is_not_read_as_missing() {
    let stage = Stage::new().await;
    stage.create("a", "1").await;
    let informer = stage.informer();
    informer.wait_until_synced().await.unwrap();
    let get = |kind: &Kind, key: Key| stage.cache.get(kind, &key);
    assert!(get(informer.kind(), Key::namespaced("default", "a")).unwrap().is_some());
    assert!(get(informer.kind(), Key::namespaced("default", "b")).unwrap().is_none());
    let error = get(informer.kind(), Key::namespaced("other", "a")).unwrap_err();
    assert!(matches!(error, ReadError::OutsideNamespaces { .. }), "{error}");

    // The namespace in the key of a cluster-scoped object is ignored.
    let kind = Kind::of::<Namespace>();
    stage.cache.declare(&kind, TypeOptions::new()).unwrap();
    let namespaces = stage.cache.informer(&kind).unwrap();
    namespaces.wait_until_synced().await.unwrap();
    for key in [Key::cluster("default"), Key::namespaced("any", "default")] {
        assert!(get(&kind, key).unwrap().is_some());
    }
    assert!(get(&kind, Key::cluster("none")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_added_and_removed_with_events_without_restart() {
    let stage = Stage::new().await;
    stage.namespace("other").await;
    stage.create("a", "1").await;
    stage.create_in("other", "b", "1").await;
    let informer = stage.informer();
    let kind = informer.kind().clone();
    let log = Log::default();
    let subscription = informer.subscribe(log.handler());
    subscription.wait_until_synced().await.unwrap();
    assert_eq!(log.take(), ["default/a initial 1"]);
    let key = Key::namespaced("other", "b");
    let error = informer.get(&key).unwrap_err();
    assert!(matches!(error, ReadError::OutsideNamespaces { .. }), "{error}");
    assert!(informer.list().in_namespace("other").entries().is_err());

    stage.cache.set_namespaces(&kind, ["default", "other"]).unwrap();
    assert!(matches!(informer.get(&key), Err(ReadError::NotSynced { .. })));
    assert!(informer.get(&Key::namespaced("default", "a")).unwrap().is_some());
    informer.wait_until_synced().await.unwrap();
    run_ready_tasks().await;
    assert_eq!(log.take(), ["other/b initial 1"]);
    assert!(informer.get(&key).unwrap().is_some());
    let keys: Vec<_> = informer.list().entries().unwrap();
    assert_eq!(keys.len(), 2);

    stage.cache.set_namespaces(&kind, ["other"]).unwrap();
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/a vanished 1"]);
    stage.set("a", "2").await;
    run_ready_tasks().await;
    assert!(log.take().is_empty());
    assert_eq!(informer.list().entries().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn created_object_is_in_its_index_before_the_watch_event() {
    let mut test = TestCache::new(TypeOptions::new());
    let by_value = |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.values().cloned()).collect::<Vec<_>>()
    };
    test.cache.index::<ConfigMap>("value", by_value).unwrap();
    test.list(5, [&*raw("a", "u1", 1, "red"), &*raw("c", "u3", 2, "red")]);
    let kind = test.informer.kind().clone();
    test.cache.wrote(&kind, &raw("b", "u2", 9, "red"));
    test.cache.wrote(&kind, &raw("a", "u1", 10, "blue"));
    let names = |value: &str| -> Vec<String> {
        let found = test.informer.list().index("value", value).entries().unwrap();
        found.iter().map(|entry| entry.meta().key().name().to_owned()).collect()
    };
    assert_eq!(names("red"), ["b", "c"]);
    assert_eq!(names("blue"), ["a"]);
    assert_eq!(test.informer.stats().objects, 2, "the store is unchanged");
    assert_eq!(value(&test.get("c").unwrap()), "red", "others are not delayed");
}

/// kube-runtime's shared subscriber hangs if the object of an event is already deleted.
#[tokio::test(start_paused = true)]
async fn a_handler_that_lags_behind_a_deletion_still_gets_what_follows() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(1, []);
    let log = Log::default();
    let subscription = test.informer.subscribe(log.handler());
    subscription.wait_until_synced().await.unwrap();
    test.writer.changed(&raw("a", "u1", 2, "1"));
    test.writer.deleted(&raw("a", "u1", 3, "1"));
    run_ready_tasks().await;
    test.writer.changed(&raw("b", "u2", 4, "1"));
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/a added 1", "default/a deleted 1", "default/b added 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_or_is_slow_disturbs_no_other() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(1, [&*raw("a", "u1", 1, "1")]);
    let log = Log::default();
    let mut record = log.handler();
    let panics = test.informer.subscribe(move |event| {
        record(event);
        panic!("as the test wants");
    });
    panics.wait_until_synced().await.unwrap();
    test.writer.changed(&raw("a", "u1", 2, "2"));
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/a initial 1", "default/a 1 → 2"]);
    assert_eq!(test.informer.stats().handler_panics, 2);
}

#[tokio::test(start_paused = true)]
async fn dropped_subscription_receives_no_more_events() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(1, []);
    let log = Log::default();
    let subscription = test.informer.subscribe(log.handler());
    subscription.wait_until_synced().await.unwrap();
    test.writer.changed(&raw("a", "u1", 2, "1"));
    drop(subscription);
    test.writer.changed(&raw("a", "u1", 3, "2"));
    run_ready_tasks().await;
    assert!(log.take().is_empty());
    assert_eq!(test.informer.stats().handlers, 0);
}

#[tokio::test(start_paused = true)]
async fn stop_ends_all_tasks_and_reads_fail_with_stopped() {
    let stage = Stage::new().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let informer = stage.informer();
    let subscription = informer.subscribe(drop);
    subscription.wait_until_synced().await.unwrap();
    assert!(tokio::runtime::Handle::current().metrics().num_alive_tasks() > before);
    stage.cache.stop().await;
    run_ready_tasks().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
    let key = Key::namespaced("default", "a");
    assert!(matches!(informer.get(&key), Err(ReadError::Stopped { .. })));
    assert!(matches!(informer.wait_until_synced().await, Err(SyncError::Stopped { .. })));
    // An informer requested later does not start.
    drop((informer, subscription));
    assert!(matches!(stage.informer().wait_until_synced().await, Err(SyncError::Stopped { .. })));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_cache_ends_its_tasks() {
    let stage = Stage::new().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let informer = stage.informer();
    informer.wait_until_synced().await.unwrap();
    drop(stage.cache);
    run_ready_tasks().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
    assert!(matches!(informer.wait_until_synced().await, Err(SyncError::Stopped { .. })));
}

#[tokio::test(start_paused = true)]
async fn type_that_never_syncs_fails_after_the_timeout_with_the_reason() {
    let sync_timeout = Duration::from_secs(300);
    let options = CacheOptions { sync_timeout, ..CacheOptions::default() };
    let cache = Cache::new(Client::new(Silent, "default"), options);
    let kind = Kind::of::<ConfigMap>();
    cache.declare(&kind, TypeOptions::new()).unwrap();
    let key = Key::namespaced("default", "a");
    assert!(matches!(cache.get(&kind, &key), Err(ReadError::NotSynced { .. })));
    let before = tokio::time::Instant::now();
    let error = cache.informer(&kind).unwrap().wait_until_synced().await.unwrap_err();
    assert_eq!(before.elapsed(), sync_timeout);
    let SyncError::NotSynced { last, .. } = error else { panic!("{error}") };
    assert!(last.unwrap().message.contains("no data from the API server"));
}
