//! What is known of the cluster: one informer per type and scope, shared by all who ask.
//!
//! Raw objects come from a reflector (`watch`) into a feed, which has them taken in (`ingest`), put
//! into the `store` and told to subscribers through their buffers. Reads are answered from the store,
//! or from the `overlay` for what this process wrote and the watch has not told yet.
//!
//! The invariant: what reads show of an object are states the server had, one after the other, never
//! back, and never one from before a write of this process that was answered.

mod buffer;

mod contents;

mod cut;

mod entry;

mod error;

mod feed;

mod hot;

mod informer;

mod ingest;

mod meta;

mod options;

mod overlay;

mod query;

mod stats;

mod store;

mod subscription;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;

pub use entry::{DecodeError, Entry};
pub use error::{DeclareError, ReadError, Reason, SyncError, Trouble};
pub use informer::Informer;
pub use meta::{Meta, Owner, Version};
pub use options::{CacheOptions, TypeOptions};
pub use overlay::Doubt;
pub use query::Query;
pub use stats::{Health, Stats, TypeStats};
pub use subscription::Subscription;

use self::contents::Contents;
use self::hot::Hot;
use self::informer::{Hold, Shared, Surroundings};
use self::ingest::Ingest;
use self::store::Definition;
use crate::append_map::AppendMap;
use crate::connect::Transport;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::random::Random;
use crate::tasks::Tasks;
use crate::uid::Uid;
use crate::watch::History;

/// All types that a program reads from memory.
///
/// Types are declared first; nothing is watched without being asked for. A clone is another handle
/// on the same cache.
#[derive(Clone)]
pub struct Cache(Arc<Inner>);

struct Inner {
    transport: Transport,
    options: CacheOptions,
    random: Mutex<Random>,
    types: RwLock<Types>,
    /// The contents of the first informer of each type, which reads find without a lock. There is a
    /// later informer only if the first was stopped; its contents are found through `types`.
    first: AppendMap<Kind, Arc<Contents>>,
    /// Indexes of types that are not declared yet.
    early: Mutex<BTreeMap<Kind, Vec<Index>>>,
    hot: Hot,
    tasks: Arc<Tasks>,
    history: History,
}

type Types = HashMap<Kind, Declared, FixedState>;

struct Declared {
    options: TypeOptions,
    indexes: Vec<Definition>,
    /// The informer, while anyone holds it.
    running: Weak<Hold>,
    /// The cache's own hold, from the first read on.
    own: Option<Informer>,
}

struct Index {
    definition: Definition,
    /// Whether it needs whole objects.
    decodes: bool,
}

impl Declared {
    /// Adds an index, unless it cannot be had.
    fn define(&mut self, kind: &Kind, index: &Index) -> Result<(), DeclareError> {
        if index.decodes && self.options.metadata_only {
            let problem = "an index over whole objects, of which only metadata is kept; use \
                           `index_meta`, or declare the type without `metadata_only`";
            return Err(DeclareError::Invalid { kind: kind.clone(), problem: problem.into() });
        }
        if self.indexes.iter().any(|other| other.name == index.definition.name) {
            let name = index.definition.name.to_string();
            return Err(DeclareError::IndexExists { kind: kind.clone(), name });
        }
        self.indexes.push(index.definition.clone());
        Ok(())
    }

    fn running(&self) -> Option<Informer> {
        self.own.clone().or_else(|| self.running.upgrade().map(Informer))
    }
}

/// An object as a read finds it.
pub(crate) enum Found<K> {
    /// Decoded, at this version.
    Typed(Arc<K>, Version),
    /// To be [decoded](Cache::typed).
    Untyped(Arc<Entry>),
}

impl<K> Found<K> {
    /// The version it was found at.
    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Typed(_, version) => *version,
            Self::Untyped(entry) => entry.meta().version(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for declared in self.types.get_mut().values() {
            if let Some(informer) = declared.running() {
                informer.0.0.stop();
            }
        }
    }
}

impl Cache {
    /// A cache of what `client` may see. It has to be made, and used, within a tokio runtime.
    #[must_use]
    pub fn new(client: Client, options: CacheOptions) -> Self {
        Self::over(client.into(), options)
    }

