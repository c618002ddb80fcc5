//! The objects of one table at every revision in the window.
//!
//! Invariants:
//! - events are in the log in revision order, and a version can be read as long as the event that
//!   superseded it is in the log;
//! - `compacted` never exceeds the store's revision, because the newest event is never dropped for
//!   lack of space;
//! - a watch can start at least as early as a list: `oldest <= compacted`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::Notify;

use super::{Event, Key, Record, Window};

/// The content of one table. Guarded by the table's lock.
pub(super) struct State {
    objects: BTreeMap<Key, Slot>,
    log: EventLog,
    /// A copy of the log for each namespace with its own watchers, so that they neither wake for
    /// nor search through events of other namespaces.
    namespaces: BTreeMap<Box<str>, NamespaceLog>,
    log_cost: usize,
    /// Lists below this revision are rejected.
    compacted: u64,
    /// Watches from below this revision are rejected.
    oldest: u64,
    live: usize,
    live_cost: usize,
    observer: Option<Observer>,
}

/// A function that is called with each event of a table.
pub type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// Events in revision order, and the waiters for new ones.
pub(super) struct EventLog {
    events: VecDeque<Arc<Event>>,
    /// The last event dropped from the log: a cursor before it has missed events.
    dropped: u64,
    wake: Arc<Notify>,
}

struct NamespaceLog {
    log: EventLog,
    watchers: usize,
}

/// All known versions of one object.
struct Slot {
    /// A copy of the record's revision, so that counting does not read the record.
    revision: u64,
    /// `None` if the object was deleted at `revision`.
    current: Option<Arc<Record>>,
    #[expect(clippy::box_collection, reason = "most objects have none: 8 bytes, not 32")]
    superseded: Option<Box<VecDeque<Superseded>>>,
}

/// A version that was live until (excluding) the revision `until`.
struct Superseded {
    record: Arc<Record>,
    until: u64,
}

// === impl State ===

