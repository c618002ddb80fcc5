//! Limits of the events about one object, as in client-go's `EventCorrelator`: similar events are
//! combined, and each object has a token bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// The number of entries that are remembered.
pub(super) const REMEMBERED_MAX: usize = 4096;

/// Events that differ only in their note are combined after this many within
/// [`SIMILAR_TIMEOUT`].
const SIMILAR_MAX: usize = 10;
const SIMILAR_TIMEOUT: Duration = Duration::from_secs(600);

/// Token bucket of events per object: a burst, then one every [`REFILL`].
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// The notes of similar events.
pub(super) struct Similar<G>(Recent<G, BTreeSet<String>>);

impl<G: Clone + Ord> Similar<G> {
    pub(super) fn new() -> Self {
        Self(Recent::default())
    }

    /// Returns whether an event is to be combined with others of its group, since the group has too
    /// many notes.
    pub(super) fn combine(&mut self, group: &G, note: &str, now: Instant) -> bool {
        let notes = self.0.entry(group.clone(), now, SIMILAR_TIMEOUT, BTreeSet::new);
        if notes.contains(note) {
            return false;
        }
        if notes.len() < SIMILAR_MAX {
            notes.insert(note.to_owned());
            return false;
        }
        true
    }
}

/// The token buckets of objects.
#[derive(Default)]
pub(super) struct TokenBuckets(Recent<String, TokenBucket>);

struct TokenBucket {
    tokens: u32,
    refilled: Instant,
}

impl TokenBuckets {
    /// Takes a token of an object; returns false if there is none.
    pub(super) fn take(&mut self, object: String, now: Instant) -> bool {
        let full = || TokenBucket { tokens: BURST, refilled: now };
        let bucket = self.0.entry(object, now, REFILL * BURST, full);
        let refill = now.duration_since(bucket.refilled).as_secs() / REFILL.as_secs();
        if let Ok(refill @ 1..) = u32::try_from(refill) {
            bucket.tokens = bucket.tokens.saturating_add(refill).min(BURST);
            bucket.refilled += REFILL * refill;
        }
        let taken = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        taken
    }
}

/// A map of the latest used entries.
struct Recent<K, V>(BTreeMap<K, (Instant, V)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord, V> Recent<K, V> {
    /// Returns the value of `key`, made anew if it was last used before `timeout`.
    fn entry(&mut self, key: K, now: Instant, timeout: Duration, make: impl Fn() -> V) -> &mut V {
        let expired = |used: &Instant| now.duration_since(*used) >= timeout;
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, (used, _)| !expired(used));
            if self.0.len() >= REMEMBERED_MAX {
                let oldest = self.0.iter().min_by_key(|(_, (used, _))| *used);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    self.0.remove(&oldest);
                }
            }
        }
        let (used, value) = self.0.entry(key).or_insert_with(|| (now, make()));
        if expired(used) {
            *value = make();
        }
        *used = now;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bucket_refills_one_token_at_a_time() {
        let (mut buckets, start) = (TokenBuckets::default(), Instant::now());
        let taken = |buckets: &mut TokenBuckets, now| {
            (0..100).filter(|_| buckets.take("a".to_owned(), now)).count()
        };
        assert_eq!(taken(&mut buckets, start), 25);
        assert_eq!(taken(&mut buckets, start + REFILL / 2), 0);
        assert_eq!(taken(&mut buckets, start + REFILL), 1);
        // The half that was left over counts.
        assert_eq!(taken(&mut buckets, start + REFILL * 5 / 2), 1);
        assert_eq!(taken(&mut buckets, start + REFILL * 3), 1);
        assert!(buckets.take("b".to_owned(), start));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_by_forgetting_the_oldest() {
        let (mut recent, start) = (Recent::<u32, u32>::default(), Instant::now());
        let timeout = Duration::from_secs(3600);
        for key in 0..10_000 {
            let now = start + Duration::from_millis(key.into());
            *recent.entry(key, now, timeout, || 0) = key;
        }
        assert_eq!(recent.0.len(), REMEMBERED_MAX);
        assert_eq!(*recent.entry(9_999, start, timeout, || 0), 9_999);
        assert_eq!(*recent.entry(0, start, timeout, || 7), 7, "forgotten");
    }
}
