//! Cached reads.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Client;
use super::error::Error;
use super::lazy::LazyList;
use crate::cache::{Cache, Entry, Query, ReadError};
use crate::journal::ReadRecord;
use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};
use crate::select::{CacheOperation, Select};
use crate::version::Version;

impl Client {
    /// Returns the object from the cache, if it exists.
    ///
    /// The type must be cached: the reconciled type and the types that a controller owns or watches
    /// are; others are declared with `reads`.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Secret;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// if let Some(secret) = client.get::<Secret>(&key.sibling("token")).await? {
    ///     println!("{}", secret.name_any());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is not cached, or the object does not decode as `K`.
    pub async fn get<K: Object>(&self, key: &Key) -> Result<Option<Arc<K>>, Error> {
        // The common case, apart from the others: it needs neither the kind nor their state.
        if self.operations.is_none()
            && let Some(object) = self.shared.cache.get_served(key)
        {
            return Ok(Some(object));
        }
        let kind = Kind::of::<K>();
        self.shared.cache.serves::<K>(&kind);
        // `get_as`, written out: each async function in between makes the future larger.
        loop {
            match self.try_get(&kind, key).map_err(|error| self.recover(&kind, error)) {
                Ok(read) => return read,
                Err(recovery) => recovery.await?,
            }
        }
    }

    /// Returns the object of `kind` from the cache as `K`, if it exists.
    pub(crate) async fn get_as<K: AnyObject>(
        &self,
        kind: Kind,
        key: &Key,
    ) -> Result<Option<Arc<K>>, Error> {
        loop {
            match self.try_get(&kind, key).map_err(|error| self.recover(&kind, error)) {
                Ok(read) => return read,
                Err(recovery) => recovery.await?,
            }
        }
    }

    /// Reads without waiting; fails if the cache cannot serve the read yet.
    fn try_get<K: AnyObject>(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> Result<Result<Option<Arc<K>>, Error>, ReadError> {
        let cache = &self.shared.cache;
        if let Some((object, version)) = cache.get_decoded(kind, key) {
            self.record_get(kind, key, Some(version));
            return Ok(Ok(Some(object)));
        }
        let entry = cache.get(kind, key)?;
        self.record_get(kind, key, entry.as_ref().map(|entry| entry.meta().version()));
        Ok(entry.map(|entry| cache.typed_by_key(&entry)).transpose().map_err(Error::from))
    }

    /// Waits until the read that failed with `error` can be repeated. Boxed with all it needs: it
    /// is rare, and the future of every read would be larger.
    fn recover<'a>(
        &'a self,
        kind: &'a Kind,
        error: ReadError,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
        Box::pin(async move { self.shared.cache.recover(kind, error, &self.live()).await })
    }

    /// Returns the object's metadata and JSON from the cache without decoding it, if it exists.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// let pod = client.peek::<Pod>(key).await?;
    /// let app = pod.as_ref().and_then(|pod| pod.meta().label("app"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn peek<K: Object>(&self, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        self.entry(&Kind::of::<K>(), key).await
    }

    /// Lists objects from the cache, ordered by key. The methods of the returned selection restrict
    /// the list.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    /// # async fn list(client: &evenkeel::client::Client, set: &ReplicaSet) -> Result<()> {
    /// let pods = client.list::<Pod>().in_namespace("shop").label("app", "web").await?;
    /// let on_node = client.list::<Pod>().index("node", "node-1").await?;
    /// let uid = evenkeel::Uid::new(&set.uid().unwrap_or_default());
    /// let owned = client.list::<Pod>().owned_by(&uid).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn list<K: Object>(&self) -> Select<K, List<'_>> {
        Select::new(Kind::of::<K>(), List::new(self))
    }

    pub(crate) async fn entry(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        let read = |cache: &Cache| cache.get(kind, key);
        let found = self.shared.cache.read_through(kind, read, &self.live()).await?;
        self.record_get(kind, key, found.as_ref().map(|entry| entry.meta().version()));
        Ok(found)
    }

    #[inline]
    fn record_get(&self, kind: &Kind, key: &Key, version: Option<Version>) {
        if let Some(operations) = &self.operations {
            operations.record_read(ReadRecord::get(kind, key, version));
        }
    }

    pub(crate) async fn entries(
        &self,
        kind: &Kind,
        query: &Query<'_>,
    ) -> Result<Vec<Arc<Entry>>, Error> {
        let read = |cache: &Cache| cache.find(kind, query);
        let found = self.shared.cache.read_through(kind, read, &self.live()).await?;
        if let Some(operations) = &self.operations {
            operations.record_read(ReadRecord::list(kind, query.namespace, found.len()));
        }
        Ok(found)
    }
}

/// A list from the cache; `.await` returns the objects, ordered by key. See [`Client::list`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # async fn example(client: &Client) -> Result<()> {
/// let web = client.list::<Pod>().in_namespace("shop").label("app", "web");
/// for pod in web.await? {
///     println!("{}", pod.name_any());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct List<'a> {
    client: &'a Client,
}

impl<'a> List<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    pub(super) fn client(&self) -> &'a Client {
        self.client
    }
}

impl CacheOperation for List<'_> {}

impl<K> Select<K, List<'_>> {
    /// Returns a list whose objects are decoded during iteration.
    ///
    /// A plain list decodes all objects, which for 50,000 pods takes a gigabyte. A lazy list needs
    /// no more memory than the cache itself:
    ///
    /// ```
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn count(client: &evenkeel::client::Client) -> Result<usize> {
    /// let mut running = 0;
    /// for pod in client.list::<Pod>().lazy().await? {
    ///     let phase = pod?.status.as_ref().and_then(|status| status.phase.clone());
    ///     running += usize::from(phase.as_deref() == Some("Running"));
    /// }
    /// # Ok(running)
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is not cached, or the index does not exist.
    pub async fn lazy(self) -> Result<LazyList<K>, Error> {
        Ok(LazyList::new(self.entries().await?))
    }

    /// Returns the entries: metadata and JSON, without decoding.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn names(client: &evenkeel::client::Client) -> Result<Vec<String>> {
    /// let pods = client.list::<Pod>().label("app", "web").entries().await?;
    /// # Ok(
    /// pods.iter().map(|pod| pod.meta().key().name().to_owned()).collect()
    /// # )
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is not cached, or the index does not exist.
    pub async fn entries(self) -> Result<Vec<Arc<Entry>>, Error> {
        self.operation.client.entries(&self.kind, &self.query()).await
    }
}

impl<'a, K: DeserializeOwned + Send + Sync + 'static> IntoFuture for Select<K, List<'a>> {
    type Output = Result<Vec<Arc<K>>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.operation.client;
            let entries = self.entries().await?;
            Ok(client.shared.cache.typed_all(&entries)?)
        })
    }
}
