//! Helpers of controller tests: a cluster in virtual time, and waiting for changes by watch.

pub(crate) mod faults;

pub(crate) mod virtual_cluster;

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::{Clock, Key, Kind, Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::{Cluster, ClusterOptions};

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
    wanted: impl Fn(&K) -> bool,
) -> K {
    let found = wait::<K, _>(cluster, |all| {
        all.iter().find(|object| Key::of(*object) == *key && wanted(object)).cloned()
    });
    found.await
}

/// Waits until the objects of a type satisfy `wanted`.
pub(crate) async fn until_all<K: Object>(cluster: &Cluster, wanted: impl Fn(&[K]) -> bool) {
    wait::<K, _>(cluster, |all| wanted(all).then_some(())).await;
}

/// Waits until the object no longer exists.
pub(crate) async fn until_deleted<K: Object>(cluster: &Cluster, object: &K) {
    let uid = object.meta().uid.clone();
    wait::<K, _>(cluster, |all| (!all.iter().any(|other| other.meta().uid == uid)).then_some(()))
        .await;
}

/// Waits until `wanted` returns a value for the objects of a type, checked at each change.
pub(crate) async fn wait<K: Object, T>(cluster: &Cluster, wanted: impl Fn(&[K]) -> Option<T>) -> T {
    let what = format!("a change of {}", Kind::of::<K>());
    let all = Api::<K>::all(cluster.client());
    let found = |objects: &BTreeMap<String, K>| {
        let all: Vec<K> = objects.values().cloned().collect();
        wanted(&all)
    };
    virtual_cluster::follow(&all, &what, |object| Key::of(object).to_string(), found).await
}

/// Waits until all tasks are idle: virtual time advances only then.
pub(crate) async fn wait_until_idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
