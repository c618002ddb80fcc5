//! Reads: from the store, merged with the overlay of own writes.
//!
//! A read that the contents cannot serve yet fails with a [`ReadError`]. [`Cache::read_through`]
//! repeats it after it has waited for the sync, or resolved unknown outcomes of writes with live
//! reads.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Cache;
use super::contents::Contents;
use super::entry::{DecodeError, Entry};
use super::error::{ReadError, SyncError};
use super::informer::Informer;
use super::overlay::UnknownOutcome;
use super::query::{Conditions, Query};
use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};
use crate::version::Version;

/// The maximum number of single live reads; more objects are listed.
const GETS_MAX: usize = 8;

impl Contents {
    /// Returns whether the store alone can serve reads, which is the common case.
    #[inline]
    fn is_ready(&self) -> bool {
        self.sync.is_ready() && self.overlay.is_idle()
    }

    /// Returns the object of `key` if the store alone can serve the read; `None` if the informer
    /// must.
    pub(super) fn get_ready(&self, key: &Key) -> Option<Option<Arc<Entry>>> {
        if !self.is_ready() {
            return None;
        }
        let found = self.store.get(key);
        // The informer may have been stopped concurrently. It clears the store only after it has
        // set this to false, so a found object is valid and a missing one may not be.
        if !self.sync.is_ready() {
            return None;
        }
        (found.is_some() || self.all_namespaces).then_some(found)
    }

    /// Returns the object of `key`.
    pub(super) fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        let kind = &self.kind;
        if !kind.namespaced() && key.namespace().is_some() {
            return self.get(&Key::cluster(key.name()));
        }
        self.sync.check(kind, key.namespace())?;
        if self.overlay.is_idle() {
            return Ok(self.store.get(key));
        }
        self.overlay.get(&self.store, key).map_err(|outcome| ReadError::UnknownOutcome {
            kind: kind.clone(),
            outcomes: vec![outcome],
        })
    }

    pub(super) fn list(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, ReadError> {
        let kind = &self.kind;
        let mut conditions = Conditions::new(query);
        conditions.namespace = conditions.namespace.filter(|_| kind.namespaced());
        self.sync.check(kind, conditions.namespace)?;
        let found = if self.overlay.is_idle() {
            self.store.list(&conditions)
        } else {
            self.overlay
                .list(&self.store, &conditions)
                .map_err(|outcomes| ReadError::UnknownOutcome { kind: kind.clone(), outcomes })?
        };
        found.map_err(|_| ReadError::NoIndex {
            kind: kind.clone(),
            name: query.index.map(|(name, _)| name.to_owned()).unwrap_or_default(),
        })
    }

    /// Lists including objects with unknown write outcomes; empty before the sync.
    pub(super) fn peek_list(&self, query: &Query<'_>) -> Vec<Arc<Entry>> {
        let mut conditions = Conditions::new(query);
        conditions.namespace = conditions.namespace.filter(|_| self.kind.namespaced());
        if self.sync.check(&self.kind, conditions.namespace).is_err() {
            return Vec::new();
        }
        self.overlay.list_known(&self.store, &conditions).unwrap_or_default()
    }
}

/// Reads from the API server, for objects whose state is unknown. The client implements it.
pub(crate) trait LiveReads: Sync {
    /// The error of a read.
    type Error: From<ReadError> + std::fmt::Display + Send;

    /// Returns the JSON of an object, if it exists.
    fn get(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;

    /// Returns the JSON of all objects of a namespace, or of the cluster.
    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Box<RawValue>>, Self::Error>> + Send;
}

impl Cache {
    /// Returns the informer to read from. The first read of a declared type that is not watched
    /// starts the informer, and the cache keeps a handle to it.
    pub(super) fn reader(&self, kind: &Kind) -> Result<Informer, ReadError> {
        if let Some(informer) = self.running(kind) {
            return Ok(informer);
        }
        let informer = self.informer(kind)?;
        if let Some(declared) = self.0.types.write().get_mut(kind) {
            declared.own.get_or_insert_with(|| informer.clone());
        }
        Ok(informer)
    }

    /// Returns the object of `key`; `None` if it does not exist or is not selected.
    ///
    /// # Errors
    /// When the cache cannot serve the read; see [`ReadError`].
    pub fn get(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        match self.0.first.get(kind).and_then(|contents| contents.get_ready(key)) {
            Some(found) => Ok(found),
            None => self.reader(kind)?.shared().contents.get(key),
        }
    }

