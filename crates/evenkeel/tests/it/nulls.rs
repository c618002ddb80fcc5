//! Objects with a null in place of a Go zero value decode.

use std::sync::Arc;

use evenkeel::cache::TypeOptions;
use evenkeel::k8s_openapi::api::core::v1::Service;
use evenkeel::kube::Api;
use evenkeel::kube::api::Patch;
use evenkeel::prelude::*;
use serde_json::{Value, json};

use crate::harness::{World, key, next, recording, start, stop};

/// A Service whose status has a condition without a time, stored as kube-apiserver stores it.
async fn create_service(world: &World) {
    let api = Api::<Service>::namespaced(world.admin(), "default");
    let service = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
    });
    api.create(&Default::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let path = "/api/v1/namespaces/default/services/web";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut stored: Value = world.admin().request(request).await.unwrap();
    stored["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": null,
    }]);
    let request = http::Request::put(format!("{path}/status"))
        .header("content-type", "application/json")
        .body(stored.to_string().into_bytes())
        .unwrap();
    let written: Value = world.admin().request(request).await.unwrap();
    assert_eq!(written["status"]["conditions"][0]["lastTransitionTime"], Value::Null);
    assert!(written["status"]["conditions"][0].get("lastTransitionTime").is_some());
}

#[tokio::test(start_paused = true)]
async fn service_with_a_null_time_decodes_on_every_path() {
    let world = World::new().await;
    create_service(&world).await;
    let manager = world.manager();
    let (reconciler, mut received) = recording::<Service>();
    manager.controller(reconciler).register().unwrap();
    manager
        .index::<Service>("app", |service| {
            let spec = service.spec.clone().unwrap_or_default();
            spec.selector.unwrap_or_default().remove("app").into_iter().collect()
        })
        .unwrap();
    let running = start(&manager);
    while next(&mut received).await != key("web") {}

    let client = manager.client();
    let times = |service: &Service| {
        let conditions = service.status.clone().unwrap().conditions.unwrap();
        conditions[0].last_transition_time.0.to_string()
    };
    let zero = "0001-01-01T00:00:00Z";
    assert_eq!(times(&client.get::<Service>(&key("web")).await.unwrap().unwrap()), zero);
    assert_eq!(client.list::<Service>().index("app", "web").await.unwrap().len(), 1);
    assert_eq!(times(&client.live().get::<Service>(&key("web")).await.unwrap().unwrap()), zero);
    let listed = client.live().list::<Service>().in_namespace("default").await.unwrap();
    let web = listed.iter().find(|service| service.name_any() == "web").unwrap();
    assert_eq!(times(web), zero);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let patched: Arc<Service> = client.patch::<Service>(&key("web"), &patch).await.unwrap();
    assert_eq!(times(&patched), zero);
    let dynamic = client.dynamic(&evenkeel::Kind::of::<Service>());
    let object = dynamic.get(&key("web")).await.unwrap().unwrap();
    assert_eq!(object.data["status"]["conditions"][0]["lastTransitionTime"], Value::Null);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn view_of_a_service_with_a_null_time_decodes() {
    #[derive(serde::Deserialize)]
    struct View {
        status: Status,
    }
    #[derive(serde::Deserialize)]
    struct Status {
        conditions: Vec<evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
    }
    let world = World::new().await;
    create_service(&world).await;
    let manager = world.manager();
    manager.caches::<Service>(TypeOptions::new().view::<View>()).unwrap();
    let running = start(&manager);
    let kind = evenkeel::Kind::of::<Service>();
    let informer = manager.cache().informer(&kind).unwrap();
    informer.wait_until_synced().await.unwrap();
    let entries = manager.cache().list(&kind).entries().unwrap();
    let web = entries.iter().find(|entry| entry.meta().key() == &key("web")).unwrap();
    assert_eq!(web.decode::<View>().unwrap().status.conditions[0].type_, "Ready");
    stop(&manager, running).await;
}
