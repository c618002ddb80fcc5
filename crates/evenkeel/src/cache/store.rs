//! The objects of one informer: by key in shards, and ordered in the index.
//!
//! There is one writer at a time, by the lock of the informer. It changes a shard and the index in
//! one critical section, so that reads by key and lists are consistent. Reads by key lock one
//! shard.

mod bucket;
mod decoded_by_key;
mod index;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use parking_lot::{RwLock, RwLockWriteGuard};

pub(super) use self::decoded_by_key::DecodedReader;
pub(super) use self::index::{Definition, UnknownIndex};

use self::decoded_by_key::{AnyDecodedByKey, DecodedByKey};
use self::index::Index;
use super::entry::{Entry, Typed};
use super::query::Conditions;
use crate::key::Key;
use crate::version::Version;

/// The number of shards: low contention, and small empty informers.
const SHARDS: usize = 32;

/// Stores with more objects are freed in a separate thread.
const FREE_IN_THREAD: usize = 1_000;

type Shard = RwLock<HashTable<Slot>>;

/// An object of a shard.
#[derive(Debug)]
struct Slot {
    /// The key of the entry, here as well so that a lookup needs no other cache line to compare it.
    key: Key,
    entry: Arc<Entry>,
}

impl Slot {
    fn new(entry: &Arc<Entry>) -> Self {
        Self { key: entry.meta().key.clone(), entry: entry.clone() }
    }
}

/// Returns the hash of a key. Keys are hashed alone, so they need no terminator as a `str` has.
#[inline]
fn hash_of(hasher: &FixedState, key: &Key) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(key.as_str().as_bytes());
    hasher.finish()
}

/// Returns the shard of a hash, of which the tables use the lowest and highest bits.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

/// The result of an eviction.
#[derive(Debug)]
pub(super) enum Evicted {
    /// The decoded form was read since the last pass, and stays.
    InUse,
    Freed(#[expect(dead_code, reason = "dropped outside of locks")] Option<Typed>),
}

#[derive(Debug)]
pub(super) struct Store {
    shards: [Shard; SHARDS],
    hasher: FixedState,
    index: RwLock<Index>,
    /// The decoded objects of the first type that they were read as by key.
    decoded: OnceLock<Arc<dyn AnyDecodedByKey>>,
    objects: AtomicUsize,
    bytes: AtomicUsize,
}

impl Store {
    /// Creates an empty store; the seed affects only the hash.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            hasher: FixedState::with_seed(seed),
            index: RwLock::new(Index::new(seed)),
            decoded: OnceLock::new(),
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn hash(&self, key: &Key) -> u64 {
        hash_of(&self.hasher, key)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[shard_of(hash)]
    }

    /// Returns the object of `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let hash = self.hash(key);
        let shard = self.shard(hash).read();
        shard.find(hash, |slot| slot.key == *key).map(|slot| slot.entry.clone())
    }

