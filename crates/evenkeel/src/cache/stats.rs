//! Statistics and health of the cache.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::decode::Rejected;
use super::error::WatchFailure;
use crate::kind::Kind;

/// The maximum number of rejected objects that are listed.
const REJECTED_MAX: usize = 100;

/// Statistics of the cache.
///
/// ```no_run
/// # fn example(manager: &evenkeel::Manager) {
/// let stats = manager.cache().stats();
/// for of_type in &stats.types {
///     println!("{}: {} objects, {} bytes", of_type.kind, of_type.objects, of_type.bytes);
/// }
/// println!("{} bytes decoded", stats.decoded_bytes);
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The watched types, ordered by kind.
    pub types: Vec<TypeStats>,
    /// The approximate size of the decoded objects that are kept.
    pub decoded_bytes: usize,
}

/// Statistics of one type.
///
/// ```
/// use evenkeel::cache::TypeStats;
///
/// fn is_suspicious(stats: &TypeStats) -> bool {
///     stats.handler_panics > 0 || !stats.rejected.is_empty()
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypeStats {
    /// The type.
    pub kind: Kind,
    /// Whether the initial list is complete.
    pub synced: bool,
    /// The number of objects.
    pub objects: usize,
    /// Their size in bytes, without decoded forms.
    pub bytes: usize,
    /// The number of complete lists, the first one included.
    pub lists: u64,
    /// The number of complete lists after the first one of their scope.
    pub relists: u64,
    /// The number of failed lists and watches.
    pub watch_failures: u64,
    /// The time since the watch was opened or delivered something, the longest of all watched
    /// namespaces. A server sends at least a bookmark before it ends a watch, so this stays below a
    /// minute while the watch is alive. `None` before the first list.
    pub watch_age: Option<Duration>,
    /// The number of own writes that the watch has not delivered yet.
    pub own_writes: usize,
    /// The number of reads that returned an own write.
    pub own_write_reads: u64,
    /// The number of subscribed handlers.
    pub handlers: usize,
    /// The number of buffered events.
    pub buffered_events: usize,
    /// The number of panics of handlers.
    pub handler_panics: u64,
    /// The number of rejections so far.
    pub rejections: u64,
    /// The number of reads that failed because the object does not decode as the requested type.
    pub decode_errors: u64,
    /// The currently rejected objects and the reasons; at most a hundred.
    pub rejected: BTreeMap<String, Arc<str>>,
}

/// The health of one type.
///
/// ```no_run
/// # fn example(cache: &evenkeel::cache::Cache) {
/// for health in cache.health().iter().filter(|health| !health.is_ready()) {
///     println!("{}: synced {}, {:?}", health.kind, health.synced, health.failure);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The type.
    pub kind: Kind,
    /// Whether the initial list is complete.
    pub synced: bool,
    /// The current list or watch error.
    pub failure: Option<WatchFailure>,
    /// Whether the type is optional and not served.
    pub absent: bool,
}

impl Health {
    /// Returns whether the type is synced and its watch is healthy.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.synced && self.failure.is_none()
    }
}

/// Counts of the reflectors of one type.
#[derive(Debug, Default)]
pub(super) struct WatchCounts {
    pub(super) lists: AtomicU64,
    pub(super) relists: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// When a watch was last opened or delivered something. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LastActivity(Arc<(Instant, AtomicU64)>);

impl LastActivity {
    pub(super) fn new() -> Self {
        Self(Arc::new((Instant::now(), AtomicU64::new(0))))
    }

    pub(super) fn set(&self) {
        let (start, last) = &*self.0;
        last.store(
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    pub(super) fn age(&self) -> Duration {
        let (start, last) = &*self.0;
        start.elapsed().saturating_sub(Duration::from_nanos(last.load(Ordering::Relaxed)))
    }
}

/// The rejected objects.
#[derive(Debug, Default)]
pub(super) struct Rejections(Mutex<(u64, BTreeMap<String, Arc<str>>)>);

impl Rejections {
    pub(super) fn add(&self, kind: &Kind, rejected: &Rejected) {
        let key = rejected.key().map_or("(unknown)", |key| key.as_str());
        let problem = &*rejected.problem;
        tracing::error!(%kind, key, problem, "object rejected by the cache");
        let mut known = self.0.lock();
        known.0 += 1;
        if known.1.len() < REJECTED_MAX || known.1.contains_key(key) {
            known.1.insert(key.to_owned(), problem.into());
        }
    }

    /// Removes an object that was stored or deleted.
    pub(super) fn clear(&self, key: &str) {
        let mut known = self.0.lock();
        if !known.1.is_empty() {
            known.1.remove(key);
        }
    }

    /// Removes the objects of a scope, which is relisted.
    pub(super) fn clear_scope(&self, namespace: Option<&str>) {
        let within = |key: &str| {
            namespace.is_none_or(|name| key.split_once('/').is_none_or(|(other, _)| other == name))
        };
        self.0.lock().1.retain(|key, _| !within(key));
    }

    pub(super) fn get(&self) -> (u64, BTreeMap<String, Arc<str>>) {
        self.0.lock().clone()
    }
}
