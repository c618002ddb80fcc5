//! The cache: one shared informer per type.
//!
//! A reflector (`watch`) passes raw objects to a `writer`, which converts them to entries (`decode`),
//! adds them to the `store` and pushes events to the buffers of subscribers. Reads are served from
//! the store, or from the `overlay` for own writes that the watch has not delivered yet.
//!
//! The invariant: reads of an object return states of the server in order, never an older one than
//! before, and never one from before an own write whose response was received.

mod buffer;

mod charge;

mod contents;

mod scanner;

mod entry;

mod error;

pub(crate) mod event;

mod fanout;

mod decoded_lru;

mod informer;

mod decode;

mod lookup;

mod meta;

mod options;

mod overlay;

mod own_writes;

mod query;

mod reader;

mod shared;

mod stats;

mod store;

mod subscription;

mod sync;

mod wait;

mod waiters;

mod writer;

#[cfg(test)]
mod tests;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;

pub use entry::{DecodeError, Entry};
pub use error::{DeclareError, FailureReason, ReadError, SyncError, WatchFailure};
pub use informer::Informer;
pub use lookup::Lookup;
pub use meta::{Meta, Owner};
pub use options::{CacheOptions, TypeOptions};
pub use overlay::UnknownOutcome;
pub(crate) use query::Query;
pub(crate) use reader::LiveReads;
pub use stats::{Health, Stats, TypeStats};
pub use subscription::Subscription;
pub(crate) use wait::{TimedOut, Waited};

pub use crate::version::Version;

use self::contents::Contents;
use self::decode::EntryDecoder;
use self::decoded_lru::DecodedLru;
use self::informer::InformerDeps;
use self::shared::{HandleGuard, Shared};
use self::store::{DecodedReader, Definition, Evicted};
use crate::append_map::AppendMap;
use crate::connect::Transport;
use crate::kind::{Kind, Object};
use crate::random::Random;
use crate::tasks::Tasks;
use crate::watch::History;

/// The cache of all types that a program reads.
///
/// Types are declared first, and watched from their first use. Clones share one cache.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::Pod;
/// # async fn example(manager: &Manager) -> Result<()> {
/// use evenkeel::Kind;
///
/// let (cache, kind) = (manager.cache(), Kind::of::<Pod>());
/// cache.declare(&kind, TypeOptions::new().namespaces(["shop"]))?;
/// let informer = cache.informer(&kind)?;
/// informer.wait_until_synced().await?;
/// for entry in informer.list().label("app", "web").entries()? {
///     println!("{}", entry.meta().key());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cache(Arc<Inner>);

struct Inner {
    transport: Transport,
    options: CacheOptions,
    random: Mutex<Random>,
    types: RwLock<Types>,
    /// The contents of the first informer of each type, for lock-free reads. There is a later
    /// informer only if the first was stopped; its contents are found through `types`.
    first: Arc<AppendMap<Kind, Arc<Contents>>>,
    /// The same by Rust type, with its decoded objects, for objects that are read as that type.
    by_type: AppendMap<TypeId, (DecodedReader, Arc<Contents>)>,
    /// Indexes of types that are not declared yet.
    pending_indexes: Mutex<BTreeMap<Kind, Vec<Index>>>,
    decoded: DecodedLru,
    tasks: Arc<Tasks>,
    history: History,
}

type Types = HashMap<Kind, Declared, FixedState>;

struct Declared {
    options: TypeOptions,
    indexes: Vec<Definition>,
    /// The informer, while a handle exists.
    running: Weak<HandleGuard>,
    /// The handle of the cache itself, from the first read on.
    own: Option<Informer>,
}

struct Index {
    definition: Definition,
    /// Whether it needs whole objects.
    decodes: bool,
}

