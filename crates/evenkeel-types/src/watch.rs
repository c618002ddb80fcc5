//! A value that tasks wait for changes of, as `tokio::sync::watch`, which wakes its receivers in
//! random order. Here they are woken in the order in which they began to wait, so that a simulation
//! can be repeated.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use evenkeel_types::watch;
//!
//! let (sender, mut receiver) = watch::channel(1);
//! sender.send_replace(2);
//! receiver.changed().await.unwrap();
//! assert_eq!(*receiver.borrow(), 2);
//! # }
//! ```

use std::collections::BTreeMap;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

/// The sender was dropped, and the receiver has seen its last value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped")]
pub struct Closed;

#[derive(Debug)]
struct State<T> {
    value: T,
    version: u64,
    senders: usize,
    /// The tasks that wait for a change, by ticket: in the order in which they began.
    waiting: BTreeMap<u64, Waker>,
    last_ticket: u64,
}

type Shared<T> = Arc<Mutex<State<T>>>;

/// Wakes all tasks that wait for a change.
fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let waiting = mem::take(&mut state.waiting);
    drop(state);
    waiting.into_values().for_each(Waker::wake);
}

/// A reference to the value, which is locked meanwhile.
pub type Ref<'a, T> = MappedMutexGuard<'a, T>;

fn value<T>(state: MutexGuard<'_, State<T>>) -> Ref<'_, T> {
    MutexGuard::map(state, |it| &mut it.value)
}

/// Changes the value.
#[derive(Debug)]
pub struct Sender<T>(Shared<T>);

/// Reads the value and waits for changes.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Shared<T>,
    seen: u64,
}

/// Creates a value with a sender and a receiver.
#[must_use]
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Creates a value without receivers.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(State {
            value,
            version: 0,
            senders: 1,
            waiting: BTreeMap::new(),
            last_ticket: 0,
        })))
    }

    /// Creates a receiver that has seen the current value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: self.0.clone(), seen: self.0.lock().version }
    }

    /// Returns the value.
    pub fn borrow(&self) -> Ref<'_, T> {
        value(self.0.lock())
    }

    /// Replaces the value; returns the previous one.
    pub fn send_replace(&self, value: T) -> T {
        let mut state = self.0.lock();
        state.version += 1;
        let previous = mem::replace(&mut state.value, value);
        wake(state);
        previous
    }

    /// Changes the value in place.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and wakes receivers if `modify` returns `true`, which it returns.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut state = self.0.lock();
        let modified = modify(&mut state.value);
        if modified {
            state.version += 1;
            wake(state);
        }
        modified
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        if state.senders == 0 {
            wake(state);
        }
    }
}

impl<T> Receiver<T> {
    /// Returns the value.
    pub fn borrow(&self) -> Ref<'_, T> {
        value(self.shared.lock())
    }

    /// Returns the value, and marks it as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.lock();
        self.seen = state.version;
        value(state)
    }

    /// Marks the current value as not seen.
    pub fn mark_changed(&mut self) {
        // No version: they are counted from 0, one at a time.
        self.seen = u64::MAX;
    }

    /// Waits for a change since the value was last seen, and marks it as seen.
    ///
    /// # Errors
    ///
    /// If there is none and the sender was dropped.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        Change { receiver: self, ticket: None }.await
    }

    /// Waits until the value satisfies a condition, which it may do already.
    ///
    /// # Errors
    ///
    /// If it does not and the sender was dropped.
    pub async fn wait_for(
        &mut self,
        mut condition: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, Closed> {
        loop {
            let satisfied = condition(&*self.borrow_and_update());
            if satisfied {
                return Ok(self.borrow());
            }
            self.changed().await?;
        }
    }
}

/// Waits for a change.
struct Change<'a, T> {
    receiver: &'a mut Receiver<T>,
    ticket: Option<u64>,
}

impl<T> Future for Change<'_, T> {
    type Output = Result<(), Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { receiver, ticket } = &mut *self;
        let mut state = receiver.shared.lock();
        if state.version != receiver.seen {
            receiver.seen = state.version;
            return Poll::Ready(Ok(()));
        }
        if state.senders == 0 {
            return Poll::Ready(Err(Closed));
        }
        let ticket = *ticket.get_or_insert_with(|| {
            state.last_ticket += 1;
            state.last_ticket
        });
        state.waiting.insert(ticket, cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Change<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            self.receiver.shared.lock().waiting.remove(ticket);
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn receivers_are_woken_in_the_order_of_their_waits() {
        let sender = Sender::new(0);
        for round in 1..=50 {
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..20 {
                let (mut receiver, order) = (sender.subscribe(), order.clone());
                tasks.spawn(async move {
                    receiver.changed().await.unwrap();
                    order.lock().push(number);
                });
            }
            tokio::task::yield_now().await;
            sender.send_replace(round);
            tasks.join_all().await;
            assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn last_value_is_seen_after_the_sender_was_dropped() {
        let (sender, mut receiver) = channel(1);
        let other = sender.clone();
        drop(sender);
        assert_eq!(other.send_replace(2), 1);
        drop(other);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 2);
        assert_eq!(receiver.changed().await, Err(Closed));
        assert_eq!(receiver.wait_for(|it| *it == 3).await.map(|it| *it), Err(Closed));
        assert_eq!(receiver.wait_for(|it| *it == 2).await.map(|it| *it), Ok(2));
    }

    #[tokio::test]
    async fn dropped_sender_wakes_receivers() {
        let (sender, mut receiver) = channel(());
        let wait = tokio::join!(receiver.changed(), async { drop(sender) }).0;
        assert_eq!(wait, Err(Closed));
    }

    #[test]
    fn cancelled_wait_is_forgotten() {
        let (sender, mut receiver) = channel(());
        assert_eq!(poll_once(receiver.changed()), None);
        assert!(sender.0.lock().waiting.is_empty());
    }

    #[test]
    fn unmodified_value_is_not_a_change() {
        let (sender, mut receiver) = channel(1);
        assert!(!sender.send_if_modified(|_| false));
        let changed = poll_once(receiver.changed());
        assert_eq!(changed, None);
        sender.send_modify(|value| *value = 5);
        assert_eq!(*receiver.borrow_and_update(), 5);
        assert_eq!(poll_once(receiver.changed()), None, "it was seen");
        receiver.mark_changed();
        assert_eq!(poll_once(receiver.changed()), Some(Ok(())));
        assert_eq!(poll_once(receiver.changed()), None);
    }

    /// Polls a future once.
    fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
