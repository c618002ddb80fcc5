//! Waits for a state of cached objects, with a deadline.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::error::Error;
use super::{Client, List};
use crate::cache::{Entry, TimedOut, Waited};
use crate::journal::ReadRecord;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::select::Select;

/// The default timeout of a wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of the last seen state in the message of a timeout.
const SHOWN_BYTES: usize = 16 * 1024;

impl Client {
    /// Waits until `condition` is true for the object in the cache, which is `None` while it does
    /// not exist, and returns the object.
    ///
    /// The condition is called with the current state and again after each change; states between
    /// two changes that follow each other quickly may be skipped. The wait ends after 30 seconds
    /// unless [`timeout`](Wait::timeout) sets another limit.
    ///
    /// For programs and tests. A reconciler returns instead, and is called again when the object
    /// changes.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::apps::v1::Deployment;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn wait(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// let replicas = |deployment: &Deployment| deployment.status.as_ref()?.ready_replicas;
    /// let ready = client
    ///     .wait_for(key, |deployment: Option<&Deployment>| {
    ///         deployment.and_then(replicas).is_some_and(|ready| ready >= 3)
    ///     })
    ///     .timeout(Duration::from_secs(300))
    ///     .await?;
    ///
    /// client.delete_by_key::<Pod>(key).await?;
    /// client.wait_for::<Pod>(key, |pod| pod.is_none()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for<'a, K: Object>(
        &'a self,
        key: &Key,
        condition: impl FnMut(Option<&K>) -> bool + Send + 'a,
    ) -> Wait<'a, Option<Arc<K>>> {
        self.wait_for_object(Kind::of::<K>(), key, condition)
    }

    pub(super) fn wait_for_object<'a, K: DeserializeOwned + Send + Sync + 'static>(
        &'a self,
        kind: Kind,
        key: &Key,
        mut condition: impl FnMut(Option<&K>) -> bool + Send + 'a,
    ) -> Wait<'a, Option<Arc<K>>> {
        let key = key.clone();
        Wait::new(move |timeout| {
            Box::pin(async move {
                let check = |entries: &[Arc<Entry>]| {
                    let found = entries.first().map(|entry| self.cache().typed::<K>(entry));
                    let found = found.transpose()?;
                    Ok(condition(found.as_deref()).then_some(found))
                };
                let waited = Waited::Object(&key);
                let found = self.wait(&kind, &waited, timeout, check).await?;
                if let Some(operations) = &self.operations {
                    let version =
                        self.cache().peek(&kind, &key).map(|entry| entry.meta().version());
                    operations.record_read(ReadRecord::get(&kind, &key, version));
                }
                Ok(found)
            })
        })
    }

    async fn wait<T>(
        &self,
        kind: &Kind,
        waited: &Waited<'_>,
        timeout: Duration,
        check: impl FnMut(&[Arc<Entry>]) -> Result<Option<T>, Error>,
    ) -> Result<T, WaitError> {
        let deadline = Instant::now() + timeout;
        let ended = self.cache().wait_for(kind, waited, deadline, &self.live(), check).await?;
        ended.map_err(|TimedOut { last, health }| {
            let kind = kind.clone();
            let target = match waited {
                Waited::Object(key) => format!("{kind} {key}"),
                Waited::List(query) => match query.namespace {
                    Some(namespace) => format!("{kind} in {namespace}"),
                    None => kind.to_string(),
                },
            };
            let not_synced = (!health.synced).then(|| match health.failure {
                Some(failure) => format!("; the cache is not synced: {failure}"),
                None => "; the cache is not synced".to_owned(),
            });
            let not_synced = not_synced.unwrap_or_default();
            WaitError::Timeout(Box::new(WaitTimeout { kind, target, timeout, last, not_synced }))
        })
    }
}

