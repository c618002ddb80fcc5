//! One resource's objects: point reads, conditional writes, consistent lists, watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::state::{Bounds, NamespaceRange, State};
use super::write::Change;
use super::{Compacted, Inner, Key, ReadError, Record, Shared, UnsavedRecord, Watcher, WriteError};

/// Keys visited under one lock hold: a long list lets writers in between.
const CHUNK: usize = 512;

/// A handle of one table. Cheap to clone; keeps its store open.
#[derive(Clone)]
pub struct Table {
    pub(super) store: Arc<Inner>,
    pub(super) inner: Arc<TableInner>,
}

/// Which objects a list wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range<'a> {
    /// Only those in this namespace.
    pub namespace: Option<&'a str>,
    /// Only those behind this key.
    pub after: Option<&'a Key>,
    /// No more than this many.
    pub limit: Option<usize>,
}

/// What a list found.
#[derive(Clone, Debug)]
pub struct Page {
    /// The revision at which the items are exactly the table's objects in the range.
    pub revision: u64,
    /// In key order.
    pub items: Vec<Arc<Record>>,
    /// The last item's key, if the limit left out others behind it.
    pub next: Option<Key>,
}

/// What the store keeps of one table.
pub(super) struct TableInner {
    pub(super) name: Arc<str>,
    pub(super) state: RwLock<State>,
    /// No watch begins before this, even where lists still reach further back.
    pub(super) created_at_revision: u64,
    /// Revisions that lists in progress read at, and how many of them. Taken inside `state`.
    pins: Mutex<BTreeMap<u64, usize>>,
}

/// Keeps one revision of a table readable.
pub(super) struct Pin {
    inner: Arc<TableInner>,
    pub(super) revision: u64,
}

// === impl Table ===

impl Table {
    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The object as it is now.
    pub fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.inner.state.read().get(key).cloned()
    }

    /// Stores an object that must not exist.
    ///
    /// Like every write: with a data directory a future dropped half-way may or may not have
    /// written, without one it never waits.
    ///
    /// # Errors
    ///
    /// [`WriteError::Exists`] if it does.
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
    /// [`WriteError::Moved`] if it is not.
    pub async fn update(
        &self,
        key: Key,
        expected: u64,
        unsaved: UnsavedRecord,
    ) -> Result<Arc<Record>, WriteError> {
        self.store.write(&self.inner, key, Change::Update { expected, unsaved }).await
    }

    /// Deletes the object if it is at revision `expected`. Returns its final state under the
    /// revision of the deletion: `last` if given, else what was stored.
    ///
    /// # Errors
    ///
    /// [`WriteError::Moved`] if it is not.
    pub async fn delete(
        &self,
        key: Key,
        expected: u64,
        last: Option<UnsavedRecord>,
    ) -> Result<Arc<Record>, WriteError> {
        self.store.write(&self.inner, key, Change::Delete { expected, last }).await
    }

    /// Objects in `range` at revision `at`, or now.
    ///
    /// To page, ask again behind [`Page::next`] at [`Page::revision`].
    ///
    /// # Errors
    ///
    /// If the window does not reach back to `at`, or the store has not come to it yet.
    pub fn list(&self, range: Range<'_>, at: Option<u64>) -> Result<Page, ReadError> {
        self.list_where(range, at, |_| true)
    }

    /// As [`list`](Self::list), passing over objects that `keep` refuses: they do not count
    /// against the limit, though one of them behind the last item makes a next page.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
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
            // One more than wanted, to know whether there is more.
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

    /// How many objects in `range` there are at revision `at`, or now; the limit does not matter.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn count(&self, range: Range<'_>, at: Option<u64>) -> Result<usize, ReadError> {
        let pin = self.inner.pin(&self.store.shared, at)?;
        let key_range = range.namespace.map(NamespaceRange::of);
        let mut after = range.after.cloned();
        let mut total = 0;
        loop {
            let bounds = Bounds::new(key_range.as_ref(), after.as_ref().map(Key::as_str));
            let state = self.inner.state.read();
            // Cheaper per key than a list, so more of them at once.
            let (count, rest) = state.count(&bounds, pin.revision, 16 * CHUNK);
            drop(state);
            total += count;
            if rest.is_none() {
                return Ok(total);
            }
            after = rest;
        }
    }

    /// Follows all events after revision `after`, of one namespace or of all.
    ///
    /// A revision the store has not come to is fine: events up to it are passed over.
    ///
    /// # Errors
    ///
    /// If the window does not reach back to `after`.
    pub fn watch(&self, namespace: Option<&str>, after: u64) -> Result<Watcher, Compacted> {
        Watcher::new(self.store.shared.clone(), self.inner.clone(), namespace, after)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.inner.state.read().size().0
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the objects take, near enough.
    pub fn bytes(&self) -> usize {
        self.inner.state.read().size().1
    }

    /// Events the window holds, and bytes it may hold on their behalf.
    pub fn window(&self) -> (usize, usize) {
        self.inner.state.read().window_size()
    }

    /// The oldest revision that can be listed at.
    pub fn compacted_revision(&self) -> u64 {
        self.inner.state.read().compacted()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Table").field(&self.inner.name).finish()
    }
}

// === impl Shelf ===

impl TableInner {
    pub(super) fn new(name: Arc<str>, compacted: u64, created_at_revision: u64) -> Self {
        Self {
            name,
            state: RwLock::new(State::new(compacted)),
            created_at_revision,
            pins: Mutex::default(),
        }
    }

    /// Keeps `at`, or the present, readable until the pin is dropped.
    pub(super) fn pin(
        self: &Arc<Self>,
        shared: &Shared,
        at: Option<u64>,
    ) -> Result<Pin, ReadError> {
        let state = self.state.read();
        // Under the table's lock, so that no write of this table up to here is still on its way.
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

    /// The oldest revision someone reads at. Only exact while the table's lock is held for
    /// writing.
    pub(super) fn oldest_pin(&self) -> Option<u64> {
        self.pins.lock().keys().next().copied()
    }
}

// === impl Pin ===

impl Pin {
    /// Every object at the pinned revision, `visit`ed outside of all locks, until it says stop.
    pub(super) fn for_each<E>(
        &self,
        mut visit: impl FnMut(&Record) -> Result<(), E>,
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
