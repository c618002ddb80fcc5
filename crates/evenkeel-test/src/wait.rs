//! Waiting for what should be, awake only when something changes.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Entry, Informer, Query, Subscription};
use evenkeel::{Key, Kind, Object};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::guard::SpinGuard;
use crate::{TestCluster, fail};

impl TestCluster {
    /// Waits until the object exists and `condition`; gives it as it is then.
    ///
    /// # Panics
    /// When that takes too long; the message shows what the object was last.
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

    /// Waits until the object is gone.
    ///
    /// # Panics
    /// When that takes too long; the message shows what is left.
    #[track_caller]
    pub fn eventually_gone<K: Object>(&self, key: &Key) -> impl Future<Output = ()> {
        let at = Location::caller();
        self.wait(at, key.clone(), |found: &[Arc<K>]| found.is_empty().then_some(()))
    }

    /// Waits until the objects of the test's namespace, or of the cluster for types without
    /// namespaces, are as `condition` wants them; gives them as they are then, in the order of their
    /// names.
    ///
    /// # Panics
    /// When that takes too long; the message shows what there was last.
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
            let query = Query { namespace: namespace.as_deref(), ..Query::default() };
            watcher
                .wait_until(
                    at,
                    deadline,
                    |informer| informer.list(&query).unwrap_or_default(),
                    |found: &[Arc<K>]| condition(found).then(|| found.to_vec()),
                )
                .await
        }
    }

    /// Checks that `condition` stays true of the object for a while; an absent object fails it.
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
                    fail(&format!("{at}: it did not stay so; {key} is {}", to_json(&found)));
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

    /// An eye on a type, for as long as it is held.
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
            synced = self.informer.synced() => synced,
        };
        if let Err(error) = synced {
            fail(&format!("{at}: {error}"));
        }
    }

    /// Waits for the next change; false when there is none until `end`. A test that must fail fails
    /// here, where it waits.
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
                    "{at}: not so after {timeout:?}; {kind} is {}{hint}",
                    to_json(&state)
                ));
            }
        }
    }
}

/// The objects as `K`; one that does not decode fails the test, which is about it.
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
