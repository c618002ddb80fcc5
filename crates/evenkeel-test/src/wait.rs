//! Waits for conditions on cached objects, checked on every change. A wait that fails fails the test.

use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::client::{Wait, WaitError};
use evenkeel::{Key, Object, chain};

use crate::{TestCluster, fail};

impl TestCluster {
    /// Waits until the object exists and meets `condition`, and returns it.
    ///
    /// # Panics
    /// On timeout; the message contains the last seen object.
    #[track_caller]
    pub fn eventually<'a, K: Object>(
        &'a self,
        key: &Key,
        mut condition: impl FnMut(&K) -> bool + Send + 'a,
    ) -> impl Future<Output = Arc<K>> {
        let met = move |found: Option<&K>| found.is_some_and(&mut condition);
        let found = self.met(self.client().wait_for(key, met).timeout(self.timeout));
        async move { found.await.unwrap_or_else(|| fail("a condition was met without an object")) }
    }

    /// Waits until the object does not exist.
    ///
    /// # Panics
    /// On timeout; the message contains the last seen object.
    #[track_caller]
    pub fn eventually_gone<K: Object>(&self, key: &Key) -> impl Future<Output = ()> {
        let deleted = self.client().wait_for(key, |found: Option<&K>| found.is_none());
        let deleted = self.met(deleted.timeout(self.timeout));
        async move { drop(deleted.await) }
    }

    /// Waits until the list of objects meets `condition`, and returns it, sorted by name. Lists the
    /// test's namespace, or the whole cluster for cluster-scoped types.
    ///
    /// # Panics
    /// On timeout; the message contains the last seen objects.
    #[track_caller]
    pub fn eventually_all<'a, K: Object>(
        &'a self,
        condition: impl FnMut(&[Arc<K>]) -> bool + Send + 'a,
    ) -> impl Future<Output = Vec<Arc<K>>> {
        let all = self.client().list::<K>().in_namespace(&self.namespace);
        self.met(all.wait_for(condition).timeout(self.timeout))
    }

    /// Checks that the object exists and meets `condition` during `period`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// use evenkeel::Key;
    /// use evenkeel_test::TestCluster;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn example(cluster: &TestCluster, key: &Key) {
    /// let unchanged = |map: &ConfigMap| map.data.is_none();
    /// cluster.consistently(key, Duration::from_secs(10), unchanged).await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// As soon as it does not.
    #[track_caller]
    pub fn consistently<'a, K: Object>(
        &'a self,
        key: &Key,
        period: Duration,
        mut condition: impl FnMut(&K) -> bool + Send + 'a,
    ) -> impl Future<Output = ()> {
        let at = Location::caller();
        let violated = move |found: Option<&K>| !found.is_some_and(&mut condition);
        let violated = self.ended(at, self.client().wait_for(key, violated).timeout(period));
        async move {
            match violated.await {
                Err(error) if error.is_timeout() => {}
                Err(error) => fail(&format!("{at}: {}", chain(&error))),
                Ok(found) => {
                    let kind = evenkeel::Kind::of::<K>();
                    let found = serde_json::to_string_pretty(&found.as_deref());
                    let found = found.unwrap_or_else(|error| error.to_string());
                    fail(&format!("{at}: condition not met; last seen {kind}: {found}"));
                }
            }
        }
    }

    /// Runs a wait whose condition must be met.
    #[track_caller]
    fn met<T>(&self, wait: Wait<'_, T>) -> impl Future<Output = T> {
        let at = Location::caller();
        let ended = self.ended(at, wait);
        async move {
            match ended.await {
                Ok(found) => found,
                Err(error) => {
                    let hint = if error.is_timeout() { self.guard.hint() } else { String::new() };
                    fail(&format!("{at}: {}{hint}", chain(&error)))
                }
            }
        }
    }

    /// Runs a wait, and fails the test if a controller spins.
    async fn ended<T>(&self, at: &Location<'_>, wait: Wait<'_, T>) -> Result<T, WaitError> {
        tokio::select! {
            biased;
            failure = self.guard.failed() => fail(&format!("{at}: {failure}")),
            ended = wait.into_future() => ended,
        }
    }
}
