//! Workers that found nothing to do, and which of them watches the clock.
//!
//! At most one worker holds a timer, set to when the first delayed key is due: the *timekeeper*. The
//! rest sleep until woken, so a queue without delayed keys has no timer, and a thousand idle workers
//! have one. Who leaves, with a key or because its future was dropped, passes the office on; that is
//! what [`Waiters::next_to_wake`] decides after each step.

use std::collections::VecDeque;
use std::task::Waker;

#[derive(Debug)]
pub(super) struct Waiters {
    /// Asleep, the longest first. Who is woken is taken off and comes back if it finds nothing.
    asleep: VecDeque<(u64, Waker)>,
    timekeeper: Option<Timekeeper>,
    next_id: u64,
    /// Who waits for the queue to be drained.
    drains: Vec<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Timekeeper {
    id: u64,
    /// What its timer is set to.
    at: u64,
}

impl Waiters {
    pub(super) const fn new() -> Self {
        Self { asleep: VecDeque::new(), timekeeper: None, next_id: 0, drains: Vec::new() }
    }

    /// Puts a worker to sleep. Says until when, if it is the one to watch the clock.
    pub(super) fn sleep(
        &mut self,
        id: &mut Option<u64>,
        waker: &Waker,
        first_due: Option<u64>,
    ) -> Option<u64> {
        let id = *id.get_or_insert_with(|| {
            self.next_id += 1;
            self.next_id
        });
        match self.asleep.iter_mut().find(|(other, _)| *other == id) {
            Some((_, old)) => old.clone_from(waker),
            None => self.asleep.push_back((id, waker.clone())),
        }
        if self.timekeeper.is_none_or(|keeper| keeper.id == id) {
            self.timekeeper = first_due.map(|at| Timekeeper { id, at });
            return first_due;
        }
        None
    }

    /// A worker that slept has what it wanted, or no longer wants it.
    pub(super) fn leave(&mut self, id: &mut Option<u64>) {
        let Some(id) = id.take() else { return };
        self.asleep.retain(|(other, _)| *other != id);
        if self.timekeeper.is_some_and(|keeper| keeper.id == id) {
            self.timekeeper = None;
        }
    }

    /// Whom to wake: one for a key that is due, or one to watch the clock.
    pub(super) fn next_to_wake(&mut self, due: bool, first_due: Option<u64>) -> Option<Waker> {
        if self.asleep.is_empty() {
            return None;
        }
        if due {
            return self.asleep.pop_front().map(|(_, waker)| waker);
        }
        match (first_due?, self.timekeeper) {
            (_, None) => self.asleep.pop_front().map(|(_, waker)| waker),
            (at, Some(keeper)) if at < keeper.at => {
                let place = self.asleep.iter().position(|(id, _)| *id == keeper.id)?;
                self.asleep.remove(place).map(|(_, waker)| waker)
            }
            _ => None,
        }
    }

    /// Everybody asleep and, if it is `drained`, everybody who waits for that.
    pub(super) fn all(&mut self, drained: bool) -> Vec<Waker> {
        let asleep = self.asleep.drain(..).map(|(_, waker)| waker);
        match drained {
            true => asleep.chain(self.drains.drain(..)).collect(),
            false => asleep.collect(),
        }
    }

    pub(super) fn await_drained(&mut self, waker: &Waker) {
        if !self.drains.iter().any(|other| other.will_wake(waker)) {
            self.drains.push(waker.clone());
        }
    }
}