    pub(crate) fn over(transport: Transport, options: CacheOptions) -> Self {
        let random = options.seed.map_or_else(Random::from_entropy, Random::new);
        Self(Arc::new(Inner {
            transport,
            random: Mutex::new(random),
            types: RwLock::new(Types::with_hasher(FixedState::default())),
            first: AppendMap::new(),
            early: Mutex::default(),
            hot: Hot::new(options.budget),
            tasks: Arc::new(Tasks::new()),
            history: History::default(),
            options,
        }))
    }

    /// Says that a type is to be cached, and how. Nothing is watched before someone asks for it.
    ///
    /// # Errors
    /// When the type has been declared otherwise, or cannot be had like this.
    pub fn declare(&self, kind: &Kind, options: TypeOptions) -> Result<(), DeclareError> {
        let options = options.within(kind, self.0.options.namespaces.as_ref());
        options.check(kind)?;
        let mut types = self.0.types.write();
        if let Some(declared) = types.get(kind) {
            return match options.conflict(&declared.options) {
                None => Ok(()),
                Some(difference) => {
                    let there = error::declarer(declared.options.by.as_deref());
                    let difference = format!("{difference}, as {there} declared it");
                    Err(DeclareError::Conflict { kind: kind.clone(), difference })
                }
            };
        }
        let mut declared =
            Declared { options, indexes: Vec::new(), running: Weak::new(), own: None };
        let early = self.0.early.lock().remove(kind).unwrap_or_default();
        early.iter().try_for_each(|index| declared.define(kind, index))?;
        types.insert(kind.clone(), declared);
        Ok(())
    }

    /// Sees to it that whole objects of a type are cached: as somebody declared it, or all of them.
    pub(crate) fn declare_whole(&self, kind: &Kind, by: &str) -> Result<(), DeclareError> {
        if let Some(declared) = self.0.types.read().get(kind) {
            let TypeOptions { metadata_only, view, by, .. } = &declared.options;
            return match *metadata_only && view.is_none() {
                true => Err(DeclareError::NotWhole { kind: kind.clone(), by: by.clone() }),
                false => Ok(()),
            };
        }
        self.declare(kind, TypeOptions::default().asked_by(by))
    }

    /// Whether the type has been declared.
    #[must_use]
    pub fn is_declared(&self, kind: &Kind) -> bool {
        self.0.types.read().contains_key(kind)
    }

    /// Changes the namespaces of a type that was declared with some: objects of new ones appear,
    /// those of others vanish, both with events.
    ///
    /// # Errors
    /// When the type is not declared, or for all namespaces.
    pub fn set_namespaces<N: Into<String>>(
        &self,
        kind: &Kind,
        names: impl IntoIterator<Item = N>,
    ) -> Result<(), DeclareError> {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        let mut types = self.0.types.write();
        let declared = declared(&mut types, kind)?;
        if declared.options.namespaces.is_none() {
            let problem = "it is cached in all namespaces; declare it with `namespaces` to be able \
                           to change them";
            return Err(DeclareError::Invalid { kind: kind.clone(), problem: problem.into() });
        }
        let options = declared.options.clone().namespaces(names.iter().cloned());
        options.check(kind)?;
        declared.options = options;
        if let Some(informer) = declared.running() {
            informer.0.0.set_namespaces(&names);
        }
        Ok(())
    }

    /// Lets objects of type `K` be found by values that `function` takes from them. The type may be
    /// declared later.
    ///
    /// # Errors
    /// When the type is declared and not whole, or has an index of that name.
    pub fn index<K: Object>(
        &self,
        name: &str,
        function: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), DeclareError> {
        self.index_as(&Kind::of::<K>(), name, function)
    }

