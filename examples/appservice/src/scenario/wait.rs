//! Waits for conditions on cached objects.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Entry, Informer, TypeOptions};
use evenkeel::client::{Client, Error};
use evenkeel::{BoxError, Key, Kind, Object};
use kube::core::Selector;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long to wait for the next change.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A failed request, or a result that was not observed.
#[derive(Debug)]
pub struct ScenarioError(BoxError);

impl ScenarioError {
    /// Creates the error for an expected result `what`; `instead` is the last seen state.
    pub(super) fn not_observed(what: &str, instead: &impl Serialize) -> Self {
        let instead =
            serde_json::to_string_pretty(instead).unwrap_or_else(|error| error.to_string());
        Self(format!("expected {what}; last seen: {instead}").into())
    }
}

impl std::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Error> for ScenarioError {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

/// Waits for conditions, checked on every change in the cache.
pub(super) struct Waiter {
    client: Client,
}

impl Waiter {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Waits until the object exists and meets `condition`, and returns it.
    pub(super) async fn wait_for<K: Object>(
        &self,
        what: &str,
        key: &Key,
        condition: impl Fn(&K) -> bool,
    ) -> Result<Arc<K>, ScenarioError> {
        let read = |informer: &Informer| informer.get(key).ok().flatten().into_iter().collect();
        self.wait_until(what, read, |found: &[Arc<K>]| {
            found.first().filter(|it| condition(it)).cloned()
        })
        .await
    }

    /// Waits until no object in the namespace matches the label selector.
    pub(super) async fn wait_for_none<K: Object>(
        &self,
        namespace: &str,
        labels: &Selector,
    ) -> Result<(), ScenarioError> {
        let read = |informer: &Informer| {
            let selected = informer.list().in_namespace(namespace).matching(labels.clone());
            selected.entries().unwrap_or_default()
        };
        let what = format!("no {}", Kind::of::<K>());
        self.wait_until(&what, read, |found: &[Arc<K>]| found.is_empty().then_some(())).await
    }

    async fn wait_until<K: Object, T>(
        &self,
        what: &str,
        read: impl Fn(&Informer) -> Vec<Arc<Entry>>,
        check: impl Fn(&[Arc<K>]) -> Option<T>,
    ) -> Result<T, ScenarioError> {
        let wrap = |error: BoxError| ScenarioError(error);
        let (cache, kind) = (self.client.cache(), Kind::of::<K>());
        cache.declare(&kind, TypeOptions::new()).map_err(|error| wrap(error.into()))?;
        let informer = cache.informer(&kind).map_err(|error| wrap(error.into()))?;
        let (changes, mut changed) = watch::channel(());
        let _subscription = informer.subscribe(move |_| changes.send_replace(()));
        informer.wait_until_synced().await.map_err(|error| wrap(error.into()))?;
        loop {
            let entries = read(&informer).into_iter();
            let found: Result<Vec<_>, _> = entries.map(|entry| entry.decode::<K>()).collect();
            let found = found.map_err(|error| wrap(error.into()))?;
            if let Some(seen) = check(&found) {
                return Ok(seen);
            }
            if !matches!(timeout(TIMEOUT, changed.changed()).await, Ok(Ok(()))) {
                let found: Vec<&K> = found.iter().map(|found| &**found).collect();
                return Err(ScenarioError::not_observed(what, &found));
            }
        }
    }
}
