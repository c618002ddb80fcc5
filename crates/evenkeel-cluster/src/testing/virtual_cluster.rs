//! A whole cluster in virtual time, and waiting for changes by watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{CacheOptions, Subscription};
use evenkeel::{Kind, Manager, Object};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{Cluster, ClusterOptions};

/// The timeout of a wait, in virtual time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3600);

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

    /// Waits until the objects of a type, by name, satisfy `test`: those of the default namespace,
    /// or of the cluster if the type is cluster-scoped.
    pub(crate) async fn until<K: Object>(
        &self,
        what: &str,
        test: impl FnMut(&BTreeMap<String, K>) -> bool + Send,
    ) -> BTreeMap<String, K> {
        until(&self.client, "default", what, test).await
    }

    /// Waits until one object satisfies `test`.
    pub(crate) async fn until_one<K: Object>(
        &self,
        name: &str,
        mut test: impl FnMut(&K) -> bool + Send,
    ) -> K {
        let mut objects =
            self.until::<K>(name, |objects| objects.get(name).is_some_and(&mut test)).await;
        objects.remove(name).unwrap()
    }

    /// Records every state of the objects of a type from now on; a wait may skip some of them.
    pub(crate) async fn record<K: Object>(&self) -> Recording<K> {
        let observer = observer(&self.client);
        let (states, informer) = (Arc::default(), observer.cache().informer(&Kind::of::<K>()));
        let recorded: Arc<Mutex<Vec<_>>> = Arc::clone(&states);
        let subscription = informer.unwrap().subscribe(move |event| {
            recorded.lock().extend(event.new().map(|entry| entry.decode::<K>().unwrap()));
        });
        subscription.wait_until_synced().await.unwrap();
        Recording { states, _subscription: subscription, _observer: observer }
    }

    /// Advances virtual time.
    pub(crate) async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// The states of objects since [`VirtualCluster::record`].
pub(crate) struct Recording<K> {
    states: Arc<Mutex<Vec<Arc<K>>>>,
    _subscription: Subscription,
    _observer: Manager,
}

impl<K> Recording<K> {
    /// Returns the states in order.
    pub(crate) async fn finish(self) -> Vec<Arc<K>> {
        super::wait_until_idle().await;
        std::mem::take(&mut self.states.lock())
    }
}

/// Waits until the objects of a type in a namespace, or in all, satisfy `test`; by name.
pub(crate) async fn until<K: Object>(
    client: &Client,
    namespace: &str,
    what: &str,
    mut test: impl FnMut(&BTreeMap<String, K>) -> bool + Send,
) -> BTreeMap<String, K> {
    let by_name = |all: &[Arc<K>]| {
        all.iter().map(|object| (object.name_any(), K::clone(object))).collect::<BTreeMap<_, _>>()
    };
    let observer = observer(client);
    let all = observer.client().list::<K>().in_namespace(namespace);
    let found = all.wait_for(|all| test(&by_name(all))).timeout(TIMEOUT).await;
    by_name(&found.unwrap_or_else(|error| panic!("waiting for {what}: {error}")))
}

/// Creates a manager that caches what is read through it.
pub(crate) fn observer(client: &Client) -> Manager {
    let options = CacheOptions::in_process().on_demand().seed(1);
    Manager::builder("observer").cache(options).build(client.clone())
}
