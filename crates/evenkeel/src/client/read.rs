//! Cached reads.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use kube::core::{Expression, Selector};

use super::Client;
use super::error::Error;
use super::lazy::LazyList;
use crate::cache::{Cache, Entry, Found, Query};
use crate::journal::ReadRecord;
use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};
use crate::uid::Uid;

impl Client {
    /// Returns the object from the cache, if it exists.
    ///
    /// The type must be cached: the reconciled type and the types that a controller owns or watches
    /// are; others are declared with `reads`.
    ///
    /// # Errors
    /// When the type is not cached, or the object does not decode as `K`.
    pub async fn get<K: Object>(&self, key: &Key) -> Result<Option<Arc<K>>, Error> {
        self.get_as(&Kind::of::<K>(), key).await
    }

    /// Returns the object of `kind` from the cache as `K`, if it exists.
    pub(crate) async fn get_as<K: AnyObject>(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> Result<Option<Arc<K>>, Error> {
        let read = |cache: &Cache| cache.get_typed::<K>(kind, key);
        let found = self.shared.cache.read_through(kind, read, &self.live()).await?;
        if let Some(operations) = &self.operations {
            let version = found.as_ref().map(Found::version);
            operations.record_read(ReadRecord::get(kind, key, version));
        }
        match found {
            Some(Found::Typed(typed, _)) => Ok(Some(typed)),
            Some(Found::Untyped(entry)) => Ok(Some(self.shared.cache.typed::<K>(&entry)?)),
            None => Ok(None),
        }
    }

    /// Returns the object's metadata and JSON from the cache without decoding it, if it exists.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn peek<K: Object>(&self, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        self.entry(&Kind::of::<K>(), key).await
    }

    /// Lists objects from the cache, ordered by key: `client.list::<Pod>().await?`. The methods of
    /// the returned request restrict the list.
    pub fn list<K: Object>(&self) -> List<'_, K> {
        List {
            client: self,
            namespace: None,
            labels: Selector::default(),
            index: None,
            owner: None,
            marker: PhantomData,
        }
    }

    pub(crate) async fn entry(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        let read = |cache: &Cache| cache.get(kind, key);
        let found = self.shared.cache.read_through(kind, read, &self.live()).await?;
        if let Some(operations) = &self.operations {
            let version = found.as_ref().map(|entry| entry.meta().version());
            operations.record_read(ReadRecord::get(kind, key, version));
        }
        Ok(found)
    }

    pub(crate) async fn entries(
        &self,
        kind: &Kind,
        query: &Query<'_>,
    ) -> Result<Vec<Arc<Entry>>, Error> {
        let read = |cache: &Cache| cache.list(kind, query);
        let found = self.shared.cache.read_through(kind, read, &self.live()).await?;
        if let Some(operations) = &self.operations {
            operations.record_read(ReadRecord::list(kind, query.namespace, found.len()));
        }
        Ok(found)
    }
}

/// A list request; `.await` runs it.
#[must_use = "a list runs when it is awaited"]
pub struct List<'a, K> {
    client: &'a Client,
    namespace: Option<String>,
    labels: Selector,
    index: Option<(String, String)>,
    owner: Option<Uid>,
    marker: PhantomData<fn() -> K>,
}

impl<'a, K: Object> List<'a, K> {
    /// Selects a namespace.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Selects objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.extend(Expression::Equal(name.to_owned(), value.to_owned()));
        self
    }

    /// Selects objects that match the selector.
    pub fn matching(mut self, selector: impl Into<Selector>) -> Self {
        self.labels.extend(selector.into());
        self
    }

    /// Selects objects with `value` in the index `name`.
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.index = Some((name.to_owned(), value.to_owned()));
        self
    }

    /// Selects objects with an owner reference to this uid.
    pub fn owned_by(mut self, uid: &Uid) -> Self {
        self.owner = Some(uid.clone());
        self
    }

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
    /// # Errors
    /// When the type is not cached, or the index does not exist.
    pub async fn entries(self) -> Result<Vec<Arc<Entry>>, Error> {
        let index = self.index.as_ref().map(|(name, value)| (name.as_str(), value.as_str()));
        let query = Query {
            namespace: self.namespace.as_deref(),
            labels: self.labels,
            index,
            owner: self.owner,
        };
        self.client.entries(&Kind::of::<K>(), &query).await
    }
}

impl<'a, K: Object> IntoFuture for List<'a, K> {
    type Output = Result<Vec<Arc<K>>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.client;
            let entries = self.entries().await?;
            Ok(client.shared.cache.typed_all(&entries)?)
        })
    }
}
