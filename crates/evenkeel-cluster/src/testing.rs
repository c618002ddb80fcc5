//! Helpers of controller tests: a cluster in virtual time, and waiting for changes by watch.

pub(crate) mod faults;

pub(crate) mod virtual_cluster;

use std::time::Duration;

use evenkeel::{Clock, Key, Kind, Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::{Cluster, ClusterOptions};
use virtual_cluster::{TIMEOUT, observer};

/// Starts a seeded cluster with only these controllers.
pub(crate) async fn cluster(only: &[&str]) -> Cluster {
    Cluster::start_with(&options(only)).await.unwrap()
}

/// Returns the options of such a cluster.
pub(crate) fn options(only: &[&str]) -> ClusterOptions {
    let mut options = ClusterOptions {
        seed: Some(1),
        clock: Some(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())),
        ..ClusterOptions::default()
    };
    for name in crate::controllers::names().filter(|name| !only.contains(name)) {
        options = options.disable_controller(name);
    }
    options
}

/// Parses an object of a type; `kind` and `apiVersion` may be omitted.
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

/// Returns a ConfigMap, the simplest object.
pub(crate) fn config_map(name: &str, owners: &[OwnerReference]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

/// Returns an owner reference that blocks foreground deletion of the owner.
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

/// Waits until an object satisfies `wanted`. Returns it.
pub(crate) async fn until<K: Object>(
    cluster: &Cluster,
    key: &Key,
    mut wanted: impl FnMut(&K) -> bool + Send,
) -> K {
    let observer = observer(&cluster.client());
    let wait = observer.client().wait_for(key, |found: Option<&K>| found.is_some_and(&mut wanted));
    K::clone(&wait.timeout(TIMEOUT).await.unwrap().unwrap())
}

/// Waits until the objects of a type satisfy `wanted`.
pub(crate) async fn until_all<K: Object>(
    cluster: &Cluster,
    mut wanted: impl FnMut(&[K]) -> bool + Send,
) {
    wait::<K, _>(cluster, |all| wanted(all).then_some(())).await;
}

/// Waits until the object no longer exists.
pub(crate) async fn until_deleted<K: Object>(cluster: &Cluster, object: &K) {
    let uid = object.meta().uid.clone();
    let observer = observer(&cluster.client());
    let deleted = |found: Option<&K>| found.is_none_or(|found| found.meta().uid != uid);
    let wait = observer.client().wait_for(&Key::of(object), deleted);
    wait.timeout(TIMEOUT).await.unwrap();
}

/// Waits until `wanted` returns a value for the objects of a type, checked at each change.
pub(crate) async fn wait<K: Object, T: Send>(
    cluster: &Cluster,
    mut wanted: impl FnMut(&[K]) -> Option<T> + Send,
) -> T {
    let observer = observer(&cluster.client());
    let mut result = None;
    let wait = observer.client().list::<K>().wait_for(|all| {
        let all: Vec<K> = all.iter().map(|object| K::clone(object)).collect();
        result = wanted(&all);
        result.is_some()
    });
    wait.timeout(TIMEOUT).await.unwrap();
    result.unwrap()
}

/// Waits until all tasks are idle: virtual time advances only then.
pub(crate) async fn wait_until_idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
