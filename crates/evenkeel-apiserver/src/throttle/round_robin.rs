//! Turns at heavy work: so many at once, and from user to user.
//!
//! A semaphore would serve in order of arrival, and one user's hundred lists would all come before
//! another's first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// The right to work now; dropping it lets the next one work.
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
        // A sender is never dropped unused while a turn is out, and one is: none was free.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The request that works next: the first of the next user.
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
            // One that is no longer waiting gives the turn back unused.
            match next.map(|next| next.send(slot)) {
                Some(Err(mut unused)) => unused.queue = None,
                _ => return,
            }
        }
    }
}

impl std::fmt::Debug for RoundRobin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Turns")
    }
}
