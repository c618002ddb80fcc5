//! Idle workers.
//!
//! At most one worker holds a timer for the first delayed key: the *timekeeper*. The others wait
//! until woken, so a queue has at most one timer. When the timekeeper leaves, with a key or because
//! its future was dropped, [`Waiters::next_to_wake`] returns its successor.

use std::collections::VecDeque;
use std::task::Waker;

#[derive(Debug)]
pub(super) struct Waiters {
    /// Idle workers, the longest idle first. A woken worker is removed and waits again if it finds
    /// no key.
    idle: VecDeque<(u64, Waker)>,
    timekeeper: Option<Timekeeper>,
    next_id: u64,
    /// Wakers of drain futures.
    drains: Vec<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Timekeeper {
    id: u64,
    /// The deadline of its timer.
    at: u64,
}

impl Waiters {
    pub(super) const fn new() -> Self {
        Self { idle: VecDeque::new(), timekeeper: None, next_id: 0, drains: Vec::new() }
    }

    /// Registers an idle worker; returns the deadline of its timer if it is the timekeeper.
    pub(super) fn wait(
        &mut self,
        id: &mut Option<u64>,
        waker: &Waker,
        first_due: Option<u64>,
    ) -> Option<u64> {
        let id = *id.get_or_insert_with(|| {
            self.next_id += 1;
            self.next_id
        });
        match self.idle.iter_mut().find(|(other, _)| *other == id) {
            Some((_, old)) => old.clone_from(waker),
            None => self.idle.push_back((id, waker.clone())),
        }
        if self.timekeeper.is_none_or(|keeper| keeper.id == id) {
            self.timekeeper = first_due.map(|at| Timekeeper { id, at });
            return first_due;
        }
        None
    }

    /// Removes a worker that has a key or was dropped.
    pub(super) fn leave(&mut self, id: &mut Option<u64>) {
        let Some(id) = id.take() else { return };
        self.idle.retain(|(other, _)| *other != id);
        if self.timekeeper.is_some_and(|keeper| keeper.id == id) {
            self.timekeeper = None;
        }
    }

    /// Returns the worker to wake: for a due key, or as timekeeper.
    pub(super) fn next_to_wake(&mut self, due: bool, first_due: Option<u64>) -> Option<Waker> {
        if self.idle.is_empty() {
            return None;
        }
        if due {
            return self.idle.pop_front().map(|(_, waker)| waker);
        }
        match (first_due?, self.timekeeper) {
            (_, None) => self.idle.pop_front().map(|(_, waker)| waker),
            (at, Some(keeper)) if at < keeper.at => {
                let place = self.idle.iter().position(|(id, _)| *id == keeper.id)?;
                self.idle.remove(place).map(|(_, waker)| waker)
            }
            _ => None,
        }
    }

    /// Returns all idle workers and, if `drained`, the drain futures.
    pub(super) fn all(&mut self, drained: bool) -> Vec<Waker> {
        let idle = self.idle.drain(..).map(|(_, waker)| waker);
        match drained {
            true => idle.chain(self.drains.drain(..)).collect(),
            false => idle.collect(),
        }
    }

    pub(super) fn await_drained(&mut self, waker: &Waker) {
        if !self.drains.iter().any(|other| other.will_wake(waker)) {
            self.drains.push(waker.clone());
        }
    }
}
