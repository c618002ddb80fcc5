//! The objects of one informer: by key in shards, and in order in the index.
//!
//! Writers come one at a time (the informer sees to that) and change a shard and the index in one
//! critical section: who has seen a change by key also sees it in lists, and the other way round.
//! Reads by key lock one shard only.

mod bucket;
mod index;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use parking_lot::{RwLock, RwLockWriteGuard};

pub(super) use self::index::{Definition, UnknownIndex};

use self::index::Index;
use super::entry::Entry;
use super::query::Conditions;
use crate::key::Key;

/// Enough that readers and the writer seldom meet, few enough that an empty informer is small.
const SHARDS: usize = 32;

/// So many objects take longer to free than a thread takes to start.
const MANY: usize = 1_000;

type Shard = RwLock<HashTable<Arc<Entry>>>;

#[derive(Debug)]
pub(super) struct Store {
    shards: [Shard; SHARDS],
    hasher: FixedState,
    index: RwLock<Index>,
    objects: AtomicUsize,
    bytes: AtomicUsize,
}

impl Store {
    /// An empty store; the seed decides only where objects stand in memory.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            hasher: FixedState::with_seed(seed),
            index: RwLock::new(Index::new(seed)),
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn hash(&self, key: &str) -> (u64, &Shard) {
        let hash = self.hasher.hash_one(key);
        // The table takes its bits from both ends.
        let shard = (hash >> 32) as usize % SHARDS;
        (hash, &self.shards[shard])
    }

    /// The object of this key.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.see(key, Arc::clone)
    }

    /// What `see` makes of the object of this key, without taking a reference to it.
    pub(super) fn see<T>(&self, key: &Key, see: impl FnOnce(&Arc<Entry>) -> T) -> Option<T> {
        let (hash, shard) = self.hash(key.as_str());
        shard.read().find(hash, |entry| entry.meta().key == *key).map(see)
    }

    /// Puts an object in place of the one of the same key, and gives that back.
    pub(super) fn put(&self, new: &Arc<Entry>) -> Option<Arc<Entry>> {
        // Functions of users run before anything is locked.
        let values = self.index.read().definitions().values(new);
        let key = &new.meta().key;
        let (hash, shard) = self.hash(key.as_str());
        let mut index = self.index.write();
        let mut shard = shard.write();
        let rehash = |entry: &Arc<Entry>| self.hasher.hash_one(entry.meta().key.as_str());
        let old = match shard.entry(hash, |entry| entry.meta().key == *key, rehash) {
            Slot::Occupied(mut slot) => Some(std::mem::replace(slot.get_mut(), new.clone())),
            Slot::Vacant(slot) => {
                slot.insert(new.clone());
                None
            }
        };
        drop(shard);
        index.put(old.as_ref(), new, values);
        drop(index);
        self.bytes.fetch_add(new.size(), Ordering::Relaxed);
        match &old {
            Some(old) => self.bytes.fetch_sub(old.size(), Ordering::Relaxed),
            None => self.objects.fetch_add(1, Ordering::Relaxed),
        };
        old
    }

    /// Takes an object out.
    pub(super) fn remove(&self, key: &Key) -> Option<Arc<Entry>> {
        let (hash, shard) = self.hash(key.as_str());
        let mut index = self.index.write();
        let mut shard = shard.write();
        let (old, _) = shard.find_entry(hash, |entry| entry.meta().key == *key).ok()?.remove();
        drop(shard);
        index.remove(&old);
        drop(index);
        self.bytes.fetch_sub(old.size(), Ordering::Relaxed);
        self.objects.fetch_sub(1, Ordering::Relaxed);
        Some(old)
    }

    /// Takes everything out and gives the memory back; of many objects in a thread of its own, so
    /// that a process that ends does not wait for it.
    pub(super) fn clear(&self) {
        let mut index = self.index.write();
        let shards: Vec<_> =
            self.shards.iter().map(|shard| std::mem::take(&mut *shard.write())).collect();
        let emptied = index.clear();
        drop(index);
        self.bytes.store(0, Ordering::Relaxed);
        let many = self.objects.swap(0, Ordering::Relaxed) > MANY;
        let free = move || drop((shards, emptied));
        if many {
            // Should there be no thread to be had, it is done here, where the closure is dropped.
            let _ = std::thread::Builder::new().name("free".to_owned()).spawn(free);
        }
    }

    /// All objects, or all of one namespace, in order.
    pub(super) fn all(&self, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        self.index.read().all(namespace)
    }

    /// The objects that meet the conditions, in order.
    pub(super) fn list(&self, query: &Conditions<'_>) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
        let index = self.index.read();
        if index.serves(query) {
            return index.list(query);
        }
        drop(index);
        let mut index = self.index.write();
        index.serve(query);
        RwLockWriteGuard::downgrade(index).list(query)
    }

    /// Whether an object that is not in the store has this value in this index.
    pub(super) fn indexes_as(
        &self,
        entry: &Arc<Entry>,
        name: &str,
        value: &str,
    ) -> Result<bool, UnknownIndex> {
        let definition = self.index.read().definitions().find(name).ok_or(UnknownIndex)?;
        Ok(definition.values(entry).iter().any(|found| &**found == value))
    }

    /// Adds an index and fills it. No writer may be at work.
    pub(super) fn define(&self, definition: Definition) {
        let entries = self.all(None);
        let values = entries.iter().map(|entry| definition.values(entry)).collect();
        self.index.write().define(definition, &entries, values);
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// The bytes they take, typed forms aside.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