impl<'a, K: DeserializeOwned + Send + Sync + 'static> Select<K, List<'a>> {
    /// Waits until `condition` is true for the selected objects in the cache, ordered by key, and
    /// returns them; otherwise as [`Client::wait_for`].
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn wait(client: &evenkeel::client::Client) -> Result<()> {
    /// let pods = client.list::<Pod>().label("app", "web").wait_for(|pods| pods.len() == 3).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for(
        self,
        mut condition: impl FnMut(&[Arc<K>]) -> bool + Send + 'a,
    ) -> Wait<'a, Vec<Arc<K>>> {
        Wait::new(move |timeout| {
            Box::pin(async move {
                let client = self.operation.client();
                let check = |entries: &[Arc<Entry>]| {
                    let found = client.cache().typed_all::<K>(entries)?;
                    Ok(condition(&found).then_some(found))
                };
                let waited = Waited::List(self.query());
                let found = client.wait(&self.kind, &waited, timeout, check).await?;
                if let Some(operations) = &client.operations {
                    let namespace = self.namespace.as_deref();
                    operations.record_read(ReadRecord::list(&self.kind, namespace, found.len()));
                }
                Ok(found)
            })
        })
    }
}

/// A wait; `.await` runs it. See [`Client::wait_for`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # async fn example(client: &Client, key: &Key) -> Result<()> {
/// let gone = client.wait_for::<Pod>(key, |pod| pod.is_none());
/// gone.timeout(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a wait runs when it is awaited"]
pub struct Wait<'a, T> {
    timeout: Duration,
    run: Box<dyn FnOnce(Duration) -> Waiting<'a, T> + Send + 'a>,
}

type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T, WaitError>> + Send + 'a>>;

impl<'a, T> Wait<'a, T> {
    fn new(run: impl FnOnce(Duration) -> Waiting<'a, T> + Send + 'a) -> Self {
        Self { timeout: DEFAULT_TIMEOUT, run: Box::new(run) }
    }

    /// Sets the timeout, which is 30 seconds by default. It includes the cache sync.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<'a, T> IntoFuture for Wait<'a, T> {
    type Output = Result<T, WaitError>;
    type IntoFuture = Waiting<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        (self.run)(self.timeout)
    }
}

impl<T> fmt::Debug for Wait<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Why a wait failed.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::client::WaitError;
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # async fn example(client: &Client, key: &Key) {
/// match client.wait_for::<Pod>(key, |pod| pod.is_some()).await {
///     Err(WaitError::Timeout(timeout)) => println!("last seen: {:?}", timeout.last()),
///     Err(error) => println!("cannot read: {error}"),
///     Ok(_) => {}
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The condition was not met in time.
    #[error(transparent)]
    Timeout(Box<WaitTimeout>),
    /// The cache cannot serve the read.
    #[error(transparent)]
    Read(#[from] Error),
}

impl WaitError {
    /// Returns whether the condition was not met in time.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// match client.wait_for::<Pod>(key, |pod| pod.is_some()).await {
    ///     Err(error) if error.is_timeout() => println!("{error}"),
    ///     found => drop(found?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }
}

/// A wait whose condition was not met in time. The message contains the last seen state.
#[derive(Debug, thiserror::Error)]
#[error("{target}: condition not met within {timeout:?}; last seen: {}{not_synced}", shown(last))]
pub struct WaitTimeout {
    kind: Kind,
    /// Kind and key of the object, or kind and namespace of the list.
    target: String,
    timeout: Duration,
    last: Vec<Arc<Entry>>,
    not_synced: String,
}

impl WaitTimeout {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the timeout.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the objects that were seen last.
    #[must_use]
    pub fn last(&self) -> &[Arc<Entry>] {
        &self.last
    }
}

/// Returns the JSON of the objects, shortened.
fn shown(last: &[Arc<Entry>]) -> String {
    let mut text = String::new();
    for (at, entry) in last.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        match entry.json() {
            // Only metadata is cached.
            [] => text.push_str(entry.meta().key().as_str()),
            json => text.push_str(&String::from_utf8_lossy(json)),
        }
        if text.len() > SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            text.push_str(" …");
            break;
        }
    }
    match text.is_empty() {
        true => "nothing".to_owned(),
        false => text,
    }
}
