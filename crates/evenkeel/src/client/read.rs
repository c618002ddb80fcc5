//! Reads from the cache.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use kube::core::{Expression, Selector};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::Error;
use super::lazy::LazyList;
use super::{Client, Live};
use crate::cache::{Doubt, Entry, Found, Query, ReadError, SyncError};
use crate::journal::ReadRecord;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::uid::Uid;

impl Client {
    /// The object, if it exists, from the cache.
    ///
    /// The type must be cached: a controller's own type and those it owns or watches are; others
    /// are declared with `reads`.
    ///
    /// # Errors
    /// When the type is not cached (the error says which line to add), or the object's bytes are not
    /// a `K`.
    pub async fn get<K: Object>(&self, key: &Key) -> Result<Option<Arc<K>>, Error> {
        let kind = Kind::of::<K>();
        let found = loop {
            match self.shared.cache.get_typed::<K>(&kind, key) {
                Ok(found) => break found,
                Err(error) => self.mend(&kind, error).await?,
            }
        };
        if let Some(operations) = &self.operations {
            let version = found.as_ref().map(Found::version);
            operations.record_read(ReadRecord::get(&kind, key, version));
        }
        match found {
            Some(Found::Typed(typed, _)) => Ok(Some(typed)),
            Some(Found::Untyped(entry)) => Ok(Some(self.shared.cache.typed::<K>(&entry)?)),
            None => Ok(None),
        }
    }

    /// The object's metadata and bytes, if it exists, without decoding it.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn peek<K: Object>(&self, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        self.entry(&Kind::of::<K>(), key).await
    }

    /// Objects of one type from the cache, ordered by key: `client.list::<Pod>().await?`, narrowed
    /// by what is called on it first.
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
        let found = loop {
            match self.shared.cache.get(kind, key) {
                Ok(found) => break found,
                Err(error) => self.mend(kind, error).await?,
            }
        };
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
        let found = loop {
            match self.shared.cache.list(kind, query) {
                Ok(found) => break found,
                Err(error) => self.mend(kind, error).await?,
            }
        };
        if let Some(operations) = &self.operations {
            operations.record_read(ReadRecord::list(kind, query.namespace, found.len()));
        }
        Ok(found)
    }

    /// Ends a doubt about an object if its type is watched and the server answers; what is not
    /// settled here is asked for by the next read.
    pub(super) async fn settle(&self, kind: &Kind, key: &Key) {
        if let Some(Err(error @ ReadError::Uncertain { .. })) = self.shared.cache.look(kind, key)
            && let Err(error) = self.mend(kind, error).await
        {
            tracing::debug!(%kind, %key, %error, "what a write left is not known yet");
        }
    }

    /// Makes the cache able to answer, where waiting or asking the server can.
    ///
    /// The future is boxed: it holds whole requests, is seldom needed, and would make that of each
    /// read several kilobytes large.
    pub(super) fn mend<'a>(
        &'a self,
        kind: &'a Kind,
        error: ReadError,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
        Box::pin(self.answerable(kind, error))
    }

    async fn answerable(&self, kind: &Kind, error: ReadError) -> Result<(), Error> {
        match error {
            ReadError::NotSynced { .. } => match self.shared.cache.informer(kind)?.synced().await {
                Ok(()) => Ok(()),
                Err(SyncError::NotSynced { kind, last }) => {
                    Err(ReadError::NotSynced { kind, last }.into())
                }
                Err(SyncError::Stopped { kind }) => Err(ReadError::Stopped { kind }.into()),
            },
            // A write's answer was lost: what came of it is asked of the server.
            ReadError::Uncertain { doubts, .. } => {
                let mut namespaces = BTreeMap::<_, Vec<&Doubt>>::new();
                for doubt in &doubts {
                    namespaces.entry(doubt.key().namespace()).or_default().push(doubt);
                }
                for (namespace, doubts) in namespaces {
                    self.resolve(kind, namespace, &doubts).await?;
                }
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    /// Asks the server what there is of objects in doubt: for each, or for all if they are many.
    async fn resolve(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        doubts: &[&Doubt],
    ) -> Result<(), Error> {
        let live = Live::new(self);
        if doubts.len() <= FEW {
            for doubt in doubts {
                let raw = live.raw(kind, doubt.key()).await?;
                self.shared.cache.resolved(kind, doubt, raw.as_deref());
            }
            return Ok(());
        }
        let listed: Vec<Box<RawValue>> = live.list_as(kind, namespace, "").await?;
        let mut objects = BTreeMap::new();
        for object in &listed {
            let named = serde_json::from_str::<Named>(object.get()).unwrap_or_default();
            objects.insert(Key::new(namespace, &named.metadata.name), object.get().as_bytes());
        }
        for doubt in doubts {
            self.shared.cache.resolved(kind, doubt, objects.get(doubt.key()).copied());
        }
        Ok(())
    }
}

/// How many objects in doubt are asked for one by one.
const FEW: usize = 8;

#[derive(Default, Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Default, Deserialize)]
struct Name {
    name: String,
}

/// A list in the making; `.await` runs it.
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
    /// Only this namespace.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.extend(Expression::Equal(name.to_owned(), value.to_owned()));
        self
    }

    /// Only objects that the selector matches.
    pub fn matching(mut self, selector: impl Into<Selector>) -> Self {
        self.labels.extend(selector.into());
        self
    }

    /// Only objects that the index `name` files under `value`.
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.index = Some((name.to_owned(), value.to_owned()));
        self
    }

    /// Only objects that the object with this uid owns.
    pub fn owned_by(mut self, uid: &Uid) -> Self {
        self.owner = Some(uid.clone());
        self
    }

    /// The same objects, each decoded only when it is reached and for as long as it is held.
    ///
    /// A list of everything keeps all of its objects decoded at once, which for 50,000 pods is a
    /// gigabyte. One that is walked needs no more memory than the cache itself:
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
    /// When the type, or the index, is not in the cache.
    pub async fn lazy(self) -> Result<LazyList<K>, Error> {
        Ok(LazyList::new(self.entries().await?))
    }

    /// Metadata and bytes, without decoding.
    ///
    /// # Errors
    /// When the type, or the index, is not in the cache.
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
