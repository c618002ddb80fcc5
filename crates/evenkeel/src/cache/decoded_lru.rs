//! An LRU of decoded objects with a budget of bytes.
//!
//! It is a CLOCK: a read sets a flag on the entry and writes nothing shared. Eviction walks the
//! ring: entries read since the last pass stay for another round, others are evicted. The decoded
//! form is stored in its [`Entry`] and, once it was read by key, in a table of the store that has a
//! flag of its own; a newer state of the object frees the older one.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::charge::{Charge, Usage};
use super::entry::{DecodeError, Entry, Typed};
use super::store::Evicted;

/// The size of a decoded object per byte of JSON. Measured: 6.5 for pods, 3 to 5 for custom
/// resources; the largest, because the budget is an upper bound.
const DECODED_FACTOR: usize = 7;

/// The minimum number of dead entries before the ring is swept.
const SWEEP_MIN: usize = 256;

/// The LRU of one cache.
pub(super) struct DecodedLru {
    budget: usize,
    /// Evicts the decoded form of an entry.
    evict: Box<Evict>,
    usage: Arc<Usage>,
    ring: Mutex<VecDeque<Weak<Entry>>>,
}

type Evict = dyn Fn(&Arc<Entry>) -> Evicted + Send + Sync;

impl DecodedLru {
    pub(super) fn new(
        budget: usize,
        evict: impl Fn(&Arc<Entry>) -> Evicted + Send + Sync + 'static,
    ) -> Self {
        Self { budget, evict: Box::new(evict), usage: Arc::default(), ring: Mutex::default() }
    }

    /// Returns the approximate size of the decoded objects.
    pub(super) fn bytes(&self) -> usize {
        self.usage.bytes.load(Ordering::Relaxed)
    }

    /// Returns the object as `K` and keeps it decoded within the budget.
    pub(super) fn typed<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entry: &Arc<Entry>,
    ) -> Result<Arc<K>, DecodeError> {
        let typed = match entry.held() {
            Some((typed, true)) => return Ok(typed),
            Some((typed, false)) => typed,
            None => entry.decode()?,
        };
        self.keep(entry, typed.clone());
        Ok(typed)
    }

    /// Returns the objects as `K`. They are kept only if all of them fit into the budget: otherwise
    /// each would evict another one before it is read again.
    pub(super) fn typed_all<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entries: &[Arc<Entry>],
    ) -> Result<Vec<Arc<K>>, DecodeError> {
        let bytes: usize = entries.iter().map(|entry| entry.body_len() * DECODED_FACTOR).sum();
        if bytes <= self.budget {
            return entries.iter().map(|entry| self.typed(entry)).collect();
        }
        entries.iter().map(|entry| entry.decode()).collect()
    }

    fn keep(&self, entry: &Arc<Entry>, typed: Typed) {
        let bytes = entry.body_len() * DECODED_FACTOR;
        if bytes > self.budget {
            entry.share(&typed);
            return;
        }
        if !entry.keep(typed, Charge::new(&self.usage, bytes)) {
            return;
        }
        let mut ring = self.ring.lock();
        ring.push_back(Arc::downgrade(entry));
        let mut dropped = Vec::new();
        while self.bytes() > self.budget {
            let Some(next) = ring.pop_front() else { break };
            let Some(entry) = next.upgrade() else { continue };
            if entry.take_touched() {
                ring.push_back(next);
                continue;
            }
            match (self.evict)(&entry) {
                Evicted::InUse => ring.push_back(next),
                freed @ Evicted::Freed(_) => dropped.push((freed, entry)),
            }
        }
        let live = self.usage.objects.load(Ordering::Relaxed);
        if ring.len() > 2 * live + SWEEP_MIN {
            ring.retain(|entry| entry.strong_count() > 0);
        }
        drop(ring);
        drop(dropped);
    }
}