    /// Returns the object of `key` and its resourceVersion if it is kept decoded as `K` and the
    /// store alone can serve the read.
    pub(crate) fn get_decoded<K: AnyObject>(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> Option<(Arc<K>, Version)> {
        let contents = self.0.first.get(kind)?;
        // A found object is valid even if the informer is stopped concurrently.
        if contents.is_ready() { contents.store.get_decoded(key) } else { None }
    }

    /// Same as [`Cache::get_decoded`], for a type that [`Cache::serves`]. The result fits into a
    /// register.
    #[inline]
    pub(crate) fn get_served<K: Object>(&self, key: &Key) -> Option<Arc<K>> {
        let (decoded, contents) = self.0.by_type.get(&TypeId::of::<K>())?;
        if contents.is_ready() { decoded.get(key) } else { None }
    }

    /// Records that objects of `kind` are read as `K`.
    pub(crate) fn serves<K: Object>(&self, kind: &Kind) {
        if let Some(contents) = self.0.first.get(kind)
            && let Some(decoded) = contents.store.decoded_reader::<K>()
        {
            self.0
                .by_type
                .get_or_insert_with(&TypeId::of::<K>(), || (decoded.clone(), contents.clone()));
        }
    }

    /// Returns an object that was read by key as `K`, as [`Cache::typed`] does, and stores the
    /// decoded form where the next read by key finds it.
    pub(crate) fn typed_by_key<K: AnyObject>(
        &self,
        entry: &Arc<Entry>,
    ) -> Result<Arc<K>, DecodeError> {
        let typed = self.typed::<K>(entry)?;
        if let Some(contents) = self.0.first.get(entry.kind()) {
            contents.store.keep_decoded(entry, &typed);
        }
        Ok(typed)
    }

    /// Lists the objects that match `query`, ordered by key.
    pub(crate) fn find(
        &self,
        kind: &Kind,
        query: &Query<'_>,
    ) -> Result<Vec<Arc<Entry>>, ReadError> {
        self.reader(kind)?.find(query)
    }

    /// Returns the object of `key` if the type is watched and synced and no write outcome is
    /// unknown. Never starts a watch, never waits.
    #[must_use]
    pub fn peek(&self, kind: &Kind, key: &Key) -> Option<Arc<Entry>> {
        self.try_get(kind, key)?.ok().flatten()
    }

    /// Lists the objects if the type is watched, including those with unknown write outcomes. Never
    /// starts a watch, never waits.
    pub(crate) fn peek_list(&self, kind: &Kind, query: &Query<'_>) -> Vec<Arc<Entry>> {
        self.running(kind)
            .map(|informer| informer.shared().contents.peek_list(query))
            .unwrap_or_default()
    }

    /// Returns the result of a read of `key` if the type is watched. Never starts a watch, never
    /// waits.
    pub(crate) fn try_get(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> Option<Result<Option<Arc<Entry>>, ReadError>> {
        Some(self.running(kind)?.get(key))
    }

    /// Repeats `read` until the cache can serve it.
    pub(crate) async fn read_through<T, L: LiveReads>(
        &self,
        kind: &Kind,
        read: impl Fn(&Self) -> Result<T, ReadError>,
        live: &L,
    ) -> Result<T, L::Error> {
        loop {
            match read(self) {
                Ok(found) => return Ok(found),
                Err(error) => self.recover(kind, error, live).await?,
            }
        }
    }

    /// Resolves an unknown outcome with a live read if the type is watched; if that fails, the next
    /// read tries again.
    pub(crate) async fn reread<L: LiveReads>(&self, kind: &Kind, key: &Key, live: &L) {
        if let Some(Err(error @ ReadError::UnknownOutcome { .. })) = self.try_get(kind, key)
            && let Err(error) = self.recover(kind, error, live).await
        {
            tracing::debug!(%kind, %key, %error, "live read after a write failed");
        }
    }

    /// Waits for the cache sync, or resolves unknown outcomes with live reads, so that the read can
    /// be repeated.
    ///
    /// The future is boxed: it is large and rarely needed.
    pub(crate) fn recover<'a, L: LiveReads>(
        &'a self,
        kind: &'a Kind,
        error: ReadError,
        live: &'a L,
    ) -> Pin<Box<dyn Future<Output = Result<(), L::Error>> + Send + 'a>> {
        Box::pin(async move {
            match error {
                ReadError::NotSynced { .. } => {
                    let synced = self.informer(kind)?.wait_until_synced().await;
                    synced.map_err(|error| match error {
                        SyncError::NotSynced { kind, last } => ReadError::NotSynced { kind, last },
                        SyncError::Stopped { kind } => ReadError::Stopped { kind },
                    })?;
                    Ok(())
                }
                ReadError::UnknownOutcome { outcomes, .. } => {
                    let mut namespaces = BTreeMap::<_, Vec<&UnknownOutcome>>::new();
                    for outcome in &outcomes {
                        namespaces.entry(outcome.key().namespace()).or_default().push(outcome);
                    }
                    for (namespace, outcomes) in namespaces {
                        self.resolve(kind, namespace, &outcomes, live).await?;
                    }
                    Ok(())
                }
                error => Err(error.into()),
            }
        })
    }

    /// Resolves unknown outcomes with live reads: one get each, or one list if there are many, or if a
    /// get fails: an object that cannot be read must not block the reads of others.
    async fn resolve<L: LiveReads>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        outcomes: &[&UnknownOutcome],
        live: &L,
    ) -> Result<(), L::Error> {
        let mut failed = None;
        if outcomes.len() <= GETS_MAX {
            for outcome in outcomes {
                match live.get(kind, outcome.key()).await {
                    Ok(raw) => self.record_live_read(kind, outcome, raw.as_deref()),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            if failed.is_none() {
                return Ok(());
            }
        }
        let listed = live.list(kind, namespace).await.map_err(|error| failed.unwrap_or(error))?;
        let mut objects = BTreeMap::new();
        for object in &listed {
            let named = serde_json::from_str::<Named>(object.get()).unwrap_or_default();
            objects.insert(Key::new(namespace, &named.metadata.name), object.get().as_bytes());
        }
        for outcome in outcomes {
            self.record_live_read(kind, outcome, objects.get(outcome.key()).copied());
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Default, Deserialize)]
struct Name {
    name: String,
}
