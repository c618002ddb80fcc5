//! Snapshots of the queue, for metrics.

use std::time::Duration;

use super::Queue;
use super::core::Phase;
use super::slots::Pending;

/// The state and counters of a queue; see [`Queue::snapshot`].
///
/// They correspond to the `workqueue_*` metrics of client-go.
///
/// ```no_run
/// # fn example(controller: &evenkeel::ControllerHandle) {
/// let snapshot = controller.queue().snapshot();
/// println!("{} keys are due, the oldest for {:?}", snapshot.depth(), snapshot.oldest());
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot<T> {
    /// The due keys by priority from the highest, including those due again after their current
    /// processing.
    pub classes: Vec<Class>,
    /// The number of delayed keys.
    pub waiting: usize,
    /// The number of keys being processed.
    pub processing: usize,
    /// The number of keys stored only for their failures.
    pub remembered: usize,
    /// The key with the longest processing time, and that time.
    pub longest_running: Option<(T, Duration)>,
    /// The sum of the current processing times of all keys.
    pub unfinished: Duration,
    /// The number of times a key became due.
    pub adds: u64,
    /// The number of adds merged into an earlier one.
    pub merged: u64,
    /// The number of rate-limited adds.
    pub retries: u64,
    /// The number of adds with a delay, rate-limited or not; `workqueue_retries_total` counts them.
    pub delayed: u64,
    /// The number of items taken.
    pub taken: u64,
    /// Whether the queue is shutting down or shut down.
    pub shut_down: bool,
}

/// The due keys of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class {
    /// The priority.
    pub priority: i32,
    /// The number of due keys.
    pub depth: usize,
    /// How long the next key has been due.
    pub oldest: Duration,
}

impl<T> Snapshot<T> {
    /// Returns the number of due keys of all priorities.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.classes.iter().map(|class| class.depth).sum()
    }

    /// Returns how long the oldest due key has been due.
    #[must_use]
    pub fn oldest(&self) -> Option<Duration> {
        self.classes.iter().map(|class| class.oldest).max()
    }
}

impl<T, C> Queue<T, C> {
    /// Returns a snapshot. Its cost is linear in the number of priorities and running keys.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<T>
    where
        T: Clone,
    {
        let now = self.now();
        self.step(|core| {
            core.promote_due(now);
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
                delayed: core.counts.delayed,
                taken: core.counts.taken,
                shut_down: core.phase != Phase::Open,
            }
        })
    }
}
