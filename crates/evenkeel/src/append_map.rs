//! An append-only map with lock-free reads.
//!
//! For a few dozen keys with frequent lookups, such as the types that a program reads.

use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::sync::OnceLock;

use foldhash::fast::FixedState;

/// The number of buckets; more keys make longer chains.
const BUCKETS: usize = 64;

pub(crate) struct AppendMap<K, V>([Link<K, V>; BUCKETS]);

type Link<K, V> = OnceLock<Box<Node<K, V>>>;

struct Node<K, V> {
    key: K,
    value: V,
    next: Link<K, V>,
}

impl<K, V> AppendMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self([const { OnceLock::new() }; BUCKETS])
    }
}

impl<K: Clone + Eq + Hash, V> AppendMap<K, V> {
    #[inline]
    fn bucket(&self, key: &K) -> &Link<K, V> {
        &self.0[FixedState::default().hash_one(key) as usize % BUCKETS]
    }

    /// Returns the value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let mut link = self.bucket(key);
        while let Some(node) = link.get() {
            if node.key == *key {
                return Some(&node.value);
            }
            link = &node.next;
        }
        None
    }

    /// Returns the value of `key`; inserts `make()` if there is none.
    pub(crate) fn get_or_insert_with(&self, key: &K, make: impl Fn() -> V) -> &V {
        let mut link = self.bucket(key);
        loop {
            let node = link.get_or_init(|| {
                Box::new(Node { key: key.clone(), value: make(), next: OnceLock::new() })
            });
            if node.key == *key {
                return &node.value;
            }
            link = &node.next;
        }
    }
}

impl<K, V> fmt::Debug for AppendMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendMap").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_key_stays() {
        let map = AppendMap::new();
        // More keys than buckets, so that there are chains.
        for key in 0..1_000 {
            assert_eq!(map.get(&key), None);
            assert_eq!(*map.get_or_insert_with(&key, || key + 1), key + 1);
        }
        for key in 0..1_000 {
            assert_eq!(*map.get_or_insert_with(&key, || 0), key + 1);
            assert_eq!(map.get(&key), Some(&(key + 1)));
        }
    }
}
