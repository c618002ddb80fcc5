//! Deletes events after their TTL, which each write starts again, as kube-apiserver does with leases
//! of etcd.
//!
//! Events are indexed by the time they expire. One task waits for the earliest; it starts with the
//! first event, and ends with the server.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::storage::{Key, Record, Table, WriteError};

/// The default of kube-apiserver's `--event-ttl`.
const DEFAULT: Duration = Duration::from_secs(60 * 60);

/// The time after which events are deleted, and when that is.
pub(crate) struct EventTtl {
    /// `None` if events do not expire.
    ttl: Option<Duration>,
    index: Mutex<Index>,
    /// The earliest time has changed.
    changed: Arc<Notify>,
    task: Mutex<JoinSet<()>>,
}

/// The server whose events expire. The task does not keep it, so that its data directory is closed
/// when it is dropped.
pub(crate) trait Owner: Send + Sync + 'static {
    fn event_ttl(&self) -> &EventTtl;

    /// Returns the table of all events.
    fn events(&self) -> Option<Table>;

    /// Becomes true when the server stops.
    fn stopping(&self) -> watch::Receiver<bool>;
}

/// The events by the time they expire. Each is in it once, with the revision that expires.
#[derive(Default)]
struct Index {
    by_time: BTreeSet<(Instant, Key)>,
    by_key: HashMap<Key, (Instant, u64)>,
}

impl EventTtl {
    /// Creates an empty index. A TTL of zero keeps events; `None` is the default TTL.
    pub(crate) fn new(ttl: Option<Duration>) -> Self {
        Self {
            ttl: Some(ttl.unwrap_or(DEFAULT)).filter(|ttl| !ttl.is_zero()),
            index: Mutex::default(),
            changed: Arc::default(),
            task: Mutex::default(),
        }
    }

    /// Starts the TTL of an event that was written `age` ago.
    pub(crate) fn start<O: Owner>(&self, owner: &Arc<O>, event: &Record, age: Duration) {
        let Some(ttl) = self.ttl else { return };
        let due = Instant::now() + ttl.saturating_sub(age);
        let is_first = self.index.lock().insert(event.key.clone(), due, event.revision);
        let mut task = self.task.lock();
        if task.is_empty() {
            task.spawn(run(Arc::downgrade(owner), self.changed.clone(), owner.stopping()));
        } else if is_first {
            self.changed.notify_one();
        }
    }

    /// Removes a deleted event from the index.
    pub(crate) fn forget(&self, event: &Record) {
        self.index.lock().remove(&event.key, event.revision);
    }

    fn next_due(&self) -> Option<Instant> {
        self.index.lock().by_time.first().map(|(due, _)| *due)
    }
}

impl Index {
    /// Adds an event or moves it. Returns whether it is the first to expire. Concurrent writes may
    /// end in any order: a later revision stays.
    fn insert(&mut self, key: Key, due: Instant, revision: u64) -> bool {
        self.remove(&key, revision);
        if self.by_key.contains_key(&key) {
            return false;
        }
        self.by_time.insert((due, key.clone()));
        let is_first = self.by_time.first().is_some_and(|(_, first)| *first == key);
        self.by_key.insert(key, (due, revision));
        is_first
    }

    /// Removes an event unless it has a later revision.
    fn remove(&mut self, key: &Key, revision: u64) {
        let Some((due, indexed)) = self.by_key.get(key).copied() else { return };
        if indexed <= revision {
            self.by_key.remove(key);
            self.by_time.remove(&(due, key.clone()));
        }
    }

    /// Removes the first event that has expired, and returns it with its revision.
    fn pop(&mut self, now: Instant) -> Option<(Key, u64)> {
        let (due, key) = self.by_time.first()?;
        if *due > now {
            return None;
        }
        let key = key.clone();
        let (_, revision) = self.by_key.get(&key).copied()?;
        self.remove(&key, revision);
        Some((key, revision))
    }
}

async fn run<O: Owner>(owner: Weak<O>, changed: Arc<Notify>, mut stopping: watch::Receiver<bool>) {
    loop {
        let Some(due) = owner.upgrade().map(|owner| owner.event_ttl().next_due()) else { return };
        let expiry = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // An error means that the server was dropped.
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = changed.notified() => continue,
            () = expiry => {}
        }
        let Some(owner) = owner.upgrade() else { return };
        expire(&*owner).await;
    }
}

/// Deletes the events that have expired. An event that was written again has a later revision, and
/// is kept.
async fn expire(owner: &impl Owner) {
    let Some(events) = owner.events() else { return };
    let now = Instant::now();
    loop {
        let Some((key, revision)) = owner.event_ttl().index.lock().pop(now) else { return };
        match events.delete(key, revision, None).await {
            Ok(_) | Err(WriteError::Conflict(_)) => {}
            Err(error) => tracing::warn!(%error, "cannot delete an expired event"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_revision_counts_in_whatever_order_its_writes_end() {
        let (key, due) = (Key::new("default", "e"), Instant::now());
        let mut index = Index::default();
        index.insert(key.clone(), due, 7);
        index.insert(key.clone(), due, 6);
        assert_eq!(index.pop(due), Some((key.clone(), 7)));

        index.insert(key.clone(), due, 9);
        index.remove(&key, 8);
        assert_eq!(index.pop(due), Some((key.clone(), 9)), "it was created again after revision 8");

        index.insert(key.clone(), due, 10);
        index.remove(&key, 11);
        assert_eq!(index.pop(due), None);
    }
}
