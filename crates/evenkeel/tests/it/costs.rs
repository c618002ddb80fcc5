//! Counts how often reads and writes decode and encode.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::cache::{CacheOptions, TypeOptions};
use evenkeel::k8s_openapi::NamespaceResourceScope;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use evenkeel::kube::Api;
use evenkeel::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::harness::{World, key, next, quiet, start, stop, until};

static DECODED: AtomicUsize = AtomicUsize::new(0);
static ENCODED: AtomicUsize = AtomicUsize::new(0);

/// A Deployment that counts how often its spec is decoded and encoded.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Counted {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Value>,
}

#[derive(Clone, Debug)]
struct Spec(Value);

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.fetch_add(1, Ordering::Relaxed);
        Value::deserialize(deserializer).map(Self)
    }
}

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ENCODED.fetch_add(1, Ordering::Relaxed);
        self.0.serialize(serializer)
    }
}

impl Resource for Counted {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Deployment".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "apps".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "deployments".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn deployment(name: &str) -> Deployment {
    let labels = json!({"app": "web"});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    }))
    .unwrap()
}

/// Returns how often the spec was encoded and decoded during `work`.
async fn counted<T>(work: impl Future<Output = T>) -> (T, usize, usize) {
    let count = || (ENCODED.load(Ordering::Relaxed), DECODED.load(Ordering::Relaxed));
    let before = count();
    let result = work.await;
    let after = count();
    (result, after.0 - before.0, after.1 - before.1)
}

// One test, because the counters are global.
#[tokio::test(start_paused = true)]
async fn unneeded_objects_are_neither_decoded_nor_encoded() {
    a_status_that_changes_nothing_leaves_the_rest_alone().await;
    a_lazy_list_decodes_one_object_at_a_time().await;
}

async fn a_status_that_changes_nothing_leaves_the_rest_alone() {
    let world = World::new().await;
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    deployments.create(&Default::default(), &deployment("web")).await.unwrap();
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(64);
    let reconciler = evenkeel::reconciler_fn(move |web: Arc<Counted>, cx: Context<Counted>| {
        let sender = sender.clone();
        async move {
            // The change of the label triggers the reconcile; the status has the same value.
            let step = web.labels().get("step").map_or(1, |_| 2);
            let status = cx.status(&web).set_in(move |web| {
                web.status.get_or_insert_with(|| json!({}))["replicas"] = json!(step);
            });
            let (written, encoded, decoded) = counted(status.write()).await;
            let _ = sender.try_send((written?.is_some(), encoded, decoded));
            Ok(Action::done())
        }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    let (written, encoded, _) = next(&mut received).await;
    assert!(written && encoded > 0, "the type has to be tried once");
    // The event of the write itself: its state was already decoded for the response.
    assert_eq!(next(&mut received).await, (false, 0, 0));
    quiet(&mut received).await;

    let label = json!({"metadata": {"labels": {"step": "2"}}});
    let label = evenkeel::client::Patch::Merge(label);
    deployments.patch("web", &Default::default(), &label).await.unwrap();
    // The status fields of the type are known: only the response is decoded.
    assert_eq!(next(&mut received).await, (true, 0, 1));
    assert_eq!(next(&mut received).await, (false, 0, 0));
    quiet(&mut received).await;
    stop(&manager, running).await;
}

async fn a_lazy_list_decodes_one_object_at_a_time() {
    let world = World::new().await;
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    for name in ["a", "b", "c", "d"] {
        deployments.create(&Default::default(), &deployment(name)).await.unwrap();
    }
    // The budget fits one and a half objects.
    let one = 1_500 * 7;
    let options = CacheOptions::new().budget(one);
    let manager = Manager::builder("it").cache(options).build(world.admin());
    manager.caches::<Counted>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    let kind = Kind::of::<Counted>();
    until(|| manager.cache().get(&kind, &key("a")).is_ok_and(|found| found.is_some())).await;
    let client = manager.client();

    let (list, _, decoded) = counted(client.list::<Counted>().lazy()).await;
    let list = list.unwrap();
    assert_eq!((list.len(), decoded), (4, 0));
    let mut objects = list.iter();
    let (first, _, decoded) = counted(async { objects.next() }).await;
    assert_eq!((first.unwrap().unwrap().name_any().as_str(), decoded), ("a", 1));
    drop(objects);
    let names: Vec<_> = list.into_iter().map(|object| object.unwrap().name_any()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(manager.cache().stats().decoded_bytes, 0, "a list beyond the budget keeps none");

    // A frequently read object is not evicted by a list of all objects.
    let hot = client.get::<Counted>(&key("c")).await.unwrap().unwrap();
    let (all, _, decoded) = counted(async { client.list::<Counted>().await }).await;
    let all = all.unwrap();
    assert_eq!((all.len(), decoded), (4, 3));
    assert!(Arc::ptr_eq(&all[2], &hot));
    drop((all, hot));
    let (_, _, decoded) = counted(client.get::<Counted>(&key("c"))).await;
    assert_eq!(decoded, 0);
    stop(&manager, running).await;
}
