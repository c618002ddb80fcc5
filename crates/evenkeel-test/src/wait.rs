//! Waits for conditions on cached objects, checked on every change.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Entry, Informer, Subscription};
use evenkeel::{Key, Kind, Object};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::guard::SpinGuard;
use crate::{TestCluster, fail};

impl TestCluster {
    /// Waits until the object exists and meets `condition`, and returns it.
    ///
    /// # Panics
    /// On timeout; the message contains the last seen object.
    #[track_caller]
    pub fn eventually<K: Object>(
        &self,
        key: &Key,
        mut condition: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = Arc<K>> {
        let at = Location::caller();
        self.wait(at, key.clone(), move |found: &[Arc<K>]| {
            found.first().filter(|found| condition(found)).cloned()
        })
    }

    /// Waits until the object does not exist.
    ///
    /// # Panics
    /// On timeout; the message contains the last seen object.
    #[track_caller]
    pub fn eventually_gone<K: Object>(&self, key: &Key) -> impl Future<Output = ()> {
        let at = Location::caller();
        self.wait(at, key.clone(), |found: &[Arc<K>]| found.is_empty().then_some(()))
    }

    /// Waits until the list of objects meets `condition`, and returns it, sorted by name. Lists the
    /// test's namespace, or the whole cluster for cluster-scoped types.
    ///
    /// # Panics
    /// On timeout; the message contains the last seen objects.
    #[track_caller]
    pub fn eventually_all<K: Object>(
        &self,
        mut condition: impl FnMut(&[Arc<K>]) -> bool,
    ) -> impl Future<Output = Vec<Arc<K>>> {
        let at = Location::caller();
        let watcher = self.watch::<K>();
        let namespace = Kind::of::<K>().namespaced().then(|| self.namespace.clone());
        let deadline = self.timeout;
        async move {
            let namespace = namespace.as_deref().unwrap_or_default();
            watcher
                .wait_until(
                    at,
                    deadline,
                    |informer| {
                        informer.list().in_namespace(namespace).entries().unwrap_or_default()
                    },
                    |found: &[Arc<K>]| condition(found).then(|| found.to_vec()),
                )
                .await
        }
    }

    /// Checks that the object exists and meets `condition` during `period`.
    ///
    /// # Panics
    /// As soon as it does not.
    #[track_caller]
    pub fn consistently<K: Object>(
        &self,
        key: &Key,
        period: Duration,
        mut condition: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = ()> {
        let at = Location::caller();
        let (mut watcher, key) = (self.watch::<K>(), key.clone());
        async move {
            watcher.wait_for_sync(at).await;
            let end = Instant::now() + period;
            loop {
                let entry = watcher.informer.get(&key).ok().flatten();
                let found = decode_all::<K>(entry);
                if !found.first().is_some_and(|found| condition(found)) {
                    let (kind, found) = (watcher.informer.kind(), to_json(&found));
                    fail(&format!("{at}: condition not met; last seen {kind} {key}: {found}"));
                }
                if !watcher.changed(at, end).await {
                    return;
                }
            }
        }
    }

    fn wait<K: Object, T>(
        &self,
        at: &'static Location<'static>,
        key: Key,
        check: impl FnMut(&[Arc<K>]) -> Option<T>,
    ) -> impl Future<Output = T> {
        let (watcher, timeout) = (self.watch::<K>(), self.timeout);
        async move {
            let read =
                |informer: &Informer| informer.get(&key).ok().flatten().into_iter().collect();
            watcher.wait_until(at, timeout, read, check).await
        }
    }

    /// Subscribes to the changes of a type.
    fn watch<K: Object>(&self) -> Watcher {
        let informer = match self.observer.cache().informer(&Kind::of::<K>()) {
            Ok(informer) => informer,
            Err(error) => fail(&error.to_string()),
        };
        let (changes, changed) = watch::channel(0_u64);
        let subscription = informer
            .subscribe(move |_| changes.send_modify(|count| *count = count.wrapping_add(1)));
        let guard = self.guard.clone();
        Watcher { informer, changed, _subscription: subscription, guard }
    }
}

struct Watcher {
    informer: Informer,
    changed: watch::Receiver<u64>,
    _subscription: Subscription,
    guard: SpinGuard,
}

impl Watcher {
    async fn wait_for_sync(&mut self, at: &Location<'_>) {
        let guard = self.guard.clone();
        let synced = tokio::select! {
            biased;
            failure = guard.failed() => fail(&format!("{at}: {failure}")),
            synced = self.informer.wait_until_synced() => synced,
        };
        if let Err(error) = synced {
            fail(&format!("{at}: {error}"));
        }
    }

    /// Waits for the next change and returns true, or false if there is none before `end`. Fails
    /// the test if a controller spins.
    async fn changed(&mut self, at: &Location<'_>, end: Instant) -> bool {
        let guard = self.guard.clone();
        tokio::select! {
            biased;
            failure = guard.failed() => fail(&format!("{at}: {failure}")),
            changed = self.changed.changed() => match changed {
                Ok(()) => true,
                Err(_) => {
                    sleep_until(end).await;
                    false
                }
            },
            () = sleep_until(end) => false,
        }
    }

    async fn wait_until<K: Object, T>(
        mut self,
        at: &Location<'_>,
        timeout: Duration,
        read: impl Fn(&Informer) -> Vec<Arc<Entry>>,
        mut check: impl FnMut(&[Arc<K>]) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + timeout;
        self.wait_for_sync(at).await;
        loop {
            let state = decode_all::<K>(read(&self.informer));
            if let Some(found) = check(&state) {
                return found;
            }
            if !self.changed(at, deadline).await {
                let (kind, hint) = (self.informer.kind(), self.guard.hint());
                fail(&format!(
                    "{at}: condition not met within {timeout:?}; last seen {kind}: {}{hint}",
                    to_json(&state)
                ));
            }
        }
    }
}

/// Decodes the objects as `K`, and fails the test if one does not decode.
fn decode_all<K: Object>(entries: impl IntoIterator<Item = Arc<Entry>>) -> Vec<Arc<K>> {
    let decode = |entry: Arc<Entry>| match entry.decode::<K>() {
        Ok(object) => object,
        Err(error) => fail(&error.to_string()),
    };
    entries.into_iter().map(decode).collect()
}

fn to_json<K: Object>(objects: &[Arc<K>]) -> String {
    let objects: Vec<&K> = objects.iter().map(|object| &**object).collect();
    serde_json::to_string_pretty(&objects).unwrap_or_else(|error| error.to_string())
}
