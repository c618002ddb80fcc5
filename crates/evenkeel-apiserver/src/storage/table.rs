//! One resource's objects: point reads, conditional writes, consistent lists, watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::state::{Bounds, NamespaceRange, State};
use super::write::Change;
use super::{
    Compacted, Inner, Key, Observer, ReadError, Record, Shared, UnsavedRecord, Watcher, WriteError,
};

/// Keys visited per lock acquisition, so that a long list does not block writers.
const CHUNK: usize = 512;

/// A handle of one table. Cheap to clone; keeps its store open.
#[derive(Clone)]
pub struct Table {
    pub(super) store: Arc<Inner>,
    pub(super) inner: Arc<TableInner>,
}

/// The objects to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range<'a> {
    /// Only objects in this namespace.
    pub namespace: Option<&'a str>,
    /// Only objects after this key.
    pub after: Option<&'a Key>,
    /// At most this many.
    pub limit: Option<usize>,
}

/// The result of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The revision at which the items are exactly the table's objects in the range.
    pub revision: u64,
    /// In key order.
    pub items: Vec<Arc<Record>>,
    /// The last item's key, if there are more objects after it.
    pub next: Option<Key>,
}

/// The shared state of one table.
pub(super) struct TableInner {
    pub(super) name: Arc<str>,
    pub(super) state: RwLock<State>,
    /// The earliest revision a watch may start from, even if lists can read earlier ones.
    pub(super) created_at_revision: u64,
    /// Revisions of lists in progress, with their count. Locked after `state`.
    pins: Mutex<BTreeMap<u64, usize>>,
}

/// A guard that keeps one revision of a table readable.
pub(super) struct Pin {
    inner: Arc<TableInner>,
    pub(super) revision: u64,
}

// === impl Table ===

impl Table {
    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the current object.
    pub fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.inner.state.read().get(key).cloned()
    }

    /// Stores a new object.
    ///
    /// Like every write: with a data directory a dropped future may or may not have written;
    /// without one it never waits.
    ///
    /// # Errors
    ///
    /// [`WriteError::Exists`] if the object exists.
    pub async fn create(
        &self,
        key: Key,
        unsaved: UnsavedRecord,
    ) -> Result<Arc<Record>, WriteError> {
        self.store.write(&self.inner, key, Change::Create(unsaved)).await
    }

    /// Replaces the object if it is at revision `expected`.
    ///
    /// # Errors
    ///
    /// [`WriteError::Conflict`] if it is not.
    pub async fn update(
        &self,
        key: Key,
        expected: u64,
        unsaved: UnsavedRecord,
    ) -> Result<Arc<Record>, WriteError> {
        self.store.write(&self.inner, key, Change::Update { expected, unsaved }).await
    }

    /// Deletes the object if it is at revision `expected`. Returns its last state with the revision
    /// of the deletion: `last` if given, otherwise the stored one.
    ///
    /// # Errors
    ///
    /// [`WriteError::Conflict`] if it is not.
    pub async fn delete(
        &self,
        key: Key,
        expected: u64,
        last: Option<UnsavedRecord>,
    ) -> Result<Arc<Record>, WriteError> {
        self.store.write(&self.inner, key, Change::Delete { expected, last }).await
    }

    /// Lists the objects in `range` at revision `at`, or now.
    ///
    /// The next page starts after [`Page::next`] at [`Page::revision`].
    ///
    /// # Errors
    ///
    /// If `at` is compacted or in the future.
    pub fn list(&self, range: Range<'_>, at: Option<u64>) -> Result<Page, ReadError> {
        self.list_where(range, at, |_| true)
    }

    /// Like [`list`](Self::list), without the objects that `keep` rejects: they do not count
    /// against the limit, but one after the last item causes a next page.
    ///
    /// # Errors
    ///
    /// Like [`list`](Self::list).
    pub fn list_where(
        &self,
        range: Range<'_>,
        at: Option<u64>,
        mut keep: impl FnMut(&Record) -> bool,
    ) -> Result<Page, ReadError> {
        let pin = self.inner.pin(&self.store.shared, at)?;
        let key_range = range.namespace.map(NamespaceRange::of);
        let limit = range.limit.unwrap_or(usize::MAX);
        let mut page = Page { revision: pin.revision, items: Vec::new(), next: None };
        let mut chunk = Vec::new();
        let mut after = range.after.cloned();
        loop {
            // One more than requested, to know whether there are more.
            let keys = (limit - page.items.len()).saturating_add(1).clamp(32, CHUNK);
            let bounds = Bounds::new(key_range.as_ref(), after.as_ref().map(Key::as_str));
            let rest = self
                .inner
                .state
                .read()
                .walk(&bounds, pin.revision, keys, |record| chunk.push(record.clone()));
            for record in chunk.drain(..) {
                if page.items.len() == limit {
                    page.next = page.items.last().map(|last| last.key.clone());
                    return Ok(page);
                }
                if keep(&record) {
                    page.items.push(record);
                }
            }
            if rest.is_none() {
                return Ok(page);
            }
            after = rest;
        }
    }

    /// Counts the objects in `range` at revision `at`, or now; ignores the limit.
    ///
    /// # Errors
    ///
    /// Like [`list`](Self::list).
    pub fn count(&self, range: Range<'_>, at: Option<u64>) -> Result<usize, ReadError> {
        let pin = self.inner.pin(&self.store.shared, at)?;
        let key_range = range.namespace.map(NamespaceRange::of);
        let mut after = range.after.cloned();
        let mut total = 0;
        loop {
            let bounds = Bounds::new(key_range.as_ref(), after.as_ref().map(Key::as_str));
            let state = self.inner.state.read();
            // Cheaper per key than a list, so the chunks are larger.
            let (count, rest) = state.count(&bounds, pin.revision, 16 * CHUNK);
            drop(state);
            total += count;
            if rest.is_none() {
                return Ok(total);
            }
            after = rest;
        }
    }

    /// Watches all events after revision `after`, of one namespace or of all.
    ///
    /// A future revision is allowed: events up to it are skipped.
    ///
    /// # Errors
    ///
    /// If `after` is compacted.
    pub fn watch(&self, namespace: Option<&str>, after: u64) -> Result<Watcher, Compacted> {
        Watcher::new(self.store.shared.clone(), self.inner.clone(), namespace, after)
    }

    /// Calls `observer` with every event from now on, in revision order, before it is visible and
    /// before its write completes; also if the future of the write was dropped. Replaces the last
    /// observer.
    ///
    /// It runs under the lock of the table, on the thread that commits: it must be short, and must
    /// not use the store.
    pub fn observe(&self, observer: Observer) {
        self.inner.state.write().set_observer(observer);
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.inner.state.read().size().0
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the approximate size of the objects in bytes.
    pub fn bytes(&self) -> usize {
        self.inner.state.read().size().1
    }

    /// Returns the number of events in the window, and the bytes that may be held for them.
    pub fn window(&self) -> (usize, usize) {
        self.inner.state.read().window_size()
    }

    /// Returns the oldest revision that can be listed.
    pub fn compacted_revision(&self) -> u64 {
        self.inner.state.read().compacted()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Table").field(&self.inner.name).finish()
    }
}

