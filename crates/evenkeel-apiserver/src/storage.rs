//! The server's storage: objects of every resource under one global revision.
//!
//! A multi-version store in memory, made for list and watch. It has no notion of HTTP or kinds:
//! values are encoded JSON, keys are namespace and name. It guarantees:
//!
//! - every committed write gets the next revision, over all tables; revisions never repeat or
//!   decrease;
//! - an event is visible only after its commit, in revision order;
//! - a list is exact at its revision, whatever is written meanwhile; it can be repeated or
//!   continued as long as the window covers that revision;
//! - a watcher receives every event after its start, or an error;
//! - an observer of a table is called with every event, in revision order, before it is visible.
//!
//! Without a data directory there are no threads and nothing waits: writes complete immediately,
//! which keeps simulations in virtual time deterministic.

mod durable;
mod key;
mod record;
mod state;
mod strings;
mod table;
mod watcher;
mod write;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::sync::Notify;

use self::durable::Committer;
pub use self::durable::{Durability, OpenError};
pub use self::key::Key;
pub use self::record::{Event, Measure, Record, UnsavedRecord};
pub use self::state::Observer;
use self::state::State;
pub use self::strings::{Labels, Strings};
pub use self::table::{Page, Range, Table};
use self::table::{Pin, TableInner};
pub use self::watcher::Watcher;
use self::write::Change;
pub use self::write::WriteError;

/// A handle of the store. Cheap to clone; dropping the last one closes the store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// Options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much history lists and watches can use.
    pub window: Window,
    /// The revision of an empty store: the first write gets the next one, and there is no history
    /// before it. A store on disk continues from its last revision, if that is higher.
    pub start_revision: u64,
    /// The directory to store objects in; `None` for memory only. Writes then wait for a thread,
    /// which a paused clock does not advance for.
    pub data_dir: Option<PathBuf>,
    /// What an acknowledged write survives, with a data directory.
    pub durability: Durability,
    /// Bytes below which no snapshot replaces the log on disk. Beyond that it is bounded by twice the
    /// live data.
    pub snapshot_floor: u64,
}

/// Bounds of the history of each table. The oldest events beyond a bound are dropped; the newest
/// event is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Events.
    pub events: usize,
    /// Bytes held for events besides the live objects: superseded versions and encoded frames. All
    /// tables together hold at most twice as many.
    pub bytes: usize,
}

/// Events of each table that a watch may start from after they were compacted: the minimum size of
/// kube-apiserver's watch cache.
const WATCHED_EVENTS: usize = 100;

/// The requested revision is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision is older than {compacted}, the oldest kept")]
pub struct Compacted {
    /// The oldest revision that can be read.
    pub compacted: u64,
    /// The store's revision.
    pub current: u64,
}

/// Why a list failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The revision is compacted.
    #[error(transparent)]
    Compacted(#[from] Compacted),
    /// The revision is in the future.
    #[error("revision {requested} is ahead of the store, which is at {current}")]
    FutureRevision {
        /// The requested revision.
        requested: u64,
        /// The store's revision.
        current: u64,
    },
}

/// State shared by all handles: the tables and the writer.
struct Inner {
    shared: Arc<Shared>,
    writer: Writer,
}

/// How writes are serialized.
enum Writer {
    /// A lock, held during a write.
    Memory(Mutex<()>),
    /// A thread.
    Disk(Committer),
}

/// State that readers use.
struct Shared {
    /// The last published commit. Stored only under the lock of the table it changed, so a reader
    /// that holds a table's lock sees all events of that table up to it.
    revision: AtomicU64,
    window: Window,
    /// Bytes held for events, over all tables.
    event_bytes: AtomicUsize,
    tables: RwLock<Tables>,
}

struct Tables {
    by_name: BTreeMap<Arc<str>, Arc<TableInner>>,
    /// The compacted revision of new tables.
    compacted: u64,
}

// === impl Store ===

