//! Waits for conditions on cached objects.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::TypeOptions;
use evenkeel::client::{Client, Error, WaitError};
use evenkeel::{BoxError, Key, Kind, Object, chain};
use kube::core::Selector;
use serde::Serialize;

/// How long to wait for each condition.
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

    /// Creates the error of a wait for `what`.
    fn failed(what: &str, error: &WaitError) -> Self {
        Self(format!("expected {what}: {}", chain(error)).into())
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
        mut condition: impl FnMut(&K) -> bool + Send,
    ) -> Result<Arc<K>, ScenarioError> {
        self.declare::<K>()?;
        let met = |found: Option<&K>| found.is_some_and(&mut condition);
        let found = self.client.wait_for(key, met).timeout(TIMEOUT).await;
        let found = found.map_err(|error| ScenarioError::failed(what, &error))?;
        found.ok_or_else(|| ScenarioError::not_observed(what, &None::<K>))
    }

    /// Waits until no object in the namespace matches the label selector.
    pub(super) async fn wait_for_none<K: Object>(
        &self,
        namespace: &str,
        labels: &Selector,
    ) -> Result<(), ScenarioError> {
        self.declare::<K>()?;
        let selected = self.client.list::<K>().in_namespace(namespace).matching(labels.clone());
        let deleted = selected.wait_for(|found| found.is_empty()).timeout(TIMEOUT).await;
        deleted
            .map_err(|error| ScenarioError::failed(&format!("no {}", Kind::of::<K>()), &error))?;
        Ok(())
    }

    /// Declares a type that the operator may not cache.
    fn declare<K: Object>(&self) -> Result<(), ScenarioError> {
        let declared = self.client.cache().declare(&Kind::of::<K>(), TypeOptions::new());
        declared.map_err(|error| ScenarioError(error.into()))
    }
}
