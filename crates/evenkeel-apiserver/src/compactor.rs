//! Compaction by time, as kube-apiserver compacts etcd: at the end of each interval the revision
//! recorded at its start is compacted, so a continue token or an exact list is valid for one to two
//! intervals.
//!
//! There is no background task: each request first compacts what is due. The difference cannot be
//! observed, and it works with a paused clock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::storage::{Key, Store, UnsavedRecord, WriteError};

/// The default of kube-apiserver's `--etcd-compaction-interval`.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The table and key that each compaction writes, like upstream's `compact_rev_key`: the revision
/// advances even if nothing else is written, so that earlier lists expire.
const MARK: &str = "compact_rev_key";

pub(crate) struct Compactor {
    /// `None` disables compaction by time.
    interval: Option<Duration>,
    next: Mutex<Next>,
}

struct Next {
    due: Instant,
    /// The revision to compact at `due`.
    revision: u64,
}

impl Compactor {
    /// Creates a compactor. An interval of zero disables compaction; `None` is the default
    /// interval.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        let interval = Some(interval.unwrap_or(INTERVAL)).filter(|interval| !interval.is_zero());
        let due = Instant::now() + interval.unwrap_or_default();
        Self { interval, next: Mutex::new(Next { due, revision: 0 }) }
    }

    /// Compacts if an interval has ended.
    pub(crate) async fn run(&self, store: &Store) {
        let Some(interval) = self.interval else { return };
        let now = Instant::now();
        let (revision, interval_without_requests) = {
            let mut next = self.next.lock();
            if now < next.due {
                return;
            }
            let late = now.duration_since(next.due);
            // Stay aligned to multiples of the interval, however many have passed.
            let since = late.as_nanos() % interval.as_nanos();
            next.due = now + (interval - Duration::from_nanos_u128(since));
            (next.revision, late >= interval)
        };
        store.compact_lists(revision);
        let revision = match mark(store).await {
            Ok(revision) => revision,
            Err(why) => {
                tracing::warn!(%why, "cannot record the revision to compact");
                return;
            }
        };
        if interval_without_requests {
            // The interval that began now ended without requests, too.
            store.compact_lists(revision);
        }
        self.next.lock().revision = revision;
    }
}

/// Writes the compaction marker and returns its revision, which no object has.
async fn mark(store: &Store) -> Result<u64, WriteError> {
    let table = store.table(MARK);
    let key = Key::new("", MARK);
    let unsaved = UnsavedRecord::new(Vec::new(), 0, Arc::default());
    let record = match table.get(&key) {
        Some(last) => table.update(key, last.revision, unsaved).await?,
        None => table.create(key, unsaved).await?,
    };
    Ok(record.revision)
}
