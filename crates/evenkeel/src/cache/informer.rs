//! The informer of one type: its handle, and the watches behind it.
//!
//! The reflector of each watched scope passes objects to a writer (`writer.rs`), which changes the
//! contents and sends events to the handlers (`fanout.rs`); reads use the contents alone
//! (`reader.rs`).

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::contents::Contents;
use super::decode::EntryDecoder;
use super::entry::Entry;
use super::error::{ReadError, SyncError};
use super::event::ObjectEvent;
use super::fanout::{Dispatcher, WatchedScope};
use super::overlay::Overlay;
use super::query::Query;
use super::shared::{HandleGuard, Shared};
use super::stats::{Health, LastActivity, Rejections, TypeStats, WatchCounts};
use super::store::{Definition, Store};
use super::sync::SyncState;
use super::waiters::Waiters;
use super::writer::Writer;
use crate::connect::Transport;
use crate::key::Key;
use crate::kind::Kind;
use crate::random::Random;
use crate::tasks::Tasks;
use crate::version::Version;
use crate::watch::{History, Reflector, ReflectorOptions, Scope};

/// A handle to the informer of a type, which runs while a handle or a
/// [`Subscription`](super::Subscription) exists.
///
/// ```no_run
/// use evenkeel::Kind;
/// use evenkeel::k8s_openapi::api::core::v1::Node;
///
/// # async fn example(manager: &evenkeel::Manager) -> evenkeel::Result<()> {
/// let nodes = manager.cache().informer(&Kind::of::<Node>())?;
/// nodes.wait_until_synced().await?;
/// let subscription = nodes.subscribe(|event| println!("{}", event.object().meta().key()));
/// # drop(subscription);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Informer(pub(super) Arc<HandleGuard>);

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
    pub(super) fn start(
        decoder: EntryDecoder,
        indexes: &[Definition],
        deps: InformerDeps,
    ) -> Arc<Self> {
        let InformerDeps {
            transport,
            tasks,
            history,
            mut random,
            resync,
            sync_timeout,
            watch_timeout,
        } = deps;
        let options = decoder.options();
        let selective = !options.labels.selects_all() || !options.fields.is_empty();
        let namespaces = options.namespaces.clone();
        let resync = options.resync.unwrap_or(resync);
        let contents = Arc::new(Contents {
            kind: decoder.kind().clone(),
            store: Store::new(random.next()),
            overlay: Overlay::new(selective),
            sync: SyncState::new(namespaces.is_some()),
            waiters: Waiters::default(),
            all_namespaces: namespaces.is_none() && decoder.kind().namespaced(),
            decode_errors: AtomicU64::new(0),
        });
        let shared = Arc::new(Self {
            contents,
            dispatcher: Mutex::default(),
            rejections: Rejections::default(),
            counts: WatchCounts::default(),
            lists: AtomicU32::new(0),
            panics: AtomicU64::new(0),
            random: Mutex::new(random),
            decoder,
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
        let options = self.decoder.options();
        let text = |text: String| (!text.is_empty()).then_some(text);
        let scope = Scope {
            kind: self.decoder.kind().clone(),
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
        let activity = LastActivity::new();
        let mut writer = Writer::new(self.clone(), namespace.clone(), number, activity.clone());
        let task = self.tasks.upgrade().and_then(|tasks| {
            tasks.spawn(async move { match reflector.run(&mut writer).await {} })
        });
        let (synced, absent, failure) = (false, false, None);
        let scope = WatchedScope { number, synced, absent, failure, task, activity };
        dispatcher.scopes.insert(namespace, scope);
    }

    /// Returns a writer for a watched scope, for tests that simulate the reflector.
    #[cfg(test)]
    pub(super) fn writer(self: &Arc<Self>, namespace: Option<&str>) -> Writer {
        let namespace = namespace.map(str::to_owned);
        let (number, activity) = {
            let scope = &self.dispatcher.lock().scopes[&namespace];
            (scope.number, scope.activity.clone())
        };
        Writer::new(self.clone(), namespace, number, activity)
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
        dispatcher.refresh(&self.contents.sync);
        drop(dispatcher);
        self.contents.waiters.notify_all();
    }
}

impl Informer {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.shared().decoder.kind()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Waits until the initial list is complete.
    ///
    /// # Errors
    /// When it takes longer than the cache's `sync_timeout`, or the type has been forbidden or not
    /// served for some seconds. The informer continues to retry.
    pub async fn wait_until_synced(&self) -> Result<(), SyncError> {
        let shared = self.shared();
        shared.contents.sync.wait(self.kind(), shared.sync_timeout).await
    }

    /// Returns the object of `key`.
    ///
    /// # Errors
    /// When the cache cannot serve the read; see [`ReadError`].
    pub fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        self.shared().contents.get(key)
    }

    pub(super) fn find(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, ReadError> {
        self.shared().contents.list(query)
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
        self.shared().contents.sync.health(self.kind())
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
