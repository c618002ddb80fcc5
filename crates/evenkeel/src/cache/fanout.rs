//! The fan-out of events to handlers.
//!
//! All changes of the store and the subscribers hold the lock of the dispatcher, so that a late
//! handler receives the stored objects and then each later change exactly once. Under the lock
//! events are only added to buffers; each handler runs in its own task.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::buffer::Buffer;
use super::error::{FailureReason, WatchFailure};
use super::event::ObjectEvent;
use super::stats::LastActivity;
use super::sync::{State, SyncState};

/// The state behind the lock of writers and subscribers.
#[derive(Default)]
pub(super) struct Dispatcher {
    pub(super) handlers: BTreeMap<u64, Arc<Buffer>>,
    pub(super) scopes: BTreeMap<Option<String>, WatchedScope>,
    numbers: u64,
    /// Whether handlers have received the sync marker.
    pub(super) synced: bool,
    pub(super) stopped: bool,
}

/// One watched scope: a namespace, or all of them.
pub(super) struct WatchedScope {
    pub(super) number: u64,
    pub(super) synced: bool,
    pub(super) absent: bool,
    /// The current error, and since when.
    pub(super) failure: Option<(WatchFailure, Instant)>,
    pub(super) task: Option<AbortHandle>,
    pub(super) activity: LastActivity,
}

impl Dispatcher {
    /// Returns the next number of a handler or scope.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns whether the scope still has this number.
    pub(super) fn has(&self, namespace: Option<&String>, number: u64) -> bool {
        self.scope(namespace).is_some_and(|scope| scope.number == number) && !self.stopped
    }

    fn scope(&self, namespace: Option<&String>) -> Option<&WatchedScope> {
        self.scopes.get(&namespace.cloned())
    }

    pub(super) fn is_synced(&self, namespace: Option<&String>) -> bool {
        self.scope(namespace).is_some_and(|scope| scope.synced)
    }

    pub(super) fn send(&self, events: Vec<ObjectEvent>) {
        for event in events {
            for handler in self.handlers.values() {
                handler.push(event.clone());
            }
        }
    }

    /// Computes the sync state from the scopes, and notifies waiters and handlers.
    pub(super) fn refresh(&mut self, sync: &SyncState) {
        if self.stopped {
            return;
        }
        let synced = self.scopes.values().all(|scope| scope.synced);
        let scopes = self.scopes.iter();
        sync.set_namespaces(scopes.filter_map(|(name, scope)| Some((name.clone()?, scope.synced))));
        sync.set_ready(synced);
        if synced && !self.synced {
            self.synced = true;
            self.handlers.values().for_each(|handler| handler.extend([], true));
        }
        let failure = self.scopes.values().find_map(|scope| scope.failure.clone());
        let absent = self.scopes.values().any(|scope| scope.absent);
        let rejected =
            failure.as_ref().filter(|(failure, _)| failure.reason != FailureReason::Other);
        let rejected = rejected.map(|(_, since)| *since);
        let failure = failure.map(|(failure, _)| failure);
        sync.set(State { synced, stopped: false, absent, failure, rejected });
    }
}
