//! What tests of controllers share: a cluster in virtual time, and waiting that wakes on changes.

pub(crate) mod world;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Cache, CacheOptions, TypeOptions};
use evenkeel::{Clock, Key, Kind, Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{Cluster, Settings};

/// How long a test waits, in virtual time, before it fails.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A cluster with these controllers only, that repeats.
pub(crate) async fn cluster(only: &[&str]) -> Cluster {
    Cluster::start_with(&settings(only)).await.unwrap()
}

/// The settings of such a cluster.
pub(crate) fn settings(only: &[&str]) -> Settings {
    let mut settings = Settings {
        seed: Some(1),
        clock: Some(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())),
        ..Settings::default()
    };
    for name in crate::controllers::names().filter(|name| !only.contains(name)) {
        settings = settings.without(name);
    }
    settings
}

/// An object of a type from its JSON; `kind` and `apiVersion` may be left out.
pub(crate) fn object<K: Object>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Creates an object.
pub(crate) async fn create<K>(cluster: &Cluster, value: Value) -> K
where
    K: Object + Resource<Scope = NamespaceResourceScope>,
{
    let object: K = object(value);
    let namespace = object.meta().namespace.clone().unwrap_or_else(|| "default".to_owned());
    let api: Api<K> = Api::namespaced(cluster.client(), &namespace);
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// A config map, the plainest of objects.
pub(crate) fn config_map(name: &str, owners: &[OwnerReference]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

/// A reference to an owner that blocks its foreground deletion.
pub(crate) fn owner<K: Object>(object: &K) -> OwnerReference {
    let kind = Kind::of::<K>();
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind().to_owned(),
        name: object.meta().name.clone().unwrap(),
        uid: object.meta().uid.clone().unwrap(),
        controller: None,
        block_owner_deletion: Some(true),
    }
}

/// Deletes an object with a propagation policy.
pub(crate) async fn delete<K>(cluster: &Cluster, object: &K, policy: PropagationPolicy)
where
    K: Object + Resource<Scope = NamespaceResourceScope>,
{
    let ObjectMeta { name, namespace, .. } = object.meta().clone();
    let api: Api<K> = Api::namespaced(cluster.client(), &namespace.unwrap());
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    api.delete(&name.unwrap(), &params).await.unwrap();
}

/// Waits until an object is as `wanted` says; gives it.
pub(crate) async fn until<K: Object>(
    cluster: &Cluster,
    key: &Key,
    wanted: impl Fn(&K) -> bool,
) -> K {
    let found = wait::<K, _>(cluster, |all| {
        all.iter().find(|object| Key::of(*object) == *key && wanted(object)).cloned()
    });
    found.await
}

/// Waits until there is no such object.
pub(crate) async fn until_gone<K: Object>(cluster: &Cluster, object: &K) {
    let uid = object.meta().uid.clone();
    wait::<K, _>(cluster, |all| (!all.iter().any(|other| other.meta().uid == uid)).then_some(()))
        .await;
}

/// Waits until `wanted` finds what it looks for among all objects of a type, looking again at each
/// change.
pub(crate) async fn wait<K: Object, T>(cluster: &Cluster, wanted: impl Fn(&[K]) -> Option<T>) -> T {
    let kind = Kind::of::<K>();
    let cache = Cache::new(cluster.client(), CacheOptions::default());
    cache.declare(&kind, TypeOptions::new().cluster_wide_secrets()).unwrap();
    let informer = cache.informer(&kind).unwrap();
    let changed = Arc::new(Notify::new());
    let told = changed.clone();
    let subscription = informer.subscribe(move |_| told.notify_one());
    subscription.synced().await.unwrap();
    let watched = async {
        loop {
            let entries = informer.list(&Default::default()).unwrap();
            let all: Vec<K> =
                entries.iter().map(|entry| (*entry.decode::<K>().unwrap()).clone()).collect();
            if let Some(found) = wanted(&all) {
                return found;
            }
            changed.notified().await;
        }
    };
    match tokio::time::timeout(PATIENCE, watched).await {
        Ok(found) => found,
        Err(_) => {
            let entries = informer.list(&Default::default()).unwrap();
            let all: Vec<_> =
                entries.iter().map(|entry| String::from_utf8_lossy(entry.json())).collect();
            let journal: Vec<String> = cluster
                .manager()
                .controllers()
                .iter()
                .flat_map(|controller| controller.journal().records())
                .map(|record| record.to_string())
                .collect();
            let (all, journal) = (all.join("\n"), journal.join("\n"));
            panic!("waited in vain; {kind} are:\n{all}\nwhat was done:\n{journal}")
        }
    }
}

/// Waits until the cluster has nothing left to do at this moment: time only moves on when everybody
/// waits for it.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