impl Store {
    /// Opens a store, durable if there is a data directory. Reads all objects into memory.
    ///
    /// # Errors
    ///
    /// If the data directory is in use, cannot be used, or is corrupt.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        let Some(path) = &options.data_dir else { return Ok(Self::in_memory(options)) };
        let shared = Arc::new(Shared::new(options));
        let writer = Writer::Disk(durable::open(path, &shared, options)?);
        Ok(Self { inner: Arc::new(Inner { shared, writer }) })
    }

    /// Opens a store in memory, whatever the options for disk are.
    pub fn in_memory(options: &Options) -> Self {
        let shared = Arc::new(Shared::new(options));
        Self { inner: Arc::new(Inner { shared, writer: Writer::Memory(Mutex::new(())) }) }
    }

    /// Returns a store in memory with the same objects at the same revision, without their history.
    /// Objects are shared until they are written.
    #[must_use]
    pub fn copy(&self, window: Window) -> Self {
        let shared = &self.inner.shared;
        let (revision, tables) = loop {
            let revision = shared.revision();
            // A compaction may be faster; it keeps the newest revision.
            if let Ok(tables) = shared.pin_all(revision) {
                break (revision, tables);
            }
        };
        let options = Options { window, start_revision: revision, ..Options::default() };
        let copy = Self::in_memory(&options);
        for (name, pin) in tables {
            let table = copy.inner.shared.table(&name);
            let mut state = table.state.write();
            let Ok(()) = pin.for_each(|record| -> Result<(), Infallible> {
                state.restore(record.clone());
                Ok(())
            });
        }
        copy
    }

    /// Returns the table `name`, created on first use.
    pub fn table(&self, name: &str) -> Table {
        Table { store: self.inner.clone(), inner: self.inner.shared.table(name) }
    }

    /// Like [`table`](Self::table); watches of a new table cannot start before the current
    /// revision.
    pub fn table_from_now(&self, name: &str) -> Table {
        let shared = &self.inner.shared;
        Table { store: self.inner.clone(), inner: shared.table_created_at(name, shared.revision()) }
    }

    /// Returns the names of all tables, sorted.
    pub fn table_names(&self) -> Vec<Arc<str>> {
        self.inner.shared.tables.read().by_name.keys().cloned().collect()
    }

    /// Returns the revision of the last commit. Everything up to it can be read.
    pub fn revision(&self) -> u64 {
        self.inner.shared.revision()
    }

    /// Compacts superseded versions below `revision` in every table. Lists can no longer read them;
    /// watches can still start within the newest events of each table.
    pub fn compact_lists(&self, revision: u64) {
        self.inner.shared.compact_lists(revision);
    }

    /// Returns why writes currently fail: the log cannot be written. Each call retries the disk,
    /// for a store without writes.
    pub fn failure(&self) -> Option<WriteError> {
        match &self.inner.writer {
            Writer::Memory(_) => None,
            Writer::Disk(committer) => committer.failure(),
        }
    }

    /// Compacts the history below `revision` in every table.
    pub fn compact(&self, revision: u64) {
        self.inner.shared.compact(revision);
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            window: Window::default(),
            // Like etcd, whose first write gets revision 2.
            start_revision: 1,
            data_dir: None,
            durability: Durability::default(),
            snapshot_floor: 64 << 20,
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { events: 16_384, bytes: 64 << 20 }
    }
}

// === impl Inner ===

impl Inner {
    async fn write(
        &self,
        table: &Arc<TableInner>,
        key: Key,
        change: Change,
    ) -> Result<Arc<Record>, WriteError> {
        match &self.writer {
            Writer::Memory(write_lock) => self.shared.write(write_lock, table, &key, change),
            Writer::Disk(committer) => committer.write(table.clone(), key, change).await,
        }
    }
}

// === impl Shared ===

