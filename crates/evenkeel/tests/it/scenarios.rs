//! End-to-end scenarios for the embedded server and a real kube-apiserver.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use evenkeel::client::Client;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube;
use evenkeel::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::harness::{World, start, stop};

/// Real servers are slower.
const TIMEOUT: Duration = Duration::from_secs(60);

type Scenario = for<'a> fn(&'a kube::Client) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// All scenarios by name.
pub(crate) const ALL: &[(&str, Scenario)] = &[
    ("own writes are read back at once", |client| Box::pin(own_writes(client))),
    ("children are applied, healed and followed", |client| Box::pin(children(client))),
    ("finalizers and status go their way", |client| Box::pin(finalizers(client))),
    ("types come and go", |client| Box::pin(types(client))),
    ("the cache ends up as the server is", |client| Box::pin(converges(client))),
];

#[tokio::test(start_paused = true)]
async fn all_scenarios_pass_on_the_embedded_server() {
    for (_, scenario) in ALL {
        let world = World::new().await;
        scenario(&world.admin()).await;
    }
}

async fn namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    client.create(&namespace).await.unwrap();
}

fn map(namespace: &str, name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some(namespace.to_owned());
    map.metadata.name = Some(name.to_owned());
    map
}

async fn come<T>(receiver: &mut mpsc::Receiver<T>) -> T {
    timeout(TIMEOUT, receiver.recv()).await.expect("nothing came").unwrap()
}

async fn own_writes(kube: &kube::Client) {
    let manager = Manager::builder("own-writes").build(kube.clone());
    manager.caches::<ConfigMap>(TypeOptions::new().namespaces(["own-writes"])).unwrap();
    let running = start(&manager);
    let client = manager.client();
    namespace(client, "own-writes").await;
    for round in 0..100 {
        let key = Key::namespaced("own-writes", &format!("map-{round}"));
        let created = client.create(&map("own-writes", key.name())).await.unwrap();
        let read = client.get::<ConfigMap>(&key).await.unwrap().unwrap();
        assert_eq!(read.metadata.uid, created.metadata.uid);
        let mut changed = (*read).clone();
        changed.data = Some(BTreeMap::from([("n".to_owned(), round.to_string())]));
        client.update(&changed).await.unwrap();
        let read = client.get::<ConfigMap>(&key).await.unwrap().unwrap();
        assert_eq!(read.data, changed.data);
        let listed = client.list::<ConfigMap>().in_namespace("own-writes").await.unwrap();
        let own = listed.iter().filter(|map| Key::of(&***map) == key);
        assert_eq!(own.count(), 1);
        assert!(client.delete(&*read).await.unwrap());
        assert!(client.get::<ConfigMap>(&key).await.unwrap().is_none());
        let listed = client.list::<ConfigMap>().in_namespace("own-writes").await.unwrap();
        assert!(listed.iter().all(|map| Key::of(&**map) != key));
    }
    stop(&manager, running).await;
}

struct Parent(mpsc::Sender<Option<i32>>);

impl Reconciler for Parent {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let Some(_) = cx.object() else { return Ok(Action::done()) };
        let child: Deployment = serde_json::from_value(json!({
            "metadata": {"name": cx.key().name()},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        }))?;
        let applied = cx.apply_owned(child).force().await?;
        let _ = self.0.try_send(applied.spec.as_ref().and_then(|spec| spec.replicas));
        Ok(Action::done())
    }
}

async fn children(kube: &kube::Client) {
    let manager = Manager::builder("children").build(kube.clone());
    let (sender, mut received) = mpsc::channel(4096);
    let scope = || TypeOptions::new().namespaces(["children"]);
    let controller = manager
        .controller(Parent(sender))
        .named("parent")
        .cached(scope())
        .watch(Watch::owned::<Deployment, ConfigMap>().cached(scope()))
        .register()
        .unwrap();
    let running = start(&manager);
    namespace(manager.client(), "children").await;
    let parent = map("children", "web");
    manager.client().create(&parent).await.unwrap();
    assert_eq!(come(&mut received).await, Some(2));
    let key = Key::namespaced("children", "web");
    // Another client scales the child; the parent reverts it.
    let by_hand = evenkeel::client::Patch::Merge(json!({"spec": {"replicas": 5}}));
    let hand = manager.client().with_field_manager("hand");
    hand.patch::<Deployment>(&key, &by_hand).await.unwrap();
    let healed = async {
        loop {
            come(&mut received).await;
            let child = hand.live().get::<Deployment>(&key).await.unwrap().unwrap();
            if child.spec.unwrap().replicas == Some(2) {
                return;
            }
        }
    };
    timeout(TIMEOUT, healed).await.unwrap();
    // Another client deletes the child; the parent creates it again.
    let child = hand.live().get::<Deployment>(&key).await.unwrap().unwrap();
    hand.delete(&child).await.unwrap();
    let again = async {
        loop {
            come(&mut received).await;
            let present = hand.live().get::<Deployment>(&key).await.unwrap();
            if present.is_some_and(|present| present.metadata.uid != child.metadata.uid) {
                return;
            }
        }
    };
    timeout(TIMEOUT, again).await.unwrap();
    assert!(controller.journal().alarms().is_empty());
    stop(&manager, running).await;
}

#[derive(
    CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[kube(
    group = "scenarios.example.com",
    version = "v1",
    kind = "Bucket",
    namespaced,
    status = "BucketStatus"
)]
struct BucketSpec {
    size: i32,
}

