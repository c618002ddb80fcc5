//! The informer of one type: reflectors, store and subscribers.
//!
//! All changes of the store and the subscribers hold the lock of the dispatcher, so that a late
//! handler receives the stored objects and then each later change exactly once. Under the lock
//! events are only added to buffers; each handler runs in its own task.

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
use super::error::{FailureReason, ReadError, SyncError, WatchFailure};
use super::event::ObjectEvent;
use super::feed::Feed;
use super::ingest::Ingest;
use super::overlay::Overlay;
use super::query::{Conditions, Query, select};
use super::stats::{Health, Rejections, TypeStats};
use super::store::{Definition, Store};
use super::subscription::{Subscription, deliver};
use crate::connect::Transport;
use crate::key::Key;
use crate::kind::Kind;
use crate::random::Random;
use crate::tasks::Tasks;
use crate::uid::Uid;
use crate::version::Version;
use crate::watch::{History, Reflector, ReflectorOptions, Scope};

/// How long a type may be forbidden or not served before a wait for it fails: permissions and CRDs
/// may be created at the same time.
const REJECTION_GRACE: Duration = Duration::from_secs(5);

/// A handle to the informer of a type, which runs while a handle or a [`Subscription`] exists.
#[derive(Clone)]
pub struct Informer(pub(super) Arc<HandleGuard>);

/// Stops the informer when the last handle is dropped.
pub(super) struct HandleGuard(pub(super) Arc<Shared>);

impl Drop for HandleGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(super) struct Shared {
    pub(super) ingest: Ingest,
    pub(super) contents: Arc<Contents>,
    pub(super) dispatcher: Mutex<Dispatcher>,
    pub(super) rejections: Rejections,
    state: watch::Sender<State>,
    /// The watched namespaces and whether they are synced, unless all are watched.
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

/// The state behind the lock of writers and subscribers.
#[derive(Default)]
pub(super) struct Dispatcher {
    handlers: BTreeMap<u64, Arc<Buffer>>,
    scopes: BTreeMap<Option<String>, WatchedScope>,
    numbers: u64,
    /// Whether handlers have received the sync marker.
    synced: bool,
    stopped: bool,
}

/// One watched scope: a namespace, or all of them.
struct WatchedScope {
    number: u64,
    synced: bool,
    absent: bool,
    /// The current error, and since when.
    failure: Option<(WatchFailure, Instant)>,
    task: Option<AbortHandle>,
}

#[derive(Clone, Debug, Default)]
struct State {
    synced: bool,
    stopped: bool,
    absent: bool,
    failure: Option<WatchFailure>,
    /// Since when the type is forbidden or not served.
    rejected: Option<Instant>,
}

impl Dispatcher {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns whether the scope still has this number.
    pub(super) fn has(&self, namespace: Option<&String>, number: u64) -> bool {
        self.scope(namespace).is_some_and(|scope| scope.number == number) && !self.stopped
    }

    fn scope(&self, namespace: Option<&String>) -> Option<&WatchedScope> {
        self.scopes.get(&namespace.cloned())
    }

    pub(super) fn is_synced(&self, namespace: Option<&String>) -> bool {
        self.scope(namespace).is_some_and(|scope| scope.synced)
    }

    pub(super) fn send(&self, events: Vec<ObjectEvent>) {
        for event in events {
            for handler in self.handlers.values() {
                handler.push(event.clone());
            }
        }
    }
}

/// The dependencies of an informer.
pub(super) struct InformerDeps {
    pub(super) transport: Transport,
    pub(super) tasks: Weak<Tasks>,
    pub(super) history: History,
    pub(super) random: Random,
    pub(super) resync: Duration,
    pub(super) sync_timeout: Duration,
    pub(super) watch_timeout: Range<Duration>,
}

impl Shared {
    /// Starts an informer.
    pub(super) fn start(ingest: Ingest, indexes: &[Definition], deps: InformerDeps) -> Arc<Self> {
        let InformerDeps {
            transport,
            tasks,
            history,
            mut random,
            resync,
            sync_timeout,
            watch_timeout,
        } = deps;
        let options = ingest.options();
        let selective = !options.labels.selects_all() || !options.fields.is_empty();
        let namespaces = options.namespaces.clone();
        let resync = options.resync.unwrap_or(resync);
        let contents = Arc::new(Contents {
            store: Store::new(random.next()),
            overlay: Overlay::new(selective),
            ready: AtomicBool::new(false),
            all_namespaces: namespaces.is_none() && ingest.kind().namespaced(),
        });
        let shared = Arc::new(Self {
            contents,
            dispatcher: Mutex::default(),
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
                let mut dispatcher = shared.dispatcher.lock();
                shared.watch(&mut dispatcher, None);
            }
        }
        shared
    }