impl State {
    pub(super) fn new(compacted: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            log: EventLog::new(),
            namespaces: BTreeMap::new(),
            log_cost: 0,
            compacted,
            oldest: compacted,
            live: 0,
            live_cost: 0,
            observer: None,
        }
    }

    pub(super) fn set_observer(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Record>> {
        self.objects.get(key)?.current.as_ref()
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Returns the oldest revision a watch may start from.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Returns the number of live objects and their size in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.live, self.live_cost)
    }

    /// Returns the number of events in the window and the bytes held for them.
    pub(super) fn window_size(&self) -> (usize, usize) {
        (self.log.events.len(), self.log_cost)
    }

    /// Makes a committed event visible. Returns the waiters to notify after the lock is released.
    pub(super) fn apply(&mut self, event: Arc<Event>) -> [Option<Arc<Notify>>; 2] {
        if let Some(observe) = &self.observer {
            observe(&event);
        }
        self.update_slot(&event);
        self.log_cost += event.cost;
        let namespaces = match self.namespaces.get_mut(event.record.key.namespace()) {
            Some(namespace_log) => {
                namespace_log.log.events.push_back(event.clone());
                Some(namespace_log.log.wake.clone())
            }
            None => None,
        };
        self.log.events.push_back(event);
        [Some(self.log.wake.clone()), namespaces]
    }

    /// Inserts an object read from disk, without an event.
    pub(super) fn restore(&mut self, record: Arc<Record>) {
        let cost = record.cost();
        let key = record.key.clone();
        let slot = Slot { revision: record.revision, current: Some(record), superseded: None };
        match self.objects.insert(key, slot).and_then(|old| old.current) {
            Some(old) => self.live_cost -= old.cost(),
            None => self.live += 1,
        }
        self.live_cost += cost;
    }

    /// Removes an object while replaying the log, without an event.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(old) = self.objects.remove(key).and_then(|old| old.current) {
            self.live -= 1;
            self.live_cost -= old.cost();
        }
    }

    /// Updates the object's slot with the event.
    fn update_slot(&mut self, event: &Event) {
        let revision = event.revision();
        let current = (!event.deleted).then(|| event.record.clone());
        if let Some(record) = &current {
            self.live += 1;
            self.live_cost += record.cost();
        }
        let Some(previous) = &event.previous else {
            self.objects
                .entry(event.record.key.clone())
                .and_modify(|slot| {
                    slot.revision = revision;
                    slot.current.clone_from(&current);
                })
                .or_insert(Slot { revision, current, superseded: None });
            return;
        };
        self.live -= 1;
        self.live_cost -= previous.cost();
        if let Some(slot) = self.objects.get_mut(&event.record.key) {
            slot.revision = revision;
            slot.current = current;
            let superseded = Superseded { record: previous.clone(), until: revision };
            slot.superseded.get_or_insert_default().push_back(superseded);
        }
    }

    /// Drops events that exceed the window, except the newest one and those that a reader at
    /// `pinned` needs.
    pub(super) fn trim(&mut self, window: &Window, pinned: Option<u64>) {
        while let Some(oldest) = self.log.events.front().map(|event| event.revision()) {
            let over = self.log.events.len() > 1
                && (self.log.events.len() > window.events || self.log_cost > window.bytes);
            if !(over || oldest <= self.oldest) || pinned.is_some_and(|pin| pin < oldest) {
                return;
            }
            self.oldest = self.oldest.max(oldest);
            self.compacted = self.compacted.max(oldest);
            self.drop_oldest();
        }
    }

    /// Rejects lists and watches below `revision` from now on, and drops what only they needed.
    pub(super) fn compact(&mut self, revision: u64, window: &Window, pinned: Option<u64>) {
        self.compacted = self.compacted.max(revision);
        self.oldest = self.oldest.max(revision);
        self.trim(window, pinned);
    }

    /// Rejects lists below `revision` from now on. Watches may still start from the newest `events`
    /// events; older events and superseded versions are dropped.
    pub(super) fn compact_lists(&mut self, revision: u64, events: usize, pinned: Option<u64>) {
        self.compacted = self.compacted.max(revision);
        // A reader at the pinned revision needs the versions superseded after it.
        let revision = pinned.map_or(revision, |pin| pin.min(revision));
        while let Some(oldest) = self.log.events.front().map(|event| event.revision()) {
            if self.log.events.len() <= events || oldest > revision {
                break;
            }
            self.oldest = self.oldest.max(oldest);
            self.drop_oldest();
        }
        let Self { log, objects, .. } = self;
        let superseding = log.events.iter().take_while(|event| event.revision() <= revision);
        for event in superseding.filter(|event| event.previous.is_some()) {
            drop_superseded(objects, event);
        }
    }

    fn drop_oldest(&mut self) {
        let Some(event) = self.log.drop_oldest() else { return };
        self.log_cost -= event.cost;
        let key = &event.record.key;
        if let Some(namespace_log) = self.namespaces.get_mut(key.namespace()) {
            namespace_log.log.drop_oldest();
        }
        if event.previous.is_some() {
            drop_superseded(&mut self.objects, &event);
        }
    }

    /// Visits the versions live at `revision` of keys in `bounds`, at most `keys` of them; returns
    /// the last visited key if there may be more.
    pub(super) fn walk(
        &self,
        bounds: &Bounds<'_>,
        revision: u64,
        keys: usize,
        mut visit: impl FnMut(&Arc<Record>),
    ) -> Option<Key> {
        let mut range = bounds.iter(&self.objects);
        let mut last = None;
        for (key, slot) in range.by_ref().take(keys) {
            if let Some(record) = slot.at(revision) {
                visit(record);
            }
            last = Some(key);
        }
        range.next().and(last.cloned())
    }

    /// Counts the objects in `bounds` that are live at `revision`, visiting at most `keys` of them;
    /// also returns the last visited key if there may be more.
    pub(super) fn count(
        &self,
        bounds: &Bounds<'_>,
        revision: u64,
        keys: usize,
    ) -> (usize, Option<Key>) {
        let mut range = bounds.iter(&self.objects);
        let (mut count, mut last) = (0, None);
        for (key, slot) in range.by_ref().take(keys) {
            count += usize::from(slot.is_live_at(revision));
            last = Some(key);
        }
        (count, range.next().and(last.cloned()))
    }

    /// Returns the log of a watcher: all events, or those of one namespace.
    pub(super) fn log(&self, namespace: Option<&str>) -> &EventLog {
        match namespace {
            // A namespace log exists as long as its watchers, so the fallback is never used.
            Some(namespace) => {
                self.namespaces.get(namespace).map_or(&self.log, |namespace_log| &namespace_log.log)
            }
            None => &self.log,
        }
    }

    /// Registers a watcher and returns its waiter.
    pub(super) fn subscribe(&mut self, namespace: Option<&str>) -> Arc<Notify> {
        let Some(namespace) = namespace else { return self.log.wake.clone() };
        let log = &self.log;
        let namespace_log = self.namespaces.entry(namespace.into()).or_insert_with(|| {
            let inside = |event: &&Arc<Event>| event.record.key.namespace() == namespace;
            let events = log.events.iter().filter(inside).cloned().collect();
            NamespaceLog { log: EventLog { events, ..EventLog::new() }, watchers: 0 }
        });
        namespace_log.watchers += 1;
        namespace_log.log.wake.clone()
    }

    /// Returns the number of namespaces with their own log.
    #[cfg(test)]
    pub(super) fn watched_namespaces(&self) -> usize {
        self.namespaces.len()
    }

    /// Reverses [`subscribe`](Self::subscribe).
    pub(super) fn unsubscribe(&mut self, namespace: &str) {
        let Some(namespace_log) = self.namespaces.get_mut(namespace) else { return };
        namespace_log.watchers -= 1;
        if namespace_log.watchers == 0 {
            self.namespaces.remove(namespace);
        }
    }
}

