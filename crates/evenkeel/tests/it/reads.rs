//! Cached reads, and reads after writes.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::cache::CacheOptions;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use evenkeel::kube::Api;
use evenkeel::kube::core::Expression;
use evenkeel::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::harness::{Fault, World, key, map, start, stop};

/// Returns a synced manager that caches ConfigMaps.
async fn caching(world: &World) -> (Manager, crate::harness::Running) {
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();
    (manager, running)
}

/// Delays all list and watch responses for ConfigMaps.
fn hold_watches(world: &World) {
    world.rule(|request| {
        if request.uri().query().is_some_and(|query| query.contains("watch")) {
            Fault::Hang
        } else {
            Fault::None
        }
    });
}

/// Each read is a part of the future of its reconcile, and moved with it.
#[tokio::test(start_paused = true)]
async fn the_future_of_a_read_is_small() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let (client, key) = (manager.client(), key("a"));
    let size = size_of_val(&client.get::<ConfigMap>(&key));
    assert!(size <= 96, "{size}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn write_is_read_back_immediately_by_key_and_in_lists() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let client = manager.client();
    for round in 0..100 {
        let name = format!("map-{round}");
        let created = client.create(&map(&name)).await.unwrap();
        let read = client.get::<ConfigMap>(&key(&name)).await.unwrap().unwrap();
        assert_eq!(read.metadata.uid, created.metadata.uid);
        assert_eq!(client.list::<ConfigMap>().in_namespace("default").await.unwrap().len(), 1);
        let mut changed = (*read).clone();
        changed.data = Some([("round".to_owned(), round.to_string())].into());
        client.update(&changed).await.unwrap();
        let read = client.get::<ConfigMap>(&key(&name)).await.unwrap().unwrap();
        assert_eq!(read.data, changed.data);
        assert!(client.delete(&*read).await.unwrap());
        assert_eq!(client.get::<ConfigMap>(&key(&name)).await.unwrap(), None);
        assert!(client.list::<ConfigMap>().in_namespace("default").await.unwrap().is_empty());
    }
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_read_back_while_the_watch_is_down() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    hold_watches(&world);
    // Closes the open watch.
    world.server().compact();
    let client = manager.client();
    client.create(&map("a")).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    assert!(client.get::<ConfigMap>(&key("other")).await.unwrap().is_none());
    assert_eq!(begun.elapsed(), Duration::ZERO, "a read of the cache waits for nothing");
    world.rule(|_| Fault::None);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn lost_response_makes_the_next_read_of_the_key_live() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let lose = Arc::new(AtomicBool::new(true));
    let losing = lose.clone();
    world.rule(move |request| {
        let post = request.method() == http::Method::POST;
        if post && losing.swap(false, Ordering::Relaxed) {
            Fault::LoseResponse
        } else {
            Fault::None
        }
    });
    let client = manager.client();
    let error = client.create(&map("a")).await.unwrap_err();
    assert_eq!(error.to_string(), "create ConfigMap default/a: no response from the API server");
    world.requests();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    assert!(client.get::<ConfigMap>(&key("b")).await.unwrap().is_none());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn read_of_an_undeclared_type_fails_with_a_hint() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    world.requests();
    let error = manager.client().get::<Pod>(&key("a")).await.unwrap_err();
    let fix = "Pod is not cached; add `.reads::<Pod>()` to the controller";
    assert!(error.to_string().starts_with(fix), "{error}");
    assert!(world.requests().is_empty(), "nothing is watched behind the author's back");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn caching_every_secret_requires_an_explicit_option() {
    let world = World::new().await;
    let manager = world.manager();
    let error = manager.caches::<Secret>(TypeOptions::new()).unwrap_err();
    assert!(error.to_string().contains("cluster_wide_secrets"), "{error}");
    manager.caches::<Secret>(TypeOptions::new().cluster_wide_secrets()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn reads_share_one_object_and_copy_nothing() {
    let world = World::new().await;
    world.create_map("a").await;
    let (manager, running) = caching(&world).await;
    let client = manager.client();
    let one = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    let other = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    let listed = client.list::<ConfigMap>().await.unwrap();
    assert!(Arc::ptr_eq(&one, &other));
    assert!(listed.iter().any(|map| Arc::ptr_eq(map, &one)));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn object_that_does_not_decode_is_a_decode_error() {
    #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
    struct Odd {
        metadata: evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
        data: std::collections::BTreeMap<String, u32>,
    }
    impl Resource for Odd {
        type DynamicType = ();
        type Scope = evenkeel::k8s_openapi::NamespaceResourceScope;
        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            "ConfigMap".into()
        }
        fn group((): &()) -> std::borrow::Cow<'_, str> {
            "".into()
        }
        fn version((): &()) -> std::borrow::Cow<'_, str> {
            "v1".into()
        }
        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            "configmaps".into()
        }
        fn meta(&self) -> &evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            &self.metadata
        }
        fn meta_mut(
            &mut self,
        ) -> &mut evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            &mut self.metadata
        }
    }
    let world = World::new().await;
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    for (name, value) in [("good", "1"), ("bad", "one")] {
        let object = json!({"metadata": {"name": name}, "data": {"n": value}});
        maps.create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    let (manager, running) = caching(&world).await;
    let error = manager.client().get::<Odd>(&key("bad")).await.unwrap_err();
    assert!(error.to_string().starts_with("ConfigMap default/bad does not decode:"), "{error}");
    assert!(manager.client().get::<ConfigMap>(&key("bad")).await.unwrap().is_some());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn type_that_is_not_served_is_reported_with_a_hint() {
    #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Absent", namespaced)]
    #[kube(crates(kube_core = "evenkeel::kube::core", k8s_openapi = "evenkeel::k8s_openapi"))]
    struct AbsentSpec {}

    let world = World::new().await;
    let manager = world.manager();
    manager.caches::<Absent>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    let hint = "the API server does not serve Absent.example.com/v1: install its CRD";
    let read = manager.client().get::<Absent>(&key("a")).await.unwrap_err();
    assert!(evenkeel::chain(&read).contains(hint), "{read}");
    let mut absent = Absent::new("a", AbsentSpec {});
    absent.metadata.namespace = Some("default".to_owned());
    let written = manager.client().create(&absent).await.unwrap_err();
    assert!(written.is_not_found(), "{written}");
    let text = format!("create Absent.example.com default/a: {hint}");
    assert!(written.to_string().starts_with(&text), "{written}");
    // A missing object is a different error.
    let missing = manager.client().patch::<ConfigMap>(&key("a"), &Patch::Merge(json!({}))).await;
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("not found") && !missing.contains("CRD"), "{missing}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn on_demand_cache_watches_every_type_that_is_read() {
    let world = World::new().await;
    world.create_map("a").await;
    let options = CacheOptions::new().on_demand();
    let manager = Manager::builder("tool").cache(options).build(world.client());
    let client = manager.client();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    assert!(client.list::<Pod>().await.unwrap().is_empty());
    assert!(client.list::<Secret>().await.is_ok(), "also where it takes a word elsewhere");
    manager.cache().stop().await;
}

/// Typed and dynamic lists, cached and live, and delete-collection select the same way.
#[tokio::test(start_paused = true)]
async fn one_selection_serves_lists_and_delete_collection() {
    let world = World::new().await;
    let (manager, running) = caching(&world).await;
    let client = manager.client();
    for (name, app, track) in
        [("a", "web", "stable"), ("b", "web", "canary"), ("c", "db", "stable")]
    {
        let mut map = map(name);
        map.metadata.labels =
            Some([("app".into(), app.into()), ("track".into(), track.into())].into());
        client.create(&map).await.unwrap();
    }
    let names = |maps: &[Arc<ConfigMap>]| maps.iter().map(|map| map.name_any()).collect::<Vec<_>>();
    let live_names = |maps: &[ConfigMap]| maps.iter().map(|map| map.name_any()).collect::<Vec<_>>();
    let canary = || Expression::In("track".into(), ["canary".into()].into());

    let cached = client.list::<ConfigMap>().in_namespace("default").label("app", "web");
    assert_eq!(names(&cached.clone().await.unwrap()), ["a", "b"]);
    assert_eq!(names(&cached.matching(canary()).await.unwrap()), ["b"]);
    let live = client.live().list::<ConfigMap>().in_namespace("default").label("app", "web");
    assert_eq!(live_names(&live.clone().await.unwrap()), ["a", "b"]);
    assert_eq!(live_names(&live.clone().matching(canary()).await.unwrap()), ["b"]);
    assert_eq!(live_names(&live.clone().field("metadata.name", "a").await.unwrap()), ["a"]);
    assert_eq!(live_names(&live.field_not("metadata.name", "a").await.unwrap()), ["b"]);

    let kind = evenkeel::Kind::of::<ConfigMap>();
    let dynamic = client.dynamic(&kind);
    let web = dynamic.list().label("app", "web").await.unwrap();
    assert_eq!(web.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["a", "b"]);
    let db = dynamic.live().list().in_namespace("default").label("app", "db").await.unwrap();
    assert_eq!(db.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);
    assert!(dynamic.live().get(&key("c")).await.unwrap().is_some());
    let keys = client.cache().list(&kind).in_namespace("default").label("app", "web").keys();
    assert_eq!(keys.unwrap(), [key("a"), key("b")]);

    let web = client.delete_collection::<ConfigMap>().in_namespace("default").label("app", "web");
    web.clone().dry_run().await.unwrap();
    web.field("metadata.name", "b").await.unwrap();
    assert_eq!(names(&client.list::<ConfigMap>().await.unwrap()), ["a", "c"]);
    dynamic.delete_collection().in_namespace("default").label("app", "web").await.unwrap();
    assert_eq!(names(&client.list::<ConfigMap>().await.unwrap()), ["c"]);
    assert!(dynamic.delete(&db[0]).await.unwrap());
    assert!(client.list::<ConfigMap>().await.unwrap().is_empty());
    stop(&manager, running).await;
}
