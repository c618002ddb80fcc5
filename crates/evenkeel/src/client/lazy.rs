//! A list whose objects are decoded one at a time.

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::sync::Arc;
use std::vec;

use super::error::Error;
use crate::cache::Entry;
use crate::kind::Object;

/// The objects of a list as they were when it was made, ordered by key; see
/// [`List::lazy`](super::List::lazy).
///
/// An object that the cache keeps decoded is shared; another one is decoded when the iterator
/// reaches it, and its memory is freed with the last `Arc`.
#[derive(Clone, Debug)]
pub struct LazyList<K> {
    entries: Vec<Arc<Entry>>,
    marker: PhantomData<fn() -> K>,
}

impl<K: Object> LazyList<K> {
    pub(super) fn new(entries: Vec<Arc<Entry>>) -> Self {
        Self { entries, marker: PhantomData }
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Metadata and bytes, which need no decoding.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The objects, one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<Arc<K>, Error>> {
        self.entries.iter().map(|entry| Ok(entry.decode()?))
    }
}

impl<K: Object> IntoIterator for LazyList<K> {
    type Item = Result<Arc<K>, Error>;
    type IntoIter = IntoIter<K>;

    fn into_iter(self) -> IntoIter<K> {
        IntoIter { entries: self.entries.into_iter(), marker: PhantomData }
    }
}

/// Decodes the objects of a [`LazyList`] and lets go of each as it goes on.
#[derive(Debug)]
pub struct IntoIter<K> {
    entries: vec::IntoIter<Arc<Entry>>,
    marker: PhantomData<fn() -> K>,
}

impl<K: Object> Iterator for IntoIter<K> {
    type Item = Result<Arc<K>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|entry| Ok(entry.decode()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<K: Object> ExactSizeIterator for IntoIter<K> {}

impl<K: Object> FusedIterator for IntoIter<K> {}