    /// Starts to watch a namespace, or all of them.
    fn watch(self: &Arc<Self>, dispatcher: &mut Dispatcher, namespace: Option<String>) {
        self.contents.overlay.reset(namespace.as_deref(), Some(Version::default()));
        let number = dispatcher.number();
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
        let options = ReflectorOptions {
            optional: options.optional,
            watch_timeout: self.watch_timeout.clone(),
            ..ReflectorOptions::default()
        };
        let reflector =
            Reflector::new(self.transport.clone(), scope, options, self.history.clone(), random);
        let mut feed = Feed::new(self.clone(), namespace.clone(), number);
        let task = self
            .tasks
            .upgrade()
            .and_then(|tasks| tasks.spawn(async move { match reflector.run(&mut feed).await {} }));
        let scope = WatchedScope { number, synced: false, absent: false, failure: None, task };
        dispatcher.scopes.insert(namespace, scope);
    }

    /// Returns a feed for a watched scope, for tests that simulate the reflector.
    #[cfg(test)]
    pub(super) fn feed(self: &Arc<Self>, namespace: Option<&str>) -> Feed {
        let namespace = namespace.map(str::to_owned);
        let number = self.dispatcher.lock().scopes[&namespace].number;
        Feed::new(self.clone(), namespace, number)
    }

    /// Sets the watched namespaces; adds and removes objects accordingly.
    pub(super) fn set_namespaces(self: &Arc<Self>, wanted: &BTreeSet<String>) {
        let mut dispatcher = self.dispatcher.lock();
        if dispatcher.stopped {
            return;
        }
        let known: Vec<String> = dispatcher.scopes.keys().flatten().cloned().collect();
        let mut events = Vec::new();
        for name in known.iter().filter(|name| !wanted.contains(*name)) {
            if let Some(WatchedScope { task: Some(task), .. }) =
                dispatcher.scopes.remove(&Some(name.clone()))
            {
                task.abort();
            }
            for entry in self.contents.store.all(Some(name)) {
                self.contents.store.remove(&entry.meta().key);
                events.push(ObjectEvent::Deleted { old: entry, state_unknown: true });
            }
            self.contents.overlay.reset(Some(name), None);
        }
        for name in wanted.iter().filter(|name| !known.contains(name)) {
            self.watch(&mut dispatcher, Some(name.clone()));
        }
        dispatcher.send(events);
        self.refresh(&mut dispatcher);
    }

    /// Returns a number for a new list.
    pub(super) fn number_list(&self) -> u32 {
        // Zero means that no list included the object.
        loop {
            let number = self.lists.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if number != 0 {
                return number;
            }
        }
    }

    /// Marks a scope as synced.
    pub(super) fn scope_synced(&self, namespace: Option<&String>, number: u64) {
        let mut dispatcher = self.dispatcher.lock();
        if let Some(scope) = dispatcher.scopes.get_mut(&namespace.cloned())
            && scope.number == number
            && !scope.synced
        {
            scope.synced = true;
            self.refresh(&mut dispatcher);
        }
    }

    pub(super) fn scope_health(
        &self,
        namespace: Option<&String>,
        number: u64,
        failure: Option<(WatchFailure, Instant)>,
        absent: bool,
    ) {
        let mut dispatcher = self.dispatcher.lock();
        if let Some(scope) = dispatcher.scopes.get_mut(&namespace.cloned())
            && scope.number == number
        {
            scope.failure = failure;
            scope.absent = absent;
            self.refresh(&mut dispatcher);
        }
    }

    /// Computes the state from the scopes, and notifies waiters.
    fn refresh(&self, dispatcher: &mut Dispatcher) {
        if dispatcher.stopped {
            return;
        }
        let synced = dispatcher.scopes.values().all(|scope| scope.synced);
        if let Some(namespaces) = &self.namespaces {
            let scopes = dispatcher.scopes.iter();
            *namespaces.write() =
                scopes.filter_map(|(name, scope)| Some((name.clone()?, scope.synced))).collect();
        }
        self.contents.ready.store(synced, Ordering::Release);
        if synced && !dispatcher.synced {
            dispatcher.synced = true;
            dispatcher.handlers.values().for_each(|handler| handler.extend([], true));
        }
        let failure = dispatcher.scopes.values().find_map(|scope| scope.failure.clone());
        let absent = dispatcher.scopes.values().any(|scope| scope.absent);
        let rejected =
            failure.as_ref().filter(|(failure, _)| failure.reason != FailureReason::Other);
        let rejected = rejected.map(|(_, since)| *since);
        let failure = failure.map(|(failure, _)| failure);
        self.state.send_replace(State { synced, stopped: false, absent, failure, rejected });
    }

