//! An operator without informers and workqueues: it lists and watches Apps and their ConfigMaps with a
//! raw client, as operators without a framework do. It is correct unless a [`Bug`] is planted.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel_sim::{Effect, Simulation};
use futures_util::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PatchParams, WatchEvent, WatchParams};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::operators::{App, part, simulate_one};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Nothing.
    None,
    /// A page of a list that has expired counts as the end of the list.
    ExpiredPage,
    /// A watch is resumed after the version of a bookmark, not at it.
    BookmarkPlusOne,
    /// A watch from a version that the server has not reached is repeated for ever.
    TooLargeVersion,
    /// A write without a connection is left to the list that follows a broken watch.
    WaitsForList,
    /// What was known is forgotten before it is listed again.
    EmptyStore,
}

/// How long a watch lasts, in seconds.
const WATCH: u32 = 50;

/// How long the end of a watch is waited for.
const SILENCE: Duration = Duration::from_secs(55);

/// The time before a request is repeated; twice as long each time.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(16);

/// The least time between two comparisons.
const PACE: Duration = Duration::from_millis(100);

/// The objects of a type, by name; `None` until they were listed.
type Store<K> = Mutex<Option<BTreeMap<String, K>>>;

struct ByHand {
    client: kube::Client,
    bug: Bug,
    /// Whether parts have no owner reference and are deleted by the operator.
    collects: bool,
    apps: Store<App>,
    maps: Store<ConfigMap>,
    changed: Notify,
}

/// How a watch has ended.
enum End {
    /// It can be resumed.
    Resumable,
    /// Objects have to be listed again.
    Expired,
}

/// Returns a simulation of the operator with two Apps.
pub(crate) fn simulate_by_hand(name: &str, bug: Bug, collects: bool) -> Simulation {
    simulate_one(name, move |manager| {
        let operator = Arc::new(ByHand {
            client: manager.leader_client().kube().clone(),
            bug,
            collects,
            apps: Mutex::default(),
            maps: Mutex::default(),
            changed: Notify::new(),
        });
        let [maps, apps, worker] = [0; 3].map(|_| operator.clone());
        manager.spawn("configmaps", |stop| {
            until(stop, async move {
                maps.follow(&maps.api(), &maps.maps, RETRY).await;
            })
        })?;
        // There are more of them, and a list takes longer.
        manager.spawn("apps", |stop| {
            until(stop, async move {
                apps.follow(&apps.api(), &apps.apps, 2 * RETRY).await;
            })
        })?;
        manager.spawn("worker", |stop| until(stop, async move { worker.work().await }))
    })
    .sample("{apiVersion: sim.test/v1, kind: App, metadata: {name: b}, spec: {size: 1, text: z}}")
    .without_fault(Effect::TakeName(0), "its forced applies take what exists")
}

/// Runs a future until the operator is stopped.
async fn until(stop: evenkeel::manager::Stop, run: impl Future<Output = ()>) -> Result<()> {
    tokio::select! {
        biased;
        () = stop.requested() => {}
        () = run => {}
    }
    Ok(())
}

