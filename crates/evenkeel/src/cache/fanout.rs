//! The fan-out of events to handlers.
//!
//! All changes of the store and the subscribers hold the lock of the dispatcher, so that a late
//! handler receives the stored objects and then each later change exactly once. Under the lock
//! events are only added to buffers; each handler runs in its own task.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_types::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::buffer::{Buffer, LIMIT};
use super::error::{FailureReason, WatchFailure};
use super::event::ObjectEvent;
use super::informer::{HandleGuard, Shared};
use super::stats::LastActivity;
use super::subscription::{Subscription, deliver};
use super::sync::{State, SyncState};

/// The state behind the lock of writers and subscribers.
#[derive(Default)]
pub(super) struct Dispatcher {
    pub(super) handlers: BTreeMap<u64, Arc<Buffer>>,
    pub(super) scopes: BTreeMap<Option<String>, WatchedScope>,
    numbers: u64,
    /// Whether handlers have received the sync marker.
    synced: bool,
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

impl Shared {
    /// Adds a resync event of every object to the buffer.
    pub(super) fn resync(&self, buffer: &Buffer) {
        let dispatcher = self.dispatcher.lock();
        if !dispatcher.stopped {
            let objects = self.contents.store.all(None).into_iter();
            buffer.extend(objects.map(|object| ObjectEvent::Resynced { object }), false);
        }
    }

    pub(super) fn subscribe(
        self: &Arc<Self>,
        handle: Arc<HandleGuard>,
        resync: bool,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        let period = self.random.lock().range(self.resync.mul_f64(0.9), self.resync.mul_f64(1.1));
        let buffer = Arc::new(Buffer::new(LIMIT));
        let (synced, is_synced) = watch::channel(false);
        let mut dispatcher = self.dispatcher.lock();
        let number = dispatcher.number();
        let mut task = None;
        if !dispatcher.stopped {
            let stored = self.contents.store.all(None).into_iter();
            let added = stored.map(|new| ObjectEvent::Added { new, initial: true });
            buffer.extend(added, dispatcher.synced);
            dispatcher.handlers.insert(number, buffer.clone());
            let delivery = deliver(self.clone(), buffer, synced, resync.then_some(period), handler);
            task = self.tasks.upgrade().and_then(|tasks| tasks.spawn(delivery));
        }
        drop(dispatcher);
        Subscription::new(handle, number, task, is_synced)
    }

    pub(super) fn unsubscribe(&self, number: u64) {
        // The events of the buffer are dropped outside of the lock.
        let buffer = self.dispatcher.lock().handlers.remove(&number);
        drop(buffer);
    }
}
