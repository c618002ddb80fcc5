//! The typed objects that stay although nobody holds them, within a budget of bytes.
//!
//! Second chance: objects stand in a ring, a read sets a flag on the object and touches nothing
//! shared, and only when room is needed the ring turns: what was read since its last turn goes round
//! once more, what was not is let go. The typed form lives in its [`Entry`], so a newer state of the
//! object frees the older one's at once.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::entry::{DecodeError, Entry, Typed};

/// How many bytes a typed object takes for each byte of its JSON. Measured: 6.5 for pods, 3 to 5 for
/// custom resources; memory is promised, so the largest counts.
const GROWTH: usize = 7;

/// Dead places are swept when they are more than half of the ring; below this many it is not worth
/// the walk.
const SWEEP: usize = 256;

/// The hot set of one cache.
#[derive(Debug)]
pub(super) struct Hot {
    budget: usize,
    account: Arc<Account>,
    ring: Mutex<VecDeque<Weak<Entry>>>,
}

#[derive(Debug, Default)]
struct Account {
    bytes: AtomicUsize,
    objects: AtomicUsize,
}

/// One object's share of the budget.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.objects.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hot {
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, account: Arc::default(), ring: Mutex::default() }
    }

    /// What the set takes now, about.
    pub(super) fn bytes(&self) -> usize {
        self.account.bytes.load(Ordering::Relaxed)
    }

    /// The object as `K`, and it stays while there is room.
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

    /// The objects as `K`. They are kept only if there is room for all of them at once: otherwise
    /// each would drive out another one before it is read again.
    pub(super) fn typed_all<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        entries: &[Arc<Entry>],
    ) -> Result<Vec<Arc<K>>, DecodeError> {
        let bytes: usize = entries.iter().map(|entry| entry.body_len() * GROWTH).sum();
        if bytes <= self.budget {
            return entries.iter().map(|entry| self.typed(entry)).collect();
        }
        entries.iter().map(|entry| entry.decode()).collect()
    }

    fn keep(&self, entry: &Arc<Entry>, typed: Typed) {
        let bytes = entry.body_len() * GROWTH;
        if bytes > self.budget {
            entry.share(&typed);
            return;
        }
        self.account.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.account.objects.fetch_add(1, Ordering::Relaxed);
        if !entry.warm(typed, Charge { account: self.account.clone(), bytes }) {
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
            } else {
                dropped.push((entry.cool(), entry));
            }
        }
        let live = self.account.objects.load(Ordering::Relaxed);
        if ring.len() > 2 * live + SWEEP {
            ring.retain(|entry| entry.strong_count() > 0);
        }
        drop(ring);
        drop(dropped);
    }
}
