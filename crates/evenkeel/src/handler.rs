//! Event handlers: map events to keys.

use std::sync::Arc;

use crate::cache::event::ObjectEvent;
use crate::cache::{Cache, Entry, ReadError};
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::select::{CacheOperation, Select};

/// Maps an event to the keys to enqueue; each key is enqueued once per event.
#[derive(Clone)]
pub(crate) enum Handler {
    /// Enqueues the object itself.
    Object,
    /// Enqueues the object of type `owner` that controls the object, or with `every` each that owns
    /// it. Owners before and after the change are enqueued.
    Owner {
        /// The type of the owners.
        owner: Kind,
        /// Whether owners that are not the controller are enqueued, too.
        every: bool,
    },
    /// Enqueues the keys that the function returns for the object before and after the change.
    Map(Arc<Map>),
}

/// A map function on entries.
pub(crate) type Map = dyn Fn(&Entry, &MapContext) -> Vec<Key> + Send + Sync;

impl Handler {
    /// Returns the keys to enqueue for `event`, without duplicates.
    pub(crate) fn keys(&self, event: &ObjectEvent, cx: &MapContext) -> Vec<Key> {
        let mut keys = Vec::new();
        match self {
            Self::Object => keys.push(event.object().meta().key().clone()),
            Self::Owner { owner, every } => {
                for entry in both(event) {
                    owners(entry, owner, *every, &cx.cache, &mut keys);
                }
            }
            Self::Map(map) => {
                for entry in both(event) {
                    for key in map(entry, cx) {
                        push(&mut keys, key);
                    }
                }
            }
        }
        keys
    }
}

fn both(event: &ObjectEvent) -> impl Iterator<Item = &Arc<Entry>> {
    let same = matches!(event, ObjectEvent::Resynced { .. });
    event.old().into_iter().chain(event.new().filter(|_| !same))
}

fn owners(entry: &Entry, kind: &Kind, every: bool, cache: &Cache, keys: &mut Vec<Key>) {
    for owner in entry.meta().owners() {
        if !kind.is(&owner.group, &owner.kind) || !(owner.controller || every) {
            continue;
        }
        // The owner is in the same namespace, unless it is cluster-scoped.
        let namespace = entry.meta().key().namespace().filter(|_| kind.namespaced());
        let key = Key::new(namespace, &owner.name);
        // An object owned by a deleted object does not enqueue a new one of the same name.
        let present = cache.peek(kind, &key);
        if present.is_some_and(|present| *present.meta().uid() != owner.uid) {
            continue;
        }
        push(keys, key);
    }
}

fn push(keys: &mut Vec<Key>, key: Key) {
    if !keys.contains(&key) {
        keys.push(key);
    }
}

/// The context of a map function: lookups in the cache.
#[derive(Clone)]
pub struct MapContext {
    cache: Cache,
    cluster: Option<Arc<str>>,
}

impl MapContext {
    /// Creates the context of a watch in an engaged cluster, or in the manager's own.
    pub(crate) fn new(cache: Cache, cluster: Option<Arc<str>>) -> Self {
        Self { cache, cluster }
    }

    /// Returns the name of the engaged cluster in which the object changed; `None` for the
    /// manager's own cluster.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Selects objects of type `K` in the cache, to enqueue them. For example those that reference
    /// a Secret, found by an index:
    ///
    /// ```
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::MapContext;
    /// # use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// fn users_of(secret: &Secret, cx: &MapContext) -> Vec<Key> {
    ///     cx.select::<ConfigMap>().index("secret", Key::of(secret).as_str()).keys()
    /// }
    /// ```
    pub fn select<K: Object>(&self) -> Select<K, MapLookup<'_>> {
        Select::new(Kind::of::<K>(), MapLookup { cache: &self.cache })
    }
}

/// A lookup of a map function; see [`MapContext::select`].
#[derive(Clone, Debug)]
pub struct MapLookup<'a> {
    cache: &'a Cache,
}

impl CacheOperation for MapLookup<'_> {}

impl<K> Select<K, MapLookup<'_>> {
    /// Returns the keys of the objects, in order.
    ///
    /// Empty if the type is not cached or not synced: the initial list then enqueues every object.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let (cache, kind, query) = (self.operation.cache, &self.kind, self.query());
        let entries = match cache.find(kind, &query) {
            Ok(entries) => entries,
            // The unknown outcome of a write does not block the lookup.
            Err(ReadError::UnknownOutcome { .. }) => cache.peek_list(kind, &query),
            Err(ReadError::NotSynced { .. }) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "lookup of map function failed");
                Vec::new()
            }
        };
        entries.iter().map(|entry| entry.meta().key().clone()).collect()
    }
}