#[derive(
    Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
struct BucketStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[serde(default)]
    size: i32,
}

struct Buckets(mpsc::Sender<&'static str>);

impl Reconciler for Buckets {
    type Object = Bucket;

    async fn reconcile(&self, cx: &Context<Bucket>) -> Result<Action> {
        let send = |what| {
            let _ = self.0.try_send(what);
        };
        let cleanup = |_| async move {
            let _ = self.0.try_send("cleaned");
            Ok(())
        };
        let Some(bucket) = cx.finalize("scenarios.example.com/disk", cleanup).await? else {
            send("deleted");
            return Ok(Action::done());
        };
        let written = cx.status(&bucket).set(|status| status.size = bucket.spec.size).write();
        send(if written.await?.is_some() { "written" } else { "same" });
        Ok(Action::done())
    }
}

async fn define<K: CustomResourceExt>(client: &Client) {
    client.apply(&K::crd()).force().await.unwrap();
    let established = async {
        let key = Key::cluster(K::crd_name());
        loop {
            let definition = client.live().get::<CustomResourceDefinition>(&key).await.unwrap();
            let status = definition.and_then(|definition| definition.status).unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            if conditions.iter().any(|c| c.type_ == "Established" && c.status == "True") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, established).await.unwrap();
}

async fn finalizers(kube: &kube::Client) {
    let manager = Manager::builder("finalizers").build(kube.clone());
    let client = manager.client();
    namespace(client, "finalizers").await;
    define::<Bucket>(client).await;
    let (sender, mut received) = mpsc::channel(4096);
    manager.controller(Buckets(sender)).register().unwrap();
    let running = start(&manager);
    let mut bucket = Bucket::new("b", BucketSpec { size: 3 });
    bucket.metadata.namespace = Some("finalizers".to_owned());
    client.create(&bucket).await.unwrap();
    assert_eq!(come(&mut received).await, "written");
    let key = Key::of(&bucket);
    let stored = client.live().get::<Bucket>(&key).await.unwrap().unwrap();
    let expected = BucketStatus { observed_generation: Some(1), size: 3 };
    assert_eq!(stored.status, Some(expected));
    client.delete(&stored).await.unwrap();
    let cleaned = async {
        let mut seen = Vec::new();
        loop {
            seen.push(come(&mut received).await);
            if seen.ends_with(&["deleted"])
                && client.live().get::<Bucket>(&key).await.unwrap().is_none()
            {
                return seen;
            }
        }
    };
    let seen = timeout(TIMEOUT, cleaned).await.unwrap();
    assert_eq!(seen.iter().filter(|what| **what == "cleaned").count(), 1, "{seen:?}");
    stop(&manager, running).await;
    client
        .delete_by_key::<CustomResourceDefinition>(&Key::cluster(Bucket::crd_name()))
        .await
        .unwrap();
}

#[derive(
    CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[kube(group = "scenarios.example.com", version = "v1", kind = "Guest", namespaced)]
struct GuestSpec {}

async fn types(kube: &kube::Client) {
    let manager = Manager::builder("types").build(kube.clone());
    let client = manager.client();
    namespace(client, "types").await;
    let (sender, mut received) = mpsc::channel(4096);
    let reconciler = crate::harness::each::<Guest, _, _>(move |_, guest, _| {
        let _ = sender.try_send(guest.is_some());
        async { Ok(Action::done()) }
    });
    manager.controller(reconciler).cached(TypeOptions::new().optional()).register().unwrap();
    let running = start(&manager);
    define::<Guest>(client).await;
    let mut guest = Guest::new("g", GuestSpec {});
    guest.metadata.namespace = Some("types".to_owned());
    client.create(&guest).await.unwrap();
    assert!(come(&mut received).await);
    let definition = Key::cluster(Guest::crd_name());
    client.delete_by_key::<CustomResourceDefinition>(&definition).await.unwrap();
    while come(&mut received).await {}
    stop(&manager, running).await;
}

async fn converges(kube: &kube::Client) {
    let manager = Manager::builder("converges").build(kube.clone());
    manager.caches::<ConfigMap>(TypeOptions::new().namespaces(["converges"])).unwrap();
    let running = start(&manager);
    let client = manager.client();
    namespace(client, "converges").await;
    // Another process writes; this one watches.
    let other = Manager::builder("other").build(kube.clone());
    for n in 0..300 {
        let mut object = map("converges", &format!("m{}", n % 40));
        object.data = Some(BTreeMap::from([("n".to_owned(), n.to_string())]));
        if n % 7 == 3 {
            other.client().delete_by_key::<ConfigMap>(&Key::of(&object)).await.unwrap();
        } else {
            other.client().apply(&object).force().await.unwrap();
        }
    }
    let server = client.live().list::<ConfigMap>().in_namespace("converges").await.unwrap();
    let versions = |maps: &mut dyn Iterator<Item = &ConfigMap>| -> BTreeMap<Key, Option<String>> {
        maps.map(|map| (Key::of(map), map.metadata.resource_version.clone())).collect()
    };
    let expected = versions(&mut server.iter());
    let equal = async {
        loop {
            let cached = client.list::<ConfigMap>().in_namespace("converges").await.unwrap();
            if versions(&mut cached.iter().map(|map| &**map)) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, equal).await.expect("the cache stays behind");
    assert!(manager.cache().is_declared(&Kind::of::<ConfigMap>()));
    stop(&manager, running).await;
}
