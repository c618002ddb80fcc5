//! Lists of cached entries without waiting.

use std::sync::Arc;

use super::Cache;
use super::entry::Entry;
use super::error::ReadError;
use super::informer::Informer;
use crate::key::Key;
use crate::kind::Kind;
use crate::select::{CacheOperation, Select};

/// A list of the entries of a type, without waiting; see [`Cache::list`].
///
/// ```no_run
/// use evenkeel::Kind;
/// use evenkeel::cache::{Cache, ReadError};
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # fn example(cache: &Cache) -> Result<(), ReadError> {
/// let keys = cache.list(&Kind::of::<Pod>()).label("app", "web").keys()?;
/// # drop(keys);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lookup<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Cache(&'a Cache),
    Informer(&'a Informer),
}

impl CacheOperation for Lookup<'_> {}

impl Cache {
    /// Lists the entries of a type:
    ///
    /// ```no_run
    /// # use evenkeel::{Kind, cache::Cache, cache::ReadError};
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # fn count(cache: &Cache) -> Result<usize, ReadError> {
    /// let pods = cache.list(&Kind::of::<Pod>()).in_namespace("shop").entries()?;
    /// # Ok(pods.len())
    /// # }
    /// ```
    ///
    /// Unlike [`Client::list`](crate::client::Client::list) it does not wait for the sync.
    pub fn list(&self, kind: &Kind) -> Select<Entry, Lookup<'_>> {
        Select::new(kind.clone(), Lookup(Source::Cache(self)))
    }
}

impl Informer {
    /// Lists the entries of the type; otherwise as [`Cache::list`].
    pub fn list(&self) -> Select<Entry, Lookup<'_>> {
        Select::new(self.kind().clone(), Lookup(Source::Informer(self)))
    }
}

impl Select<Entry, Lookup<'_>> {
    /// Returns the entries, ordered by key.
    ///
    /// # Errors
    /// When the cache cannot serve the read; see [`ReadError`].
    pub fn entries(&self) -> Result<Vec<Arc<Entry>>, ReadError> {
        match self.operation.0 {
            Source::Cache(cache) => cache.find(&self.kind, &self.query()),
            Source::Informer(informer) => informer.find(&self.query()),
        }
    }

    /// Returns the keys of the objects, in order.
    ///
    /// # Errors
    /// Same as [`entries`](Self::entries).
    pub fn keys(&self) -> Result<Vec<Key>, ReadError> {
        Ok(self.entries()?.iter().map(|entry| entry.meta().key().clone()).collect())
    }
}
