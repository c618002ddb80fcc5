//! The overlay: own writes that the watch has not delivered yet.
//!
//! The response of a write is the new state of the object. Until the watch has caught up, reads
//! return it from here instead of the store, so that a process reads its own writes without
//! waiting. The store and the handlers are not affected: events come only from the watch. There is
//! one exception: an object that was written and that a later list does not have was deleted while
//! the watch was interrupted. If the watch had not delivered it before, only its own write shows that
//! it existed, and handlers get its deletion.
//!
//! Invariants: a written state is kept only while the resourceVersion of the store is lower, so
//! that a state that the store has already replaced or deleted is never returned again. The store
//! is updated before its resourceVersion is set here, and reads check the overlay first, so that
//! every read sees the change in one of the two.
//!
//! ResourceVersions that are not numbers cannot be compared; after a write with such a version the
//! next read of the key is a live read.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::entry::Entry;
use super::query::Conditions;
use super::store::{Store, UnknownIndex};
use crate::key::Key;
use crate::uid::Uid;
use crate::version::Version;

/// How long a deleted uid is hidden if the watch never delivers it, because it was created and
/// deleted between two lists.
const HIDDEN_TIMEOUT: Duration = Duration::from_secs(600);

/// The number of remembered uids whose deletion the watch delivered. The response of a delete
/// arrives at about the same time as its event, so few are needed.
const DELETED_UIDS_MAX: usize = 256;

/// An object with an own write of unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOutcome {
    key: Key,
    id: u64,
}

impl UnknownOutcome {
    /// Returns the key of the object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }
}

#[derive(Debug)]
pub(super) struct Overlay {
    /// Whether a selector applies, so that a deletion event does not mean that the object is
    /// deleted.
    selective: bool,
    /// The number of entries; reads skip the overlay if it is zero.
    busy: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The resourceVersion of the store, for all namespaces or per watched namespace.
    versions: BTreeMap<Option<Box<str>>, Version>,
    written: BTreeMap<Key, OwnWrite>,
    /// Deleted uids that the store may still have, with the time of the deletion.
    deleted: BTreeMap<Uid, Instant>,
    /// When the oldest of them expires.
    sweep: Option<Instant>,
    /// The ids of unknown outcomes.
    unknown: BTreeMap<Key, u64>,
    next_id: u64,
    /// The last uids whose deletion the store has seen.
    seen_deleted: VecDeque<Uid>,
    /// The number of reads that returned an own write.
    reads: u64,
}

#[derive(Debug)]
struct OwnWrite {
    uid: Uid,
    version: Version,
    /// The object, unless the informer does not select it.
    visible: Option<Arc<Entry>>,
}

