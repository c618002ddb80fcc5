//! A whole cluster in virtual time, and waiting for changes by watch.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::Object;
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::Value;

use crate::{Cluster, ClusterOptions};

/// The timeout of a wait, in virtual time.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// A cluster under test.
pub(crate) struct VirtualCluster {
    pub(crate) inner: Cluster,
    pub(crate) client: Client,
}

impl VirtualCluster {
    /// Starts a seeded cluster, whose clock is tokio's.
    pub(crate) async fn start(options: ClusterOptions) -> Self {
        let options = ClusterOptions { seed: Some(options.seed.unwrap_or(1)), ..options };
        let cluster = Cluster::start_with(&options).await.unwrap();
        let client = cluster.client();
        Self { inner: cluster, client }
    }

    pub(crate) fn api<K: Object + Resource<Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K: Object + Resource<Scope = NamespaceResourceScope>>(
        &self,
        object: Value,
    ) -> K {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn patch<K: Object + Resource<Scope = NamespaceResourceScope>>(
        &self,
        name: &str,
        patch: Value,
    ) -> K {
        let params = PatchParams::default();
        self.api::<K>().patch(name, &params, &Patch::Merge(patch)).await.unwrap()
    }

    /// Waits until the objects of a type, by name, satisfy `test`.
    pub(crate) async fn until<K: Object + Resource<Scope = NamespaceResourceScope>>(
        &self,
        what: &str,
        test: impl FnMut(&BTreeMap<String, K>) -> bool,
    ) -> BTreeMap<String, K> {
        until(&self.api::<K>(), what, test).await
    }

    /// Waits until one object satisfies `test`.
    pub(crate) async fn until_one<K: Object + Resource<Scope = NamespaceResourceScope>>(
        &self,
        name: &str,
        mut test: impl FnMut(&K) -> bool,
    ) -> K {
        let mut objects =
            self.until::<K>(name, |objects| objects.get(name).is_some_and(&mut test)).await;
        objects.remove(name).unwrap()
    }

    /// Advances virtual time.
    pub(crate) async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Watches the objects of a type until they satisfy `test`, which is called after each change.
pub(crate) async fn until<K: Object>(
    api: &Api<K>,
    what: &str,
    mut test: impl FnMut(&BTreeMap<String, K>) -> bool,
) -> BTreeMap<String, K> {
    follow(api, what, K::name_any, |objects| test(objects).then(|| objects.clone())).await
}

/// Watches the objects of a type, each under its `name`, until `wanted` returns a value.
pub(crate) async fn follow<K: Object, T>(
    api: &Api<K>,
    what: &str,
    name: impl Fn(&K) -> String,
    mut wanted: impl FnMut(&BTreeMap<String, K>) -> Option<T>,
) -> T {
    let mut objects = BTreeMap::new();
    let followed = async {
        loop {
            objects.clear();
            let listed = api.list(&kube::api::ListParams::default()).await.unwrap();
            let version = listed.metadata.resource_version.clone().unwrap();
            objects.extend(listed.items.into_iter().map(|object| (name(&object), object)));
            if let Some(found) = wanted(&objects) {
                return found;
            }
            let mut events = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
            while let Some(event) = events.try_next().await.unwrap() {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        objects.insert(name(&object), object);
                    }
                    WatchEvent::Deleted(object) => drop(objects.remove(&name(&object))),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(_) => break,
                }
                if let Some(found) = wanted(&objects) {
                    return found;
                }
            }
        }
    };
    let found = tokio::time::timeout(TIMEOUT, followed).await;
    found.unwrap_or_else(|_| panic!("timed out waiting for {what}: {objects:#?}"))
}
