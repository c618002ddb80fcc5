//! The sink of a reflector, one per watched scope: decodes objects, stores them, advances the overlay
//! and sends events.
//!
//! The first list is stored directly, since it is not read before it is complete. A relist is
//! compared with the store: unchanged objects are marked, changed ones are staged. On commit,
//! unmarked objects are deleted, then the staged changes are applied, as client-go's DeltaFIFO
//! `Replace`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::entry::Entry;
use super::error::{FailureReason, WatchFailure};
use super::event::ObjectEvent;
use super::fanout::Dispatcher;
use super::meta::Meta;
use super::shared::Shared;
use super::stats::LastActivity;
use crate::key::Key;
use crate::kind::Kind;
use crate::version::Version;
use crate::watch::{Error, Health, Sink};

pub(super) struct Writer {
    shared: Arc<Shared>,
    namespace: Option<String>,
    /// The number of the watched scope; once it is removed, all calls are ignored.
    scope: u64,
    /// The number of the current list.
    list: u32,
    /// Whether the current list is stored directly.
    direct: bool,
    /// Whether the current list belongs to another server history.
    reset: bool,
    staged: BTreeMap<Key, Arc<Entry>>,
    activity: LastActivity,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        namespace: Option<String>,
        scope: u64,
        activity: LastActivity,
    ) -> Self {
        let (list, direct, reset, staged) = (0, false, false, BTreeMap::new());
        Self { shared, namespace, scope, list, direct, reset, staged, activity }
    }

    /// Converts the object, or records its rejection.
    fn entry(&self, raw: &[u8]) -> Result<Arc<Entry>, Option<Meta>> {
        self.shared.decoder.entry(raw).map(Arc::new).map_err(|rejected| {
            self.shared.rejections.add(self.shared.decoder.kind(), &rejected);
            rejected.meta.map(|meta| *meta)
        })
    }

    /// Runs `change` on the store, then sends its events.
    fn apply(&self, change: impl FnOnce(&Self, &mut Dispatcher, &mut Batch)) {
        let mut dispatcher = self.shared.dispatcher.lock();
        if !dispatcher.has(self.namespace.as_ref(), self.scope) {
            return;
        }
        let mut batch = Batch::default();
        change(self, &mut dispatcher, &mut batch);
        let Batch { events, deleted, version } = batch;
        // Handlers and waiters read the objects, so the version advances before they are notified.
        self.shared.contents.overlay.advance(self.namespace.as_deref(), version, deleted);
        let keys = events.iter().map(|event| event.object().meta().key());
        self.shared.contents.waiters.notify(keys);
        dispatcher.send(events);
    }

    fn put(&self, entry: Arc<Entry>, batch: &mut Batch, initial: bool, anyway: bool) {
        let shared = &self.shared;
        let key = &entry.meta().key;
        if let Some(stored) = shared.contents.store.get(key)
            && !anyway
            && !supersedes(&entry, &stored)
        {
            stored.mark(self.list);
            return;
        }
        entry.mark(self.list);
        shared.rejections.clear(key.as_str());
        let event = match shared.contents.store.put(&entry) {
            None => ObjectEvent::Added { new: entry, initial },
            Some(old) => {
                if old.meta().uid != entry.meta().uid {
                    batch.deleted.push(old.meta().uid.clone());
                }
                ObjectEvent::Updated { old, new: entry }
            }
        };
        batch.events.push(event);
    }

    fn remove(&self, key: &Key, last: Option<Arc<Entry>>, batch: &mut Batch) {
        self.shared.rejections.clear(key.as_str());
        let Some(stored) = self.shared.contents.store.remove(key) else { return };
        batch.deleted.push(stored.meta().uid.clone());
        let state_unknown = last.is_none();
        batch.events.push(ObjectEvent::Deleted { old: last.unwrap_or(stored), state_unknown });
    }

    /// Reports the deletion of own writes that the watch has never delivered and that the list does not
    /// have: they were created and deleted while the watch was interrupted.
    fn report_missed(&self, written: Vec<Arc<Entry>>, batch: &mut Batch) {
        let absent =
            |entry: &Arc<Entry>| self.shared.contents.store.get(&entry.meta().key).is_none();
        for entry in written.into_iter().filter(absent) {
            batch.deleted.push(entry.meta().uid.clone());
            batch.events.push(ObjectEvent::Deleted { old: entry, state_unknown: true });
        }
    }

    /// Handles a deletion with the last state of the object.
    fn delete(&self, raw: &[u8]) {
        let (last, meta) = match self.entry(raw) {
            Ok(entry) => (Some(entry.clone()), Some(entry.meta().clone())),
            Err(meta) => (None, meta),
        };
        let Some(meta) = meta else { return };
        self.apply(|writer, _, batch| {
            batch.version = meta.version;
            let stored = writer.shared.contents.store.get(&meta.key);
            // The stored object is newer than the deleted one.
            if stored.is_some_and(|stored| newer(stored.meta().version, meta.version)) {
                return;
            }
            batch.deleted.push(meta.uid.clone());
            writer.remove(&meta.key, last, batch);
        });
    }
}

