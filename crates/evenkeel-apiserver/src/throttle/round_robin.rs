//! Slots for heavy work, granted round-robin by user.
//!
//! A semaphore would grant them in order of arrival, and a hundred lists of one user would all
//! precede the first of another.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

pub(super) struct RoundRobin {
    state: Mutex<State>,
    idle: Notify,
}

struct State {
    free: usize,
    running: usize,
    /// Users with waiting requests, the next one first.
    users: VecDeque<(Arc<str>, VecDeque<oneshot::Sender<Slot>>)>,
}

/// The right to do heavy work; dropping it grants the next one.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Option<Arc<RoundRobin>>,
}

impl RoundRobin {
    pub(super) fn new(at_once: usize) -> Self {
        let state = State { free: at_once.max(1), running: 0, users: VecDeque::new() };
        Self { state: Mutex::new(state), idle: Notify::new() }
    }

    pub(super) async fn wait(self: &Arc<Self>, user: &Arc<str>) -> Slot {
        let slot = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                state.running += 1;
                return Slot { queue: Some(self.clone()) };
            }
            let (grant, slot) = oneshot::channel();
            match state.users.iter_mut().find(|(waiting, _)| waiting == user) {
                Some((_, queue)) => queue.push_back(grant),
                None => state.users.push_back((user.clone(), VecDeque::from([grant]))),
            }
            slot
        };
        // A sender is not dropped while another slot is in use, and one is: none was free.
        slot.await.unwrap_or(Slot { queue: None })
    }

    pub(super) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.lock().running == 0 {
                return;
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Returns the next waiter: the first of the next user.
    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        let (user, mut queue) = self.users.pop_front()?;
        let next = queue.pop_front();
        if !queue.is_empty() {
            self.users.push_back((user, queue));
        }
        next
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        loop {
            let next = {
                let mut state = queue.lock();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                    state.running -= 1;
                    if state.running == 0 {
                        queue.idle.notify_waiters();
                    }
                    return;
                }
                next
            };
            let slot = Slot { queue: Some(queue.clone()) };
            // A waiter that has given up returns the slot unused.
            match next.map(|next| next.send(slot)) {
                Some(Err(mut unused)) => unused.queue = None,
                _ => return,
            }
        }
    }
}

impl std::fmt::Debug for RoundRobin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoundRobin")
    }
}
