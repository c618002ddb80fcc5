//! What this process knows before the watch tells: its own writes.
//!
//! The reply to a write shows the object as it is from then on. Until the watch has come as far, reads
//! get what was written from here instead of what is stored, so that nobody waits and nobody sees a
//! state from before his own write. Stored objects and handlers are not touched: events come from the
//! watch alone, each once.
//!
//! The invariants: a written state is kept only while the store is at an older version than it, so a
//! state that the store has seen, even if only to see it go, never comes back. The store is changed
//! before its version is told here, and reads look here first, so between the two one of them shows
//! the change.
//!
//! Versions that are no numbers cannot be compared; a write that comes back with one only makes the
//! next read of its key a live one.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::entry::Entry;
use super::meta::Version;
use super::query::Conditions;
use super::store::{Store, UnknownIndex};
use crate::key::Key;
use crate::uid::Uid;

/// How long a deleted uid is hidden if the watch never tells of it: it was created and deleted
/// between two states the watch saw.
const HIDDEN: Duration = Duration::from_secs(600);

/// How many uids are remembered of those the watch saw go. The reply to a delete comes about when
/// its event does, so few are needed.
const REMEMBERED: usize = 256;

/// An object of which a write of our own may or may not have changed the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    key: Key,
    ticket: u64,
}

impl Doubt {
    /// The object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }
}

#[derive(Debug)]
pub(super) struct Overlay {
    /// Whether an object can leave the informer's sight and come back, so that having seen it go
    /// does not mean that it is gone.
    selective: bool,
    /// How many keys and uids are of interest: reads look no further while there are none.
    busy: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How far the store is, for all namespaces or for each that is watched.
    versions: BTreeMap<Option<Box<str>>, Version>,
    written: BTreeMap<Key, WriteResult>,
    /// Uids that we deleted and the store may still show, by when.
    gone: BTreeMap<Uid, Instant>,
    /// When the oldest of them is given up.
    sweep: Option<Instant>,
    /// The tickets of doubts.
    doubts: BTreeMap<Key, u64>,
    tickets: u64,
    /// The uids that the store last saw go.
    seen_go: VecDeque<Uid>,
}

#[derive(Debug)]
struct WriteResult {
    uid: Uid,
    version: Version,
    /// The object, unless it is not, or no longer, one that the informer selects.
    visible: Option<Arc<Entry>>,
}

impl Overlay {
    pub(super) fn new(selective: bool) -> Self {
        Self { selective, busy: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// Whether reads are answered by the store alone.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let busy = state.written.len() + state.gone.len() + state.doubts.len();
        self.busy.store(busy, Ordering::Release);
        result
    }

    /// The store has come to `version` in `namespace`, having seen these uids go.
    pub(super) fn advance(
        &self,
        namespace: Option<&str>,
        version: Version,
        gone: impl IntoIterator<Item = Uid>,
    ) {
        self.change(|state| {
            for uid in gone.into_iter().filter(|_| !self.selective) {
                state.gone.remove(&uid);
                if state.seen_go.len() == REMEMBERED {
                    state.seen_go.pop_front();
                }
                state.seen_go.push_back(uid);
            }
            state.sweep();
            let known = state.versions.entry(namespace.map(Into::into)).or_default();
            if version <= *known {
                return;
            }
            *known = version;
            if !state.written.is_empty() {
                state
                    .written
                    .retain(|key, written| written.version > version || !covers(namespace, key));
            }
        });
    }

    /// The server's history began anew in `namespace`, or nothing is known of it any more: older
    /// replies mean nothing.
    pub(super) fn reset(&self, namespace: Option<&str>, version: Option<Version>) {
        self.change(|state| {
            let part = namespace.map(Into::into);
            match version {
                Some(version) => state.versions.insert(part, version),
                None => state.versions.remove(&part),
            };
            state.written.retain(|key, _| !covers(namespace, key));
            state.doubts.retain(|key, _| !covers(namespace, key));
        });
    }

    /// How far the store is in `namespace`.
    pub(super) fn at(&self, namespace: Option<&str>) -> Version {
        let namespace = namespace.map(Into::into);
        self.state.lock().versions.get(&namespace).copied().unwrap_or_default()
    }

    /// How far the store is where `key` belongs.
    pub(super) fn version(&self, key: &Key) -> Option<Version> {
        self.state.lock().version(key)
    }

    /// A write of ours left the object like this; `visible` if the informer selects it. One whose
    /// version cannot be compared is never newer than the store.
    pub(super) fn wrote(&self, entry: Arc<Entry>, visible: bool) {
        let (key, version) = (entry.meta().key.clone(), entry.meta().version);
        self.change(|state| {
            // A namespace that nobody watches has no version.
            let Some(known) = state.version(&key) else { return };
            let uid = entry.meta().uid.clone();
            if known >= version || state.gone.contains_key(&uid) {
                return;
            }
            if state.written.get(&key).is_some_and(|before| before.version >= version) {
                return;
            }
            let visible = visible.then_some(entry);
            state.written.insert(key, WriteResult { uid, version, visible });
        });
    }

    /// The entry of our own write, if it is in the same state as this one, which the watch sent: its
    /// typed form has been decoded, and one copy of the object is enough.
    pub(super) fn same(&self, entry: Arc<Entry>) -> Arc<Entry> {
        if self.is_idle() || !entry.is_whole() {
            return entry;
        }
        let state = self.state.lock();
        let written = state.written.get(&entry.meta().key).and_then(|w| w.visible.as_ref());
        match written {
            Some(written)
                if written.meta().version == entry.meta().version
                    && written.json() == entry.json() =>
            {
                written.clone()
            }
            _ => entry,
        }
    }

    /// We deleted this uid, and it is gone from the server.
    ///
    /// No version comes with that. If reads show another object of that name, it may be from before
    /// the one we deleted or from after it; then the next read has to be a live one.
    pub(super) fn deleted(&self, store: &Store, key: &Key, uid: &Uid) {
        self.change(|state| {
            state.sweep();
            if state.seen_go.contains(uid) || state.version(key).is_none() {
                return;
            }
            let now = Instant::now();
            state.gone.insert(uid.clone(), now);
            state.sweep.get_or_insert(now + HIDDEN);
            if let Some(written) = state.written.get_mut(key)
                && written.uid == *uid
            {
                // What the store has is older than this, whatever it is.
                written.visible = None;
            } else if state.newest(store, key).is_some() {
                state.doubt(key);
            }
        });
    }

    /// A write to this key may or may not have been done.
    pub(super) fn uncertain(&self, key: &Key) {
        self.change(|state| {
            if state.version(key).is_some() {
                state.doubt(key);
            }
        });
    }

    /// The object has been read from the server after the doubt arose. Later doubts stay.
    pub(super) fn resolved(&self, doubt: &Doubt) {
        self.change(|state| {
            if state.doubts.get(&doubt.key) == Some(&doubt.ticket) {
                state.doubts.remove(&doubt.key);
            }
        });
    }

    /// The object of this key.
    pub(super) fn get(&self, store: &Store, key: &Key) -> Result<Option<Arc<Entry>>, Doubt> {
        let state = self.state.lock();
        if let Some(&ticket) = state.doubts.get(key) {
            return Err(Doubt { key: key.clone(), ticket });
        }
        Ok(state.newest(store, key))
    }

    /// The uid that reads of this key show, in doubt or not.
    pub(super) fn uid(&self, store: &Store, key: &Key) -> Option<Uid> {
        let state = self.state.lock();
        Some(state.newest(store, key)?.meta().uid.clone())
    }

    /// The objects that meet the conditions, in order.
    pub(super) fn list(
        &self,
        store: &Store,
        query: &Conditions<'_>,
    ) -> Result<Result<Vec<Arc<Entry>>, UnknownIndex>, Vec<Doubt>> {
        let state = self.state.lock();
        let asked = |key: &Key| query.namespace.is_none_or(|name| key.namespace() == Some(name));
        let doubts = state.doubts.iter().filter(|(key, _)| asked(key));
        let doubts: Vec<_> =
            doubts.map(|(key, &ticket)| Doubt { key: key.clone(), ticket }).collect();
        if !doubts.is_empty() {
            return Err(doubts);
        }
        Ok(merged(state, store, query))
    }

    /// As [`Overlay::list`], in doubt or not.
    pub(super) fn known(
        &self,
        store: &Store,
        query: &Conditions<'_>,
    ) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
        merged(self.state.lock(), store, query)
    }

