//! Compaction by time. As kube-apiserver does with etcd: at the end of each interval the revision
//! recorded at its start is compacted, so a continue token or an exact list lives for one to two
//! intervals.
//!
//! There is no task: each request first does what is due. Nothing can be observed in between, and a
//! paused clock needs no help.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::storage::{Key, Store, UnsavedRecord, WriteError};

/// The default of kube-apiserver's `--etcd-compaction-interval`.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The table and key that each compaction writes, as upstream writes `compact_rev_key`: the
/// revision moves on even if nothing else is written, so that what was listed before can expire.
const MARK: &str = "compact_rev_key";

pub(crate) struct Compactor {
    /// None if nothing is compacted by time.
    interval: Option<Duration>,
    next: Mutex<Next>,
}

struct Next {
    due: Instant,
    /// What is compacted when it is due.
    revision: u64,
}

impl Compactor {
    /// An interval of zero switches compaction off; none is the default.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        let interval = Some(interval.unwrap_or(INTERVAL)).filter(|interval| !interval.is_zero());
        let due = Instant::now() + interval.unwrap_or_default();
        Self { interval, next: Mutex::new(Next { due, revision: 0 }) }
    }

    /// Compacts what is due.
    pub(crate) async fn run(&self, store: &Store) {
        let Some(interval) = self.interval else { return };
        let now = Instant::now();
        let (revision, interval_without_requests) = {
            let mut next = self.next.lock();
            if now < next.due {
                return;
            }
            let late = now.duration_since(next.due);
            // Back onto the grid, however many intervals have passed.
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
            // Its end has been reached as well.
            store.compact_lists(revision);
        }
        self.next.lock().revision = revision;
    }
}

/// Takes a revision that no object has.
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
