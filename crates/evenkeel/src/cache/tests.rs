//! The cache with the embedded server, in virtual time.

mod behaviours;
mod declarations;
mod relists;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Pending;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_apiserver::ApiServer;
use http::{Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;

use super::event::ObjectEvent;
use super::writer::Writer;
use super::*;
use crate::key::Key;
use crate::watch::Sink as _;

/// A server and a cache.
struct Stage {
    server: ApiServer,
    client: Client,
    cache: Cache,
}

impl Stage {
    async fn new() -> Self {
        let server = ApiServer::builder().seed(1).build().await.unwrap();
        let client = Client::new(server.service(), "default");
        let options = CacheOptions { seed: Some(1), ..CacheOptions::default() };
        let cache = Cache::new(client.clone(), options);
        Self { server, client, cache }
    }

    fn config_maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn namespace(&self, name: &str) {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }

    /// Creates a ConfigMap in `default` with this value.
    async fn create(&self, name: &str, value: &str) -> ConfigMap {
        self.create_in("default", name, value).await
    }

    async fn create_in(&self, namespace: &str, name: &str, value: &str) -> ConfigMap {
        let map = json!({ "metadata": { "name": name }, "data": { "value": value } });
        let map = serde_json::from_value(map).unwrap();
        self.config_maps(namespace).create(&PostParams::default(), &map).await.unwrap()
    }

    async fn set(&self, name: &str, value: &str) -> ConfigMap {
        let patch = Patch::Merge(json!({ "data": { "value": value } }));
        self.config_maps("default").patch(name, &PatchParams::default(), &patch).await.unwrap()
    }

    async fn delete(&self, name: &str) {
        self.config_maps("default").delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Returns the informer of the ConfigMaps of `default`; declares them if necessary.
    fn informer(&self) -> Informer {
        let kind = Kind::of::<ConfigMap>();
        if !self.cache.is_declared(&kind) {
            self.cache.declare(&kind, TypeOptions::new().namespaces(["default"])).unwrap();
        }
        self.cache.informer(&kind).unwrap()
    }

    /// Waits until the cache has caught up with the server.
    async fn caught_up(&self, informer: &Informer) {
        let key = Key::namespaced("default", "any");
        let wanted = Version(self.server.revision());
        for _ in 0..10_000 {
            if informer.version(&key).is_some_and(|version| version >= wanted) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("the cache does not come to {wanted}: {:?}", informer.version(&key));
    }
}

/// An informer of ConfigMaps whose reflector the test simulates.
pub(super) struct TestCache {
    pub(super) cache: Cache,
    pub(super) informer: Informer,
    pub(super) writer: Writer,
}

impl TestCache {
    pub(super) fn new(options: TypeOptions) -> Self {
        let options_of_cache = CacheOptions { seed: Some(1), ..CacheOptions::default() };
        let cache = Cache::new(Client::new(Silent, "default"), options_of_cache);
        let kind = Kind::of::<ConfigMap>();
        cache.declare(&kind, options).unwrap();
        let informer = cache.informer(&kind).unwrap();
        let writer = informer.0.0.writer(None);
        Self { cache, informer, writer }
    }

    /// Delivers a full state.
    pub(super) fn list<'a>(&mut self, version: u64, objects: impl IntoIterator<Item = &'a [u8]>) {
        self.writer.begin(false);
        objects.into_iter().for_each(|object| self.writer.listed(object));
        self.writer.commit(&version.to_string());
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Entry>> {
        let key = Key::namespaced("default", name);
        let found = self.informer.get(&key).unwrap();
        // The cache finds objects without the informer.
        let through_cache = self.cache.get(self.informer.kind(), &key).unwrap();
        assert_eq!(found.as_ref().map(Arc::as_ptr), through_cache.as_ref().map(Arc::as_ptr));
        found
    }
}

/// A server that never responds.
struct Silent;

impl tower_service::Service<Request<Body>> for Silent {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pending<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::pending()
    }
}

/// Returns a ConfigMap as a list item.
pub(super) fn raw(name: &str, uid: &str, version: u64, value: &str) -> Vec<u8> {
    let meta = json!({
        "namespace": "default",
        "name": name,
        "uid": uid,
        "resourceVersion": version.to_string(),
        "managedFields": [{ "manager": "test" }],
    });
    json!({ "metadata": meta, "data": { "value": value } }).to_string().into_bytes()
}

/// Runs all ready tasks.
async fn run_ready_tasks() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// The events of a handler, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn handler(&self) -> impl FnMut(ObjectEvent) + Send + 'static {
        let log = self.0.clone();
        move |event| log.lock().push(shown(&event))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Returns the value of a cached ConfigMap.
pub(super) fn value(entry: &Entry) -> String {
    let map: Arc<ConfigMap> = entry.decode().unwrap();
    map.data.as_ref().and_then(|data| data.get("value").cloned()).unwrap_or_default()
}

fn shown(event: &ObjectEvent) -> String {
    let mut text = event.object().meta().key().to_string();
    let _ = match event {
        ObjectEvent::Added { new, initial: true } => write!(text, " initial {}", value(new)),
        ObjectEvent::Added { new, initial: false } => write!(text, " added {}", value(new)),
        ObjectEvent::Updated { old, new } => write!(text, " {} → {}", value(old), value(new)),
        ObjectEvent::Resynced { object } => write!(text, " again {}", value(object)),
        ObjectEvent::Deleted { old, state_unknown: false } => {
            write!(text, " deleted {}", value(old))
        }
        ObjectEvent::Deleted { old, state_unknown: true } => {
            write!(text, " vanished {}", value(old))
        }
    };
    text
}
