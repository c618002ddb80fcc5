//! Waits for a state of cached objects.

use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::client::{Client, Patch};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use evenkeel::kube::Api;
use evenkeel::kube::api::{DeleteParams, PatchParams};
use evenkeel::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Fault, Running, World, key, map, start, stop};

async fn caching(world: &World) -> (Manager, Running) {
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    (manager, running)
}

/// Sets a value as another client, so that only the watch delivers it.
async fn set(world: &World, name: &str, value: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(world.admin(), "default");
    let patch = Patch::Merge(json!({"data": {"value": value}}));
    maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn has(value: &str) -> impl FnMut(Option<&ConfigMap>) -> bool + Send + use<'_> {
    move |map| map.and_then(|map| map.data.as_ref()?.get("value")).is_some_and(|it| it == value)
}

#[tokio::test(start_paused = true)]
async fn wait_ends_at_the_change_that_meets_the_condition() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let (client, begun) = (manager.client(), Instant::now());
    let change = async {
        for (at, value) in ["one", "two", "three"].into_iter().enumerate() {
            tokio::time::sleep(Duration::from_secs(2)).await;
            if at == 0 {
                world.create_map("a").await;
            }
            set(&world, "a", value).await;
        }
    };
    let (key, calls) = (key("a"), AtomicUsize::new(0));
    let mut met = has("two");
    let wait = client.wait_for(&key, |map| {
        calls.fetch_add(1, Ordering::Relaxed);
        met(map)
    });
    let (found, ()) = tokio::join!(
        async {
            let found = wait.await.unwrap().unwrap();
            assert_eq!(begun.elapsed().as_secs(), 4);
            found
        },
        change
    );
    assert_eq!(found.data.as_ref().unwrap()["value"], "two");
    let calls = calls.into_inner();
    assert!((3..=5).contains(&calls), "checked at changes of the object only: {calls}");
    let found = client.wait_for(&key, has("three")).await.unwrap();
    assert!(found.is_some(), "a condition that is already met ends the wait at once");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_deletion_ends_with_it() {
    let world = World::new().await;
    world.create_map("a").await;
    let (manager, running) = caching(&world).await;
    let (key, maps) = (key("a"), Api::<ConfigMap>::namespaced(world.admin(), "default"));
    let delete = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        maps.delete("a", &DeleteParams::default()).await.unwrap();
    };
    let wait = manager.client().wait_for::<ConfigMap>(&key, |map| map.is_none());
    let (found, ()) = tokio::join!(wait.into_future(), delete);
    assert!(found.unwrap().is_none());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn timeout_names_the_object_and_its_last_state() {
    let world = World::new().await;
    world.create_map("a").await;
    set(&world, "a", "other").await;
    let (manager, running) = caching(&world).await;
    let (client, key, begun) = (manager.client(), key("a"), Instant::now());
    let error = client.wait_for(&key, has("wanted")).await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 30, "the default");
    assert!(error.is_timeout());
    let text = error.to_string();
    let start = "ConfigMap default/a: condition not met within 30s; last seen: {";
    assert!(text.starts_with(start) && text.contains(r#""value":"other""#), "{text}");

    let missing = crate::harness::key("missing");
    let wait = client.wait_for(&missing, has("wanted")).timeout(Duration::from_secs(2));
    let text = wait.await.unwrap_err().to_string();
    let wanted = "ConfigMap default/missing: condition not met within 2s; last seen: nothing";
    assert_eq!(text, wanted);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn wait_on_an_unsynced_type_times_out_with_the_reason() {
    let world = World::new().await;
    world.rule(|_| Fault::Hang);
    let (manager, running) = caching(&world).await;
    let wait = manager.client().wait_for(&key("a"), has("x")).timeout(Duration::from_secs(3));
    let error = wait.await.unwrap_err();
    assert!(error.is_timeout());
    assert!(error.to_string().ends_with("; the cache is not synced"), "{error}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn wait_fails_as_other_reads_if_the_type_is_not_cached_or_the_cache_stops() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let client: Client = manager.client().clone();
    let error = client.wait_for::<Pod>(&key("a"), |_| true).await.unwrap_err();
    assert!(!error.is_timeout());
    assert!(error.to_string().starts_with("Pod is not cached; "), "{error}");

    let begun = Instant::now();
    let key = key("a");
    let waiting = client.wait_for(&key, has("x")).into_future();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop(&manager, running).await;
    };
    let (error, ()) = tokio::join!(waiting, stopping);
    let error = error.unwrap_err();
    assert!(error.to_string().contains("the cache has been stopped"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn wait_survives_a_relist_and_sees_own_writes() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    manager.wait_until_synced().await.unwrap();
    let (client, key) = (manager.client(), key("a"));
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The watch is down while the object changes, and then has to relist.
        world.freeze();
        world.server().compact();
        world.create_map("a").await;
        set(&world, "a", "x").await;
        world.server().compact();
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.rule(|_| Fault::None);
    };
    let wait = client.wait_for(&key, has("x")).timeout(Duration::from_secs(600));
    let (found, ()) = tokio::join!(wait.into_future(), change);
    assert!(found.unwrap().is_some());

    world.rule(World::frozen);
    let begun = Instant::now();
    let write = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let patch = Patch::Merge(json!({"data": {"value": "own"}}));
        client.patch::<ConfigMap>(&key, &patch).await.unwrap();
    };
    let (found, ()) = tokio::join!(client.wait_for(&key, has("own")).into_future(), write);
    assert!(found.unwrap().is_some());
    assert_eq!(begun.elapsed().as_secs(), 1, "an own write is seen without the watch");
    world.rule(|_| Fault::None);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn wait_on_a_list_ends_when_all_objects_meet_the_condition() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let client = manager.client();
    client.create(&map("other")).await.unwrap();
    let create = async {
        for name in ["a", "b", "c"] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut map = map(name);
            map.metadata.labels = Some([("app".into(), "web".into())].into());
            client.create(&map).await.unwrap();
        }
    };
    let selected = client.list::<ConfigMap>().in_namespace("default").label("app", "web");
    let wait = selected.clone().wait_for(|maps| maps.len() == 2);
    let (found, ()) = tokio::join!(wait.into_future(), create);
    let names: Vec<_> = found.unwrap().iter().map(|map| map.name_any()).collect();
    assert_eq!(names, ["a", "b"]);
    let wait = selected.wait_for(|maps| maps.len() == 9).timeout(Duration::from_secs(1));
    let text = wait.await.unwrap_err().to_string();
    assert!(text.starts_with("ConfigMap in default: condition not met within 1s"), "{text}");

    let kind = evenkeel::Kind::of::<ConfigMap>();
    let wait = client.dynamic(&kind).wait_for(&key("c"), |map| map.is_some());
    assert_eq!(wait.await.unwrap().unwrap().name_any(), "c");
    stop(&manager, running).await;
}
