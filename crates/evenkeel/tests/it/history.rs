//! Servers that were emptied or replaced: the cache drops the former state.

use evenkeel::cache::TypeOptions;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use evenkeel::kube::Api;
use evenkeel::kube::api::{Patch, PatchParams};
use evenkeel::prelude::*;
use serde_json::json;

use crate::harness::{Fault, World, key, map, recording, start, stop, until};

/// Creates a history of some length.
async fn write_much(world: &World) {
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    world.create_map("busy").await;
    for number in 0..50 {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        maps.patch("busy", &PatchParams::default(), &patch).await.unwrap();
    }
}

fn names<K: evenkeel::Object>(manager: &Manager) -> Vec<String> {
    let kind = evenkeel::Kind::of::<K>();
    let found = manager.cache().list(&kind).entries().unwrap();
    found.iter().map(|entry| entry.meta().key().name().to_owned()).collect()
}

async fn create_account(world: &World, name: &str) {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    let accounts = Api::<ServiceAccount>::namespaced(world.admin(), "default");
    accounts.create(&Default::default(), &account).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn server_replaced_by_an_empty_one_leaves_no_stale_objects() {
    let world = World::new().await;
    write_much(&world).await;
    create_account(&world, "old").await;
    let manager = world.manager();
    let (reconciler, _received) = recording::<ConfigMap>();
    manager.controller(reconciler).reads::<ServiceAccount>().register().unwrap();
    let running = start(&manager);
    manager
        .cache()
        .informer(&evenkeel::Kind::of::<ServiceAccount>())
        .unwrap()
        .wait_until_synced()
        .await
        .unwrap();
    until(|| manager.readiness().is_ready()).await;
    assert_eq!(names::<ConfigMap>(&manager), ["busy"]);

    let begun = tokio::time::Instant::now();
    world.replace_server().await;
    create_account(&world, "new").await;
    world.create_map("fresh").await;
    until(|| {
        names::<ConfigMap>(&manager) == ["fresh"] && names::<ServiceAccount>(&manager) == ["new"]
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // Writes to the new server are read back, although its versions are lower.
    let client = manager.client();
    let mut changed = map("fresh");
    changed.data = Some([("a".to_owned(), "b".to_owned())].into());
    client.apply(&changed).await.unwrap();
    let read = client.get::<ConfigMap>(&key("fresh")).await.unwrap().unwrap();
    assert_eq!(read.data, changed.data);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn when_one_type_detects_a_restore_all_types_relist_once() {
    let world = World::new().await;
    write_much(&world).await;
    create_account(&world, "old").await;
    // The watch of ServiceAccounts stays open without events, as one from a future version does.
    world.rule(|request| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch"));
        match watch && request.uri().path().ends_with("/serviceaccounts") {
            true => World::frozen(request),
            false => Fault::None,
        }
    });
    let manager = world.manager();
    manager.caches::<ServiceAccount>(TypeOptions::new()).unwrap();
    manager.caches::<Secret>(TypeOptions::new().namespaces(["default"])).unwrap();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    let listed = || manager.cache().health().len() == 3 && manager.readiness().is_ready();
    until(listed).await;
    assert_eq!(names::<ServiceAccount>(&manager), ["old"]);

    world.replace_server().await;
    create_account(&world, "new").await;
    world.requests();
    let begun = tokio::time::Instant::now();
    until(|| names::<ServiceAccount>(&manager) == ["new"]).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let requests = world.requests();
    for kind in ["serviceaccounts", "secrets", "configmaps"] {
        let full = requests.iter().filter(|line| {
            let list = !line.contains("watch=true") || line.contains("sendInitialEvents");
            // A watch from a version that the new server does not have is rejected.
            let whole = !line.contains("resourceVersion=") && !line.ends_with("limit=1");
            line.contains(kind) && list && whole
        });
        // The streaming list of ServiceAccounts is rejected first.
        let most = if kind == "serviceaccounts" { 2 } else { 1 };
        assert!((1..=most).contains(&full.count()), "{kind}: {requests:#?}");
    }
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn configuration_applied_in_a_former_history_is_applied_again() {
    let world = World::new().await;
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    until(|| manager.cache().health().len() == 1 && manager.readiness().is_ready()).await;
    write_much(&world).await;
    let client = manager.client();
    client.apply(&map("wanted")).await.unwrap();
    until(|| names::<ConfigMap>(&manager) == ["busy", "wanted"]).await;
    world.replace_server().await;
    until(|| names::<ConfigMap>(&manager).is_empty()).await;
    client.apply(&map("wanted")).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    assert!(maps.get_opt("wanted").await.unwrap().is_some());
    stop(&manager, running).await;
}