    /// Returns the object of `key` and its resourceVersion if it is kept decoded as `K`.
    pub(super) fn get_decoded<K: Send + Sync + 'static>(
        &self,
        key: &Key,
    ) -> Option<(Arc<K>, Version)> {
        self.decoded
            .get()?
            .of::<K>()?
            .see(self.hash(key), key, |object, version| (object.clone(), version))
    }

    /// Returns a reader of the objects kept decoded as `K`; `None` if they are kept as another type.
    pub(super) fn decoded_reader<K: Send + Sync + 'static>(&self) -> Option<DecodedReader> {
        let decoded = self.decoded_by_key::<K>();
        decoded
            .of::<K>()
            .is_some()
            .then(|| DecodedReader::new(decoded.clone(), self.hasher.clone()))
    }

    /// Returns the table of decoded objects; the first type of reads by key is its type.
    fn decoded_by_key<K: Send + Sync + 'static>(&self) -> &Arc<dyn AnyDecodedByKey> {
        self.decoded.get_or_init(|| Arc::new(DecodedByKey::<K>::new()))
    }

    /// Keeps the decoded object for reads by key, if the entry is still stored and keeps it.
    pub(super) fn keep_decoded<K: Send + Sync + 'static>(
        &self,
        entry: &Arc<Entry>,
        object: &Arc<K>,
    ) {
        let Some(decoded) = self.decoded_by_key::<K>().of::<K>() else { return };
        let key = &entry.meta().key;
        let hash = self.hash(key);
        let shard = self.shard(hash).read();
        let is_stored = shard.find(hash, |slot| Arc::ptr_eq(&slot.entry, entry)).is_some();
        if is_stored && entry.keeps(&(object.clone() as Typed)) {
            decoded.insert(hash, key, object.clone(), entry.meta().version());
        }
    }

    /// Evicts the decoded form of an object, unless it was read by key since the last call. The
    /// caller drops the returned value outside of locks.
    pub(super) fn evict(&self, entry: &Arc<Entry>) -> Evicted {
        let key = &entry.meta().key;
        let hash = self.hash(key);
        // Both references are removed under the lock of the shard, so that `keep_decoded` does not
        // add one in between.
        let shard = self.shard(hash).write();
        let is_stored = shard.find(hash, |slot| Arc::ptr_eq(&slot.entry, entry)).is_some();
        if is_stored && let Some(decoded) = self.decoded.get() {
            if decoded.take_used(hash, key) {
                return Evicted::InUse;
            }
            // The entry still keeps the object, so it is not freed here.
            decoded.remove(hash, key);
        }
        Evicted::Freed(entry.evict())
    }

    /// Removes the decoded object of `key`; the caller holds the lock of the shard.
    fn remove_decoded(&self, hash: u64, key: &Key) -> Option<Typed> {
        self.decoded.get()?.remove(hash, key)
    }

    /// Inserts an object; returns the previous one of the same key.
    pub(super) fn put(&self, new: &Arc<Entry>) -> Option<Arc<Entry>> {
        // User functions run before the store is locked; the caller holds the lock of the
        // dispatcher.
        let values = self.index.read().definitions().values(new);
        let key = &new.meta().key;
        let hash = self.hash(key);
        let mut index = self.index.write();
        let mut shard = self.shard(hash).write();
        let rehash = |slot: &Slot| self.hash(&slot.key);
        let old = match shard.entry(hash, |slot| slot.key == *key, rehash) {
            Place::Occupied(mut place) => Some(std::mem::replace(place.get_mut(), Slot::new(new))),
            Place::Vacant(place) => {
                place.insert(Slot::new(new));
                None
            }
        };
        let decoded = old.as_ref().and_then(|_| self.remove_decoded(hash, key));
        drop(shard);
        let old = old.map(|slot| slot.entry);
        index.put(old.as_ref(), new, values);
        drop(index);
        drop(decoded);
        self.bytes.fetch_add(new.size(), Ordering::Relaxed);
        match &old {
            Some(old) => self.bytes.fetch_sub(old.size(), Ordering::Relaxed),
            None => self.objects.fetch_add(1, Ordering::Relaxed),
        };
        old
    }

    /// Removes an object.
    pub(super) fn remove(&self, key: &Key) -> Option<Arc<Entry>> {
        let hash = self.hash(key);
        let mut index = self.index.write();
        let mut shard = self.shard(hash).write();
        let (slot, _) = shard.find_entry(hash, |slot| slot.key == *key).ok()?.remove();
        let decoded = self.remove_decoded(hash, key);
        drop(shard);
        let old = slot.entry;
        index.remove(&old);
        drop(index);
        drop(decoded);
        self.bytes.fetch_sub(old.size(), Ordering::Relaxed);
        self.objects.fetch_sub(1, Ordering::Relaxed);
        Some(old)
    }

    /// Removes all objects and releases the memory; many objects in a separate thread, so that a
    /// shutdown does not wait for it.
    pub(super) fn clear(&self) {
        let mut index = self.index.write();
        let shards: Vec<_> =
            self.shards.iter().map(|shard| std::mem::take(&mut *shard.write())).collect();
        // Emptied last: the shards hold no object that could still be added here.
        let decoded = self.decoded.get().map(|decoded| decoded.clear());
        let emptied = index.clear();
        drop(index);
        self.bytes.store(0, Ordering::Relaxed);
        let many = self.objects.swap(0, Ordering::Relaxed) > FREE_IN_THREAD;
        let free = move || drop((shards, decoded, emptied));
        if many {
            // If the thread cannot be spawned, the closure is dropped here, which frees the
            // objects.
            let _ = std::thread::Builder::new().name("free".to_owned()).spawn(free);
        }
    }

    /// Returns all objects, or all of one namespace, in order.
    pub(super) fn all(&self, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        self.index.read().all(namespace)
    }

    /// Lists the matching objects in order.
    pub(super) fn list(&self, query: &Conditions<'_>) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
        let index = self.index.read();
        if index.has_indexes_for(query) {
            return index.list(query);
        }
        drop(index);
        let mut index = self.index.write();
        index.build_indexes_for(query);
        RwLockWriteGuard::downgrade(index).list(query)
    }

    /// Returns whether an object outside of the store has this value in this index.
    pub(super) fn indexes_as(
        &self,
        entry: &Arc<Entry>,
        name: &str,
        value: &str,
    ) -> Result<bool, UnknownIndex> {
        let definition = self.index.read().definitions().find(name).ok_or(UnknownIndex)?;
        Ok(definition.values(entry).iter().any(|found| &**found == value))
    }

    /// Adds an index and fills it. There must be no concurrent writer.
    pub(super) fn define(&self, definition: Definition) {
        let entries = self.all(None);
        let values = entries.iter().map(|entry| definition.values(entry)).collect();
        self.index.write().define(definition, &entries, values);
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// Returns their size in bytes, without decoded forms.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
