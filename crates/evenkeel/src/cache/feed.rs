//! Where a reflector's raw objects enter: one feed for each scope that is watched.
//!
//! The first state goes straight into the store, since nobody reads it before it is complete. A
//! later one is compared with the store as it comes: unchanged objects are only marked, changed ones
//! set aside, and at its end what is not marked is deleted first, then the changes are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::Entry;
use super::error::{Reason, Trouble};
use super::informer::{Hub, Shared};
use super::meta::{Meta, Version};
use crate::key::Key;
use crate::kind::Kind;
use crate::object_event::ObjectEvent;
use crate::watch::{Error, Health, Sink};

pub(super) struct Feed {
    shared: Arc<Shared>,
    namespace: Option<String>,
    /// The part of the informer this feeds; once that is gone, nothing more is taken.
    part: u64,
    /// The number of the state that is coming.
    list: u32,
    /// Whether that goes straight into the store.
    direct: bool,
    /// Whether that is of another history than what is stored.
    reset: bool,
    staged: BTreeMap<Key, Arc<Entry>>,
}

impl Feed {
    pub(super) fn new(shared: Arc<Shared>, namespace: Option<String>, part: u64) -> Self {
        let staged = BTreeMap::new();
        Self { shared, namespace, part, list: 0, direct: false, reset: false, staged }
    }

    /// Takes the object in, or reports it.
    fn entry(&self, raw: &[u8]) -> Result<Arc<Entry>, Option<Meta>> {
        self.shared.ingest.entry(raw).map(Arc::new).map_err(|rejected| {
            self.shared.rejections.add(self.shared.ingest.kind(), &rejected);
            rejected.meta.map(|meta| *meta)
        })
    }

    /// Changes the store with `change`, whose events are then sent.
    fn apply(&self, change: impl FnOnce(&Self, &mut Hub, &mut Batch)) {
        let mut hub = self.shared.hub.lock();
        if !hub.has(self.namespace.as_ref(), self.part) {
            return;
        }
        let mut batch = Batch::default();
        change(self, &mut hub, &mut batch);
        let Batch { events, gone, version } = batch;
        // Handlers read back what they are told of, so the version moves on before they are told.
        self.shared.contents.overlay.advance(self.namespace.as_deref(), version, gone);
        hub.send(events);
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
                    batch.gone.push(old.meta().uid.clone());
                }
                ObjectEvent::Updated { old, new: entry }
            }
        };
        batch.events.push(event);
    }

    fn remove(&self, key: &Key, last: Option<Arc<Entry>>, batch: &mut Batch) {
        self.shared.rejections.clear(key.as_str());
        let Some(stored) = self.shared.contents.store.remove(key) else { return };
        batch.gone.push(stored.meta().uid.clone());
        let state_unknown = last.is_none();
        batch.events.push(ObjectEvent::Deleted { old: last.unwrap_or(stored), state_unknown });
    }

    /// A deletion that was told, of the object in its last state.
    fn gone(&self, raw: &[u8]) {
        let (last, meta) = match self.entry(raw) {
            Ok(entry) => (Some(entry.clone()), Some(entry.meta().clone())),
            Err(meta) => (None, meta),
        };
        let Some(meta) = meta else { return };
        self.apply(|feed, _, batch| {
            batch.version = meta.version;
            let stored = feed.shared.contents.store.get(&meta.key);
            // A newer object of that name is not meant.
            if stored.is_some_and(|stored| newer(stored.meta().version, meta.version)) {
                return;
            }
            batch.gone.push(meta.uid.clone());
            feed.remove(&meta.key, last, batch);
        });
    }
}

/// What a change to the store brings with it.
#[derive(Default)]
struct Batch {
    events: Vec<ObjectEvent>,
    gone: Vec<crate::uid::Uid>,
    version: Version,
}

/// Whether `one` is known to come after `other`.
fn newer(one: Version, other: Version) -> bool {
    !one.is_none() && !other.is_none() && one > other
}

/// Whether an object is another, and not an older, state than the one stored.
fn supersedes(new: &Entry, stored: &Entry) -> bool {
    let (now, before) = (new.meta().version, stored.meta().version);
    if now.is_none() || before.is_none() {
        return new.meta().uid != stored.meta().uid || new.json() != stored.json();
    }
    now > before
}

/// Whether both are kept whole and are alike.
fn is_same(one: &Entry, other: &Entry) -> bool {
    !one.json().is_empty() && one.json() == other.json()
}