// === impl TableInner ===

impl TableInner {
    pub(super) fn new(name: Arc<str>, compacted: u64, created_at_revision: u64) -> Self {
        Self {
            name,
            state: RwLock::new(State::new(compacted)),
            created_at_revision,
            pins: Mutex::default(),
        }
    }

    /// Keeps `at`, or the current revision, readable until the pin is dropped.
    pub(super) fn pin(
        self: &Arc<Self>,
        shared: &Shared,
        at: Option<u64>,
    ) -> Result<Pin, ReadError> {
        let state = self.state.read();
        // Under the table's lock, so that all events of this table up to here are in the log.
        let current = shared.revision();
        let revision = at.unwrap_or(current);
        if revision > current {
            return Err(ReadError::FutureRevision { requested: revision, current });
        }
        let compacted = state.compacted();
        if revision < compacted {
            return Err(Compacted { compacted, current }.into());
        }
        *self.pins.lock().entry(revision).or_default() += 1;
        drop(state);
        Ok(Pin { inner: self.clone(), revision })
    }

    /// Returns the oldest pinned revision. Exact only while the table's lock is held for writing.
    pub(super) fn oldest_pin(&self) -> Option<u64> {
        self.pins.lock().keys().next().copied()
    }
}

// === impl Pin ===

impl Pin {
    /// Visits every object at the pinned revision, without holding a lock, until `visit` fails.
    pub(super) fn for_each<E>(
        &self,
        mut visit: impl FnMut(&Arc<Record>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut after: Option<Key> = None;
        loop {
            let bounds = Bounds::new(None, after.as_ref().map(Key::as_str));
            let rest = self
                .inner
                .state
                .read()
                .walk(&bounds, self.revision, CHUNK, |record| chunk.push(record.clone()));
            for record in chunk.drain(..) {
                visit(&record)?;
            }
            if rest.is_none() {
                return Ok(());
            }
            after = rest;
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.inner.pins.lock();
        if let Some(readers) = pins.get_mut(&self.revision) {
            *readers -= 1;
            if *readers == 0 {
                pins.remove(&self.revision);
            }
        }
    }
}