/// Drops the versions that `event` and events before it superseded.
fn drop_superseded(objects: &mut BTreeMap<Key, Slot>, event: &Event) {
    let key = &event.record.key;
    let Some(slot) = objects.get_mut(key) else { return };
    slot.drop_superseded(event.revision());
    if slot.current.is_none() && slot.superseded.is_none() {
        objects.remove(key);
    }
}

// === impl EventLog ===

impl EventLog {
    fn new() -> Self {
        Self { events: VecDeque::new(), dropped: 0, wake: Arc::default() }
    }

    fn drop_oldest(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.dropped = event.revision();
        Some(event)
    }

    /// Returns whether an event after `cursor` was dropped.
    pub(super) fn has_dropped_after(&self, cursor: u64) -> bool {
        self.dropped > cursor
    }

    /// Iterates over the events after `cursor`, oldest first.
    pub(super) fn after(&self, cursor: u64) -> impl Iterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision() <= cursor);
        self.events.range(start..)
    }
}

// === impl Slot ===

impl Slot {
    fn at(&self, revision: u64) -> Option<&Arc<Record>> {
        if self.revision <= revision {
            return self.current.as_ref();
        }
        let superseded = self.superseded.as_deref()?;
        let version = superseded
            .get(superseded.partition_point(|superseded| superseded.until <= revision))?;
        (version.record.revision <= revision).then_some(&version.record)
    }

    fn is_live_at(&self, revision: u64) -> bool {
        if self.revision <= revision { self.current.is_some() } else { self.at(revision).is_some() }
    }

    /// Drops versions superseded at or before `revision`.
    fn drop_superseded(&mut self, revision: u64) {
        let Some(superseded) = &mut self.superseded else { return };
        while superseded.front().is_some_and(|oldest| oldest.until <= revision) {
            superseded.pop_front();
        }
        if superseded.is_empty() {
            self.superseded = None;
        }
    }
}

/// A range of keys: one namespace or all, after a key or from the start.
pub(super) struct Bounds<'a> {
    start: Bound<&'a str>,
    end: Bound<&'a str>,
}

impl<'a> Bounds<'a> {
    /// Creates the range after `after`, which may be outside of `key_range`.
    pub(super) fn new(key_range: Option<&'a NamespaceRange>, after: Option<&'a str>) -> Self {
        let (first, end) = match key_range {
            Some(key_range) => (key_range.first.as_str(), Bound::Excluded(key_range.end.as_str())),
            None => ("", Bound::Unbounded),
        };
        let start = match after {
            Some(after) if after >= first => Bound::Excluded(after),
            _ => Bound::Included(first),
        };
        Self { start, end }
    }

    fn iter<'m>(
        &self,
        objects: &'m BTreeMap<Key, Slot>,
    ) -> std::collections::btree_map::Range<'m, Key, Slot> {
        let empty = match (self.start, self.end) {
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
            _ => false,
        };
        // `range` panics if the start is after the end, which a made-up `after` can cause.
        let bounds =
            if empty { (Bound::Included(""), Bound::Excluded("")) } else { (self.start, self.end) };
        objects.range::<str, _>(bounds)
    }
}

/// The bounds of the keys of one namespace.
pub(super) struct NamespaceRange {
    first: String,
    end: String,
}

impl NamespaceRange {
    pub(super) fn of(namespace: &str) -> Self {
        // '0' follows '/'.
        Self { first: format!("{namespace}/"), end: format!("{namespace}0") }
    }
}