impl Sink for Feed {
    fn begin(&mut self, reset: bool) {
        self.reset = reset;
        self.list = self.shared.number_list();
        self.staged.clear();
        self.shared.rejections.start_over(self.namespace.as_deref());
        self.direct = !self.shared.hub.lock().is_synced(self.namespace.as_ref());
    }

    fn listed(&mut self, raw: &[u8]) {
        let entry = match self.entry(raw) {
            Ok(entry) => entry,
            Err(meta) => {
                // It is there, only we cannot read it: what is known of it stays.
                let stored = meta.and_then(|meta| self.shared.contents.store.get(&meta.key));
                if let Some(stored) = stored {
                    stored.mark(self.list);
                }
                return;
            }
        };
        if self.direct {
            self.apply(|feed, _, batch| feed.put(entry, batch, true, feed.reset));
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
            self.gone(raw);
            return;
        }
        let Ok(meta) = self.shared.ingest.meta(raw) else { return };
        self.staged.remove(&meta.key);
        if let Some(stored) = self.shared.contents.store.get(&meta.key) {
            stored.mark(0);
        }
    }

    fn commit(&mut self, version: &str) {
        let version = Version::parse(version).unwrap_or_default();
        let staged = std::mem::take(&mut self.staged);
        self.apply(|feed, hub, batch| {
            let shared = &feed.shared;
            let namespace = feed.namespace.as_deref();
            // A state from before what we have seen: the server has been set back, and what it now
            // has is what counts.
            let set_back = feed.reset || newer(shared.contents.overlay.at(namespace), version);
            if set_back {
                shared.contents.overlay.reset(namespace, Some(version));
            }
            for entry in shared.contents.store.all(namespace) {
                if entry.marked() != feed.list {
                    feed.remove(&entry.meta().key, None, batch);
                }
            }
            let initial = !hub.is_synced(feed.namespace.as_ref());
            for entry in staged.into_values() {
                feed.put(entry, batch, initial, set_back);
            }
            batch.version = version;
        });
        self.shared.part_synced(self.namespace.as_ref(), self.part);
    }

    fn abandon(&mut self) {
        self.staged.clear();
    }

    fn changed(&mut self, raw: &[u8]) {
        match self.entry(raw) {
            Ok(entry) => self.apply(|feed, hub, batch| {
                batch.version = entry.meta().version;
                let initial = !hub.is_synced(feed.namespace.as_ref());
                feed.put(feed.shared.contents.overlay.same(entry), batch, initial, false);
            }),
            Err(Some(meta)) => self.apply(|_, _, batch| batch.version = meta.version),
            Err(None) => {}
        }
    }

    fn deleted(&mut self, raw: &[u8]) {
        self.gone(raw);
    }

    fn bookmark(&mut self, version: &str) {
        let version = Version::parse(version).unwrap_or_default();
        self.apply(|_, _, batch| batch.version = version);
    }

    fn agrees(&mut self, first: Option<&[u8]>) -> bool {
        let (store, namespace) = (&self.shared.contents.store, self.namespace.as_deref());
        let Some(raw) = first else { return store.all(namespace).is_empty() };
        let Ok(meta) = self.shared.ingest.meta(raw) else { return true };
        // What changed since, the watch brings.
        if meta.version.is_none() || newer(meta.version, self.shared.contents.overlay.at(namespace))
        {
            return true;
        }
        store.get(&meta.key).is_some_and(|stored| {
            stored.meta().uid == meta.uid && stored.meta().version == meta.version
        })
    }

    fn health(&mut self, health: &Health) {
        let trouble = match health {
            Health::Connected => None,
            Health::Failing { error, since } => {
                Some((trouble(self.shared.ingest.kind(), error), *since))
            }
        };
        let missing =
            trouble.as_ref().is_some_and(|(trouble, _)| trouble.reason == Reason::Missing);
        let absent = missing && self.shared.ingest.options().optional;
        if absent {
            self.apply(|feed, _, batch| {
                for entry in feed.shared.contents.store.all(feed.namespace.as_deref()) {
                    feed.remove(&entry.meta().key, None, batch);
                }
            });
            // A type that does not exist has no objects, and that is known.
            self.shared.part_synced(self.namespace.as_ref(), self.part);
        }
        let trouble = trouble.filter(|_| !absent);
        self.shared.part_health(self.namespace.as_ref(), self.part, trouble, absent);
    }
}

fn trouble(kind: &Kind, error: &Error) -> Trouble {
    if error.is_not_found() {
        return Trouble { message: kind.not_served().into(), reason: Reason::Missing };
    }
    let reason = match error.is_forbidden() {
        true => Reason::Forbidden,
        false => Reason::Other,
    };
    Trouble { message: error.to_string().into(), reason }
}