    /// As [`Cache::index`], for a type or view that is not tied to its kind.
    ///
    /// # Errors
    /// As [`Cache::index`].
    pub fn index_as<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
        kind: &Kind,
        name: &str,
        function: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), DeclareError> {
        let function = Arc::new(move |entry: &Arc<Entry>| {
            let typed = entry.decode::<T>().map_err(|error| error.message.to_string())?;
            Ok(function(&typed))
        });
        self.define(kind, Definition { name: name.into(), function }, true)
    }

    /// Lets objects be found by values that `function` takes from their metadata, without decoding
    /// them.
    ///
    /// # Errors
    /// When the type has an index of that name.
    pub fn index_meta(
        &self,
        kind: &Kind,
        name: &str,
        function: impl Fn(&Meta) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), DeclareError> {
        let function = Arc::new(move |entry: &Arc<Entry>| Ok(function(entry.meta())));
        self.define(kind, Definition { name: name.into(), function }, false)
    }

    fn define(&self, kind: &Kind, index: Definition, decodes: bool) -> Result<(), DeclareError> {
        let index = Index { definition: index, decodes };
        let mut types = self.0.types.write();
        let Some(declared) = types.get_mut(kind) else {
            self.0.early.lock().entry(kind.clone()).or_default().push(index);
            return Ok(());
        };
        declared.define(kind, &index)?;
        let running = declared.running();
        drop(types);
        if let Some(informer) = running {
            informer.0.0.define(index.definition);
        }
        Ok(())
    }

    /// A handle on the watch of a type, which begins with the first and ends with the last of them.
    ///
    /// # Errors
    /// When the type is not declared.
    pub fn informer(&self, kind: &Kind) -> Result<Informer, ReadError> {
        if let Some(informer) = self.running(kind) {
            return Ok(informer);
        }
        if self.0.options.on_demand && !self.is_declared(kind) {
            // What was declared meanwhile stays as it was declared.
            let _ = self.declare(kind, TypeOptions::new().cluster_wide_secrets());
        }
        let mut types = self.0.types.write();
        let Some(declared) = types.get_mut(kind) else {
            return Err(ReadError::Undeclared { kind: kind.clone() });
        };
        if let Some(informer) = declared.running() {
            return Ok(informer);
        }
        let surroundings = Surroundings {
            transport: self.0.transport.clone(),
            tasks: Arc::downgrade(&self.0.tasks),
            history: self.0.history.clone(),
            random: Random::new(self.0.random.lock().next()),
            resync: self.0.options.resync,
            sync_timeout: self.0.options.sync_timeout,
            watch_timeout: self.0.options.watch_timeout.clone(),
        };
        let ingest = Ingest::new(kind.clone(), declared.options.clone());
        let hold = Arc::new(Hold(Shared::start(ingest, &declared.indexes, surroundings)));
        if self.0.tasks.is_stopped() {
            hold.0.stop();
        }
        declared.running = Arc::downgrade(&hold);
        self.0.first.get_or_insert_with(kind, || hold.0.contents.clone());
        Ok(Informer(hold))
    }

    /// What a read of `key` shows, if the type is watched and the cache can know: never begins a
    /// watch, never waits.
    #[must_use]
    pub fn peek(&self, kind: &Kind, key: &Key) -> Option<Arc<Entry>> {
        self.look(kind, key)?.ok().flatten()
    }

    /// What a list shows, in doubt or not, if the type is watched: never begins a watch, never
    /// waits. For whoever wants to know what may be concerned, not what is.
    #[must_use]
    pub fn peek_list(&self, kind: &Kind, query: &Query<'_>) -> Vec<Arc<Entry>> {
        self.running(kind).map(|informer| informer.0.0.peek_list(query)).unwrap_or_default()
    }

    /// What a read of `key` gives if the type is watched: never begins a watch, never waits.
    pub(crate) fn look(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> Option<Result<Option<Arc<Entry>>, ReadError>> {
        Some(self.running(kind)?.get(key))
    }

    /// The number of the server's present history: versions of different ones are not comparable.
    pub(crate) fn epoch(&self) -> u64 {
        self.0.history.epoch()
    }

    fn running(&self, kind: &Kind) -> Option<Informer> {
        self.0.types.read().get(kind)?.running()
    }

    /// The informer to read from. A read of a declared type that nobody watches begins to watch it,
    /// and the cache then holds it itself; what somebody else holds ends with him.
    fn reader(&self, kind: &Kind) -> Result<Informer, ReadError> {
        if let Some(informer) = self.running(kind) {
            return Ok(informer);
        }
        let informer = self.informer(kind)?;
        if let Some(declared) = self.0.types.write().get_mut(kind) {
            declared.own.get_or_insert_with(|| informer.clone());
        }
        Ok(informer)
    }

    /// Lets go of the hold that the first read of a type gave the cache: the watch ends when no one
    /// else holds it.
    pub fn release(&self, kind: &Kind) {
        let own = self.0.types.write().get_mut(kind).and_then(|declared| declared.own.take());
        drop(own);
    }

    /// The object of this key, or none if the server has none that is declared.
    ///
    /// # Errors
    /// When the cache cannot know; see [`ReadError`].
    pub fn get(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        self.read(kind, key, Arc::clone)
    }

    /// What `see` makes of the object of this key. It runs while the store is locked for writers, so
    /// it has to be quick and must not call anything of the author's.
    fn read<T>(
        &self,
        kind: &Kind,
        key: &Key,
        see: impl Fn(&Arc<Entry>) -> T,
    ) -> Result<Option<T>, ReadError> {
        match self.0.first.get(kind).and_then(|contents| contents.get(key, &see)) {
            Some(found) => Ok(found),
            None => self.reader(kind)?.0.0.get(key, see),
        }
    }

    /// The object of this key as `K` if its typed form is there; otherwise what it is made from.
    pub(crate) fn get_typed<K: Send + Sync + 'static>(
        &self,
        kind: &Kind,
        key: &Key,
    ) -> Result<Option<Found<K>>, ReadError> {
        self.read(kind, key, |entry| match entry.kept() {
            Some(typed) => Found::Typed(typed, entry.meta().version()),
            None => Found::Untyped(entry.clone()),
        })
    }

    /// The objects a query asks for, in the order of their keys.
    ///
    /// # Errors
    /// When the cache cannot know; see [`ReadError`].
    pub fn list(&self, kind: &Kind, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, ReadError> {
        self.reader(kind)?.list(query)
    }

    /// The object as `K`. It is decoded on first touch and stays decoded while anyone holds it, and
    /// beyond that while the budget has room and others are used less.
    ///
    /// # Errors
    /// As [`Entry::decode`].
    pub fn typed<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entry: &Arc<Entry>,
    ) -> Result<Arc<K>, DecodeError> {
        self.0.hot.typed(entry)
    }

    /// The objects as `K`, in the same order. They stay decoded as those of [`typed`](Self::typed)
    /// do, unless all of them together exceed the budget: then none is kept for having been listed.
    ///
    /// # Errors
    /// As [`Entry::decode`].
    pub fn typed_all<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entries: &[Arc<Entry>],
    ) -> Result<Vec<Arc<K>>, DecodeError> {
        self.0.hot.typed_all(entries)
    }

    /// A write of this process was answered with the object in `raw`: reads show at least this state
    /// from now on.
    pub fn wrote(&self, kind: &Kind, raw: &[u8]) {
        if let Some(informer) = self.running(kind) {
            informer.0.0.wrote(raw);
        }
    }

    /// A deletion by this process was answered, and the object of this uid is gone: reads no longer
    /// show it. One that only waits for its finalizers is [written](Self::wrote) instead.
    pub fn deleted(&self, kind: &Kind, key: &Key, uid: &Uid) {
        if let Some(informer) = self.running(kind) {
            informer.0.0.deleted(key, uid);
        }
    }

    /// The answer to a write of this process was lost: until the object has been read from the
    /// server, reads of it fail with [`ReadError::Uncertain`].
    pub fn uncertain(&self, kind: &Kind, key: &Key) {
        if let Some(informer) = self.running(kind) {
            informer.0.0.uncertain(key);
        }
    }

    /// What a live read of an object in doubt found: its JSON, or that it is not there.
    pub fn resolved(&self, kind: &Kind, doubt: &Doubt, raw: Option<&[u8]>) {
        if let Some(informer) = self.running(kind) {
            informer.0.0.resolved(doubt, raw);
        }
    }

    /// How it goes with each type that is watched, in order.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        self.all().iter().map(Informer::health).collect()
    }

    /// What each type takes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let types = self.all().iter().map(Informer::stats).collect();
        Stats { types, hot_bytes: self.0.hot.bytes() }
    }

    fn all(&self) -> Vec<Informer> {
        let mut all: Vec<_> = self.0.types.read().values().filter_map(Declared::running).collect();
        all.sort_by(|one, other| one.kind().cmp(other.kind()));
        all
    }

    /// Ends all watches and handlers and waits until they have ended. Reads fail from then on.
    pub async fn stop(&self) {
        // A task may hold the last handle on its own informer, so it is not dropped under the lock.
        for informer in self.all() {
            informer.0.0.stop();
        }
        self.0.tasks.stop().await;
    }
}

fn declared<'a>(types: &'a mut Types, kind: &Kind) -> Result<&'a mut Declared, DeclareError> {
    types.get_mut(kind).ok_or_else(|| DeclareError::Undeclared { kind: kind.clone() })
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("types", &self.0.types.read().keys()).finish_non_exhaustive()
    }
}