impl Declared {
    /// Adds an index, unless it is invalid.
    fn define(&mut self, kind: &Kind, index: &Index) -> Result<(), DeclareError> {
        if index.decodes && self.options.metadata_only {
            let problem = "the index needs whole objects and the type is `metadata_only`; use \
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

impl Drop for Inner {
    fn drop(&mut self) {
        for declared in self.types.get_mut().values() {
            if let Some(informer) = declared.running() {
                informer.shared().stop();
            }
        }
    }
}

impl Cache {
    /// Creates a cache that reads with `client`. It must be created and used within a tokio
    /// runtime.
    #[must_use]
    pub fn new(client: Client, options: CacheOptions) -> Self {
        Self::over(client.into(), options)
    }

    pub(crate) fn over(transport: Transport, options: CacheOptions) -> Self {
        let random = options.seed.map_or_else(Random::from_entropy, Random::new);
        let first = Arc::new(AppendMap::<Kind, Arc<Contents>>::new());
        let stores = first.clone();
        let evict = move |entry: &Arc<Entry>| match stores.get(entry.kind()) {
            Some(contents) => contents.store.evict(entry),
            None => Evicted::Freed(entry.evict()),
        };
        Self(Arc::new(Inner {
            transport,
            random: Mutex::new(random),
            types: RwLock::new(Types::with_hasher(FixedState::default())),
            first,
            by_type: AppendMap::new(),
            pending_indexes: Mutex::default(),
            decoded: DecodedLru::new(options.budget, evict),
            tasks: Arc::new(Tasks::new()),
            history: History::default(),
            options,
        }))
    }

    /// Declares a type and its options. It is watched from its first use.
    ///
    /// # Errors
    /// When the type was declared with other options, or the options are invalid.
    pub fn declare(&self, kind: &Kind, options: TypeOptions) -> Result<(), DeclareError> {
        let options = options.within(kind, self.0.options.namespaces.as_ref());
        options.check(kind)?;
        let mut types = self.0.types.write();
        if let Some(declared) = types.get(kind) {
            return match options.conflict(&declared.options) {
                None => Ok(()),
                Some(difference) => {
                    let there = error::declarer(declared.options.by.as_deref());
                    let difference = format!("{difference}, declared by {there}");
                    Err(DeclareError::Conflict { kind: kind.clone(), difference })
                }
            };
        }
        let mut declared =
            Declared { options, indexes: Vec::new(), running: Weak::new(), own: None };
        let early = self.0.pending_indexes.lock().remove(kind).unwrap_or_default();
        early.iter().try_for_each(|index| declared.define(kind, index))?;
        types.insert(kind.clone(), declared);
        Ok(())
    }

    /// Declares a type whole, unless it is already declared whole with other options.
    pub(crate) fn declare_whole(&self, kind: &Kind, by: &str) -> Result<(), DeclareError> {
        if let Some(declared) = self.0.types.read().get(kind) {
            let TypeOptions { metadata_only, view, by, .. } = &declared.options;
            return match *metadata_only && view.is_none() {
                true => Err(DeclareError::NotWhole { kind: kind.clone(), by: by.clone() }),
                false => Ok(()),
            };
        }
        self.declare(kind, TypeOptions::default().declared_by(by))
    }

    /// Returns whether the type is declared.
    #[must_use]
    pub fn is_declared(&self, kind: &Kind) -> bool {
        self.0.types.read().contains_key(kind)
    }

    /// Changes the namespaces of a type that was declared with namespaces. Objects of added
    /// namespaces are added, those of removed ones are removed, both with events.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # fn example(manager: &Manager) -> Result<()> {
    /// manager.cache().set_namespaces(&evenkeel::Kind::of::<Pod>(), ["shop", "pay"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is not declared, or declared for all namespaces.
    pub fn set_namespaces<N: Into<String>>(
        &self,
        kind: &Kind,
        names: impl IntoIterator<Item = N>,
    ) -> Result<(), DeclareError> {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        let mut types = self.0.types.write();
        let declared = declared(&mut types, kind)?;
        if declared.options.namespaces.is_none() {
            let problem = "it is declared for all namespaces; declare it with `namespaces` to \
                           change them later";
            return Err(DeclareError::Invalid { kind: kind.clone(), problem: problem.into() });
        }
        let options = declared.options.clone().namespaces(names.iter().cloned());
        options.check(kind)?;
        declared.options = options;
        if let Some(informer) = declared.running() {
            informer.shared().set_namespaces(&names);
        }
        Ok(())
    }

    /// Indexes objects of type `K` by the values that `function` returns. The type may be declared
    /// later.
    ///
    /// The function must depend on the object alone. It runs while objects of the type cannot change:
    /// one that adds an index of the same type does not return.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn example(manager: &Manager) -> Result<()> {
    /// manager.cache().index::<Pod>("node", |pod| {
    ///     pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
    /// })?;
    /// let pods = manager.client().list::<Pod>().index("node", "node-1").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is declared `metadata_only`, or has an index of that name.
    pub fn index<K: Object>(
        &self,
        name: &str,
        function: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), DeclareError> {
        self.index_as(&Kind::of::<K>(), name, function)
    }

    /// Same as [`Cache::index`], for a Rust type that is not tied to a kind, such as a view.
    ///
    /// # Errors
    /// Same as [`Cache::index`].
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

    /// Indexes objects by the values that `function` returns for their metadata, without decoding
    /// them.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # fn example(manager: &Manager) -> Result<()> {
    /// use evenkeel::Kind;
    ///
    /// manager.cache().index_meta(&Kind::of::<Pod>(), "app", |meta| {
    ///     meta.label("app").map(str::to_owned).into_iter().collect()
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
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
            self.0.pending_indexes.lock().entry(kind.clone()).or_default().push(index);
            return Ok(());
        };
        declared.define(kind, &index)?;
        let running = declared.running();
        drop(types);
        if let Some(informer) = running {
            informer.shared().define(index.definition);
        }
        Ok(())
    }

    /// Returns a handle to the informer of a type, which runs while a handle exists.
    ///
    /// # Errors
    /// When the type is not declared.
    pub fn informer(&self, kind: &Kind) -> Result<Informer, ReadError> {
        if let Some(informer) = self.running(kind) {
            return Ok(informer);
        }
        if self.0.options.on_demand && !self.is_declared(kind) {
            // A concurrent declaration takes precedence.
            let _ = self.declare(kind, TypeOptions::new().cluster_wide_secrets());
        }
        let mut types = self.0.types.write();
        let Some(declared) = types.get_mut(kind) else {
            return Err(ReadError::Undeclared { kind: kind.clone() });
        };
        if let Some(informer) = declared.running() {
            return Ok(informer);
        }
        let deps = InformerDeps {
            transport: self.0.transport.clone(),
            tasks: Arc::downgrade(&self.0.tasks),
            history: self.0.history.clone(),
            random: Random::new(self.0.random.lock().next()),
            resync: self.0.options.resync,
            sync_timeout: self.0.options.sync_timeout,
            watch_timeout: self.0.options.watch_timeout.clone(),
        };
        let decoder = EntryDecoder::new(kind.clone(), declared.options.clone());
        let handle = Arc::new(HandleGuard(Shared::start(decoder, &declared.indexes, deps)));
        if self.0.tasks.is_stopped() {
            handle.0.stop();
        }
        declared.running = Arc::downgrade(&handle);
        self.0.first.get_or_insert_with(kind, || handle.0.contents.clone());
        Ok(Informer(handle))
    }

    /// Returns the number of the server history; resourceVersions of different ones are not
    /// comparable.
    pub(crate) fn epoch(&self) -> u64 {
        self.0.history.epoch()
    }

    fn running(&self, kind: &Kind) -> Option<Informer> {
        self.0.types.read().get(kind)?.running()
    }

    /// Returns the object as `K`. It is decoded on the first call, and stays decoded while it is
    /// referenced or within the budget.
    ///
    /// # Errors
    /// Same as [`Entry::decode`].
    pub fn typed<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entry: &Arc<Entry>,
    ) -> Result<Arc<K>, DecodeError> {
        self.0.decoded.typed(entry).inspect_err(|_| self.count_decode_error(entry))
    }

