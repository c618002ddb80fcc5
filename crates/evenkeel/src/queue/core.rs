//! The state of a queue and every step it can take, in terms of a clock that the caller reads.
//!
//! A key is *pending* (due, or delayed until its time), *running* (with a worker), both, or neither
//! and then kept only while it has failures to remember. The invariants: a key has one slot; a key
//! in [`Classes`] is due and not running, so no key is ever with two workers; a key that becomes due
//! while it runs is `again`, and joins its class when the run ends.
//!
//! Steps end in [`Core::settle`], which says whom to wake. Wakers are called outside the lock.

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

/// Longer delays than this are cut: no timer would live to see the difference.
const DELAY_MAX: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

#[derive(Debug)]
pub(super) struct Core<T, C> {
    pub(super) slots: Slots<T, C>,
    pub(super) classes: Classes,
    pub(super) delays: Delays,
    pub(super) running: Running,
    /// How many keys are due as soon as their present run ends.
    pub(super) again: usize,
    /// Keys that are neither pending nor running but have failed, the oldest first.
    pub(super) remembered: List,
    pub(super) waiters: Waiters,
    pub(super) phase: Phase,
    /// How often [`Core::close`] was called; each call releases the drains before it.
    pub(super) closed: u32,
    pub(super) counts: Counts,
    remembered_max: usize,
    backoff: Backoff,
    tokens: Option<Tokens>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Takes nothing in; what is due still goes out.
    Draining,
    /// Takes nothing in, gives nothing out.
    Closed,
}

/// Totals since the queue was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) adds: u64,
    pub(super) merged: u64,
    pub(super) retries: u64,
    pub(super) taken: u64,
}

/// Who is to be woken, once the lock is released.
#[derive(Debug)]
#[must_use = "somebody would sleep forever"]
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

/// One wish to have a key worked on.
#[derive(Debug)]
pub(super) struct Add<C> {
    pub(super) after: Option<Duration>,
    pub(super) priority: i32,
    pub(super) rate_limited: bool,
    pub(super) cause: C,
}

/// A key on its way to a worker.
#[derive(Debug)]
pub(super) struct Taken<T, C> {
    pub(super) key: T,
    pub(super) causes: C,
    pub(super) priority: i32,
    pub(super) queued_for: Duration,
    pub(super) failures: u32,
    /// Its place in the running table.
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
        // Those whose time has come are due before this one.
        self.mature(now);
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
        // The key is due at the earlier of two times: what waits for the later one is not why.
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
                self.delays.hasten(&mut self.slots, slot, at);
            }
            (Pending::Due, _) => self.raise(slot, priority),
        }
    }

    /// Takes the key whose turn it is.
    pub(super) fn take(&mut self, now: u64) -> Option<Taken<T, C>>
    where
        T: Clone,
    {
        self.mature(now);
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

    /// Ends a run; a key that became due meanwhile is queued.
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

    /// Forgets the failures of a key, and the key if that was all there was to it.
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

    /// Stops the intake. Delayed keys are dropped; they would not be due in time.
    pub(super) fn drain(&mut self, now: u64) {
        if self.phase == Phase::Open {
            self.mature(now);
            self.phase = Phase::Draining;
            self.drop_all(|pending| pending != Pending::Due);
        }
    }

    /// Stops everything. What is pending is dropped.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.closed = self.closed.wrapping_add(1);
        self.drop_all(|_| true);
    }

    /// Whether nothing will ever be handed out again.
    pub(super) fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.classes.is_empty() && self.again == 0
    }

    /// Makes due whatever is by `now`, in the order of the times.
    pub(super) fn mature(&mut self, now: u64) {
        while let Some((at, slot)) = self.delays.pop(&mut self.slots, now) {
            self.due(slot, at);
        }
    }

    /// Whom to wake after a step. While there is work one is enough, for whoever wakes takes a step
    /// too; at the end it is everybody.
    pub(super) fn settle(&mut self) -> Wake {
        if !self.is_over() {
            let due = !self.classes.is_empty();
            return Wake::One(self.waiters.next_to_wake(due, self.delays.first()));
        }
        let drained = self.running.len() == 0 || self.phase == Phase::Closed;
        Wake::All(self.waiters.all(drained))
    }

    /// Gives back the memory of a burst. What is outside of the core goes by runs, not by slots, so
    /// nobody notices.
    pub(super) fn compact(&mut self) {
        let numbers = self.slots.compact();
        self.classes.renumber(&numbers);
        self.delays.renumber(&numbers);
        self.running.renumber(&numbers);
        self.remembered.renumber(&numbers);
    }

    /// A key that is not pending, or no longer delayed, wants a worker.
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

    /// Moves a due key to the tail of a higher class, never to a lower one.
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

    /// When an added key may be due; none for now. Counts the failure that a rate limit stands for.
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
        (!delay.is_zero()).then(|| now.saturating_add(nanos(delay.min(DELAY_MAX))))
    }

    /// Takes a key off the list of those that are only remembered, if it is there.
    fn recall(&mut self, slot: u32) {
        let entry = &self.slots[slot];
        if entry.failures > 0 && entry.pending == Pending::No && !entry.running {
            self.remembered.unlink(&mut self.slots, slot);
        }
    }

    /// Lets go of a key that is neither pending nor running, unless it has failures to remember.
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

    /// Makes the keys whose state is `gone` no longer pending.
    fn drop_all(&mut self, gone: impl Fn(Pending) -> bool) {
        let used: Vec<u32> = self.slots.used().collect();
        for slot in used {
            let pending = self.slots[slot].pending;
            if !gone(pending) {
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
