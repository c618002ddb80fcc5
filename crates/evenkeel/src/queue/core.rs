//! The state machine of the queue. The caller passes the time.
//!
//! A key is *pending* (due or delayed), *running* (processed by a worker), both, or neither; in the
//! last case it is kept only for its failures. Invariants: a key has one slot; a key in [`Classes`]
//! is due and not running, so that no two workers process one key; a key that becomes due while it
//! runs is counted in `again` and added to its class when the run ends.
//!
//! Each step ends with [`Core::wake_after_step`], which returns the workers to wake. Wakers are
//! called outside the lock.

use std::cmp::Ordering;
use std::task::Waker;
use std::time::Duration;

use super::classes::Classes;
use super::delays::Delays;
use super::limit::{Tokens, nanos};
use super::list::List;
use super::running::Running;
use super::slots::{Pending, Slots};
use super::waiters::Waiters;
use super::{Backoff, Merge, QueueOptions};

/// The maximum delay; longer ones are reduced to it.
const DELAY_MAX: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

#[derive(Debug)]
pub(super) struct Core<T, C> {
    pub(super) slots: Slots<T, C>,
    pub(super) classes: Classes,
    pub(super) delays: Delays,
    pub(super) running: Running,
    /// The number of keys that are due when their current run ends.
    pub(super) again: usize,
    /// Keys that are neither pending nor running but have failures, the oldest first.
    pub(super) remembered: List,
    pub(super) waiters: Waiters,
    pub(super) phase: Phase,
    /// The number of calls of [`Core::close`]; each call completes the drains before it.
    pub(super) closed: u32,
    pub(super) counts: Counts,
    remembered_max: usize,
    backoff: Backoff,
    tokens: Option<Tokens>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Ignores adds; due keys are still processed.
    Draining,
    /// Ignores adds and returns no items.
    Closed,
}

/// Counters since the queue was created.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) adds: u64,
    pub(super) merged: u64,
    pub(super) retries: u64,
    pub(super) delayed: u64,
    pub(super) taken: u64,
}

/// The workers to wake once the lock is released.
#[derive(Debug)]
#[must_use = "the workers must be woken"]
pub(super) enum Wake {
    One(Option<Waker>),
    All(Vec<Waker>),
}

impl Wake {
    pub(super) fn now(self) {
        match self {
            Self::One(waker) => waker.into_iter().for_each(Waker::wake),
            Self::All(wakers) => wakers.into_iter().for_each(Waker::wake),
        }
    }
}

/// An add of a key.
#[derive(Debug)]
pub(super) struct Add<C> {
    pub(super) after: Option<Duration>,
    pub(super) priority: i32,
    pub(super) rate_limited: bool,
    pub(super) cause: C,
}

/// A key taken by a worker.
#[derive(Debug)]
pub(super) struct Taken<T, C> {
    pub(super) key: T,
    pub(super) causes: C,
    pub(super) priority: i32,
    pub(super) queued_for: Duration,
    pub(super) failures: u32,
    /// Its index in the running table.
    pub(super) run: u32,
}

impl<T, C> Core<T, C> {
    pub(super) fn new(options: QueueOptions) -> Self {
        let QueueOptions { backoff, bucket, ageing, remembered_max } = options;
        Self {
            slots: Slots::new(),
            classes: Classes::new(ageing),
            delays: Delays::new(),
            running: Running::new(),
            again: 0,
            remembered: List::new(),
            waiters: Waiters::new(),
            phase: Phase::Open,
            closed: 0,
            counts: Counts::default(),
            remembered_max,
            backoff,
            tokens: bucket.map(Tokens::new),
        }
    }

