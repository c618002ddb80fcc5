//! The queue as it is at one moment, for metrics and for people who wonder.

use std::time::Duration;

use super::Queue;
use super::core::Phase;
use super::slots::Pending;

/// What a queue holds and has done. Made by [`Queue::snapshot`].
///
/// Depth, oldest and longest running are the gauges of Go's `workqueue_*` metrics; the totals are
/// its counters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot<T> {
    /// The keys that are due, by priority from the highest down. Those due again when their present
    /// run ends count too.
    pub classes: Vec<Class>,
    /// How many keys wait for their time.
    pub waiting: usize,
    /// How many keys are with a worker.
    pub processing: usize,
    /// How many keys are only remembered for their failures.
    pub remembered: usize,
    /// The key that has been with a worker the longest, and for how long.
    pub longest_running: Option<(T, Duration)>,
    /// How long all keys that are with a worker have been there, taken together.
    pub unfinished: Duration,
    /// How often a key became due: adds that were not merged into an earlier one.
    pub adds: u64,
    /// How often an add was merged into an earlier one.
    pub merged: u64,
    /// How often a key was added with the rate limit.
    pub retries: u64,
    /// How often a key was handed out.
    pub taken: u64,
    /// Whether the intake has stopped.
    pub shut_down: bool,
}

/// The due keys of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class {
    /// The priority.
    pub priority: i32,
    /// How many keys are due.
    pub depth: usize,
    /// For how long the next of them has been due.
    pub oldest: Duration,
}

impl<T> Snapshot<T> {
    /// How many keys are due, over all priorities.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.classes.iter().map(|class| class.depth).sum()
    }

    /// For how long the key has been due that is so the longest.
    #[must_use]
    pub fn oldest(&self) -> Option<Duration> {
        self.classes.iter().map(|class| class.oldest).max()
    }
}

impl<T, C> Queue<T, C> {
    /// The state of the queue now. Costs time in the number of priorities and running keys only.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<T>
    where
        T: Clone,
    {
        let now = self.now();
        self.step(|core| {
            core.mature(now);
            let since = |at: u64| Duration::from_nanos(now.saturating_sub(at));
            let mut classes: Vec<Class> = core
                .classes
                .iter()
                .map(|(priority, depth, first)| Class {
                    priority,
                    depth,
                    oldest: since(core.slots[first].since),
                })
                .collect();
            let again = core.running.iter().map(|(slot, _)| &core.slots[slot]);
            for slot in again.filter(|slot| slot.pending == Pending::Due) {
                let (priority, oldest) = (slot.priority, since(slot.since));
                match classes.binary_search_by(|class| priority.cmp(&class.priority)) {
                    Ok(place) => {
                        classes[place].depth += 1;
                        classes[place].oldest = classes[place].oldest.max(oldest);
                    }
                    Err(place) => classes.insert(place, Class { priority, depth: 1, oldest }),
                }
            }
            let longest = core.running.iter().min_by_key(|(_, began)| *began);
            Snapshot {
                classes,
                waiting: core.delays.len(),
                processing: core.running.len(),
                remembered: core.remembered.len(),
                longest_running: longest
                    .and_then(|(slot, began)| Some((core.slots[slot].key.clone()?, since(began)))),
                unfinished: core.running.iter().map(|(_, began)| since(began)).sum(),
                adds: core.counts.adds,
                merged: core.counts.merged,
                retries: core.counts.retries,
                taken: core.counts.taken,
                shut_down: core.phase != Phase::Open,
            }
        })
    }
}
