//! One type as far as it is declared, kept up to date, and told to whoever subscribes.
//!
//! Everything that changes the store or the subscribers holds the hub's lock, so a handler that
//! comes late gets what is stored and then each change after it, nothing twice and nothing left out.
//! Events are only put into buffers there; each handler runs in a task of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::buffer::{Buffer, LIMIT};
use super::contents::Contents;
use super::entry::Entry;
use super::error::{ReadError, Reason, SyncError, Trouble};
use super::feed::Feed;
use super::ingest::Ingest;
use super::meta::Version;
use super::overlay::Overlay;
use super::query::{Conditions, Query, select};
use super::stats::{Health, Rejections, TypeStats};
use super::store::{Definition, Store};
use super::subscription::{Subscription, deliver};
use crate::connect::Transport;
use crate::key::Key;
use crate::kind::Kind;
use crate::object_event::ObjectEvent;
use crate::random::Random;
use crate::tasks::Tasks;
use crate::uid::Uid;
use crate::watch::{History, Reflector, Scope, Settings};

/// How long a type may be refused before waiting for it fails: permissions and definitions that are
/// set up at the same time as we are need a moment.
const REFUSAL: Duration = Duration::from_secs(5);

/// One type, watched for as long as anyone holds this or a [`Subscription`] to it.
#[derive(Clone)]
pub struct Informer(pub(super) Arc<Hold>);

