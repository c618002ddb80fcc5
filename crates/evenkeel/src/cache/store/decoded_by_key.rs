//! Decoded objects by key, for frequent reads by key.
//!
//! The objects that a program reads by key are few compared with the stored ones. Their slots and
//! keys are here once more, close together, so that a read stays within the processor's caches.
//!
//! Only the store changes this table, under the lock of its shard of the key, so that a read never
//! returns an older state than a read from the store. A read locks one shard of this table.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use parking_lot::RwLock;

use super::{SHARDS, hash_of, shard_of};
use crate::cache::entry::Typed;
use crate::key::Key;
use crate::version::Version;

/// The decoded objects of one Rust type.
pub(super) struct DecodedByKey<K> {
    shards: [RwLock<HashTable<Slot<K>>>; SHARDS],
}

struct Slot<K> {
    key: Key,
    hash: u64,
    object: Arc<K>,
    version: Version,
    /// Whether the object was read since the last pass of the LRU.
    used: AtomicBool,
}

impl<K> DecodedByKey<K> {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| RwLock::default()) }
    }

    /// Calls `see` with the object of `key` and its resourceVersion.
    #[inline]
    pub(super) fn see<T>(
        &self,
        hash: u64,
        key: &Key,
        see: impl FnOnce(&Arc<K>, Version) -> T,
    ) -> Option<T> {
        let shard = self.shards[shard_of(hash)].read();
        let slot = shard.find(hash, |slot| slot.key == *key)?;
        // Most reads do not write, so that the cache line stays shared between cores.
        if !slot.used.load(Ordering::Relaxed) {
            slot.used.store(true, Ordering::Relaxed);
        }
        Some(see(&slot.object, slot.version))
    }

    /// Inserts an object that is not there.
    pub(super) fn insert(&self, hash: u64, key: &Key, object: Arc<K>, version: Version) {
        let mut shard = self.shards[shard_of(hash)].write();
        if shard.find(hash, |slot| slot.key == *key).is_some() {
            return;
        }
        // A copy of the key: that of the stored object is among its other data.
        let key = Key::new(key.namespace(), key.name());
        let slot = Slot { key, hash, object, version, used: AtomicBool::new(false) };
        shard.insert_unique(hash, slot, |slot| slot.hash);
    }
}

/// Reads decoded objects without the store: fewer pointers to follow.
#[derive(Clone, Debug)]
pub(in crate::cache) struct DecodedReader {
    objects: Arc<dyn AnyDecodedByKey>,
    hasher: FixedState,
}

impl DecodedReader {
    pub(super) fn new(objects: Arc<dyn AnyDecodedByKey>, hasher: FixedState) -> Self {
        Self { objects, hasher }
    }

    /// Returns the object of `key` if it is kept decoded as `K`.
    #[inline]
    pub(in crate::cache) fn get<K: Send + Sync + 'static>(&self, key: &Key) -> Option<Arc<K>> {
        let hash = hash_of(&self.hasher, key);
        self.objects.of::<K>()?.see(hash, key, |object, _| object.clone())
    }
}

/// The operations of [`DecodedByKey`] that do not depend on the type.
pub(super) trait AnyDecodedByKey: Any + Send + Sync {
    /// Removes the object of `key`. The caller drops the returned value outside of locks.
    fn remove(&self, hash: u64, key: &Key) -> Option<Typed>;

    /// Returns and resets whether the object of `key` was read.
    fn take_used(&self, hash: u64, key: &Key) -> bool;

    /// Removes all objects. The caller drops the returned value outside of locks.
    fn clear(&self) -> Box<dyn Any + Send>;
}

impl<K: Send + Sync + 'static> AnyDecodedByKey for DecodedByKey<K> {
    fn remove(&self, hash: u64, key: &Key) -> Option<Typed> {
        let mut shard = self.shards[shard_of(hash)].write();
        let (slot, _) = shard.find_entry(hash, |slot| slot.key == *key).ok()?.remove();
        Some(slot.object)
    }

    fn take_used(&self, hash: u64, key: &Key) -> bool {
        let shard = self.shards[shard_of(hash)].read();
        shard
            .find(hash, |slot| slot.key == *key)
            .is_some_and(|slot| slot.used.swap(false, Ordering::Relaxed))
    }

    fn clear(&self) -> Box<dyn Any + Send> {
        let shards = self.shards.iter().map(|shard| std::mem::take(&mut *shard.write()));
        Box::new(shards.collect::<Vec<_>>())
    }
}

impl dyn AnyDecodedByKey {
    /// Returns the objects if their type is `K`.
    #[inline]
    pub(super) fn of<K: Send + Sync + 'static>(&self) -> Option<&DecodedByKey<K>> {
        (self as &dyn Any).downcast_ref()
    }
}

impl fmt::Debug for dyn AnyDecodedByKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedByKey").finish_non_exhaustive()
    }
}