impl ByHand {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Keeps the store current. `delay` passes before the objects are listed again.
    async fn follow<K: evenkeel::Object>(&self, api: &Api<K>, store: &Store<K>, delay: Duration) {
        loop {
            let Ok(mut version) = self.list(api, store).await else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            self.changed.notify_one();
            while let End::Resumable = self.watch(api, store, &mut version).await {
                tokio::time::sleep(RETRY).await;
            }
            if self.bug == Bug::EmptyStore {
                store.lock().as_mut().into_iter().for_each(BTreeMap::clear);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Lists all pages; returns the version.
    async fn list<K: evenkeel::Object>(
        &self,
        api: &Api<K>,
        store: &Store<K>,
    ) -> Result<String, kube::Error> {
        let mut params = ListParams::default().limit(500);
        let mut found = BTreeMap::new();
        let mut version = String::new();
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(kube::Error::Api(status))
                    if self.bug == Bug::ExpiredPage
                        && status.code == 410
                        && params.continue_token.is_some() =>
                {
                    break;
                }
                Err(error) => return Err(error),
            };
            version = page.metadata.resource_version.clone().unwrap_or_default();
            params.continue_token = page.metadata.continue_.clone().filter(|it| !it.is_empty());
            found.extend(page.into_iter().map(|object| (object.name_any(), object)));
            if params.continue_token.is_none() {
                break;
            }
        }
        *store.lock() = Some(found);
        Ok(version)
    }

    /// Watches from a version until the watch ends.
    async fn watch<K: evenkeel::Object>(
        &self,
        api: &Api<K>,
        store: &Store<K>,
        version: &mut String,
    ) -> End {
        let events = match api.watch(&WatchParams::default().timeout(WATCH), version).await {
            Ok(events) => events,
            Err(kube::Error::Api(status)) => {
                let waits = self.bug == Bug::TooLargeVersion && status.code == 504;
                return if waits { End::Resumable } else { End::Expired };
            }
            Err(_) => return self.disconnected(),
        };
        pin_mut!(events);
        loop {
            match tokio::time::timeout(SILENCE, events.next()).await {
                Err(_) | Ok(None) => return End::Resumable,
                Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                    *version = object.resource_version().unwrap_or_default();
                    store.lock().get_or_insert_default().insert(object.name_any(), object);
                    self.changed.notify_one();
                }
                Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                    *version = object.resource_version().unwrap_or_default();
                    store.lock().get_or_insert_default().remove(&object.name_any());
                    self.changed.notify_one();
                }
                Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                    version.clone_from(&bookmark.metadata.resource_version);
                    if self.bug == Bug::BookmarkPlusOne
                        && let Ok(number) = version.parse::<u64>()
                    {
                        *version = (number + 1).to_string();
                    }
                }
                Ok(Some(Ok(WatchEvent::Error(_)))) => return End::Expired,
                Ok(Some(Err(_))) => return self.disconnected(),
            }
        }
    }

    /// Returns what follows a broken connection.
    fn disconnected(&self) -> End {
        match self.bug {
            Bug::WaitsForList => End::Expired,
            _ => End::Resumable,
        }
    }

    /// Compares what is declared with what exists, after each change and each error.
    async fn work(&self) {
        let mut delay = RETRY;
        loop {
            let failed = self.compare().await.is_err();
            tokio::time::sleep(PACE).await;
            tokio::select! {
                biased;
                () = self.changed.notified() => delay = RETRY,
                () = tokio::time::sleep(delay), if failed => delay = RETRY_MAX.min(2 * delay),
            }
        }
    }

    async fn compare(&self) -> Result<(), kube::Error> {
        let (Some(apps), Some(maps)) = (self.apps.lock().clone(), self.maps.lock().clone()) else {
            return Ok(());
        };
        let api = self.api::<ConfigMap>();
        let mut result = Ok(());
        for app in apps.values().filter(|app| app.metadata.deletion_timestamp.is_none()) {
            let mut wanted = part(app, 0);
            if !self.collects {
                evenkeel::owner::set_controller_reference(app, &mut wanted).unwrap();
            }
            let name = wanted.name_any();
            if maps.get(&name).is_some_and(|found| found.data == wanted.data) {
                continue;
            }
            wanted.metadata.managed_fields = None;
            let params = PatchParams::apply("by-hand").force();
            match api.patch(&name, &params, &Patch::Apply(&wanted)).await {
                // The next list shows it.
                Err(kube::Error::Service(_)) if self.bug == Bug::WaitsForList => {}
                Err(error) => result = Err(error),
                Ok(_) => {}
            }
        }
        if self.collects {
            let orphan = |map: &&ConfigMap| {
                map.labels().get("app").is_some_and(|app| !apps.contains_key(app))
            };
            for map in maps.values().filter(orphan) {
                match api.delete(&map.name_any(), &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => result = Err(error),
                    Ok(_) => {}
                }
            }
        }
        result
    }
}
