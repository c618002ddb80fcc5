//! Writes with unknown outcome: lost responses, cancelled writes, rejected writes, other kinds.

use std::time::Duration;

use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::autoscaling::v1::Scale;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::PostParams;
use evenkeel::prelude::*;
use http::Method;
use serde_json::json;
use tokio::time::timeout;

use crate::harness::{Fault, Running, World, key, map, start, stop, until};

/// Returns a manager whose cache keeps the initial state.
async fn frozen<K: evenkeel::Object>(world: &World, options: TypeOptions) -> (Manager, Running) {
    world.freeze();
    let manager = world.manager();
    manager.caches::<K>(options).unwrap();
    let running = start(&manager);
    let informer = manager.cache().informer(&Kind::of::<K>()).unwrap();
    informer.wait_until_synced().await.unwrap();
    world.requests();
    (manager, running)
}

fn gets(world: &World) -> Vec<String> {
    let requests = world.requests().into_iter();
    requests.filter(|request| request.starts_with("GET") && !request.contains("watch")).collect()
}

#[tokio::test(start_paused = true)]
async fn cancelled_write_makes_the_next_read_live() {
    let world = World::new().await;
    world.create_map("old").await;
    let (manager, running) = frozen::<ConfigMap>(&world, TypeOptions::new()).await;
    let client = manager.client();
    world.rule(|request| match *request.method() {
        Method::GET => World::frozen(request),
        _ => Fault::HangAfterRequest,
    });
    let second = Duration::from_secs(1);
    assert!(timeout(second, client.create(&map("a")).into_future()).await.is_err());
    let old = client.get::<ConfigMap>(&key("old")).await.unwrap().unwrap();
    assert!(timeout(second, client.delete(&*old).into_future()).await.is_err());
    world.requests();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    assert!(client.get::<ConfigMap>(&key("old")).await.unwrap().is_none());
    assert_eq!(gets(&world).len(), 2);
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    assert!(client.get::<ConfigMap>(&key("old")).await.unwrap().is_none());
    assert!(gets(&world).is_empty(), "once is enough");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn write_cancelled_by_a_timeout_is_recorded_with_unknown_outcome() {
    let world = World::new().await;
    world.create_map("a").await;
    world.rule(|request| match *request.method() {
        Method::PATCH => Fault::HangAfterRequest,
        _ => World::frozen(request),
    });
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(64);
    let reconciler = evenkeel::reconciler_fn(move |map: Arc<ConfigMap>, cx: Context<ConfigMap>| {
        let sender = sender.clone();
        async move {
            let _ = sender.try_send(map.data.clone());
            if map.data.is_none() {
                let patch = evenkeel::client::Patch::Merge(json!({"data": {"a": "b"}}));
                cx.client().patch::<ConfigMap>(cx.key(), &patch).await?;
            }
            Ok(Action::done())
        }
    });
    let limit = Duration::from_secs(1);
    let controller = manager.controller(reconciler).reconcile_timeout(limit).register().unwrap();
    let running = start(&manager);
    assert_eq!(crate::harness::next(&mut received).await, None);
    assert!(crate::harness::next(&mut received).await.is_some(), "the retry sees what was done");
    until(|| controller.reconcile_counts().success == 1).await;
    let records = controller.journal().records();
    assert!(records[0].to_string().contains("cancelled before the response"), "{}", records[0]);
    assert_eq!(
        (controller.reconcile_counts().timeouts, controller.reconcile_counts().error),
        (1, 1)
    );
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn missing_response_times_out() {
    let world = World::new().await;
    world.rule(|_| Fault::Hang);
    let error = world.manager().client().create(&map("a")).await.unwrap_err();
    assert_eq!(error.to_string(), "create ConfigMap default/a: no response from the API server");
}

#[tokio::test(start_paused = true)]
async fn object_with_a_generated_name_is_found_after_a_lost_response() {
    let world = World::new().await;
    let (manager, running) = frozen::<ConfigMap>(&world, TypeOptions::new()).await;
    let client = manager.client();
    world.rule(|request| match *request.method() {
        Method::POST => Fault::LoseResponse,
        _ => World::frozen(request),
    });
    let mut object = map("");
    object.metadata.name = None;
    object.metadata.generate_name = Some("made-".to_owned());
    client.create(&object).await.unwrap_err();
    let found = client.list::<ConfigMap>().in_namespace("default").await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].name_any().starts_with("made-"));
    // A create without a name leaves no unknown outcome for later reads.
    client.create(&map("")).await.unwrap_err();
    client.list::<ConfigMap>().await.unwrap();
    world.rule(World::frozen);
    let other = client.create(&object).await.unwrap();
    assert_ne!(other.name_any(), found[0].name_any());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn applies_after_a_lost_response_are_not_repeated_forever() {
    let world = World::new().await;
    let (manager, running) = frozen::<ConfigMap>(&world, TypeOptions::new()).await;
    let client = manager.client();
    world.rule(|request| match *request.method() {
        Method::PATCH => Fault::LoseResponse,
        _ => World::frozen(request),
    });
    client.apply(&map("a")).await.unwrap_err();
    world.rule(World::frozen);
    world.requests();
    client.apply(&map("a")).await.unwrap();
    let methods = || -> Vec<String> {
        let requests = world.requests().into_iter().filter(|it| !it.contains("watch"));
        requests.map(|it| it.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(methods(), ["GET", "PATCH"], "one live read, and the apply whose digest is unknown");
    client.apply(&map("a")).await.unwrap();
    assert!(methods().is_empty(), "the apply is recognized as a repeated one");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn object_that_cannot_be_read_does_not_block_the_reads_of_others() {
    let world = World::new().await;
    world.create_map("other").await;
    let (manager, running) = frozen::<ConfigMap>(&world, TypeOptions::new()).await;
    let client = manager.client();
    world.rule(|request| match request.uri().path().ends_with("/a") {
        true => Fault::Respond(500, "{}"),
        false => World::frozen(request),
    });
    client.apply(&map("a")).await.unwrap_err();
    let found = client.list::<ConfigMap>().in_namespace("default").await.unwrap();
    assert_eq!(found.iter().map(|it| it.name_any()).collect::<Vec<_>>(), ["other"]);
    // Without a list either, the error is the one of the object.
    client.apply(&map("a")).await.unwrap_err();
    world.rule(|_| Fault::Respond(500, "{}"));
    let error = client.list::<ConfigMap>().in_namespace("default").await.unwrap_err();
    assert!(error.to_string().starts_with("get ConfigMap default/a"), "{error}");
    stop(&manager, running).await;
}

fn deployment() -> Deployment {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_subresource_of_another_kind_is_not_cached_and_what_it_changed_is_read_back() {
    let world = World::new().await;
    let api = Api::<Deployment>::namespaced(world.admin(), "default");
    api.create(&PostParams::default(), &deployment()).await.unwrap();
    let (manager, running) = frozen::<Deployment>(&world, TypeOptions::new()).await;
    let client = manager.client();
    let scale = client.subresource::<Deployment>(&key("web"), "scale");
    let mut wanted = scale.get::<Scale>().await.unwrap();
    wanted.spec.get_or_insert_default().replicas = Some(3);
    world.requests();
    scale.update(&wanted).await.unwrap();
    assert_eq!(gets(&world).len(), 1, "once, by the write itself");
    let read = client.get::<Deployment>(&key("web")).await.unwrap().unwrap();
    assert_eq!(read.spec.as_ref().unwrap().replicas, Some(3));
    assert_eq!(client.list::<Deployment>().await.unwrap().len(), 1);
    assert!(gets(&world).is_empty(), "no read has to ask again");
    // The response of the repeated apply is a Scale, not the Deployment.
    let applied: Scale = serde_json::from_value(json!({"apiVersion": "autoscaling/v1",
        "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 4}}))
    .unwrap();
    for _ in 0..2 {
        let answer = scale.apply(&applied).force().await.unwrap();
        assert_eq!(answer.spec.as_ref().unwrap().replicas, Some(4));
    }
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn apply_patch_of_the_status_contains_the_status() {
    let world = World::new().await;
    let api = Api::<Deployment>::namespaced(world.admin(), "default");
    api.create(&PostParams::default(), &deployment()).await.unwrap();
    let (manager, running) = frozen::<Deployment>(&world, TypeOptions::new()).await;
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"}, "status": {"observedGeneration": 7}});
    let status = manager.client().subresource::<Deployment>(&key("web"), "status");
    let written = status.patch::<Deployment>(&Patch::Apply(applied)).force().await.unwrap();
    assert_eq!(written.status.as_ref().unwrap().observed_generation, Some(7));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn delete_collection_is_read_back_with_one_list() {
    let world = World::new().await;
    for number in 0..40 {
        world.create_map(&format!("map-{number}")).await;
    }
    let (manager, running) = frozen::<ConfigMap>(&world, TypeOptions::new()).await;
    let client = manager.client();
    // An object with unknown outcome must not hide the others.
    world.rule(|request| match *request.method() {
        Method::POST => Fault::LoseResponse,
        _ => World::frozen(request),
    });
    client.create(&map("late")).await.unwrap_err();
    world.rule(World::frozen);
    world.requests();
    client.delete_collection::<ConfigMap>().in_namespace("default").await.unwrap();
    assert_eq!(client.list::<ConfigMap>().in_namespace("default").await.unwrap().len(), 0);
    assert_eq!(gets(&world).len(), 1);
    assert_eq!(client.list::<ConfigMap>().in_namespace("default").await.unwrap().len(), 0);
    assert!(gets(&world).is_empty());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn names_that_would_change_the_path_are_rejected() {
    let world = World::new().await;
    let manager = world.manager();
    let client = manager.client();
    for namespace in ["", "..", "default/configmaps/a?"] {
        let error =
            client.delete_collection::<ConfigMap>().in_namespace(namespace).await.unwrap_err();
        assert!(error.to_string().contains("is not a valid namespace"), "{error}");
        client.live().list::<ConfigMap>().in_namespace(namespace).await.unwrap_err();
    }
    assert!(world.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn error_that_shows_a_stale_cache_makes_the_next_read_live() {
    let world = World::new().await;
    for name in ["changed", "deleted"] {
        world.create_map(name).await;
    }
    let (manager, running) = frozen::<ConfigMap>(&world, TypeOptions::new()).await;
    let client = manager.client();
    let api = Api::<ConfigMap>::namespaced(world.admin(), "default");
    let patch = evenkeel::client::Patch::Merge(json!({"data": {"a": "b"}}));
    api.patch("changed", &Default::default(), &patch).await.unwrap();
    api.delete("deleted", &Default::default()).await.unwrap();
    world.create_map("created").await;

    let stale = client.get::<ConfigMap>(&key("changed")).await.unwrap().unwrap();
    assert!(client.update(&*stale).await.unwrap_err().is_conflict());
    let read = client.get::<ConfigMap>(&key("changed")).await.unwrap().unwrap();
    assert!(read.data.is_some());

    let stale = client.get::<ConfigMap>(&key("deleted")).await.unwrap().unwrap();
    assert!(client.update(&*stale).await.is_err());
    assert!(client.get::<ConfigMap>(&key("deleted")).await.unwrap().is_none());

    assert!(client.get::<ConfigMap>(&key("created")).await.unwrap().is_none());
    assert!(client.create(&map("created")).await.unwrap_err().is_already_exists());
    assert!(client.get::<ConfigMap>(&key("created")).await.unwrap().is_some());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn apply_is_skipped_only_while_nothing_differs() {
    let world = World::new().await;
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    let client = manager.client();
    let mut wanted = map("a");
    wanted.data = Some([("a".to_owned(), "b".to_owned())].into());
    let sent = |world: &World| {
        let requests = world.requests().into_iter();
        requests.filter(|request| request.starts_with("PATCH")).count()
    };
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    client.apply(&wanted).await.unwrap();
    client.apply(&wanted).await.unwrap();
    assert_eq!(sent(&world), 1);
    client.apply(&wanted).force().await.unwrap();
    assert_eq!(sent(&world), 1, "force changes the request");
    client.apply(&wanted).field_manager("other").await.unwrap();
    client.apply(&wanted).dry_run().await.unwrap();
    assert_eq!(sent(&world), 2);
    client.apply(&wanted).await.unwrap();
    world.requests();
    client.delete_by_key::<ConfigMap>(&key("a")).await.unwrap();
    let again = client.apply(&wanted).await.unwrap();
    assert_eq!(sent(&world), 1, "it is another object");
    assert_eq!(again.data, wanted.data);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_apply_to_a_type_cached_by_its_metadata_succeeds_again() {
    let world = World::new().await;
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new().metadata_only()).unwrap();
    let running = start(&manager);
    let client = manager.client();
    client.peek::<ConfigMap>(&key("a")).await.unwrap();
    let mut wanted = map("a");
    wanted.data = Some([("a".to_owned(), "b".to_owned())].into());
    for _ in 0..3 {
        assert_eq!(client.apply(&wanted).await.unwrap().data, wanted.data);
    }
    stop(&manager, running).await;
}