/// The effects of a change of the store.
#[derive(Default)]
struct Batch {
    events: Vec<ObjectEvent>,
    deleted: Vec<crate::uid::Uid>,
    version: Version,
}

/// Returns whether `one` is known to be newer than `other`.
fn newer(one: Version, other: Version) -> bool {
    !one.is_none() && !other.is_none() && one > other
}

/// Returns whether `new` replaces `stored`: it differs and is not older.
fn supersedes(new: &Entry, stored: &Entry) -> bool {
    let (now, before) = (new.meta().version, stored.meta().version);
    if now.is_none() || before.is_none() {
        return new.meta().uid != stored.meta().uid || new.json() != stored.json();
    }
    now > before
}

/// Returns whether both are stored whole and are equal.
fn is_same(one: &Entry, other: &Entry) -> bool {
    !one.json().is_empty() && one.json() == other.json()
}

impl Sink for Writer {
    fn begin(&mut self, reset: bool) {
        self.reset = reset;
        self.list = self.shared.number_list();
        self.staged.clear();
        self.shared.rejections.clear_scope(self.namespace.as_deref());
        self.direct = !self.shared.dispatcher.lock().is_synced(self.namespace.as_ref());
    }

    fn listed(&mut self, raw: &[u8]) {
        let entry = match self.entry(raw) {
            Ok(entry) => entry,
            Err(meta) => {
                // The object exists but is unreadable: the stored state stays.
                let stored = meta.and_then(|meta| self.shared.contents.store.get(&meta.key));
                if let Some(stored) = stored {
                    stored.mark(self.list);
                }
                return;
            }
        };
        if self.direct {
            self.apply(|writer, _, batch| writer.put(entry, batch, true, writer.reset));
            return;
        }
        let key = entry.meta().key.clone();
        if let Some(stored) = self.shared.contents.store.get(&key) {
            stored.mark(self.list);
            let same = stored.meta().uid == entry.meta().uid
                && stored.meta().version == entry.meta().version
                && !supersedes(&entry, &stored)
                && (!self.reset || is_same(&entry, &stored));
            if same {
                self.staged.remove(&key);
                return;
            }
        }
        self.staged.insert(key, entry);
    }

    fn unlisted(&mut self, raw: &[u8]) {
        if self.direct {
            self.delete(raw);
            return;
        }
        let Ok(meta) = self.shared.decoder.meta(raw) else { return };
        self.staged.remove(&meta.key);
        if let Some(stored) = self.shared.contents.store.get(&meta.key) {
            stored.mark(0);
        }
    }

