//! The objects of one informer: by key in shards, and ordered in the index.
//!
//! There is one writer at a time, by the lock of the informer. It changes a shard and the index in
//! one critical section, so that reads by key and lists are consistent. Reads by key lock one
//! shard.

mod bucket;
mod index;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use parking_lot::{RwLock, RwLockWriteGuard};

pub(super) use self::index::{Definition, UnknownIndex};

use self::index::Index;
use super::entry::{Entry, Typed};
use super::query::Conditions;
use crate::key::Key;

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
    /// The decoded form if the entry keeps it, so that a read by key locks only the shard.
    decoded: Option<Typed>,
}

impl Slot {
    fn new(entry: &Arc<Entry>) -> Self {
        Self { key: entry.meta().key.clone(), entry: entry.clone(), decoded: entry.pinned() }
    }
}

#[derive(Debug)]
pub(super) struct Store {
    shards: [Shard; SHARDS],
    hasher: FixedState,
    index: RwLock<Index>,
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
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn hash(&self, key: &str) -> (u64, &Shard) {
        let hash = self.hasher.hash_one(key);
        // The table uses the lowest and highest bits.
        let shard = (hash >> 32) as usize % SHARDS;
        (hash, &self.shards[shard])
    }

    /// Returns the object of `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.see(key, |entry, _| entry.clone())
    }

    /// Calls `see` with the object of `key` and its decoded form if there is one.
    #[inline]
    pub(super) fn see<T>(
        &self,
        key: &Key,
        see: impl FnOnce(&Arc<Entry>, Option<&Typed>) -> T,
    ) -> Option<T> {
        let (hash, shard) = self.hash(key.as_str());
        let shard = shard.read();
        let slot = shard.find(hash, |slot| slot.key == *key)?;
        Some(see(&slot.entry, slot.decoded.as_ref()))
    }

    /// Stores the decoded form beside the object if it is still stored and keeps that form.
    pub(super) fn promote(&self, entry: &Arc<Entry>, decoded: &Typed) {
        if !entry.keeps(decoded) {
            return;
        }
        self.with_slot(entry, |slot| {
            // The form may have been evicted since.
            slot.decoded = entry.keeps(decoded).then(|| decoded.clone());
        });
    }

    /// Evicts the decoded form of an object. The caller drops the returned value outside of locks.
    pub(super) fn evict(&self, entry: &Arc<Entry>) -> Option<Typed> {
        // Both references are removed under the lock of the shard, so that no concurrent `promote`
        // adds one in between.
        let evicted = self.with_slot(entry, |slot| {
            slot.decoded = None;
            entry.evict()
        });
        evicted.unwrap_or_else(|| entry.evict())
    }

    /// Calls `change` with the slot of `entry`, if it is stored.
    fn with_slot<T>(&self, entry: &Arc<Entry>, change: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let (hash, shard) = self.hash(entry.meta().key.as_str());
        let mut shard = shard.write();
        shard.find_mut(hash, |slot| Arc::ptr_eq(&slot.entry, entry)).map(change)
    }

    /// Inserts an object; returns the previous one of the same key.
    pub(super) fn put(&self, new: &Arc<Entry>) -> Option<Arc<Entry>> {
        // User functions run before the store is locked; the caller holds the lock of the
        // dispatcher.
        let values = self.index.read().definitions().values(new);
        let key = &new.meta().key;
        let (hash, shard) = self.hash(key.as_str());
        let mut index = self.index.write();
        let mut shard = shard.write();
        let rehash = |slot: &Slot| self.hasher.hash_one(slot.key.as_str());
        let old = match shard.entry(hash, |slot| slot.key == *key, rehash) {
            Place::Occupied(mut place) => Some(std::mem::replace(place.get_mut(), Slot::new(new))),
            Place::Vacant(place) => {
                place.insert(Slot::new(new));
                None
            }
        };
        drop(shard);
        let old = old.map(|slot| slot.entry);
        index.put(old.as_ref(), new, values);
        drop(index);
        self.bytes.fetch_add(new.size(), Ordering::Relaxed);
        match &old {
            Some(old) => self.bytes.fetch_sub(old.size(), Ordering::Relaxed),
            None => self.objects.fetch_add(1, Ordering::Relaxed),
        };
        old
    }

    /// Removes an object.
    pub(super) fn remove(&self, key: &Key) -> Option<Arc<Entry>> {
        let (hash, shard) = self.hash(key.as_str());
        let mut index = self.index.write();
        let mut shard = shard.write();
        let (slot, _) = shard.find_entry(hash, |slot| slot.key == *key).ok()?.remove();
        drop(shard);
        let old = slot.entry;
        index.remove(&old);
        drop(index);
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
        let emptied = index.clear();
        drop(index);
        self.bytes.store(0, Ordering::Relaxed);
        let many = self.objects.swap(0, Ordering::Relaxed) > FREE_IN_THREAD;
        let free = move || drop((shards, emptied));
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