impl Shared {
    fn new(options: &Options) -> Self {
        let start = options.start_revision;
        Self {
            revision: AtomicU64::new(start),
            window: options.window,
            event_bytes: AtomicUsize::new(0),
            tables: RwLock::new(Tables { by_name: BTreeMap::new(), compacted: start }),
        }
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    fn table(&self, name: &str) -> Arc<TableInner> {
        self.table_created_at(name, 0)
    }

    /// Returns the table `name`; a new one is created at `created_at_revision`.
    fn table_created_at(&self, name: &str, created_at_revision: u64) -> Arc<TableInner> {
        if let Some(table) = self.tables.read().by_name.get(name) {
            return table.clone();
        }
        let mut tables = self.tables.write();
        let compacted = tables.compacted;
        let name: Arc<str> = name.into();
        let table = tables.by_name.entry(name.clone());
        table
            .or_insert_with(|| Arc::new(TableInner::new(name, compacted, created_at_revision)))
            .clone()
    }

    /// Decides a write and makes it visible.
    fn write(
        &self,
        write_lock: &Mutex<()>,
        table: &TableInner,
        key: &Key,
        change: Change,
    ) -> Result<Arc<Record>, WriteError> {
        let write_lock = write_lock.lock();
        let state = table.state.write();
        let event = change.decide(key, state.get(key), self.revision() + 1)?;
        let record = event.record.clone();
        let wake = self.publish(table, state, event);
        drop(write_lock);
        wake_all(wake);
        Ok(record)
    }

    /// Makes a commit visible. The caller must be the only writer, and the event must have the next
    /// revision. Returns the waiters to notify after all locks are released.
    fn publish(
        &self,
        table: &TableInner,
        mut state: RwLockWriteGuard<'_, State>,
        event: Event,
    ) -> [Option<Arc<Notify>>; 2] {
        let revision = event.revision();
        let wake = self.track_event_bytes(&mut state, |state| {
            let wake = state.apply(Arc::new(event));
            self.revision.store(revision, Ordering::Release);
            state.trim(&self.window, table.oldest_pin());
            wake
        });
        drop(state);
        self.enforce_total_bytes();
        wake
    }

    /// Changes a table and tracks the bytes that all tables hold for events.
    fn track_event_bytes<T>(&self, state: &mut State, change: impl FnOnce(&mut State) -> T) -> T {
        let before = state.window_size().1;
        let outcome = change(state);
        let after = state.window_size().1;
        if after > before {
            self.event_bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.event_bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
        outcome
    }

    /// Trims the table that holds most for its events while all tables together hold too much.
    fn enforce_total_bytes(&self) {
        let most = self.window.bytes.saturating_mul(2);
        while self.event_bytes.load(Ordering::Relaxed) > most {
            let all = self.all_tables();
            let size = |table: &&Arc<TableInner>| table.state.read().window_size().1;
            let Some(largest) = all.iter().max_by_key(size) else { return };
            let mut state = largest.state.write();
            let before = state.window_size().1;
            // By a quarter, so that not every write has to trim.
            let window = Window { bytes: before / 4 * 3, ..self.window };
            self.track_event_bytes(&mut state, |state| state.trim(&window, largest.oldest_pin()));
            if state.window_size().1 == before {
                // A list in progress needs them all.
                return;
            }
        }
    }

    fn compact(&self, revision: u64) {
        let revision = revision.min(self.revision());
        let mut tables = self.tables.write();
        tables.compacted = tables.compacted.max(revision);
        drop(tables);
        for table in self.all_tables() {
            self.track_event_bytes(&mut table.state.write(), |state| {
                state.compact(revision, &self.window, table.oldest_pin());
            });
        }
    }
}

impl Shared {
    fn compact_lists(&self, revision: u64) {
        let revision = revision.min(self.revision());
        let events = self.window.events.min(WATCHED_EVENTS);
        for table in self.all_tables() {
            self.track_event_bytes(&mut table.state.write(), |state| {
                state.compact_lists(revision, events, table.oldest_pin());
            });
        }
    }

    /// Sets the revision found on disk; there is no history before it.
    fn set_restored_revision(&self, revision: u64) {
        self.revision.store(revision, Ordering::Release);
        self.compact(revision);
    }

    /// Keeps all tables readable at `revision`.
    fn pin_all(&self, revision: u64) -> Result<Vec<(Arc<str>, Pin)>, ReadError> {
        let pin =
            |table: &Arc<TableInner>| Ok((table.name.clone(), table.pin(self, Some(revision))?));
        self.all_tables().iter().map(pin).collect()
    }

    /// Returns the approximate size of all live objects in bytes.
    fn live_bytes(&self) -> u64 {
        self.all_tables().iter().map(|table| table.state.read().size().1 as u64).sum()
    }

    fn all_tables(&self) -> Vec<Arc<TableInner>> {
        self.tables.read().by_name.values().cloned().collect()
    }
}

fn wake_all(wake: [Option<Arc<Notify>>; 2]) {
    for notify in wake.into_iter().flatten() {
        notify.notify_waiters();
    }
}

#[cfg(test)]
pub(crate) mod tests;