    pub(super) fn add(&mut self, now: u64, hash: u32, key: T, add: Add<C>)
    where
        T: Eq,
        C: Merge,
    {
        if self.phase != Phase::Open {
            return;
        }
        // Delayed keys that are due come before this one.
        self.promote_due(now);
        let slot = match self.slots.find(hash, &key) {
            Some(slot) => slot,
            None => self.slots.insert(hash, key),
        };
        self.recall(slot);
        let delay = self.delay(now, slot, &add);
        let Add { priority, mut cause, .. } = add;
        let waits_until = match self.slots[slot].pending {
            Pending::No => None,
            Pending::Due => Some(now),
            Pending::Delayed => Some(self.delays.at(&self.slots, slot)),
        };
        let entry = &mut self.slots[slot];
        // The key is due at the earlier time, so a timer of the later time is not a cause.
        let at = delay.unwrap_or(now);
        if let (Some(until), Some(causes)) = (waits_until, &mut entry.causes) {
            match at.cmp(&until) {
                Ordering::Less => causes.drop_timers(),
                Ordering::Equal => {}
                Ordering::Greater => cause.drop_timers(),
            }
        }
        match &mut entry.causes {
            Some(causes) => {
                causes.merge(cause);
                self.counts.merged += 1;
            }
            none => *none = Some(cause),
        }
        match (entry.pending, delay) {
            (Pending::No, None) => {
                entry.priority = priority;
                self.due(slot, now);
            }
            (Pending::No, Some(at)) => {
                entry.priority = priority;
                entry.pending = Pending::Delayed;
                self.delays.push(&mut self.slots, slot, at);
            }
            (Pending::Delayed, None) => {
                entry.priority = entry.priority.max(priority);
                self.delays.remove(&mut self.slots, slot);
                self.due(slot, now);
            }
            (Pending::Delayed, Some(at)) => {
                entry.priority = entry.priority.max(priority);
                self.delays.decrease(&mut self.slots, slot, at);
            }
            (Pending::Due, _) => self.raise(slot, priority),
        }
    }

    /// Takes the next key.
    pub(super) fn take(&mut self, now: u64) -> Option<Taken<T, C>>
    where
        T: Clone,
    {
        self.promote_due(now);
        let slot = self.classes.pop(&mut self.slots, now)?;
        let entry = &mut self.slots[slot];
        let taken = Taken {
            key: entry.key.clone()?,
            causes: entry.causes.take()?,
            priority: entry.priority,
            queued_for: Duration::from_nanos(now.saturating_sub(entry.since)),
            failures: entry.failures,
            run: self.running.start(slot, now),
        };
        entry.pending = Pending::No;
        entry.running = true;
        entry.prev = taken.run;
        self.counts.taken += 1;
        Some(taken)
    }

    /// Ends a run; a key that became due during it is queued.
    pub(super) fn done(&mut self, run: u32) {
        if self.slots.is_sparse() {
            self.compact();
        }
        let slot = self.running.end(run);
        let entry = &mut self.slots[slot];
        entry.running = false;
        match entry.pending {
            Pending::Due => {
                self.again -= 1;
                self.classes.push(&mut self.slots, slot);
            }
            Pending::Delayed => {}
            Pending::No => self.retire(slot),
        }
    }

    /// Resets the failures of a key, and removes the key if it is not pending or running.
    pub(super) fn forget(&mut self, hash: u32, key: &T)
    where
        T: Eq,
    {
        let Some(slot) = self.slots.find(hash, key) else { return };
        self.recall(slot);
        let entry = &mut self.slots[slot];
        entry.failures = 0;
        if entry.pending == Pending::No && !entry.running {
            self.slots.remove(slot);
        }
    }

    /// Stops accepting adds and drops delayed keys.
    pub(super) fn drain(&mut self, now: u64) {
        if self.phase == Phase::Open {
            self.promote_due(now);
            self.phase = Phase::Draining;
            self.drop_all(|pending| pending != Pending::Due);
        }
    }

