//! The server's storage: objects of every resource under one global revision.
//!
//! A multi-version store in memory, made for list and watch. It knows neither HTTP nor kinds:
//! values are encoded JSON, keys are namespace and name. What it promises:
//!
//! - every committed write takes the next revision, over all tables; revisions never repeat or
//!   go back;
//! - an event can be seen only after its commit, in revision order;
//! - a list is exact at the revision it names, however long it takes and whatever is written
//!   meanwhile; it can be repeated, or continued, as long as the window covers that revision;
//! - a watcher sees every event after its start or is told that it missed some.
//!
//! Without a data directory there are no threads and nothing waits: writes complete at once,
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
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::sync::Notify;

use self::durable::Committer;
pub use self::durable::{Durability, OpenError};
pub use self::key::Key;
pub use self::record::{Event, Measure, Record, UnsavedRecord};
use self::state::State;
pub use self::strings::{Labels, Strings};
pub use self::table::{Page, Range, Table};
use self::table::{Pin, TableInner};
pub use self::watcher::Watcher;
use self::write::Change;
pub use self::write::WriteError;

/// A handle of the store. Cheap to clone; the last one to go closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// How far back lists and watches may reach.
    pub window: Window,
    /// The revision of an empty store: the first write takes the next one, and there is no past
    /// below it. A store found on disk goes on from where it was, if that is further.
    pub start_revision: u64,
    /// Where to keep the objects beyond the life of the process; nowhere if none. Writes then
    /// wait for a thread, which a paused clock does not know of.
    pub data_dir: Option<PathBuf>,
    /// What an acknowledged write survives, given a data directory.
    pub durability: Durability,
    /// Bytes the log on disk may always grow to. Beyond that it is bounded by twice the live data.
    pub snapshot_floor: u64,
}

/// Bounds of the past each table keeps. Whatever exceeds one of them goes, oldest first; the
/// newest event stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Events.
    pub events: usize,
    /// Bytes held for events beyond the live objects: superseded versions and encoded frames. All
    /// tables together hold at most twice as many, or many busy ones would fill the memory.
    pub bytes: usize,
}

/// Events of each table that a watch may start from after their revision was compacted: the
/// smallest size of kube-apiserver's watch cache.
const WATCHED_EVENTS: usize = 100;

/// The past asked for is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision is older than {compacted}, the oldest kept")]
pub struct Compacted {
    /// The oldest revision that can still be read.
    pub compacted: u64,
    /// The store's revision.
    pub current: u64,
}

/// Why a list cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Its revision is no longer kept.
    #[error(transparent)]
    Compacted(#[from] Compacted),
    /// Its revision lies in the future.
    #[error("revision {requested} is ahead of the store, which is at {current}")]
    FutureRevision {
        /// What was asked for.
        requested: u64,
        /// The store's revision.
        current: u64,
    },
}

/// What all handles share: the tables, and the way to write to them.
struct Inner {
    shared: Arc<Shared>,
    writer: Writer,
}

/// Who makes sure that there is one writer at a time.
enum Writer {
    /// A lock, held for as long as a write takes.
    Memory(Mutex<()>),
    /// A thread.
    Disk(Committer),
}

/// What readers need.
struct Shared {
    /// The last published commit. Stored only under the lock of the table it changed, so whoever
    /// holds a table's lock and reads it knows that all of that table's events up to it are in.
    revision: AtomicU64,
    window: Window,
    /// Bytes all tables hold for events.
    event_bytes: AtomicUsize,
    tables: RwLock<Tables>,
}

struct Tables {
    by_name: BTreeMap<Arc<str>, Arc<TableInner>>,
    /// What a new table takes as its compacted revision.
    compacted: u64,
}

// === impl Store ===