    /// Returns the objects as `K`, in the same order. They stay decoded as those of
    /// [`typed`](Self::typed), unless together they exceed the budget: then none of them is kept.
    ///
    /// # Errors
    /// Same as [`Entry::decode`].
    pub fn typed_all<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entries: &[Arc<Entry>],
    ) -> Result<Vec<Arc<K>>, DecodeError> {
        let failed = |_: &DecodeError| {
            if let Some(entry) = entries.first() {
                self.count_decode_error(entry);
            }
        };
        self.0.decoded.typed_all(entries).inspect_err(failed)
    }

    fn count_decode_error(&self, entry: &Entry) {
        if let Some(contents) = self.0.first.get(entry.kind()) {
            contents.decode_errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the health of each watched type, ordered by kind.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        self.all().iter().map(Informer::health).collect()
    }

    /// Returns the number of objects and the memory use of each type.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let types = self.all().iter().map(Informer::stats).collect();
        Stats { types, decoded_bytes: self.0.decoded.bytes() }
    }

    fn all(&self) -> Vec<Informer> {
        let mut all: Vec<_> = self.0.types.read().values().filter_map(Declared::running).collect();
        all.sort_by(|one, other| one.kind().cmp(other.kind()));
        all
    }

    /// Stops all watches and handlers and waits for them. Reads fail afterwards.
    pub async fn stop(&self) {
        // A task may own the last handle of its informer, which must not be dropped under the lock.
        for informer in self.all() {
            informer.shared().stop();
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
