//! Lists whose objects are decoded during iteration.

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::sync::Arc;
use std::vec;

use serde::de::DeserializeOwned;

use super::error::Error;
use crate::cache::Entry;

/// A snapshot of a list, ordered by key; see `lazy` of a [list](super::List).
///
/// An object that the cache keeps decoded is shared. Other objects are decoded during iteration and
/// freed with their last `Arc`.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # async fn example(client: &Client) -> Result<()> {
/// let pods = client.list::<Pod>().lazy().await?;
/// println!("{} pods", pods.len());
/// for pod in &pods.entries()[..10] {
///     println!("{}", pod.meta().key()); // not decoded
/// }
/// for pod in pods {
///     println!("{:?}", pod?.status); // one at a time
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LazyList<K> {
    entries: Vec<Arc<Entry>>,
    marker: PhantomData<fn() -> K>,
}

impl<K> LazyList<K> {
    pub(super) fn new(entries: Vec<Arc<Entry>>) -> Self {
        Self { entries, marker: PhantomData }
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> LazyList<K> {
    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries: metadata and JSON.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Iterates over the decoded objects.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<Arc<K>, Error>> {
        self.entries.iter().map(|entry| Ok(entry.decode()?))
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> IntoIterator for LazyList<K> {
    type Item = Result<Arc<K>, Error>;
    type IntoIter = IntoIter<K>;

    fn into_iter(self) -> IntoIter<K> {
        IntoIter { entries: self.entries.into_iter(), marker: PhantomData }
    }
}

/// Iterator over a [`LazyList`] that releases each entry.
#[derive(Debug)]
pub struct IntoIter<K> {
    entries: vec::IntoIter<Arc<Entry>>,
    marker: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Iterator for IntoIter<K> {
    type Item = Result<Arc<K>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|entry| Ok(entry.decode()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> ExactSizeIterator for IntoIter<K> {}

impl<K: DeserializeOwned + Send + Sync + 'static> FusedIterator for IntoIter<K> {}