impl Store {
    /// Opens a store, durable if there is a data directory. Reads back all that is there, so it
    /// takes its time.
    ///
    /// # Errors
    ///
    /// If the data directory is in use, cannot be used, or is damaged.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        let Some(path) = &options.data_dir else { return Ok(Self::in_memory(options)) };
        let shared = Arc::new(Shared::new(options));
        let writer = Writer::Disk(durable::open(path, &shared, options)?);
        Ok(Self { inner: Arc::new(Inner { shared, writer }) })
    }

    /// Opens a store that lives and dies with the process, whatever the options say of disks.
    pub fn in_memory(options: &Options) -> Self {
        let shared = Arc::new(Shared::new(options));
        Self { inner: Arc::new(Inner { shared, writer: Writer::Memory(Mutex::new(())) }) }
    }

    /// The table called `name`, made on first use.
    pub fn table(&self, name: &str) -> Table {
        Table { store: self.inner.clone(), inner: self.inner.shared.table(name) }
    }

    /// As [`table`](Self::table); if nobody has used it yet, watches cannot begin before now.
    pub fn table_from_now(&self, name: &str) -> Table {
        let shared = &self.inner.shared;
        Table { store: self.inner.clone(), inner: shared.table_created_at(name, shared.revision()) }
    }

    /// Names of all tables used so far, sorted.
    pub fn table_names(&self) -> Vec<Arc<str>> {
        self.inner.shared.tables.read().by_name.keys().cloned().collect()
    }

    /// The last commit: all of it and everything before it can be read.
    pub fn revision(&self) -> u64 {
        self.inner.shared.revision()
    }

    /// Forgets superseded versions below `revision` in every table. Lists cannot go back to them
    /// any more; watches still can, within the newest events of each table.
    pub fn compact_lists(&self, revision: u64) {
        self.inner.shared.compact_lists(revision);
    }

    /// Why writes are refused at present: the log cannot be written. Each call has the disk tried
    /// again, for a store that has no writes to try it with.
    pub fn failure(&self) -> Option<WriteError> {
        match &self.inner.writer {
            Writer::Memory(_) => None,
            Writer::Disk(committer) => committer.failure(),
        }
    }

    /// Forgets the past below `revision` in every table, as if the window had moved on.
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
            // As etcd does, whose first write gets revision 2.
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
            Writer::Memory(turn) => self.shared.write(turn, table, &key, change),
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

    /// The shelf of that name; a new one is as old as `created_at_revision`.
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

    /// Decides a write and makes it visible at once.
    fn write(
        &self,
        turn: &Mutex<()>,
        table: &TableInner,
        key: &Key,
        change: Change,
    ) -> Result<Arc<Record>, WriteError> {
        let turn = turn.lock();
        let state = table.state.write();
        let event = change.decide(key, state.get(key), self.revision() + 1)?;
        let record = event.record.clone();
        let wake = self.publish(table, state, event);
        drop(turn);
        wake_all(wake);
        Ok(record)
    }

    /// Makes a commit visible. The caller is the only writer, and the event carries the next
    /// revision. Returns those to wake when no lock is held.
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

    /// Changes a table and keeps count of the bytes all of them hold for events.
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

    /// Takes from the table that holds most for its events as long as all of them hold too much.
    fn enforce_total_bytes(&self) {
        let most = self.window.bytes.saturating_mul(2);
        while self.event_bytes.load(Ordering::Relaxed) > most {
            let all = self.all_tables();
            let size = |table: &&Arc<TableInner>| table.state.read().window_size().1;
            let Some(largest) = all.iter().max_by_key(size) else { return };
            let mut state = largest.state.write();
            let before = state.window_size().1;
            // A quarter at once, so that not every write has to look for it.
            let window = Window { bytes: before / 4 * 3, ..self.window };
            self.track_event_bytes(&mut state, |state| state.trim(&window, largest.oldest_pin()));
            if state.window_size().1 == before {
                // A list under way needs them all, and will end.
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

    /// Takes over the revision found on disk; the past below it is gone.
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

    /// Bytes all live objects take, near enough.
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