    /// Shuts down; pending keys are dropped.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.closed = self.closed.wrapping_add(1);
        self.drop_all(|_| true);
    }

    /// Returns whether the queue will return no more items.
    pub(super) fn is_finished(&self) -> bool {
        self.phase != Phase::Open && self.classes.is_empty() && self.again == 0
    }

    /// Moves delayed keys that are due by `now` to their classes, in the order of their times.
    pub(super) fn promote_due(&mut self, now: u64) {
        while let Some((at, slot)) = self.delays.pop(&mut self.slots, now) {
            self.due(slot, at);
        }
    }

    /// Returns the workers to wake after a step. One suffices while the queue runs, because its own
    /// step wakes the next; when the queue is finished it is all of them.
    pub(super) fn wake_after_step(&mut self) -> Wake {
        if !self.is_finished() {
            let due = !self.classes.is_empty();
            return Wake::One(self.waiters.next_to_wake(due, self.delays.first()));
        }
        let drained = self.running.len() == 0 || self.phase == Phase::Closed;
        Wake::All(self.waiters.all(drained))
    }

    /// Releases memory after a burst. Items refer to runs, not to slots, so they stay valid.
    pub(super) fn compact(&mut self) {
        let numbers = self.slots.compact();
        self.classes.renumber(&numbers);
        self.delays.renumber(&numbers);
        self.running.renumber(&numbers);
        self.remembered.renumber(&numbers);
    }

    /// Makes a key due that is not pending, or no longer delayed.
    fn due(&mut self, slot: u32, since: u64) {
        self.counts.adds += 1;
        let entry = &mut self.slots[slot];
        entry.pending = Pending::Due;
        entry.since = since;
        if entry.running {
            self.again += 1;
        } else {
            self.classes.push(&mut self.slots, slot);
        }
    }

    /// Moves a due key to the tail of a higher class; never to a lower one.
    fn raise(&mut self, slot: u32, priority: i32) {
        let entry = &mut self.slots[slot];
        if priority <= entry.priority {
            return;
        }
        if entry.running {
            entry.priority = priority;
            return;
        }
        self.classes.unlink(&mut self.slots, slot);
        self.slots[slot].priority = priority;
        self.classes.push(&mut self.slots, slot);
    }

    /// Returns when an added key is due; `None` for now. A rate-limited add counts as a failure.
    fn delay(&mut self, now: u64, slot: u32, add: &Add<C>) -> Option<u64> {
        let limit = add.rate_limited.then(|| {
            let failures = &mut self.slots[slot].failures;
            *failures = failures.saturating_add(1);
            self.counts.retries += 1;
            let bucket = self.tokens.as_mut().map(|tokens| tokens.reserve(now));
            self.backoff.delay(*failures).max(bucket.unwrap_or_default())
        });
        let delay = match (add.after, limit) {
            (Some(after), Some(limit)) => after.min(limit),
            (after, limit) => after.or(limit)?,
        };
        if delay.is_zero() {
            return None;
        }
        self.counts.delayed += 1;
        Some(now.saturating_add(nanos(delay.min(DELAY_MAX))))
    }

    /// Removes a key from the list of keys that only have failures, if it is there.
    fn recall(&mut self, slot: u32) {
        let entry = &self.slots[slot];
        if entry.failures > 0 && entry.pending == Pending::No && !entry.running {
            self.remembered.unlink(&mut self.slots, slot);
        }
    }

    /// Removes a key that is neither pending nor running, unless it has failures.
    fn retire(&mut self, slot: u32) {
        if self.slots[slot].failures == 0 || self.phase != Phase::Open {
            self.slots.remove(slot);
            return;
        }
        self.remembered.push(&mut self.slots, slot);
        if self.remembered.len() > self.remembered_max
            && let Some(oldest) = self.remembered.first()
        {
            self.remembered.unlink(&mut self.slots, oldest);
            self.slots.remove(oldest);
        }
    }

    /// Drops the pending keys that match `drops`.
    fn drop_all(&mut self, drops: impl Fn(Pending) -> bool) {
        let used: Vec<u32> = self.slots.used().collect();
        for slot in used {
            let pending = self.slots[slot].pending;
            if !drops(pending) {
                continue;
            }
            self.recall(slot);
            match pending {
                Pending::Due if self.slots[slot].running => self.again -= 1,
                Pending::Due => self.classes.unlink(&mut self.slots, slot),
                Pending::Delayed => self.delays.remove(&mut self.slots, slot),
                Pending::No => {}
            }
            let entry = &mut self.slots[slot];
            entry.pending = Pending::No;
            entry.causes = None;
            if !entry.running {
                self.slots.remove(slot);
            }
        }
    }
}
