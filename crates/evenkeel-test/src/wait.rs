//! Waiting for what should be, awake only when something changes.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Entry, Informer, Query, Subscription};
use evenkeel::{Key, Kind, Object};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::guard::Guard;
use crate::{TestCluster, fail};

impl TestCluster {
    /// Waits until the object exists and `holds`; gives it as it is then.
    ///
    /// # Panics
    /// When that takes too long; the message shows what the object was last.
    #[track_caller]
    pub fn eventually<K: Object>(
        &self,
        key: &Key,
        mut holds: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = Arc<K>> {
        let at = Location::caller();
        self.wait(at, key.clone(), move |found: &[Arc<K>]| {
            found.first().filter(|found| holds(found)).cloned()
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
    /// namespaces, are as `holds` wants them; gives them as they are then, in the order of their
    /// names.
    ///
    /// # Panics
    /// When that takes too long; the message shows what there was last.
    #[track_caller]
    pub fn eventually_all<K: Object>(
        &self,
        mut holds: impl FnMut(&[Arc<K>]) -> bool,
    ) -> impl Future<Output = Vec<Arc<K>>> {
        let at = Location::caller();
        let watched = self.watched::<K>();
        let namespace = Kind::of::<K>().namespaced().then(|| self.namespace.clone());
        let deadline = self.timeout;
        async move {
            let query = Query { namespace: namespace.as_deref(), ..Query::default() };
            watched
                .until(
                    at,
                    deadline,
                    |informer| informer.list(&query).unwrap_or_default(),
                    |found: &[Arc<K>]| holds(found).then(|| found.to_vec()),
                )
                .await
        }
    }

    /// Checks that `holds` stays true of the object for a while; an absent object fails it.
    ///
    /// # Panics
    /// As soon as it does not.
    #[track_caller]
    pub fn consistently<K: Object>(
        &self,
        key: &Key,
        period: Duration,
        mut holds: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = ()> {
        let at = Location::caller();
        let (mut watched, key) = (self.watched::<K>(), key.clone());
        async move {
            watched.listed(at).await;
            let end = Instant::now() + period;
            loop {
                let entry = watched.informer.get(&key).ok().flatten();
                let found = typed::<K>(entry);
                if !found.first().is_some_and(|found| holds(found)) {
                    fail(&format!("{at}: it did not stay so; {key} is {}", show(&found)));
                }
                if !watched.changed(at, end).await {
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
        let (watched, timeout) = (self.watched::<K>(), self.timeout);
        async move {
            let read =
                |informer: &Informer| informer.get(&key).ok().flatten().into_iter().collect();
            watched.until(at, timeout, read, check).await
        }
    }

    /// An eye on a type, for as long as it is held.
    fn watched<K: Object>(&self) -> Watched {
        let informer = match self.observer.cache().informer(&Kind::of::<K>()) {
            Ok(informer) => informer,
            Err(error) => fail(&error.to_string()),
        };
        let (changes, changed) = watch::channel(0_u64);
        let subscription = informer
            .subscribe(move |_| changes.send_modify(|count| *count = count.wrapping_add(1)));
        let guard = self.guard.clone();
        Watched { informer, changed, _subscription: subscription, guard }
    }
}

struct Watched {
    informer: Informer,
    changed: watch::Receiver<u64>,
    _subscription: Subscription,
    guard: Guard,
}

impl Watched {
    async fn listed(&mut self, at: &Location<'_>) {
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

    async fn until<K: Object, T>(
        mut self,
        at: &Location<'_>,
        timeout: Duration,
        read: impl Fn(&Informer) -> Vec<Arc<Entry>>,
        mut check: impl FnMut(&[Arc<K>]) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + timeout;
        self.listed(at).await;
        loop {
            let state = typed::<K>(read(&self.informer));
            if let Some(found) = check(&state) {
                return found;
            }
            if !self.changed(at, deadline).await {
                let (kind, hint) = (self.informer.kind(), self.guard.hint());
                fail(&format!("{at}: not so after {timeout:?}; {kind} is {}{hint}", show(&state)));
            }
        }
    }
}

/// The objects as `K`; one that does not decode fails the test, which is about it.
fn typed<K: Object>(entries: impl IntoIterator<Item = Arc<Entry>>) -> Vec<Arc<K>> {
    let decode = |entry: Arc<Entry>| match entry.decode::<K>() {
        Ok(object) => object,
        Err(error) => fail(&error.to_string()),
    };
    entries.into_iter().map(decode).collect()
}

fn show<K: Object>(objects: &[Arc<K>]) -> String {
    let objects: Vec<&K> = objects.iter().map(|object| &**object).collect();
    serde_json::to_string_pretty(&objects).unwrap_or_else(|error| error.to_string())
}