    /// Stops the watches and handlers and releases the memory.
    pub(super) fn stop(&self) {
        let mut dispatcher = self.dispatcher.lock();
        if std::mem::replace(&mut dispatcher.stopped, true) {
            return;
        }
        for scope in std::mem::take(&mut dispatcher.scopes).into_values() {
            if let Some(task) = scope.task {
                task.abort();
            }
        }
        dispatcher.handlers.clear();
        drop(dispatcher);
        self.contents.ready.store(false, Ordering::Release);
        self.state.send_modify(|state| state.stopped = true);
        self.contents.store.clear();
        self.contents.overlay.reset(None, None);
    }

    /// Waits until all scopes are synced.
    async fn wait_until_synced(&self) -> Result<(), SyncError> {
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
            // Counted from the call, however long the type has been rejected: a caller that retries
            // in a loop must not spin.
            let rejected = now.rejected.map(|since| since.max(start) + REJECTION_GRACE);
            let deadline = rejected.map_or(latest, |rejected| latest.min(rejected));
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() {
                    return Err(SyncError::Stopped { kind: kind() });
                },
                () = tokio::time::sleep_until(deadline) => {
                    return Err(SyncError::NotSynced { kind: kind(), last: now.failure });
                }
            }
        }
    }

    /// Checks that reads in this namespace, or in all watched ones, can be served.
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
            false => ReadError::NotSynced { kind, last: state.failure.clone() },
        })
    }

    /// Calls `see` with the object of `key`; it runs while the store is locked for writers.
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
            Err(outcome) => {
                Err(ReadError::UnknownOutcome { kind: kind.clone(), outcomes: vec![outcome] })
            }
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
                .map_err(|outcomes| ReadError::UnknownOutcome { kind: kind.clone(), outcomes })?
        };
        found.map_err(|_| ReadError::NoIndex {
            kind: kind.clone(),
            name: query.index.map(|(name, _)| name.to_owned()).unwrap_or_default(),
        })
    }

    /// Lists including objects with unknown write outcomes; empty before the sync.
    pub(super) fn peek_list(&self, query: &Query<'_>) -> Vec<Arc<Entry>> {
        let mut conditions = Conditions::new(query);
        conditions.namespace = conditions.namespace.filter(|_| self.ingest.kind().namespaced());
        if self.check(conditions.namespace).is_err() {
            return Vec::new();
        }
        self.contents.overlay.list_known(&self.contents.store, &conditions).unwrap_or_default()
    }

    /// Records the response of an own write.
    pub(super) fn wrote(&self, raw: &[u8]) {
        let Some((entry, visible)) = self.convert_response(raw) else { return };
        if entry.meta().version().is_none() {
            // Without a resourceVersion it is unknown when the store has caught up.
            self.contents.overlay.invalidate(entry.meta().key());
        } else {
            self.contents.overlay.wrote(entry, visible);
        }
    }

    /// Records the live read after an unknown outcome.
    pub(super) fn record_live_read(&self, outcome: &super::UnknownOutcome, raw: Option<&[u8]>) {
        match raw {
            Some(raw) => {
                if let Some((entry, visible)) = self.convert_response(raw) {
                    self.contents.overlay.wrote(entry, visible);
                }
            }
            None => {
                if let Some(uid) = self.contents.overlay.uid(&self.contents.store, outcome.key()) {
                    self.contents.overlay.deleted(&self.contents.store, outcome.key(), &uid);
                }
            }
        }
        self.contents.overlay.resolve(outcome);
    }

    /// Converts the response of a request; also returns whether the informer selects the object.
    fn convert_response(&self, raw: &[u8]) -> Option<(Arc<Entry>, bool)> {
        let entry = match self.ingest.entry(raw) {
            Ok(entry) => Arc::new(entry),
            Err(rejected) => {
                let (kind, problem) = (self.ingest.kind(), rejected.problem);
                tracing::debug!(%kind, problem, "cannot cache the response of a write");
                return None;
            }
        };
        if !self.ingest.is_of_kind(raw) {
            // Subresources such as Scale have their own kind.
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

    pub(super) fn invalidate(&self, key: &Key) {
        self.contents.overlay.invalidate(key);
    }

    /// Adds an index; blocks changes of objects meanwhile.
    pub(super) fn define(&self, index: Definition) {
        let _dispatcher = self.dispatcher.lock();
        self.contents.store.define(index);
    }

    /// Adds a resync event of every object to the buffer.
    pub(super) fn resync(&self, buffer: &Buffer) {
        let dispatcher = self.dispatcher.lock();
        if !dispatcher.stopped {
            let objects = self.contents.store.all(None).into_iter();
            buffer.extend(objects.map(|object| ObjectEvent::Resynced { object }), false);
        }
    }

    fn subscribe(
        self: &Arc<Self>,
        handle: Arc<HandleGuard>,
        resync: bool,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        let period = self.random.lock().range(self.resync.mul_f64(0.9), self.resync.mul_f64(1.1));
        let buffer = Arc::new(Buffer::new(LIMIT));
        let (synced, is_synced) = watch::channel(false);
        let mut dispatcher = self.dispatcher.lock();
        let number = dispatcher.number();
        let mut task = None;
        if !dispatcher.stopped {
            let stored = self.contents.store.all(None).into_iter();
            let added = stored.map(|new| ObjectEvent::Added { new, initial: true });
            buffer.extend(added, dispatcher.synced);
            dispatcher.handlers.insert(number, buffer.clone());
            let delivery = deliver(self.clone(), buffer, synced, resync.then_some(period), handler);
            task = self.tasks.upgrade().and_then(|tasks| tasks.spawn(delivery));
        }
        drop(dispatcher);
        Subscription::new(handle, number, task, is_synced)
    }

    pub(super) fn unsubscribe(&self, number: u64) {
        // The events of the buffer are dropped outside of the lock.
        let buffer = self.dispatcher.lock().handlers.remove(&number);
        drop(buffer);
    }

    fn health(&self) -> Health {
        let state = self.state.borrow();
        Health {
            kind: self.ingest.kind().clone(),
            synced: state.synced && !state.stopped,
            failure: state.failure.clone(),
            absent: state.absent,
        }
    }

    fn stats(&self) -> TypeStats {
        let (handlers, buffered_events) = {
            let dispatcher = self.dispatcher.lock();
            (
                dispatcher.handlers.len(),
                dispatcher.handlers.values().map(|buffer| buffer.len()).sum(),
            )
        };
        let (rejections, rejected) = self.rejections.get();
        TypeStats {
            kind: self.ingest.kind().clone(),
            objects: self.contents.store.len(),
            bytes: self.contents.store.bytes(),
            own_writes: self.contents.overlay.len(),
            handlers,
            buffered_events,
            handler_panics: self.panics.load(Ordering::Relaxed),
            rejections,
            rejected,
        }
    }
}

impl Informer {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.shared().ingest.kind()
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Waits until the initial list is complete.
    ///
    /// # Errors
    /// When it takes longer than the cache's `sync_timeout`, or the type has been forbidden or not
    /// served for some seconds. The informer continues to retry.
    pub async fn wait_until_synced(&self) -> Result<(), SyncError> {
        self.shared().wait_until_synced().await
    }

    /// Calls `handler` for each existing object, as `Added` with `initial`, and then for each
    /// change, until the subscription is dropped.
    ///
    /// The handler runs in its own task. If it lags behind by thousands of events, events of one
    /// object are merged. A panic of the handler is logged and counted.
    pub fn subscribe(&self, handler: impl FnMut(ObjectEvent) + Send + 'static) -> Subscription {
        self.shared().subscribe(self.0.clone(), false, handler)
    }

    /// Same as [`Informer::subscribe`], with a periodic [`ObjectEvent::Resynced`] for each object.
    pub fn subscribe_resynced(
        &self,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        self.shared().subscribe(self.0.clone(), true, handler)
    }

    /// Returns the object of `key`.
    ///
    /// # Errors
    /// When the cache cannot serve the read; see [`ReadError`].
    pub fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        self.shared().get(key, Arc::clone)
    }

    /// Lists the objects that match `query`, ordered by key.
    ///
    /// # Errors
    /// When the cache cannot serve the read; see [`ReadError`].
    pub fn list(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, ReadError> {
        self.shared().list(query)
    }

    /// Returns the resourceVersion of the store for the scope of `key`; `None` before the first
    /// list and in namespaces that are not watched.
    #[must_use]
    pub fn version(&self, key: &Key) -> Option<Version> {
        self.shared().contents.overlay.version(key).filter(|version| !version.is_none())
    }

    /// Returns the health.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared().health()
    }

    /// Returns the statistics.
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