    fn commit(&mut self, version: &str) {
        self.activity.set();
        self.shared.counts.lists.fetch_add(1, Ordering::Relaxed);
        if !self.direct {
            self.shared.counts.relists.fetch_add(1, Ordering::Relaxed);
        }
        let version = Version::parse(version).unwrap_or_default();
        let staged = std::mem::take(&mut self.staged);
        self.apply(|writer, dispatcher, batch| {
            let shared = &writer.shared;
            let namespace = writer.namespace.as_deref();
            // The list is older than the stored state: the server was restored, and its state
            // replaces the stored one.
            let restored = writer.reset || newer(shared.contents.overlay.at(namespace), version);
            let mut written =
                shared.contents.overlay.written(namespace, (!restored).then_some(version));
            written.retain(|entry| shared.contents.store.get(&entry.meta().key).is_none());
            if restored {
                shared.contents.overlay.reset(namespace, Some(version));
            }
            for entry in shared.contents.store.all(namespace) {
                if entry.marked() != writer.list {
                    writer.remove(&entry.meta().key, None, batch);
                }
            }
            let initial = !dispatcher.is_synced(writer.namespace.as_ref());
            for entry in staged.into_values() {
                writer.put(entry, batch, initial, restored);
            }
            writer.report_missed(written, batch);
            batch.version = version;
        });
        self.shared.scope_synced(self.namespace.as_ref(), self.scope);
    }

    fn abandon(&mut self) {
        self.staged.clear();
    }

    fn changed(&mut self, raw: &[u8]) {
        self.activity.set();
        match self.entry(raw) {
            Ok(entry) => self.apply(|writer, dispatcher, batch| {
                batch.version = entry.meta().version;
                let initial = !dispatcher.is_synced(writer.namespace.as_ref());
                writer.put(writer.shared.contents.overlay.reuse(entry), batch, initial, false);
            }),
            Err(Some(meta)) => self.apply(|_, _, batch| batch.version = meta.version),
            Err(None) => {}
        }
    }

    fn deleted(&mut self, raw: &[u8]) {
        self.activity.set();
        self.delete(raw);
    }

    fn bookmark(&mut self, version: &str) {
        self.activity.set();
        let version = Version::parse(version).unwrap_or_default();
        self.apply(|_, _, batch| batch.version = version);
    }

    fn matches_first(&mut self, first: Option<&[u8]>) -> bool {
        let (store, namespace) = (&self.shared.contents.store, self.namespace.as_deref());
        let Some(raw) = first else { return store.all(namespace).is_empty() };
        let Ok(meta) = self.shared.decoder.meta(raw) else { return true };
        // A newer object is delivered by the watch.
        if meta.version.is_none() || newer(meta.version, self.shared.contents.overlay.at(namespace))
        {
            return true;
        }
        store.get(&meta.key).is_some_and(|stored| {
            stored.meta().uid == meta.uid && stored.meta().version == meta.version
        })
    }

    fn health(&mut self, health: &Health) {
        let failure = match health {
            Health::Connected => {
                self.activity.set();
                None
            }
            Health::Failing { error, since } => {
                self.shared.counts.failures.fetch_add(1, Ordering::Relaxed);
                Some((watch_failure(self.shared.decoder.kind(), error), *since))
            }
        };
        let missing =
            failure.as_ref().is_some_and(|(failure, _)| failure.reason == FailureReason::NotServed);
        let absent = missing && self.shared.decoder.options().optional;
        if absent {
            self.apply(|writer, _, batch| {
                for entry in writer.shared.contents.store.all(writer.namespace.as_deref()) {
                    writer.remove(&entry.meta().key, None, batch);
                }
            });
            // A type that is not served has no objects, so it is synced.
            self.shared.scope_synced(self.namespace.as_ref(), self.scope);
        }
        let failure = failure.filter(|_| !absent);
        self.shared.scope_health(self.namespace.as_ref(), self.scope, failure, absent);
    }
}

fn watch_failure(kind: &Kind, error: &Error) -> WatchFailure {
    if error.is_not_found() {
        return WatchFailure {
            message: kind.not_served().into(),
            reason: FailureReason::NotServed,
        };
    }
    let reason = match error.is_forbidden() {
        true => FailureReason::Forbidden,
        false => FailureReason::Other,
    };
    WatchFailure { message: error.to_string().into(), reason }
}
