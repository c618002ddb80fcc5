//! The state of one informer that its parts share: the writers, the subscriptions and the handle.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::buffer::Buffer;
use super::contents::Contents;
use super::decode::EntryDecoder;
use super::error::WatchFailure;
use super::event::ObjectEvent;
use super::fanout::Dispatcher;
use super::stats::{Rejections, TypeStats, WatchCounts};
use super::store::Definition;
use crate::connect::Transport;
use crate::random::Random;
use crate::tasks::Tasks;
use crate::watch::History;

pub(super) struct Shared {
    pub(super) decoder: EntryDecoder,
    pub(super) contents: Arc<Contents>,
    pub(super) dispatcher: Mutex<Dispatcher>,
    pub(super) rejections: Rejections,
    pub(super) counts: WatchCounts,
    pub(super) lists: AtomicU32,
    pub(super) panics: AtomicU64,
    pub(super) random: Mutex<Random>,
    pub(super) resync: Duration,
    pub(super) sync_timeout: Duration,
    pub(super) watch_timeout: Range<Duration>,
    pub(super) transport: Transport,
    pub(super) tasks: Weak<Tasks>,
    pub(super) history: History,
}

/// Stops the informer when the last handle is dropped.
pub(super) struct HandleGuard(pub(super) Arc<Shared>);

impl Drop for HandleGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Shared {
    /// Returns a number for a new list.
    pub(super) fn number_list(&self) -> u32 {
        // Zero means that no list included the object.
        loop {
            let number = self.lists.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if number != 0 {
                return number;
            }
        }
    }

    /// Marks a scope as synced.
    pub(super) fn scope_synced(&self, namespace: Option<&String>, number: u64) {
        let mut dispatcher = self.dispatcher.lock();
        if let Some(scope) = dispatcher.scopes.get_mut(&namespace.cloned())
            && scope.number == number
            && !scope.synced
        {
            scope.synced = true;
            dispatcher.refresh(&self.contents.sync);
        }
    }

    pub(super) fn scope_health(
        &self,
        namespace: Option<&String>,
        number: u64,
        failure: Option<(WatchFailure, Instant)>,
        absent: bool,
    ) {
        let mut dispatcher = self.dispatcher.lock();
        if let Some(scope) = dispatcher.scopes.get_mut(&namespace.cloned())
            && scope.number == number
        {
            scope.failure = failure;
            scope.absent = absent;
            dispatcher.refresh(&self.contents.sync);
        }
    }

    /// Stops the watches and handlers and releases the memory.
    pub(super) fn stop(&self) {
        let mut dispatcher = self.dispatcher.lock();
        if std::mem::replace(&mut dispatcher.stopped, true) {
            return;
        }
        for scope in std::mem::take(&mut dispatcher.scopes).into_values() {
            if let Some(task) = scope.task {
                task.abort();
            }
        }
        dispatcher.handlers.clear();
        drop(dispatcher);
        self.contents.sync.stop();
        self.contents.store.clear();
        self.contents.overlay.reset(None, None);
        self.contents.waiters.notify_all();
    }

    /// Adds an index; blocks changes of objects meanwhile.
    pub(super) fn define(&self, index: Definition) {
        let _dispatcher = self.dispatcher.lock();
        self.contents.store.define(index);
    }

    pub(super) fn stats(&self) -> TypeStats {
        let (handlers, buffered_events, watch_age) = {
            let dispatcher = self.dispatcher.lock();
            let synced = dispatcher.scopes.values().filter(|scope| scope.synced && !scope.absent);
            (
                dispatcher.handlers.len(),
                dispatcher.handlers.values().map(|buffer| buffer.len()).sum(),
                synced.map(|scope| scope.activity.age()).max(),
            )
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (rejections, rejected) = self.rejections.get();
        TypeStats {
            kind: self.decoder.kind().clone(),
            synced: self.contents.sync.is_ready(),
            objects: self.contents.store.len(),
            bytes: self.contents.store.bytes(),
            lists: read(&self.counts.lists),
            relists: read(&self.counts.relists),
            watch_failures: read(&self.counts.failures),
            watch_age,
            own_writes: self.contents.overlay.len(),
            own_write_reads: self.contents.overlay.reads(),
            handlers,
            buffered_events,
            handler_panics: read(&self.panics),
            rejections,
            decode_errors: read(&self.contents.decode_errors),
            rejected,
        }
    }

    /// Adds a resync event of every object to the buffer.
    pub(super) fn resync(&self, buffer: &Buffer) {
        let dispatcher = self.dispatcher.lock();
        if !dispatcher.stopped {
            let objects = self.contents.store.all(None).into_iter();
            buffer.extend(objects.map(|object| ObjectEvent::Resynced { object }), false);
        }
    }

    pub(super) fn unsubscribe(&self, number: u64) {
        // The events of the buffer are dropped outside of the lock.
        let buffer = self.dispatcher.lock().handlers.remove(&number);
        drop(buffer);
    }
}