impl Overlay {
    pub(super) fn new(selective: bool) -> Self {
        Self { selective, busy: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// Returns whether the store alone can serve reads.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let busy = state.written.len() + state.deleted.len() + state.unknown.len();
        self.busy.store(busy, Ordering::Release);
        result
    }

    /// Records that the store is at `version` in `namespace` and has seen the deletion of these
    /// uids.
    pub(super) fn advance(
        &self,
        namespace: Option<&str>,
        version: Version,
        deleted: impl IntoIterator<Item = Uid>,
    ) {
        self.change(|state| {
            // With a selector, an object also disappears from the watch when its labels change: its
            // uid may come back, so the event is no proof of a deletion.
            for uid in deleted.into_iter().filter(|_| !self.selective) {
                state.deleted.remove(&uid);
                if state.seen_deleted.len() == DELETED_UIDS_MAX {
                    state.seen_deleted.pop_front();
                }
                state.seen_deleted.push_back(uid);
            }
            state.sweep();
            let known = state.versions.entry(namespace.map(Into::into)).or_default();
            if version <= *known {
                return;
            }
            *known = version;
            // The store is at least as new as these writes now: it has them, or what replaced them.
            if !state.written.is_empty() {
                state
                    .written
                    .retain(|key, written| written.version > version || !covers(namespace, key));
            }
        });
    }

    /// Discards the own writes in `namespace`: the server history was replaced, or the namespace is
    /// no longer watched.
    pub(super) fn reset(&self, namespace: Option<&str>, version: Option<Version>) {
        self.change(|state| {
            let part = namespace.map(Into::into);
            match version {
                Some(version) => state.versions.insert(part, version),
                None => state.versions.remove(&part),
            };
            state.written.retain(|key, _| !covers(namespace, key));
            state.unknown.retain(|key, _| !covers(namespace, key));
        });
    }

    /// Returns the own writes in `namespace` that are visible, up to `version` if it is given.
    pub(super) fn written(
        &self,
        namespace: Option<&str>,
        version: Option<Version>,
    ) -> Vec<Arc<Entry>> {
        if self.is_idle() {
            return Vec::new();
        }
        let state = self.state.lock();
        let written = state.written.iter().filter(|(key, written)| {
            covers(namespace, key) && version.is_none_or(|version| written.version <= version)
        });
        written.filter_map(|(_, written)| written.visible.clone()).collect()
    }

    /// Returns the resourceVersion of the store in `namespace`.
    pub(super) fn at(&self, namespace: Option<&str>) -> Version {
        let namespace = namespace.map(Into::into);
        self.state.lock().versions.get(&namespace).copied().unwrap_or_default()
    }

    /// Returns the resourceVersion of the store for the scope of `key`.
    pub(super) fn version(&self, key: &Key) -> Option<Version> {
        self.state.lock().version(key)
    }

    /// Records the state after an own write; `visible` if the informer selects it. A state whose
    /// resourceVersion cannot be compared is never newer than the store.
    pub(super) fn wrote(&self, entry: Arc<Entry>, visible: bool) {
        let (key, version) = (entry.meta().key.clone(), entry.meta().version);
        self.change(|state| {
            // A namespace that is not watched has no version.
            let Some(known) = state.version(&key) else { return };
            let uid = entry.meta().uid.clone();
            // The watch was faster than the response, or the response of a delete was faster than that
            // of a write before it.
            if known >= version || state.deleted.contains_key(&uid) {
                return;
            }
            // Responses of concurrent writes arrive in any order; the newest state stays.
            if state.written.get(&key).is_some_and(|before| before.version >= version) {
                return;
            }
            let visible = visible.then_some(entry);
            state.written.insert(key, OwnWrite { uid, version, visible });
        });
    }

    /// Returns the entry of the own write if it equals `entry` from the watch, to reuse its decoded
    /// form and to keep one copy.
    pub(super) fn reuse(&self, entry: Arc<Entry>) -> Arc<Entry> {
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

    /// Records the own deletion of a uid.
    ///
    /// The response has no resourceVersion. If reads return another object of that name, it may be
    /// older or newer than the deleted one; then the next read must be a live read.
    pub(super) fn deleted(&self, store: &Store, key: &Key, uid: &Uid) {
        self.change(|state| {
            state.sweep();
            // The event of the deletion was faster than its response: the store has no such object.
            if state.seen_deleted.contains(uid) || state.version(key).is_none() {
                return;
            }
            let now = Instant::now();
            state.deleted.insert(uid.clone(), now);
            state.sweep.get_or_insert(now + HIDDEN_TIMEOUT);
            if let Some(written) = state.written.get_mut(key)
                && written.uid == *uid
            {
                // The stored object is older.
                written.visible = None;
            } else if state.newest(store, key).is_some() {
                state.invalidate(key);
            }
        });
    }

    /// Records an unknown outcome of a write to `key`.
    pub(super) fn invalidate(&self, key: &Key) {
        self.change(|state| {
            if state.version(key).is_some() {
                state.invalidate(key);
            }
        });
    }

    /// Removes an unknown outcome after a live read; later ones stay: a write whose response was lost
    /// during that read has another id, and may have been committed after it.
    pub(super) fn resolve(&self, outcome: &UnknownOutcome) {
        self.change(|state| {
            if state.unknown.get(&outcome.key) == Some(&outcome.id) {
                state.unknown.remove(&outcome.key);
            }
        });
    }

    /// Returns the object of `key`.
    pub(super) fn get(
        &self,
        store: &Store,
        key: &Key,
    ) -> Result<Option<Arc<Entry>>, UnknownOutcome> {
        let mut state = self.state.lock();
        if let Some(&id) = state.unknown.get(key) {
            return Err(UnknownOutcome { key: key.clone(), id });
        }
        let newest = state.newest(store, key);
        let version = newest.as_ref().map(|entry| entry.meta().version);
        if state.written.get(key).is_some_and(|written| version == Some(written.version)) {
            state.reads += 1;
        }
        Ok(newest)
    }

    /// Returns the uid of the object of `key`, ignoring unknown outcomes.
    pub(super) fn uid(&self, store: &Store, key: &Key) -> Option<Uid> {
        let state = self.state.lock();
        Some(state.newest(store, key)?.meta().uid.clone())
    }

    /// Lists the matching objects in order.
    pub(super) fn list(
        &self,
        store: &Store,
        query: &Conditions<'_>,
    ) -> Result<Result<Vec<Arc<Entry>>, UnknownIndex>, Vec<UnknownOutcome>> {
        let state = self.state.lock();
        let in_scope = |key: &Key| query.namespace.is_none_or(|name| key.namespace() == Some(name));
        let outcomes = state.unknown.iter().filter(|(key, _)| in_scope(key));
        let outcomes: Vec<_> =
            outcomes.map(|(key, &id)| UnknownOutcome { key: key.clone(), id }).collect();
        if !outcomes.is_empty() {
            return Err(outcomes);
        }
        Ok(merged(state, store, query))
    }

    /// Same as [`Overlay::list`], ignoring unknown outcomes.
    pub(super) fn list_known(
        &self,
        store: &Store,
        query: &Conditions<'_>,
    ) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
        merged(self.state.lock(), store, query)
    }

    /// Returns the number of reads that returned an own write.
    pub(super) fn reads(&self) -> u64 {
        self.state.lock().reads
    }

    /// Returns the number of own writes.
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

    fn invalidate(&mut self, key: &Key) {
        self.next_id += 1;
        self.unknown.insert(key.clone(), self.next_id);
    }

    /// Removes expired uids.
    fn sweep(&mut self) {
        if self.deleted.is_empty() {
            self.sweep = None;
        }
        let Some(due) = self.sweep else { return };
        let now = Instant::now();
        if now >= due {
            self.deleted.retain(|_, since| now.duration_since(*since) < HIDDEN_TIMEOUT);
            self.sweep = self.deleted.values().min().map(|since| *since + HIDDEN_TIMEOUT);
        }
    }

    /// Returns the newest known state of `key`.
    fn newest(&self, store: &Store, key: &Key) -> Option<Arc<Entry>> {
        let stored = store.get(key);
        let newest = match self.written.get(key) {
            Some(written) => match stored {
                // The store is updated before `advance` removes the own write.
                Some(stored) if stored.meta().version >= written.version => Some(stored),
                // A stored object that is older, or none. If the informer does not select the
                // written state, there is no object for its readers.
                _ => written.visible.clone(),
            },
            None => stored,
        };
        newest.filter(|entry| !self.deleted.contains_key(&entry.meta().uid))
    }
}

/// Merges the store with the own writes.
fn merged(
    mut state: MutexGuard<'_, State>,
    store: &Store,
    query: &Conditions<'_>,
) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
    let in_scope = |key: &Key| query.namespace.is_none_or(|name| key.namespace() == Some(name));
    let mut found = store.list(query)?;
    found.retain(|entry| {
        let meta = entry.meta();
        !state.written.contains_key(&meta.key) && !state.deleted.contains_key(&meta.uid)
    });
    // The store may have changed since the list: these keys are read again.
    let written = state.written.keys().filter(|key| in_scope(key));
    let written: Vec<_> = written.filter_map(|key| state.newest(store, key)).collect();
    state.reads += u64::from(!written.is_empty());
    drop(state);
    let stored = found.len();
    for entry in written {
        if !query.accept(entry.meta()) {
            continue;
        }
        // The store has no index entries of own writes: the index function is called for each.
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

/// Returns whether the scope of `namespace` includes `key`.
fn covers(namespace: Option<&str>, key: &Key) -> bool {
    namespace.is_none() || key.namespace() == namespace
}
