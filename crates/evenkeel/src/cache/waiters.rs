//! Which waits are notified of a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::key::Key;

/// The waits for changes of a type.
///
/// A waiter is added before its first read, and the contents change before waiters are notified, so
/// that no change is missed: either the read returns it, or the notification follows.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    numbers: u64,
    waiting: BTreeMap<u64, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    /// The object, or `None` for all of the type.
    key: Option<Key>,
    changed: Arc<Notify>,
}

impl Waiters {
    /// Notifies the waiters of these objects.
    pub(super) fn notify<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        let state = self.0.lock();
        if state.waiting.is_empty() {
            return;
        }
        for key in keys {
            for waiter in state.waiting.values() {
                if waiter.key.as_ref().is_none_or(|waited| waited == key) {
                    waiter.changed.notify_one();
                }
            }
        }
    }

    /// Notifies all waiters.
    pub(super) fn notify_all(&self) {
        self.0.lock().waiting.values().for_each(|waiter| waiter.changed.notify_one());
    }

    /// Adds a waiter for changes of an object, or of all of the type; returns its number.
    pub(super) fn add(&self, key: Option<Key>, changed: Arc<Notify>) -> u64 {
        let mut state = self.0.lock();
        state.numbers += 1;
        let number = state.numbers;
        state.waiting.insert(number, Waiter { key, changed });
        number
    }

    pub(super) fn remove(&self, number: u64) {
        self.0.lock().waiting.remove(&number);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().waiting.len()
    }
}