/// What the handles share: when the last goes, the watch ends and the memory is given back.
pub(super) struct Hold(pub(super) Arc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(super) struct Shared {
    pub(super) ingest: Ingest,
    pub(super) contents: Arc<Contents>,
    pub(super) hub: Mutex<Hub>,
    pub(super) rejections: Rejections,
    state: watch::Sender<State>,
    /// The namespaces that are watched and whether they have been listed, unless all are watched.
    namespaces: Option<RwLock<BTreeMap<String, bool>>>,
    lists: AtomicU32,
    pub(super) panics: AtomicU64,
    random: Mutex<Random>,
    resync: Duration,
    sync_timeout: Duration,
    watch_timeout: Range<Duration>,
    transport: Transport,
    tasks: Weak<Tasks>,
    history: History,
}

/// What is guarded by the one lock that writers and subscribers take.
#[derive(Default)]
pub(super) struct Hub {
    handlers: BTreeMap<u64, Arc<Buffer>>,
    parts: BTreeMap<Option<String>, Part>,
    numbers: u64,
    /// Whether handlers have been told that the beginning is over.
    synced: bool,
    stopped: bool,
}

/// One scope that is watched.
struct Part {
    number: u64,
    synced: bool,
    absent: bool,
    /// What is wrong, and since when.
    trouble: Option<(Trouble, Instant)>,
    task: Option<AbortHandle>,
}

#[derive(Clone, Debug, Default)]
struct State {
    synced: bool,
    stopped: bool,
    absent: bool,
    trouble: Option<Trouble>,
    /// Since when the server refuses the type.
    refused: Option<Instant>,
}

impl Hub {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether this is still the part that watches there.
    pub(super) fn has(&self, namespace: Option<&String>, number: u64) -> bool {
        self.part(namespace).is_some_and(|part| part.number == number) && !self.stopped
    }

    fn part(&self, namespace: Option<&String>) -> Option<&Part> {
        self.parts.get(&namespace.cloned())
    }

    pub(super) fn is_synced(&self, namespace: Option<&String>) -> bool {
        self.part(namespace).is_some_and(|part| part.synced)
    }

    pub(super) fn send(&self, events: Vec<ObjectEvent>) {
        for event in events {
            for handler in self.handlers.values() {
                handler.push(event.clone());
            }
        }
    }
}

/// What an informer needs of its cache.
pub(super) struct Surroundings {
    pub(super) transport: Transport,
    pub(super) tasks: Weak<Tasks>,
    pub(super) history: History,
    pub(super) random: Random,
    pub(super) resync: Duration,
    pub(super) sync_timeout: Duration,
    pub(super) watch_timeout: Range<Duration>,
}

impl Shared {
    /// An informer that watches.
    pub(super) fn start(
        ingest: Ingest,
        indexes: &[Definition],
        surroundings: Surroundings,
    ) -> Arc<Self> {
        let Surroundings {
            transport,
            tasks,
            history,
            mut random,
            resync,
            sync_timeout,
            watch_timeout,
        } = surroundings;
        let options = ingest.options();
        let selective = !options.labels.selects_all() || !options.fields.is_empty();
        let namespaces = options.namespaces.clone();
        let resync = options.resync.unwrap_or(resync);
        let contents = Arc::new(Contents {
            store: Store::new(random.next()),
            overlay: Overlay::new(selective),
            ready: AtomicBool::new(false),
            everywhere: namespaces.is_none() && ingest.kind().namespaced(),
        });
        let shared = Arc::new(Self {
            contents,
            hub: Mutex::default(),
            rejections: Rejections::default(),
            state: watch::Sender::default(),
            namespaces: namespaces.is_some().then(RwLock::default),
            lists: AtomicU32::new(0),
            panics: AtomicU64::new(0),
            random: Mutex::new(random),
            ingest,
            resync,
            sync_timeout,
            watch_timeout,
            transport,
            tasks,
            history,
        });
        indexes.iter().for_each(|index| shared.contents.store.define(index.clone()));
        match namespaces {
            Some(names) => shared.set_namespaces(&names),
            None => {
                let mut hub = shared.hub.lock();
                shared.begin(&mut hub, None);
            }
        }
        shared
    }

    /// Begins to watch a namespace, or all of them.
    fn begin(self: &Arc<Self>, hub: &mut Hub, namespace: Option<String>) {
        self.contents.overlay.reset(namespace.as_deref(), Some(Version::default()));
        let number = hub.number();
        let options = self.ingest.options();
        let text = |text: String| (!text.is_empty()).then_some(text);
        let scope = Scope {
            kind: self.ingest.kind().clone(),
            namespace: namespace.clone(),
            labels: text(options.labels.to_string()),
            fields: text(options.fields.text().to_owned()),
            metadata_only: options.metadata_only,
        };
        let random = Random::new(self.random.lock().next());
        let settings = Settings {
            optional: options.optional,
            watch_timeout: self.watch_timeout.clone(),
            ..Settings::default()
        };
        let reflector =
            Reflector::new(self.transport.clone(), scope, settings, self.history.clone(), random);
        let mut feed = Feed::new(self.clone(), namespace.clone(), number);
        let task = self
            .tasks
            .upgrade()
            .and_then(|tasks| tasks.spawn(async move { match reflector.run(&mut feed).await {} }));
        let part = Part { number, synced: false, absent: false, trouble: None, task };
        hub.parts.insert(namespace, part);
    }

    /// A further way into a part that is watched, for tests that play the reflector.
    #[cfg(test)]
    pub(super) fn feed(self: &Arc<Self>, namespace: Option<&str>) -> Feed {
        let namespace = namespace.map(str::to_owned);
        let number = self.hub.lock().parts[&namespace].number;
        Feed::new(self.clone(), namespace, number)
    }

    /// Watches these namespaces and no others: objects of new ones appear, of others vanish.
    pub(super) fn set_namespaces(self: &Arc<Self>, wanted: &BTreeSet<String>) {
        let mut hub = self.hub.lock();
        if hub.stopped {
            return;
        }
        let known: Vec<String> = hub.parts.keys().flatten().cloned().collect();
        let mut events = Vec::new();
        for name in known.iter().filter(|name| !wanted.contains(*name)) {
            if let Some(Part { task: Some(task), .. }) = hub.parts.remove(&Some(name.clone())) {
                task.abort();
            }
            for entry in self.contents.store.all(Some(name)) {
                self.contents.store.remove(&entry.meta().key);
                events.push(ObjectEvent::Deleted { old: entry, state_unknown: true });
            }
            self.contents.overlay.reset(Some(name), None);
        }
        for name in wanted.iter().filter(|name| !known.contains(name)) {
            self.begin(&mut hub, Some(name.clone()));
        }
        hub.send(events);
        self.refresh(&mut hub);
    }

    /// A number for a list that begins.
    pub(super) fn number_list(&self) -> u32 {
        // Zero marks objects that no list had.
        loop {
            let number = self.lists.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if number != 0 {
                return number;
            }
        }
    }

    /// All objects of a part are there.
    pub(super) fn part_synced(&self, namespace: Option<&String>, number: u64) {
        let mut hub = self.hub.lock();
        if let Some(part) = hub.parts.get_mut(&namespace.cloned())
            && part.number == number
            && !part.synced
        {
            part.synced = true;
            self.refresh(&mut hub);
        }
    }

    pub(super) fn part_health(
        &self,
        namespace: Option<&String>,
        number: u64,
        trouble: Option<(Trouble, Instant)>,
        absent: bool,
    ) {
        let mut hub = self.hub.lock();
        if let Some(part) = hub.parts.get_mut(&namespace.cloned())
            && part.number == number
        {
            part.trouble = trouble;
            part.absent = absent;
            self.refresh(&mut hub);
        }
    }

    /// Works out what the parts come to, and tells those who wait for it.
    fn refresh(&self, hub: &mut Hub) {
        if hub.stopped {
            return;
        }
        let synced = hub.parts.values().all(|part| part.synced);
        if let Some(namespaces) = &self.namespaces {
            let parts = hub.parts.iter();
            *namespaces.write() =
                parts.filter_map(|(name, part)| Some((name.clone()?, part.synced))).collect();
        }
        self.contents.ready.store(synced, Ordering::Release);
        if synced && !hub.synced {
            hub.synced = true;
            hub.handlers.values().for_each(|handler| handler.extend([], true));
        }
        let trouble = hub.parts.values().find_map(|part| part.trouble.clone());
        let absent = hub.parts.values().any(|part| part.absent);
        let refused = trouble.as_ref().filter(|(trouble, _)| trouble.reason != Reason::Other);
        let refused = refused.map(|(_, since)| *since);
        let trouble = trouble.map(|(trouble, _)| trouble);
        self.state.send_replace(State { synced, stopped: false, absent, trouble, refused });
    }

    /// Ends the watch, tells nobody anything any more and gives the memory back.
    pub(super) fn stop(&self) {
        let mut hub = self.hub.lock();
        if std::mem::replace(&mut hub.stopped, true) {
            return;
        }
        for part in std::mem::take(&mut hub.parts).into_values() {
            if let Some(task) = part.task {
                task.abort();
            }
        }
        hub.handlers.clear();
        drop(hub);
        self.contents.ready.store(false, Ordering::Release);
        self.state.send_modify(|state| state.stopped = true);
        self.contents.store.clear();
        self.contents.overlay.reset(None, None);
    }

    /// Waits until everything is there.
    async fn synced(&self) -> Result<(), SyncError> {
        let mut state = self.state.subscribe();
        let start = Instant::now();
        let latest = start + self.sync_timeout;
        loop {
            let now = state.borrow_and_update().clone();
            let kind = || self.ingest.kind().clone();
            if now.stopped {
                return Err(SyncError::Stopped { kind: kind() });
            }
            if now.synced {
                return Ok(());
            }
            // Counted from the call, however long it has been refused: who tries again in a loop
            // must not spin.
            let refused = now.refused.map(|since| since.max(start) + REFUSAL);
            let deadline = refused.map_or(latest, |refused| latest.min(refused));
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() {
                    return Err(SyncError::Stopped { kind: kind() });
                },
                () = tokio::time::sleep_until(deadline) => {
                    return Err(SyncError::NotSynced { kind: kind(), last: now.trouble });
                }
            }
        }
    }

    /// Whether reads in this namespace, or in all that are watched, can be answered.
    fn check(&self, namespace: Option<&str>) -> Result<(), ReadError> {
        let ready = match (&self.namespaces, namespace) {
            (Some(namespaces), Some(name)) => {
                let namespaces = namespaces.read();
                match namespaces.get(name) {
                    Some(synced) => *synced && !self.state.borrow().stopped,
                    None if self.state.borrow().stopped => false,
                    None => {
                        return Err(ReadError::OutsideNamespaces {
                            kind: self.ingest.kind().clone(),
                            namespace: name.to_owned(),
                            namespaces: namespaces.keys().cloned().collect(),
                        });
                    }
                }
            }
            _ => self.contents.ready.load(Ordering::Acquire),
        };
        if ready {
            return Ok(());
        }
        let (state, kind) = (self.state.borrow(), self.ingest.kind().clone());
        Err(match state.stopped {
            true => ReadError::Stopped { kind },
            false => ReadError::NotSynced { kind, last: state.trouble.clone() },
        })
    }

    /// What `see` makes of the object of this key; it runs while the store is locked for writers.
    pub(super) fn get<T>(
        &self,
        key: &Key,
        see: impl FnOnce(&Arc<Entry>) -> T,
    ) -> Result<Option<T>, ReadError> {
        let kind = self.ingest.kind();
        if !kind.namespaced() && key.namespace().is_some() {
            return self.get(&Key::cluster(key.name()), see);
        }
        self.check(key.namespace())?;
        if self.contents.overlay.is_idle() {
            return Ok(self.contents.store.see(key, see));
        }
        match self.contents.overlay.get(&self.contents.store, key) {
            Ok(found) => Ok(found.as_ref().map(see)),
            Err(doubt) => Err(ReadError::Uncertain { kind: kind.clone(), doubts: vec![doubt] }),
        }
    }

    pub(super) fn list(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, ReadError> {
        let kind = self.ingest.kind();
        let mut conditions = Conditions::new(query);
        conditions.namespace = conditions.namespace.filter(|_| kind.namespaced());
        self.check(conditions.namespace)?;
        let found = if self.contents.overlay.is_idle() {
            self.contents.store.list(&conditions)
        } else {
            self.contents
                .overlay
                .list(&self.contents.store, &conditions)
                .map_err(|doubts| ReadError::Uncertain { kind: kind.clone(), doubts })?
        };
        found.map_err(|_| ReadError::NoIndex {
            kind: kind.clone(),
            name: query.index.map(|(name, _)| name.to_owned()).unwrap_or_default(),
        })
    }

    /// What is known, in doubt or not; nothing before it has been listed.
    pub(super) fn peek_list(&self, query: &Query<'_>) -> Vec<Arc<Entry>> {
        let mut conditions = Conditions::new(query);
        conditions.namespace = conditions.namespace.filter(|_| self.ingest.kind().namespaced());
        if self.check(conditions.namespace).is_err() {
            return Vec::new();
        }
        self.contents.overlay.known(&self.contents.store, &conditions).unwrap_or_default()
    }

    /// A write of this process was answered with the object in `raw`.
    pub(super) fn wrote(&self, raw: &[u8]) {
        let Some((entry, visible)) = self.answer(raw) else { return };
        if entry.meta().version().is_none() {
            // It cannot be said when the store has come as far.
            self.contents.overlay.uncertain(entry.meta().key());
        } else {
            self.contents.overlay.wrote(entry, visible);
        }
    }

    /// What a live read after a doubt found.
    pub(super) fn resolved(&self, doubt: &super::Doubt, raw: Option<&[u8]>) {
        match raw {
            Some(raw) => {
                if let Some((entry, visible)) = self.answer(raw) {
                    self.contents.overlay.wrote(entry, visible);
                }
            }
            None => {
                if let Some(uid) = self.contents.overlay.uid(&self.contents.store, doubt.key()) {
                    self.contents.overlay.deleted(&self.contents.store, doubt.key(), &uid);
                }
            }
        }
        self.contents.overlay.resolved(doubt);
    }

    /// An object that did not come from the watch, and whether the informer selects it.
    fn answer(&self, raw: &[u8]) -> Option<(Arc<Entry>, bool)> {
        let entry = match self.ingest.entry(raw) {
            Ok(entry) => Arc::new(entry),
            Err(rejected) => {
                let (kind, problem) = (self.ingest.kind(), rejected.problem);
                tracing::debug!(%kind, problem, "the answer to a write is not taken in");
                return None;
            }
        };
        if !self.ingest.is_of_kind(raw) {
            // Subresources such as scale answer with an object of their own.
            return None;
        }
        let options = self.ingest.options();
        let labels: Vec<_> = options.labels.clone().into_iter().collect();
        let visible = select(&labels, entry.meta()) && options.fields.select(raw);
        Some((entry, visible))
    }

    pub(super) fn deleted(&self, key: &Key, uid: &Uid) {
        self.contents.overlay.deleted(&self.contents.store, key, uid);
    }

    pub(super) fn uncertain(&self, key: &Key) {
        self.contents.overlay.uncertain(key);
    }

    /// Adds an index; no object changes meanwhile.
    pub(super) fn define(&self, index: Definition) {
        let _hub = self.hub.lock();
        self.contents.store.define(index);
    }

    /// Puts every object that is there into the buffer.
    pub(super) fn resync(&self, buffer: &Buffer) {
        let hub = self.hub.lock();
        if !hub.stopped {
            let objects = self.contents.store.all(None).into_iter();
            buffer.extend(objects.map(|object| ObjectEvent::Resynced { object }), false);
        }
    }

    fn subscribe(
        self: &Arc<Self>,
        hold: Arc<Hold>,
        resync: bool,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        let period = self.random.lock().range(self.resync.mul_f64(0.9), self.resync.mul_f64(1.1));
        let buffer = Arc::new(Buffer::new(LIMIT));
        let (synced, is_synced) = watch::channel(false);
        let mut hub = self.hub.lock();
        let number = hub.number();
        let mut task = None;
        if !hub.stopped {
            let stored = self.contents.store.all(None).into_iter();
            let added = stored.map(|new| ObjectEvent::Added { new, initial: true });
            buffer.extend(added, hub.synced);
            hub.handlers.insert(number, buffer.clone());
            let delivery = deliver(self.clone(), buffer, synced, resync.then_some(period), handler);
            task = self.tasks.upgrade().and_then(|tasks| tasks.spawn(delivery));
        }
        drop(hub);
        Subscription::new(hold, number, task, is_synced)
    }

    pub(super) fn unsubscribe(&self, number: u64) {
        // The buffer's events are dropped where no lock is held.
        let buffer = self.hub.lock().handlers.remove(&number);
        drop(buffer);
    }

    fn health(&self) -> Health {
        let state = self.state.borrow();
        Health {
            kind: self.ingest.kind().clone(),
            synced: state.synced && !state.stopped,
            trouble: state.trouble.clone(),
            absent: state.absent,
        }
    }

    fn stats(&self) -> TypeStats {
        let (handlers, waiting) = {
            let hub = self.hub.lock();
            (hub.handlers.len(), hub.handlers.values().map(|buffer| buffer.len()).sum())
        };
        let (rejections, rejected) = self.rejections.get();
        TypeStats {
            kind: self.ingest.kind().clone(),
            objects: self.contents.store.len(),
            bytes: self.contents.store.bytes(),
            overlaid: self.contents.overlay.len(),
            handlers,
            waiting,
            handler_panics: self.panics.load(Ordering::Relaxed),
            rejections,
            rejected,
        }
    }
}

impl Informer {
    /// The type.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.shared().ingest.kind()
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Waits until everything has been listed.
    ///
    /// # Errors
    /// When that takes longer than the cache's `sync_timeout`, or the server has refused the type for
    /// some seconds; the error says what the server said. The informer tries on.
    pub async fn synced(&self) -> Result<(), SyncError> {
        self.shared().synced().await
    }

    /// Calls `handler` for everything that is there, as added and `initial`, and from then on for
    /// each change, until the subscription is dropped.
    ///
    /// The handler runs in a task of its own; while it is behind by thousands of events, those of
    /// one object are merged. A panic in it is logged and counted, and it is called again.
    pub fn subscribe(&self, handler: impl FnMut(ObjectEvent) + Send + 'static) -> Subscription {
        self.shared().subscribe(self.0.clone(), false, handler)
    }

    /// As [`Informer::subscribe`], and now and then calls `handler` again for everything that is
    /// there, as [`ObjectEvent::Resynced`].
    pub fn subscribe_resynced(
        &self,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        self.shared().subscribe(self.0.clone(), true, handler)
    }

    /// The object of this key.
    ///
    /// # Errors
    /// When the cache cannot know; see [`ReadError`].
    pub fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        self.shared().get(key, Arc::clone)
    }

    /// The objects a query asks for, in the order of their keys.
    ///
    /// # Errors
    /// When the cache cannot know; see [`ReadError`].
    pub fn list(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, ReadError> {
        self.shared().list(query)
    }

    /// The version up to which everything is known where `key` belongs; none before the first list
    /// and in namespaces that are not watched.
    #[must_use]
    pub fn version(&self, key: &Key) -> Option<Version> {
        self.shared().contents.overlay.version(key).filter(|version| !version.is_none())
    }

    /// How it goes.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared().health()
    }

    /// What it has.
    #[must_use]
    pub fn stats(&self) -> TypeStats {
        self.shared().stats()
    }
}

impl fmt::Debug for Informer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Informer").field(self.kind()).finish()
    }
}
