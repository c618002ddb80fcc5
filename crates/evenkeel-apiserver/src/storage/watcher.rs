//! Watches the events of one table.
//!
//! A watcher is a cursor into the table's log. It pulls events, so a slow watcher costs nothing,
//! and it gets an error once its position has left the window.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use super::table::TableInner;
use super::{Compacted, Event, Shared};

/// Events read from the log per lock acquisition.
const BATCH: usize = 64;

/// A cursor into a table's events. Delivers each event after its start once, in revision order.
pub struct Watcher {
    shared: Arc<Shared>,
    table: Arc<TableInner>,
    namespace: Option<Box<str>>,
    /// Everything up to this revision has been read from the log.
    cursor: u64,
    /// Events read from the log but not yet returned.
    batch: VecDeque<Arc<Event>>,
    wake: Arc<Notify>,
}

impl Watcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        table: Arc<TableInner>,
        namespace: Option<&str>,
        after: u64,
    ) -> Result<Self, Compacted> {
        let mut state = table.state.write();
        let compacted = state.oldest().max(table.created_at_revision);
        if after < compacted {
            return Err(Compacted { compacted, current: shared.revision() });
        }
        let wake = state.subscribe(namespace);
        drop(state);
        let namespace = namespace.map(Into::into);
        Ok(Self { shared, table, namespace, cursor: after, batch: VecDeque::new(), wake })
    }

    /// Waits for the next event.
    ///
    /// Cancel safe: an event is either returned or returned by the next call.
    ///
    /// # Errors
    ///
    /// If events were dropped before this watcher read them. The error is permanent.
    pub async fn next(&mut self) -> Result<Arc<Event>, Compacted> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            let wake = self.wake.clone();
            // From here on no notification is missed; an event from just before is found by the
            // second check.
            let woken = wake.notified();
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            woken.await;
        }
    }

    /// Returns the next event if there is one.
    ///
    /// # Errors
    ///
    /// Like [`next`](Self::next).
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, Compacted> {
        if self.batch.is_empty() {
            self.fetch()?;
        }
        Ok(self.batch.pop_front())
    }

    /// Returns the revision up to which every event of this watcher has been returned, for
    /// bookmarks. `None` if the watch started at a future revision that the store has not reached:
    /// a bookmark must not confirm a revision without a write.
    ///
    /// # Errors
    ///
    /// Like [`next`](Self::next).
    pub fn synced_revision(&mut self) -> Result<Option<u64>, Compacted> {
        if self.batch.is_empty() {
            self.fetch()?;
        }
        let synced = self.batch.front().map_or(self.cursor, |next| next.revision() - 1);
        Ok((synced <= self.shared.revision()).then_some(synced))
    }

    fn fetch(&mut self) -> Result<(), Compacted> {
        let state = self.table.state.read();
        // Under the table's lock, so that all events of this table up to here are in the log.
        let current = self.shared.revision();
        let log = state.log(self.namespace.as_deref());
        if log.has_dropped_after(self.cursor) {
            return Err(Compacted { compacted: state.oldest(), current });
        }
        let mut events = log.after(self.cursor);
        self.batch.extend(events.by_ref().take(BATCH).cloned());
        self.cursor = match self.batch.back() {
            Some(last) if events.next().is_some() => last.revision(),
            // Never decreases: a watch may start at a future revision.
            _ => self.cursor.max(current),
        };
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(namespace) = &self.namespace {
            self.table.state.write().unsubscribe(namespace);
        }
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher")
            .field("table", &self.table.name)
            .field("namespace", &self.namespace)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