    /// How many objects are shown as written instead of as stored.
    pub(super) fn len(&self) -> usize {
        self.state.lock().written.len()
    }
}

impl State {
    fn version(&self, key: &Key) -> Option<Version> {
        if let Some(version) = self.versions.get(&None) {
            return Some(*version);
        }
        let namespace = key.namespace()?;
        self.versions.get(&Some(namespace.into())).copied()
    }

    fn doubt(&mut self, key: &Key) {
        self.tickets += 1;
        self.doubts.insert(key.clone(), self.tickets);
    }

    /// Gives up uids that were hidden for long enough.
    fn sweep(&mut self) {
        if self.gone.is_empty() {
            self.sweep = None;
        }
        let Some(due) = self.sweep else { return };
        let now = Instant::now();
        if now >= due {
            self.gone.retain(|_, since| now.duration_since(*since) < HIDDEN);
            self.sweep = self.gone.values().min().map(|since| *since + HIDDEN);
        }
    }

    /// What is known last of a key.
    fn newest(&self, store: &Store, key: &Key) -> Option<Arc<Entry>> {
        let stored = store.get(key);
        let newest = match self.written.get(key) {
            Some(written) => match stored {
                Some(stored) if stored.meta().version >= written.version => Some(stored),
                _ => written.visible.clone(),
            },
            None => stored,
        };
        newest.filter(|entry| !self.gone.contains_key(&entry.meta().uid))
    }
}

/// What is stored, with what was written in its place.
fn merged(
    state: MutexGuard<'_, State>,
    store: &Store,
    query: &Conditions<'_>,
) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
    let asked = |key: &Key| query.namespace.is_none_or(|name| key.namespace() == Some(name));
    let mut found = store.list(query)?;
    found.retain(|entry| {
        let meta = entry.meta();
        !state.written.contains_key(&meta.key) && !state.gone.contains_key(&meta.uid)
    });
    // The store may have moved on since the list: for these keys it is asked again.
    let written = state.written.keys().filter(|key| asked(key));
    let written: Vec<_> = written.filter_map(|key| state.newest(store, key)).collect();
    drop(state);
    let stored = found.len();
    for entry in written {
        if !query.accept(entry.meta()) {
            continue;
        }
        if let Some((name, value)) = query.index {
            match store.indexes_as(&entry, name, value) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(unknown) => return Err(unknown),
            }
        }
        found.push(entry);
    }
    if found.len() > stored {
        found.sort_unstable_by(|one, other| one.meta().key.cmp(&other.meta().key));
    }
    Ok(found)
}

/// Whether what is watched in `namespace` includes `key`.
fn covers(namespace: Option<&str>, key: &Key) -> bool {
    namespace.is_none() || key.namespace() == namespace
}
